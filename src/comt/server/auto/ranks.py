"""Are the trusted rows like the buggy ones? Tests by rank, from counts on a public grid.

If trusted and buggy rows are exchangeable, the rank of a trusted row among all of them is uniform whatever the
distribution, so the mean rank of m rows is about normal around ½ with variance 1/(12 m); ties make it narrower, and skewed.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom, pearson3

from comt.problem import Array

#: shares of the buggy rows that count as a tail
TAILS = (0.05, 0.1, 0.2, 0.35)


def mean_rank_p(buggy: Array, trusted: Array) -> Array:
    """Return two-sided p-values of the mean mid-rank of trusted rows, for counts (..., bins)."""
    return _two_sided(*_mean_rank(buggy, trusted))


def stratified_p(buggy: Array, trusted: Array) -> float:
    """Return the p-value of trusted rows that were ranked fold by fold (folds, bins), each fold by a model of its own."""
    count = trusted.sum(axis=-1)
    share = count / count.sum()
    away, variance, third = _mean_rank(buggy, trusted)
    return float(_two_sided(share @ away, share**2 @ variance, share**3 @ third))


def tail_p(buggy: Array, trusted: Array) -> Array:
    """Return two-sided p-values that trusted rows lie beyond the upper tails of the buggy ones as often as these do.

    Wrong rows are often a minority far out: that trusted rows have none hardly moves their mean rank, but their tail.
    Counts are (L, bins); returns one p-value per line, corrected for the number of tails that are looked at.
    """
    beyond = np.flip(np.cumsum(np.flip(buggy, -1), -1), -1) / np.maximum(buggy.sum(axis=-1, keepdims=True), 1e-12)
    above = np.flip(np.cumsum(np.flip(trusted, -1), -1), -1)
    rows = np.round(trusted.sum(axis=-1))
    lines = np.arange(len(buggy))
    found = np.ones(len(buggy))
    for tail in TAILS:
        start = np.argmax(beyond <= tail, axis=-1)
        share, count = np.clip(beyond[lines, start], 1e-12, 1.0), np.round(above[lines, start])
        fewer, more = binom.cdf(count, rows, share), binom.sf(count - 1.0, rows, share)
        found = np.minimum(found, 2.0 * np.minimum(fewer, more))
    p: Array = np.minimum(1.0, len(TAILS) * found)
    return p


def _mean_rank(buggy: Array, trusted: Array) -> tuple[Array, Array, Array]:
    """Return how far the mean mid-rank of trusted rows is from ½, and its variance and third moment if rows are alike.

    These are Wilcoxon's, of a sample drawn from all rows without replacement: rows in one bin are tied, so that their ranks
    vary less than uniform ones, and where most rows share one value they are skewed.
    """
    pooled = buggy + trusted
    rows, count = np.maximum(pooled.sum(axis=-1), 2.0), np.maximum(trusted.sum(axis=-1), 1e-12)
    away = (np.cumsum(pooled, axis=-1) - 0.5 * pooled) / rows[..., None] - 0.5
    square, cube = ((pooled * away**power).sum(axis=-1) / rows for power in (2, 3))
    others = np.maximum(rows - count, 1e-12)
    variance = np.maximum(square, 1e-12) / count * others / (rows - 1.0)
    third = cube / count**2 * others * (others - count) / ((rows - 1.0) * np.maximum(rows - 2.0, 1.0))
    return (away * trusted).sum(axis=-1) / count, variance, third


def _two_sided(away: Array, variance: Array, third: Array) -> Array:
    """Return p-values by a gamma distribution of the same three moments (Pearson's type III); the normal one is too sure of
    few rows where a column is nearly always one value.
    """
    size, skew = away / np.sqrt(variance), third / variance**1.5
    p: Array = np.minimum(1.0, 2.0 * np.minimum(pearson3.cdf(size, skew), pearson3.sf(size, skew)))
    return p


def combine(p_values: Array) -> float:
    """Combine dependent p-values by Cauchy's rule."""
    p = np.clip(np.ravel(p_values), 1e-15, 0.9)  # a p-value of 1 (discrete tests) would drown all others
    if not p.size:
        return 1.0
    score = float(np.mean(np.tan((0.5 - p) * np.pi)))
    return float(0.5 - np.arctan(score) / np.pi)


def bayes_bound(p: float) -> float:
    """Return the least that a p-value can leave of the odds for the null: −e·p·ln p below 1/e, else 1."""
    if p >= np.exp(-1.0):
        return 1.0
    p = max(p, 1e-300)
    return float(-np.e * p * np.log(p))
