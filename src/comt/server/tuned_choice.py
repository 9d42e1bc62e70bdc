"""What cross-validation found, as the choice that summary and report show; and the fit of trusted rows alone, if it won."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comt.errors import ConvergenceError
from comt.federation.base import Federation
from comt.optimize.points import Solution
from comt.preparation import Preparation
from comt.problem import Array, TeachingProblem
from comt.server.ask import sums_at
from comt.server.auto.choice import Choice, Line
from comt.server.direct import solve
from comt.server.direct_runs import DirectTask
from comt.server.held_out import Scored
from comt.server.tuning import Tuned

#: candidates that a reader compares the chosen one with, besides the lowest held-out loss
SIMPLE = ("buggy only", "trusted only")


def choice_of(tuned: Tuned, preparation: Preparation, agents: tuple[str, ...]) -> Choice:
    """Return the choice without its model: the chosen candidate, the lowest loss and the simple ones, with their losses."""
    alone = tuned.chosen.candidate.alone
    return Choice(
        theta=np.zeros(0),
        preparation=preparation,
        lines=tuple(
            Line(one.candidate.name, float(one.candidate == tuned.chosen.candidate), one.loss) for one in _worth(tuned)
        ),
        trusted_rows=tuned.trusted_rows,
        agents=agents,
        agent_weights=np.full(len(agents), 0.0 if alone else 1.0),
        said=tuned.sentence,
        doubtful=tuned.undecided,
    )


def _worth(tuned: Tuned) -> list[Scored]:
    by_kind: dict[str, Scored] = {}
    able = [scored for scored in tuned.table if not scored.excluded]  # best first
    for scored in able:
        by_kind.setdefault(scored.candidate.kind, scored)
    wanted = [tuned.chosen, *able[:1], *(by_kind[kind] for kind in SIMPLE if kind in by_kind)]
    return list({scored.candidate: scored for scored in wanted}.values())


def fit_alone(
    federation: Federation,
    preparation: Preparation,
    problem: TeachingProblem,
    starts: Sequence[Array],
    *,
    tol: float,
    max_rounds: int,
) -> Solution:
    """Fit the trusted rows alone: no agent's unverified rows count. There is no model r of these."""
    silent = np.zeros(len(federation.agents))
    task = DirectTask(problem, np.mean(starts, axis=0), weights=silent)
    (found,) = solve(federation, preparation, [task], tol=tol, max_rounds=max_rounds)
    if not found.certificate <= tol:
        raise ConvergenceError(
            f"the fit of the trusted rows stopped at a certificate of {found.certificate:.1e} where tol={tol:g} is wanted; "
            "raise tol, or give lambda_w.",
            certificate=found.certificate,
        )
    sums = sums_at(federation, preparation, problem, found.theta, found.theta)
    history = [{"objective": value, "certificate": found.certificate} for value in found.history]
    return Solution(np.full(len(found.theta), np.nan), found.theta, sums, found.certificate, history)
