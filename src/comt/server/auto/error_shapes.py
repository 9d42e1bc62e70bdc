"""How well do errors of other shapes than the normal one explain the rows? Log likelihoods from histograms of errors."""

from __future__ import annotations

import numpy as np

from comt.problem import Array
from comt.queries import rank_middles

STEPS = 50
#: least variance of an error, in prepared units
LEAST = 1e-6
#: shares of the rows at which errors of two kinds are parted to begin with
SPLITS = (0.2, 0.5, 0.8)


def few_far_out(counts: Array) -> Array:
    """Return the log likelihood per line of counts if part of the errors is narrow and the rest wide."""
    squares = _middles() ** 2
    wide = np.maximum(counts @ squares / counts.sum(axis=1), 1e-9)
    narrow, share = 0.1 * wide, np.full(len(counts), 0.5)
    for _ in range(STEPS):
        inside, outside = _log_normal(squares, narrow), _log_normal(squares, wide)
        total = np.logaddexp(np.log(share)[:, None] + inside, np.log1p(-share)[:, None] + outside)
        fits = counts * np.exp(np.log(share)[:, None] + inside - total)
        rest = counts - fits
        share = np.clip(fits.sum(axis=1) / counts.sum(axis=1), 1e-3, 1.0 - 1e-3)
        narrow = np.maximum(fits @ squares / np.maximum(fits.sum(axis=1), 1e-9), LEAST)
        wide = np.maximum(rest @ squares / np.maximum(rest.sum(axis=1), 1e-9), narrow)
    explained: Array = (counts * total).sum(axis=1)
    return explained


def on_both_sides(counts: Array) -> Array:
    """Return the log likelihood per line of counts if errors lie about +c or −c: flat, or with a gap in the middle."""
    sizes, rows = np.abs(_middles()), counts.sum(axis=1)
    square = np.maximum(counts @ sizes**2 / rows, LEAST)
    away = 0.8 * np.sqrt(square)
    for _ in range(STEPS):
        left = np.maximum(square - away**2, 1e-3 * square)
        away = (counts * np.tanh(sizes * (away / left)[:, None])) @ sizes / rows
    left = np.maximum(square - away**2, 1e-3 * square)
    near, far = (_log_normal((sizes - side[:, None]) ** 2, left) for side in (away, -away))
    explained: Array = (counts * (np.logaddexp(near, far) - np.log(2.0))).sum(axis=1)
    return explained


def lopsided(counts: Array) -> Array:
    """Return the log likelihood per line of counts if errors are of two kinds, each with a mean and a width of its own."""
    middles, rows = _middles(), counts.sum(axis=1, keepdims=True)
    best = np.full(len(counts), -np.inf)
    for share in SPLITS:
        # rows below a quantile are of the first kind to begin with
        first = np.where(np.cumsum(counts, axis=1) <= share * rows, 0.9, 0.1)
        for _ in range(STEPS):
            parts = []
            for weight in (counts * first, counts * (1.0 - first)):
                size = np.maximum(weight.sum(axis=1), 1e-9)
                mean = weight @ middles / size
                away = (middles - mean[:, None]) ** 2
                variance = np.maximum((weight * away).sum(axis=1) / size, LEAST)
                parts.append(np.log(np.clip(size / rows[:, 0], 1e-3, 1.0))[:, None] + _log_normal(away, variance))
            total = np.logaddexp(*parts)
            first = np.exp(parts[0] - total)
        best = np.maximum(best, (counts * total).sum(axis=1))
    return best


def by_prediction(counts: Array) -> Array:
    """Return the log likelihood per model if errors are normal in every range of predictions (models × ranges × bins).

    Mean and width of each range are its own: a model that is bent, errors that grow. Every number so fitted is charged.
    """
    middles, rows = _middles(), np.maximum(counts.sum(axis=2), 1e-12)
    mean = counts @ middles / rows
    away = (middles - mean[:, :, None]) ** 2
    variance = np.maximum((counts * away).sum(axis=2) / rows, LEAST)
    fitted = 2.0 * (rows >= 1.0).sum(axis=1)
    explained: Array = -0.5 * (rows * (np.log(2.0 * np.pi * variance) + 1.0)).sum(axis=1) - fitted
    return explained


def _middles() -> Array:
    """Return an error for every bin; those beyond the last edges lie somewhat further out."""
    middles = rank_middles()
    middles[[0, -1]] *= 1.5
    return middles


def _log_normal(squares: Array, variance: Array) -> Array:
    density: Array = -0.5 * (squares / variance[:, None] + np.log(2.0 * np.pi * variance)[:, None])
    return density
