"""Are the trusted rows like the buggy ones? Tests by rank, from counts on a public grid.

If trusted and buggy rows are exchangeable, the rank of a trusted row among the buggy ones is uniform whatever the
distribution, so the mean rank of m rows is about normal around ½ with variance 1/(12 m).
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from comt.problem import Array

#: shares of the buggy rows that count as a tail
TAILS = (0.05, 0.1, 0.2, 0.35)


def mean_rank_p(buggy: Array, trusted: Array) -> Array:
    """Return two-sided p-values of the mean mid-rank of trusted rows, for counts (..., bins)."""
    mean, variance = _mean_rank(buggy, trusted)
    p: Array = 2.0 * ndtr(-np.abs(mean - 0.5) / np.sqrt(variance))
    return p


def stratified_p(buggy: Array, trusted: Array) -> float:
    """Return the p-value of trusted rows that were ranked fold by fold (folds, bins), each fold by a model of its own."""
    count = trusted.sum(axis=-1)
    mean, variance = _mean_rank(buggy, trusted)
    taking_part = count > 0
    share = count[taking_part] / count.sum()
    away = float(share @ (mean[taking_part] - 0.5))
    return float(2.0 * ndtr(-abs(away) / np.sqrt(float(share**2 @ variance[taking_part]))))


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


def _mean_rank(buggy: Array, trusted: Array) -> tuple[Array, Array]:
    """Return the mean mid-rank of trusted rows and its variance."""
    all_rows = np.maximum(buggy.sum(axis=-1, keepdims=True), 1e-12)
    rank = (np.cumsum(buggy, axis=-1) - 0.5 * buggy) / all_rows
    count = np.maximum(trusted.sum(axis=-1), 1e-12)
    mean = (rank * trusted).sum(axis=-1) / count
    # rows in one bin are tied: their ranks vary less than uniform ones
    variance = np.maximum((1.0 - ((buggy / all_rows) ** 3).sum(axis=-1)) / 12.0, 1e-6)
    return mean, variance * (1.0 / count + 1.0 / all_rows[..., 0])


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
