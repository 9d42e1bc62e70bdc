"""Are the trusted rows like the buggy ones? Tests by rank, from counts on a public grid.

If trusted and buggy rows are exchangeable, the rank of a trusted row among the buggy ones is uniform whatever the
distribution, so the mean rank of m rows is about normal around ½ with variance 1/(12 m).
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from comt.problem import Array


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
