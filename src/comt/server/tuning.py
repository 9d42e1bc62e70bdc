"""Parameters that choose themselves: cross-validation on the trusted rows, a whole grid in one batch of exchanges.

The search looks at no more than SAMPLE buggy rows; the finalists are compared on all of them. Trusted-only and buggy-only
are always among the candidates, and stay unless the same trusted rows clearly speak for another one: a few trusted rows
cannot tell many models apart, and the best of many looks better than it is.
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
from comt.server.candidate_fits import Fits
from comt.server.grids import SIMPLICITY, Candidate, Sizes, Wanted, candidates, fallback
from comt.server.held_out import ABSURD_SHARE, FEW, Folds, Scored, Search, simple_choices
from comt.server.selection import Rule, thresholds

#: buggy rows that the search looks at: so many per column, within limits
SAMPLE, LEAST_SAMPLE, ROWS_PER_COLUMN = 20_000, 4_000, 200
FOLDS = 5
#: with fewer trusted rows than this every row is a fold of its own
ALONE_BELOW = 10
#: rows fall into folds by their content: among this many, a few rows hardly ever share one
MANY_FOLDS = 1009
#: exchanges of the search for one solve; a candidate that needs more is ill posed, and dropped
SEARCH_ROUNDS = 10
#: the same for the plain fit of the buggy rows, which cannot be dropped; it only is where other fits start from
PLAIN_ROUNDS, PLAIN_TOL, PLAIN_SETTLE = 50, 1e-3, 3e-2


@dataclass(frozen=True)
class Tuned:
    """The chosen parameters, all candidates with their held-out losses (best first), and why."""

    problem: TeachingProblem
    fraction: float
    chosen: Scored
    table: list[Scored]
    sentence: str
    trusted_rows: int
    #: (r, θ) of the chosen candidate without each fold: where to start from
    models: tuple[tuple[Array, Array], ...] = ()
    #: True: trusted rows are too few, or too much alike, to choose by, and the user is warned
    undecided: bool = False


def tune(
    federation: Federation,
    preparation: Preparation,
    wanted: Wanted,
    *,
    weights: Array | None = None,
    rule: Rule = "loss",
    max_rounds: int = SEARCH_ROUNDS,
) -> Tuned:
    """Choose every parameter that is not given; ``weights`` of agents apply to direct teaching."""
    sizes, start, folds, thin = _survey(federation, preparation, wanted)
    if len(folds.occupied) < 2 or folds.one_class:
        return _without_trusted(wanted, sizes, folds)
    fits = Fits(federation, preparation, wanted.teaching, folds.n_folds, start, max_rounds, rule, weights)
    search = Search(fits, folds)
    tried = candidates(wanted, sizes, len(folds.occupied), preparation.width)
    table, models = search.scores(tried, thin)
    chosen, best = choose(table)
    if thin > 1:
        scored, refitted = search.scores(_finalists(table, chosen, best), 1, models)
        again = {one.candidate: one for one in scored}
        table = [again.get(one.candidate, one) for one in table]
        models |= refitted
        chosen, best = choose(scored)
    table.sort(key=lambda scored: scored.loss)
    few = sizes.trusted_rows < FEW
    sentence = _sentence(chosen, best, table, sizes, folds)
    own = tuple(model for (candidate, _), model in models.items() if candidate == chosen.candidate)
    problem, fraction = chosen.candidate.problem, chosen.candidate.fraction
    return Tuned(problem, fraction, chosen, table, sentence, int(sizes.trusted_rows), own, undecided=few)


def choose(table: Sequence[Scored]) -> tuple[Scored, Scored]:
    """Return what is chosen, and the lowest held-out loss.

    Buggy-only stays unless another candidate is clearly better on the same trusted rows; if trusted-only is, it stays
    unless one is better by a standard error. Of those that are better, the simplest within one standard error of the best.
    """
    able = [scored for scored in table if not scored.excluded] or list(table)
    lowest = min(able, key=lambda scored: scored.loss)
    losses = np.array([scored.loss for scored in able])
    simple = {kind: able[i] for kind, i in simple_choices([scored.candidate for scored in able], losses).items()}
    better = [scored for scored in able if scored.beats >= set(simple)]
    if better:
        best = min(better, key=lambda scored: scored.loss)
        close = [scored for scored in better if scored.loss <= best.loss + best.loss_error]
        return min(close, key=lambda scored: (SIMPLICITY.index(scored.candidate.kind), scored.loss)), lowest
    first, *others = simple.values()
    return next((other for other in others if first.candidate.kind in other.beats), _usual(first, able)), lowest


def _usual(first: Scored, able: Sequence[Scored]) -> Scored:
    """Of buggy-only, return the middle λ_w unless trusted rows object by a standard error: few can overrate a large one."""
    same = [scored for scored in able if scored.candidate.kind == first.candidate.kind == "buggy only"]
    if not same or not first.candidate.problem.loss.piecewise_quadratic:
        return first
    middle = sorted(same, key=lambda scored: scored.candidate.problem.lambda_w)[len(same) // 2]
    return middle if middle.loss <= first.loss + first.loss_error else first


def _finalists(table: Sequence[Scored], chosen: Scored, best: Scored) -> list[Candidate]:
    """Return the choice, the best, all of buggy-only, and the best of every other kind."""
    by_kind: dict[str, Scored] = {}
    for scored in sorted(table, key=lambda scored: (scored.excluded != "", scored.loss)):
        by_kind.setdefault(scored.candidate.kind, scored)
    simple = [scored for scored in table if scored.candidate.kind == "buggy only"]
    return list(dict.fromkeys(scored.candidate for scored in (chosen, best, *simple, *by_kind.values())))


def _survey(federation: Federation, preparation: Preparation, wanted: Wanted) -> tuple[Sizes, Array, Folds, int]:
    """Count rows, deal out folds, and fit the buggy rows plainly to know the size of residuals and of r."""
    zero = np.zeros(preparation.width)
    seen = sums_at(federation, preparation, fallback(wanted, 1.0).problem, zero, zero, "none")
    rows, trusted_rows = seen.rows, seen.trusted_rows
    n_folds = FOLDS if trusted_rows >= ALONE_BELOW else MANY_FOLDS
    folds = _folds(federation, preparation, wanted, n_folds) if trusted_rows > 1 else Folds(n_folds, ())
    enough = min(SAMPLE, max(LEAST_SAMPLE, ROWS_PER_COLUMN * preparation.width))
    thin = max(1, int(np.ceil(rows / enough)))
    plain = replace(fallback(replace(wanted, lambda_w=None), rows).problem, lambda_alpha=0.0, lambda_z=np.inf)
    task = dual.Task(replace(plain, lambda_trusted=0.0), zero, zero)
    (fit,) = dual.attempt(
        federation,
        preparation,
        [task],
        tol=PLAIN_TOL,
        settle=PLAIN_SETTLE,
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


def _folds(federation: Federation, preparation: Preparation, wanted: Wanted, n_folds: int) -> Folds:
    query = TrustedScore(
        loss_name=wanted.loss_name,
        preparation=preparation,
        theta=np.zeros((n_folds, preparation.width)),
        fold=np.arange(n_folds),
        n_folds=n_folds,
    )
    seen = federation.sum(query)
    rows, targets = seen["rows"], seen["target"]
    fewer = 0.5 * (rows.sum() - abs(targets.sum()))  # rows of the rarer label
    return Folds(n_folds, tuple(np.flatnonzero(rows).tolist()), wanted.loss_name == "logistic" and bool(fewer < 1.5))


def _without_trusted(wanted: Wanted, sizes: Sizes, folds: Folds) -> Tuned:
    chosen = Scored(fallback(wanted, sizes.rows), np.nan, np.nan)
    alike = folds.one_class and len(folds.occupied) > 1
    told = f"{sizes.trusted_rows:.0f} trusted row{'' if sizes.trusted_rows == 1 else 's'}"
    told = f"{told} with hardly more than one label" if alike else told
    sentence = (
        f"{told} cannot choose parameters, so unverified rows are taken at their word: {chosen.candidate.name}; verify more "
        f"rows{' of the other label' if alike else ''}."
    )
    problem, fraction = chosen.candidate.problem, chosen.candidate.fraction
    return Tuned(problem, fraction, chosen, [chosen], sentence, int(sizes.trusted_rows), undecided=True)


def _sentence(chosen: Scored, lowest: Scored, table: Sequence[Scored], sizes: Sizes, folds: Folds) -> str:
    how = f"{len(folds.occupied)} folds of {sizes.trusted_rows:.0f} trusted rows"
    said = (
        f"Chosen of {len(table)} candidates: {chosen.candidate.name} has a held-out loss of {chosen.loss:.4g} ± "
        f"{chosen.loss_error:.2g} ({how})"
    )
    if chosen.candidate == lowest.candidate:
        said += ", the lowest of all."
    else:
        said += f"; the lowest, {lowest.loss:.4g} ± {lowest.loss_error:.2g} of {lowest.candidate.name}, "
        said += _why_not(chosen, lowest)
    lost = sum(scored.excluded != "" for scored in table)
    if lost:
        said += f" {lost} candidates had no solution and were left out."
    if sizes.trusted_rows < FEW:
        said += f" With fewer than {FEW} trusted rows the choice is not certain: verify more rows."
    return said


def _why_not(chosen: Scored, lowest: Scored) -> str:
    if "buggy only" in lowest.beats or chosen.candidate.kind != "buggy only":
        return "is not clearly better, and the simpler choice is preferred."
    if lowest.absurd:
        return (
            f"predicts some unverified rows absurdly and is not clearly {1.0 / ABSURD_SHARE:.0f} times as good, which that "
            "would take."
        )
    return "is not clearly better on the same rows."
