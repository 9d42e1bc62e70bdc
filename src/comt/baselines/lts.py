"""Least trimmed squares by FAST-LTS: the start of REWLSE, which up to half of the rows cannot break."""

from __future__ import annotations

import numpy as np

from comt.baselines.base import Array

SUBSETS = 500
SURVIVORS = 10
LARGEST_FIRST_STAGE = 1500  # rows; beyond, the 500 starts are tried on a random part
MAX_CONCENTRATIONS = 100


def least_trimmed_squares(features: Array, targets: Array, *, seed: int = 0) -> Array:
    """min_b sum_{i <= h} r^2_(i)(b),  h = floor((n + p + 1)/2): the best fit to the better half of the rows.

    Rousseeuw and van Driessen's scheme: exact fits to 500 random p-subsets, two concentration steps each, the
    10 best until nothing changes. All starts are handled as one batch. Returns p coefficients; with
    n <= p + 1 rows there is nothing to trim and the result is least squares.
    """
    n, p = features.shape
    if n <= p + 1:
        return np.asarray(np.linalg.lstsq(features, targets)[0])
    # outliers cannot move this scale of the columns; the fits do not depend on it, their rounding does
    unit = np.median(np.abs(features), axis=0)
    unit = np.where(unit > 0, unit, np.abs(features).mean(axis=0))
    unit = np.where(unit > 0, unit, 1.0)
    scaled = features / unit
    rng = np.random.default_rng(seed)

    first = rng.permutation(n)[:LARGEST_FIRST_STAGE] if n > LARGEST_FIRST_STAGE else np.arange(n)
    # the p smallest of n random numbers: a p-subset without replacement for each start
    draws = np.argpartition(rng.random((SUBSETS, first.size)), p - 1, axis=1)[:, :p]
    starts = np.einsum("spq,sq->sp", np.linalg.pinv(scaled[first][draws], rcond=1e-10), targets[first][draws])
    coefs, losses = _concentrate(scaled[first], targets[first], starts, steps=2)
    best = np.argsort(losses, kind="stable")[:SURVIVORS]
    coefs, losses = _concentrate(scaled, targets, coefs[best], steps=MAX_CONCENTRATIONS)
    return np.asarray(coefs[losses.argmin()] / unit)


def _concentrate(features: Array, targets: Array, coefs: Array, *, steps: int) -> tuple[Array, Array]:
    """Refit every candidate to the h rows that it fits best, until no loss falls; return fits and losses."""
    n, p = features.shape
    h = (n + p + 1) // 2
    products = (features[:, :, None] * features[:, None, :]).reshape(n, p * p)
    moments = features * targets[:, None]
    losses = np.full(len(coefs), np.inf)
    for step in range(steps + 1):
        squares = (targets - coefs @ features.T) ** 2
        chosen = np.argpartition(squares, h - 1, axis=1)[:, :h]
        now = np.take_along_axis(squares, chosen, axis=1).sum(axis=1)
        settled = np.all(now >= losses * (1.0 - 1e-12))
        losses = now
        if settled or step == steps:
            break
        kept = np.zeros_like(squares)
        np.put_along_axis(kept, chosen, 1.0, axis=1)
        # all normal equations at once; pinv because a half may lack one level of a category
        grams = (kept @ products).reshape(-1, p, p)
        coefs = np.einsum("spq,sq->sp", np.linalg.pinv(grams, rcond=1e-13, hermitian=True), kept @ moments)
    return coefs, losses
