"""Where trusted rows rank among buggy ones: if the two are exchangeable, the mean rank of m rows is about N(½, 1/(12 m))."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from comt.baselines.base import Array


def ranks(buggy: Array, weights: Array, trusted: Array) -> Array:
    """Return the share of buggy rows (weighted) below every trusted one, ties counted half."""
    order = np.argsort(buggy)
    running = np.concatenate([[0.0], np.cumsum(weights[order])])
    placed = buggy[order]
    below = running[np.searchsorted(placed, trusted, "left")] + running[np.searchsorted(placed, trusted, "right")]
    return np.asarray(0.5 * below / max(float(running[-1]), 1e-300))


def mean_rank_p(found: Array) -> float:
    """Return the two-sided p-value of ranks that should be uniform."""
    return float(2.0 * ndtr(-abs(float(np.mean(found)) - 0.5) * np.sqrt(12.0 * len(found))))


def columnwise_p(buggy: Array, weights: Array, trusted: Array) -> Array:
    """Return one p-value for every statistic, the columns of both arrays."""
    return np.array([mean_rank_p(ranks(b, weights, t)) for b, t in zip(buggy.T, trusted.T, strict=True)])


def error_statistics(features: Array, targets: Array, theta: Array) -> Array:
    """Return what rows are ranked by under a model: |e|, e·ŷ, mean |z| and e."""
    predicted = features @ theta
    error = targets - predicted
    size = np.abs(features[:, :-1]).mean(axis=1)
    return np.column_stack([np.abs(error), error * predicted, size, error])
