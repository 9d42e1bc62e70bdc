"""Parameters that choose themselves: cross-validation on the trusted rows, a whole grid in one batch of exchanges.

The search looks at no more than SAMPLE buggy rows; the finalists are compared on all of them. Trusted-only and buggy-only
are always among the candidates, and of all that are within one standard error of the best the simplest is taken, buggy-only
first: a few trusted rows cannot tell many models apart, and should overrule the simple choice only if they refute it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array, TeachingProblem
from comt.queries import TrustedScore
from comt.server import dual
from comt.server.ask import sums_at
from comt.server.grids import SIMPLICITY, Candidate, Sizes, Wanted, candidates, fallback
from comt.server.held_out import Folds, Scored, Search
from comt.server.selection import thresholds

#: buggy rows that the search looks at
SAMPLE = 20_000
FOLDS = 5
#: with fewer trusted rows than this every row is a fold of its own
ALONE_BELOW = 10
#: rows fall into folds by their content: among this many, a few rows hardly ever share one
MANY_FOLDS = 1009
#: tolerance of the search; what is chosen is solved afterwards to the user's own
SEARCH_TOL = 1e-6
#: Newton steps of the search; a candidate that needs more is ill posed, and dropped
SEARCH_ROUNDS = 25


@dataclass(frozen=True)
class Tuned:
    """The chosen parameters, all candidates with their held-out losses (best first), and why."""

    problem: TeachingProblem
    fraction: float
    chosen: Scored
    table: list[Scored]
    sentence: str
    #: True: there were too few trusted rows to choose by, and the user should be warned
    undecided: bool = False


def tune(
    federation: Federation,
    preparation: Preparation,
    wanted: Wanted,
    *,
    weights: Array | None = None,
    max_rounds: int = SEARCH_ROUNDS,
) -> Tuned:
    """Choose every parameter that is not given; ``weights`` of agents apply to direct teaching."""
    sizes, start, folds, thin = _survey(federation, preparation, wanted, max_rounds)
    if len(folds.occupied) < 2:
        return _without_trusted(wanted, sizes)
    search = Search(federation, preparation, wanted.teaching, folds, start, SEARCH_TOL, max_rounds, weights)
    table = search.scores(candidates(wanted, sizes), thin)
    chosen, best = choose(table)
    if thin > 1:
        finalists = _finalists(table, chosen, best)
        again = {scored.candidate: scored for scored in search.scores(finalists, 1)}
        chosen, best = choose(list(again.values()))
        table = [again.get(scored.candidate, scored) for scored in table]
    table.sort(key=lambda scored: scored.loss)
    sentence = _sentence(chosen, best, len(table), sizes, folds)
    return Tuned(chosen.candidate.problem, chosen.candidate.fraction, chosen, table, sentence)


def choose(table: Sequence[Scored]) -> tuple[Scored, Scored]:
    """Return the simplest candidate within one standard error of the best (the best of its kind), and the best."""
    able = [scored for scored in table if not scored.excluded] or list(table)
    best = min(able, key=lambda scored: scored.loss)
    close = [scored for scored in able if scored.loss <= best.loss + best.loss_error]
    return min(close, key=lambda scored: (SIMPLICITY.index(scored.candidate.kind), scored.loss)), best


def _finalists(table: Sequence[Scored], chosen: Scored, best: Scored) -> list[Candidate]:
    """Return the choice, the best, and the best of every kind."""
    by_kind: dict[str, Scored] = {}
    for scored in sorted(table, key=lambda scored: (scored.excluded != "", scored.loss)):
        by_kind.setdefault(scored.candidate.kind, scored)
    return list(dict.fromkeys(scored.candidate for scored in (chosen, best, *by_kind.values())))


def _survey(
    federation: Federation, preparation: Preparation, wanted: Wanted, max_rounds: int
) -> tuple[Sizes, Array, Folds, int]:
    """Count rows, deal out folds, and fit the buggy rows plainly to know the size of residuals and of r."""
    zero = np.zeros(preparation.width)
    seen = sums_at(federation, preparation, fallback(wanted, 1.0).problem, zero, zero, "none")
    rows, trusted_rows = seen.rows, seen.trusted_rows
    n_folds = FOLDS if trusted_rows >= ALONE_BELOW else MANY_FOLDS
    folds = Folds(n_folds, _occupied(federation, preparation, wanted, n_folds) if trusted_rows > 1 else ())
    thin = max(1, int(np.ceil(rows / SAMPLE)))
    plain = replace(fallback(replace(wanted, lambda_w=None), rows).problem, lambda_alpha=0.0, lambda_z=np.inf)
    task = dual.Task(replace(plain, lambda_trusted=0.0), zero, zero)
    (fit,) = dual.attempt(
        federation, preparation, [task], tol=SEARCH_TOL, max_rounds=max_rounds, thin=thin, strict=True
    )
    assert not isinstance(fit, Exception)
    residual = 0.0
    if wanted.loss_name == "squared" and wanted.lambda_alpha is None and rows > 0:
        half = thresholds(
            federation, preparation, plain, "loss", fit.theta[None], np.array([0.5]), fit.sums.rows, thin=thin
        )
        residual = float(np.sqrt(2.0 * half[0]))
    seen_r = plain.crafted(fit.r)
    return Sizes(rows, trusted_rows, residual, float(seen_r @ seen_r)), fit.theta, folds, thin


def _occupied(federation: Federation, preparation: Preparation, wanted: Wanted, n_folds: int) -> tuple[int, ...]:
    query = TrustedScore(
        loss_name=wanted.loss_name,
        preparation=preparation,
        theta=np.zeros((n_folds, preparation.width)),
        fold=np.arange(n_folds),
        n_folds=n_folds,
    )
    return tuple(np.flatnonzero(federation.sum(query)["rows"]).tolist())


def _without_trusted(wanted: Wanted, sizes: Sizes) -> Tuned:
    chosen = Scored(fallback(wanted, sizes.rows), np.nan, np.nan)
    told = f"{sizes.trusted_rows:.0f} trusted rows cannot choose parameters"
    sentence = f"{told}, so the buggy rows are taken at their word: {chosen.candidate.name}."
    return Tuned(chosen.candidate.problem, chosen.candidate.fraction, chosen, [chosen], sentence, undecided=True)


def _sentence(chosen: Scored, best: Scored, count: int, sizes: Sizes, folds: Folds) -> str:
    how = f"{len(folds.occupied)} folds of {sizes.trusted_rows:.0f} trusted rows"
    told = f"{chosen.candidate.name} has a held-out loss of {chosen.loss:.4g} ± {chosen.loss_error:.2g} ({how})"
    if chosen is best:
        return f"Chosen of {count} candidates: {told}, the lowest of all."
    return (
        f"Chosen of {count} candidates: {told}; the lowest, {best.loss:.4g} ± {best.loss_error:.2g} of "
        f"{best.candidate.name}, is within one standard error, and the simpler choice is preferred."
    )
