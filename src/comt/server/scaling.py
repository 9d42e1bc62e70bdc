"""Robust centre and scale of every column, from summed counts alone.

The median and the quartiles come from histograms: first on a public grid that fits any data, then on a uniform grid
between the quartiles found, refined until the quartiles are known to a fraction of their distance. No agent sends a
minimum, a maximum or any other single value. Where the quartiles coincide (mostly one value) the standard deviation is
used, where they nearly do (half of the rows or more are one value) the outer deciles; a constant column is switched off.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import OCTAVES, Histogram, Spread, coarse_edges

#: IQR of a normal distribution in standard deviations
NORMAL_IQR = 1.349
#: distance of the outer deciles of a normal distribution in standard deviations
NORMAL_DECILES = 2.563
QUARTILES, DECILES, MIDDLE = np.array([0.25, 0.5, 0.75]), np.array([0.1, 0.5, 0.9]), np.array([0.4, 0.5, 0.6])
#: quartiles closer together than this (in their distance) are one value; if the middle half is then so much narrower than
#: the deciles say, it is no measure of the other values' spread
ONE_VALUE, NARROW = 0.02, 0.45
BINS, MAX_REFINEMENTS = 256, 6
#: the constant column that carries the intercept; its penalty is λ_w/CONSTANT² (method page, section 3)
CONSTANT = 10.0


def agree_on_preparation(
    federation: Federation,
    n_features: int,
    *,
    standardize: bool,
    fit_intercept: bool,
    scale_target: bool,
) -> Preparation:
    """Ask for what is needed and return how rows are to be prepared; no exchange if nothing is to be scaled."""
    constant = CONSTANT if fit_intercept else 0.0
    if not standardize:
        return Preparation.identity(n_features, constant)
    center, scale = center_and_scale(federation, n_features + scale_target)
    if not fit_intercept:
        center = np.zeros_like(center)  # a shift of the columns would be an intercept in disguise
    target_center, target_scale = 0.0, 1.0
    if scale_target:
        target_center = float(center[-1])
        target_scale = float(scale[-1]) if np.isfinite(scale[-1]) else 1.0
    return Preparation(center[:n_features], scale[:n_features], target_center, target_scale, constant)


def center_and_scale(federation: Federation, n_columns: int) -> tuple[Array, Array]:
    """Return median and IQR/1.349 of every column (scale infinity: the column is constant)."""
    coarse = federation.sum(Histogram(n_columns=n_columns))["counts"]
    quartiles = column_quantiles(federation, coarse)
    center, scale = quartiles[:, 1].copy(), (quartiles[:, 2] - quartiles[:, 0]) / NORMAL_IQR
    flat = ~(scale > 0)
    tied = ~flat & (np.diff(quartiles, axis=1).min(axis=1) <= ONE_VALUE * (quartiles[:, 2] - quartiles[:, 0]))
    # columns of two values are tied, too: coarse counts tell that their deciles are not far enough apart to ask for them
    lowest, highest = _coarse_range(coarse, DECILES)
    doubtful = ~flat & (scale < NARROW * _decile_spread(lowest, center, highest, tied))
    untied = doubtful & ~tied
    if untied.any():  # are they narrow because of one value in the middle, or because far too large values are many?
        middle = column_quantiles(federation, coarse, MIDDLE, needed=untied)
        doubtful &= tied | (middle[:, 2] - middle[:, 0] <= ONE_VALUE * (quartiles[:, 2] - quartiles[:, 0]))
    if doubtful.any():
        deciles = column_quantiles(federation, coarse, DECILES, needed=doubtful)
        wide = _decile_spread(deciles[:, 0], center, deciles[:, 2], tied)
        scale = np.where(doubtful & (scale < NARROW * wide), wide, scale)
    if flat.any():
        totals = federation.sum(Spread(center=center))
        mean, rows = totals["first"] / totals["rows"], float(totals["rows"])
        variance = np.maximum(totals["second"] / rows - mean**2, 0.0)
        # rounding leaves this much of a column that is in truth one value
        constant = variance <= (1e-13 * (np.abs(center) + np.abs(mean))) ** 2 + 1e-14 * mean**2
        scale[flat] = np.where(constant, np.inf, np.sqrt(variance))[flat]
        center[flat & constant] += mean[flat & constant]
    return center, scale


def _decile_spread(low: Array, center: Array, high: Array, tied: NDArray[np.bool_]) -> Array:
    """Return the scale that deciles say; unless quartiles are tied, that of the nearer one.

    Where nearly half of the rows are one value in the middle, the others lie on both sides of it. On one side only they
    are a long tail, or codes.
    """
    spread: Array = np.where(tied, high - low, 2.0 * np.minimum(high - center, center - low)) / NORMAL_DECILES
    return spread


def column_quantiles(
    federation: Federation,
    coarse: Array,
    shares: Array = QUARTILES,
    *,
    needed: NDArray[np.bool_] | None = None,
    ask: Callable[..., Histogram] = Histogram,
) -> Array:
    """Return three quantiles (columns × 3), the quartiles unless told otherwise; coinciding ones are exactly equal.

    The search starts from ``coarse`` counts (on the public grid) and goes on until the quantiles of the columns that are
    ``needed`` (all) are known. ``ask`` makes the question.
    """
    n_columns = len(coarse)
    column = np.arange(n_columns)
    low, high = _coarse_range(coarse, shares)
    quantiles = np.empty((n_columns, 3))
    unneeded = False if needed is None else ~needed
    for _ in range(MAX_REFINEMENTS):
        counts = federation.sum(ask(n_columns=n_columns, low=low, high=high, bins=BINS))["counts"]
        width = (high - low) / BINS
        starts = low[:, None] + width[:, None] * (np.arange(BINS + 2) - 1)
        for index, share in enumerate(shares):
            quantiles[:, index] = _interpolated(counts, starts, width, share)
        distance = quantiles[:, 2] - quantiles[:, 0]
        value = np.abs(quantiles[:, 1])
        resolved = (width <= 0.01 * distance) | (width <= 1e-11 * value) | (width == 0) | unneeded
        if resolved.all():
            break
        # narrow the unresolved columns to the bins that hold the outer quantiles
        below = starts[column, np.clip(_bins_of(counts, shares[0]), 1, BINS)]
        above = starts[column, np.clip(_bins_of(counts, shares[2]), 1, BINS)] + width
        low, high = np.where(resolved, low, below), np.where(resolved, high, above)
    # quantiles inside one bin that cannot be split further are one value
    tied = (quantiles[:, 2] - quantiles[:, 0]) <= 2.0 * np.maximum(width, 1e-12 * value)
    quantiles[tied] = quantiles[tied, 1:2]
    return quantiles


def _coarse_range(coarse: Array, shares: Array) -> tuple[Array, Array]:
    """Return, per column, edges of the public grid between which the quantiles lie."""
    edges, limit = coarse_edges(), 2.0 ** (OCTAVES + 1)
    first, last = _bins_of(coarse, shares[0]), _bins_of(coarse, shares[2])
    return np.clip(edges[first], -limit, limit), np.clip(edges[last + 1], -limit, limit)


def _bins_of(counts: Array, share: float) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Return, per column, the bin in which the running count reaches the share."""
    running = counts.cumsum(axis=1)
    reached: np.ndarray[tuple[int, ...], np.dtype[np.intp]] = np.argmax(running >= share * running[:, -1:], axis=1)
    return reached


def _interpolated(counts: Array, starts: Array, width: Array, share: float) -> Array:
    """Place the quantile inside its bin as if the bin's rows were spread evenly."""
    column = np.arange(len(counts))
    bins = _bins_of(counts, share)
    running = counts.cumsum(axis=1)
    inside = counts[column, bins]
    before = running[column, bins] - inside
    fraction = np.where(inside > 0, (share * running[:, -1] - before) / np.maximum(inside, 1.0), 0.0)
    return starts[column, bins] + np.clip(fraction, 0.0, 1.0) * width
