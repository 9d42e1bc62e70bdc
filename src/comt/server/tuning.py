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
from comt.server.held_out import SEARCH_SETTLE, SEARCH_TOL, Folds, Scored, Search
from comt.server.selection import thresholds

#: buggy rows that the search looks at: so many per column, within limits
SAMPLE, LEAST_SAMPLE, ROWS_PER_COLUMN = 20_000, 4_000, 200
FOLDS = 5
#: with fewer trusted rows than this every row is a fold of its own
ALONE_BELOW = 10
#: rows fall into folds by their content: among this many, a few rows hardly ever share one
MANY_FOLDS = 1009
#: exchanges of the search for one solve; a candidate that needs more is ill posed, and dropped
SEARCH_ROUNDS = 10
#: the same for the plain fit of the buggy rows, which cannot be dropped
PLAIN_ROUNDS = 50


@dataclass(frozen=True)
class Tuned:
    """The chosen parameters, all candidates with their held-out losses (best first), and why."""

    problem: TeachingProblem
    fraction: float
    chosen: Scored
    table: list[Scored]
    sentence: str
    #: (r, θ) of the chosen candidate without each fold: where to start from
    models: tuple[tuple[Array, Array], ...] = ()
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
    sizes, start, folds, thin = _survey(federation, preparation, wanted)
    if len(folds.occupied) < 2:
        return _without_trusted(wanted, sizes)
    search = Search(federation, preparation, wanted.teaching, folds, start, max_rounds, weights)
    table, models = search.scores(candidates(wanted, sizes), thin)
    chosen, best = choose(table)
    if thin > 1:
        finalists = _finalists(table, chosen, best)
        scored, refitted = search.scores(finalists, 1, models)
        again = {one.candidate: one for one in scored}
        table = [again.get(one.candidate, one) for one in table]
        models |= refitted
        chosen, best = choose([one for one in table if one.candidate in again or one.candidate.kind == "trusted only"])
    table.sort(key=lambda scored: scored.loss)
    sentence = _sentence(chosen, best, len(table), sizes, folds)
    own = tuple(model for (candidate, _), model in models.items() if candidate == chosen.candidate)
    return Tuned(chosen.candidate.problem, chosen.candidate.fraction, chosen, table, sentence, own)


def choose(table: Sequence[Scored]) -> tuple[Scored, Scored]:
    """Return the simplest candidate within one standard error of the best (the best of its kind), and the best."""
    able = [scored for scored in table if not scored.excluded] or list(table)
    best = min(able, key=lambda scored: scored.loss)
    close = [scored for scored in able if scored.loss <= best.loss + best.loss_error]
    return min(close, key=lambda scored: (SIMPLICITY.index(scored.candidate.kind), scored.loss)), best


def _finalists(table: Sequence[Scored], chosen: Scored, best: Scored) -> list[Candidate]:
    """Return the choice, the best, and the best of every kind; what looks at trusted rows only is known already."""
    by_kind: dict[str, Scored] = {}
    for scored in sorted(table, key=lambda scored: (scored.excluded != "", scored.loss)):
        by_kind.setdefault(scored.candidate.kind, scored)
    wanted = [scored.candidate for scored in (chosen, best, *by_kind.values())]
    return list(dict.fromkeys(candidate for candidate in wanted if candidate.kind != "trusted only"))


def _survey(federation: Federation, preparation: Preparation, wanted: Wanted) -> tuple[Sizes, Array, Folds, int]:
    """Count rows, deal out folds, and fit the buggy rows plainly to know the size of residuals and of r."""
    zero = np.zeros(preparation.width)
    seen = sums_at(federation, preparation, fallback(wanted, 1.0).problem, zero, zero, "none")
    rows, trusted_rows = seen.rows, seen.trusted_rows
    n_folds = FOLDS if trusted_rows >= ALONE_BELOW else MANY_FOLDS
    folds = Folds(n_folds, _occupied(federation, preparation, wanted, n_folds) if trusted_rows > 1 else ())
    enough = min(SAMPLE, max(LEAST_SAMPLE, ROWS_PER_COLUMN * preparation.width))
    thin = max(1, int(np.ceil(rows / enough)))
    plain = replace(fallback(replace(wanted, lambda_w=None), rows).problem, lambda_alpha=0.0, lambda_z=np.inf)
    task = dual.Task(replace(plain, lambda_trusted=0.0), zero, zero)
    (fit,) = dual.attempt(
        federation,
        preparation,
        [task],
        tol=SEARCH_TOL,
        settle=SEARCH_SETTLE,
        max_rounds=PLAIN_ROUNDS,
        thin=thin,
        strict=True,
    )
    assert not isinstance(fit, Exception)
    residual = 0.0
    if wanted.loss_name == "squared" and wanted.lambda_alpha is None and rows > 0:
        half = thresholds(federation, preparation, plain, "loss", fit.theta[None], np.array([0.5]), thin=thin)
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
