"""Direct teaching: the smallest repairs, and the rows, that agree with a model that is right on the trusted rows.

    min over θ, β, b   Σ b_i [ℓ(θ; x_i + β_i, y_i) + λ_Z‖β_i‖²] + λ_trusted L̃(θ) + (λ_w/2)‖θ‖²,    Σ b = ϱ n

β is explicit; θ (Newton, :mod:`comt.optimize.primal`) and b (the rows of smallest loss, :mod:`comt.server.trimmed`) take
turns, and the objective falls at every turn. It is not convex: several starts run side by side, every exchange serves all
of them, and the lowest objective wins. Where there are many rows, the starts race on a part of them, and only those that
end apart go on to all rows. Agents can be weighted: the rows of agent k, and their number in Σ b = ϱ n, count w_k
times. A repaired loss grows with the loss itself, so a threshold on one is a threshold on the other.

λ_α has no part in this objective and is taken as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from comt.errors import ConvergenceError
from comt.federation.base import Federation
from comt.optimize.points import Solution
from comt.optimize.primal import SETTLE
from comt.preparation import Preparation
from comt.problem import Array, TeachingProblem
from comt.server import dual
from comt.server.direct_runs import DirectSolution, DirectTask, Exchange, Run
from comt.server.trimmed import Steps, descend_exactly, descend_fixed, descend_roughly

__all__ = ["Direct", "DirectSolution", "DirectTask", "solve", "starts", "teach"]

#: turns of choosing rows: few rows settle by themselves; of many, those at the threshold would go on swapping for long, each
#: swap worth less than 1e-6 of the objective (what is left is in ``selection_gap``)
MAX_TURNS, MAX_TURNS_OF_MANY, ROUGH_TURNS = 10, 5, 5
#: where descents start, as people are told
TRUSTED_ONLY, UNVERIFIED_ONLY, DUAL = "trusted rows alone", "unverified rows alone", "dual teaching"
#: at most this many agents give a start of their own
MAX_AGENT_STARTS = 16
#: buggy rows on which starts race, and how many of them go on to all rows
SAMPLE, FINALISTS = 20_000, 2
#: certificate and relative step that end a rough descent; two ends closer than APART are the same
ROUGH_TOL, ROUGH_SETTLE, APART = 1e-3, 1e-2, 0.1
#: objectives so close differ by rounding; objectives so close are told as one
ROUNDING, SAME_END = 1e-12, 1e-6


@dataclass(frozen=True)
class Direct:
    """The result: the start that reached the lowest objective, and how all of them ended (best first)."""

    best: DirectSolution
    solutions: list[DirectSolution]

    @property
    def theta(self) -> Array:
        """The model."""
        return self.best.theta

    def sentence(self) -> str:
        """Say which start won."""
        ends = [s for s in self.solutions if s is not self.best]
        elsewhere = [s for s in ends if not _as_low(s.value, self.best.value, SAME_END)]
        told = f"The lowest objective, {self.best.value:.6g}, was reached from {self.best.name}"
        if count := len(ends) - len(elsewhere):
            told += f" and {count} other start{'s' if count > 1 else ''}"
        if elsewhere:
            told += "; " + ", ".join(f"{s.name} led to {s.value:.6g}" for s in elsewhere)
        return f"{told}."


def solve(
    federation: Federation,
    preparation: Preparation,
    tasks: Sequence[DirectTask],
    *,
    tol: float = 1e-8,
    max_rounds: int = 200,
    n_folds: int = 0,
    thin: int = 1,
    part: int = 1,
    rough: bool = False,
) -> list[DirectSolution]:
    """Run all descents together; every exchange serves all that are not finished.

    ``thin`` looks at every thin-th row only; where it is enough, ``part`` does. ``rough`` goes most of the way only.
    """
    runs = [Run(task) for task in tasks]
    ask = Exchange(federation, preparation, n_folds, thin)
    if rough:
        descend_roughly(ask, runs, Steps(tol, max_rounds, ROUGH_TURNS, ROUGH_SETTLE))
        return [run.ended() for run in runs]
    whole = [run for run in runs if not run.trimmed]
    for run, state in zip(whole, descend_fixed(ask, whole, tol, SETTLE, max_rounds), strict=True):
        run.at = state
    trimmed = [run for run in runs if run.trimmed]
    turns = MAX_TURNS if part == 1 else MAX_TURNS_OF_MANY
    descend_exactly(ask, ask.thinner(part), trimmed, Steps(tol, max_rounds, turns, SETTLE))
    return [run.ended() for run in runs]


def starts(
    federation: Federation,
    preparation: Preparation,
    problem: TeachingProblem,
    *,
    weights: Array | None = None,
    single_agents: bool = True,
    thin: int = 1,
) -> dict[str, Array]:
    """Return the models that descents start from: trusted-only, buggy-only, dual, and single agents; roughly solved.

    They belong to convex problems without repairs, all but the dual one in a single batch. Starts of single agents
    need sums over one agent's rows; ``single_agents=False`` does without.
    """
    zero = np.zeros(preparation.width)
    agents = federation.agents
    plain = replace(problem, lambda_z=np.inf)
    buggy = replace(plain, lambda_trusted=0.0)
    # an objective without trusted rows may still be searched from them; from zero, where all labels cost the same, it cannot
    trusted = plain if plain.lambda_trusted > 0 else replace(plain, lambda_trusted=1.0)
    tasks = [
        DirectTask(trusted, zero, TRUSTED_ONLY, weights=np.zeros(len(agents))),
        DirectTask(buggy, zero, UNVERIFIED_ONLY, weights=weights),
    ]
    if single_agents and 1 < len(agents) <= MAX_AGENT_STARTS:
        alone = np.eye(len(agents))
        tasks += [
            DirectTask(buggy, zero, f"the rows of {agent} alone", weights=alone[k]) for k, agent in enumerate(agents)
        ]
    solved = solve(federation, preparation, tasks, thin=thin, rough=True)
    found = {solution.name: solution.theta for solution in solved}
    if solved[0].sums.trusted_rows == 0:
        del found[TRUSTED_ONLY]
    (taught,) = dual.attempt(
        federation,
        preparation,
        [dual.Task(problem, found[UNVERIFIED_ONLY], found[UNVERIFIED_ONLY])],
        tol=ROUGH_TOL,
        settle=ROUGH_SETTLE,
        max_rounds=10,
        thin=thin,
    )
    if isinstance(taught, Solution):  # else the paper's crafting has no solution at this λ_Z; other starts need none
        found[DUAL] = taught.theta
    return found


def teach(
    federation: Federation,
    preparation: Preparation,
    problem: TeachingProblem,
    *,
    fraction: float = 1.0,
    weights: Array | None = None,
    single_agents: bool = True,
    n_rows: float = 0.0,
    tol: float = 1e-8,
    max_rounds: int = 200,
) -> Direct:
    """Solve direct teaching from several starts side by side and return the lowest objective.

    ``n_rows`` buggy rows, where that is known to be many, let the starts race on a part of them.
    """
    thin = max(1, int(np.ceil(n_rows / SAMPLE)))
    models = starts(federation, preparation, problem, weights=weights, single_agents=single_agents, thin=thin)
    tasks = [DirectTask(problem, model, name, fraction, weights) for name, model in models.items()]
    if fraction == 1.0 and np.isinf(problem.lambda_z):
        # convex: every start leads to the same model; where trusted rows do not count, one is that model already
        tasks = [task for task in tasks if task.name == UNVERIFIED_ONLY] if problem.lambda_trusted == 0 else tasks[:1]
    elif thin > 1:
        raced = solve(federation, preparation, tasks, thin=thin, rough=True)
        tasks = [DirectTask(problem, ended.theta, ended.name, fraction, weights) for ended in _apart(raced)]
    solutions = sorted(
        solve(federation, preparation, tasks, tol=tol, max_rounds=max_rounds, part=thin),
        key=lambda solution: solution.value,
    )
    # of ends that only rounding tells apart the first start's counts, so that the same rows give the same model
    lowest = solutions[0].value
    best = next(s for task in tasks for s in solutions if s.name == task.name and _as_low(s.value, lowest))
    if not best.certificate <= tol:
        raise ConvergenceError(
            f"direct teaching stopped at a certificate of {best.certificate:.1e} where tol={tol:g} is wanted; raise "
            f"lambda_w (now {problem.lambda_w:g}) or lambda_z (now {problem.lambda_z:g}), or raise tol.",
            certificate=best.certificate,
        )
    return Direct(best, solutions)


def _as_low(value: float, lowest: float, tolerance: float = ROUNDING) -> bool:
    return value <= lowest + tolerance * abs(lowest)


def _apart(raced: Sequence[DirectSolution]) -> list[DirectSolution]:
    """Return the best ends of a race that lie apart; many starts end in the same place."""
    kept: list[DirectSolution] = []
    for ended in sorted(raced, key=lambda solution: solution.value):
        size = float(np.linalg.norm(ended.theta))
        if all(np.linalg.norm(ended.theta - other.theta) > APART * size for other in kept):
            kept.append(ended)
    return kept[:FINALISTS]
