"""Counting values into bins: the agent's part of federated medians, quartiles and thresholds."""

from __future__ import annotations

import numpy as np

from comt.problem import Array
from comt.queries import BINS_PER_OCTAVE, COARSE_BINS, COARSE_SIDE, OCTAVES, Histogram

#: a float's leading bits are sign, 11 bits of exponent, then the mantissa: shifting by this leaves 2 bits of mantissa
_SHIFT = 52 - (BINS_PER_OCTAVE.bit_length() - 1)
_FIRST = (1023 - OCTAVES) * BINS_PER_OCTAVE


def count_columns(query: Histogram, features: Array, targets: Array) -> Array:
    """Return (columns × bins) counts of a block."""
    values = np.asfortranarray(features)
    n_features = features.shape[1]
    if query.n_columns > n_features:
        values = np.concatenate([values, targets[:, None]], axis=1)
    if query.low is None or query.high is None:
        bins, n_bins = coarse_bins(values), COARSE_BINS
    else:
        bins, n_bins = _uniform_bins(values, query.low, query.high, query.bins), query.bins + 2
    bins += np.arange(query.n_columns, dtype=bins.dtype) * n_bins
    counts = np.bincount(bins.ravel(order="K"), minlength=query.n_columns * n_bins)
    return counts.reshape(query.n_columns, n_bins).astype(np.float64)


def coarse_bins(values: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the bin of every value in the public grid, read off the bits of the floats: far faster than a logarithm."""
    magnitude = np.abs(values).view(np.int64)
    magnitude >>= _SHIFT
    magnitude -= _FIRST - 1
    np.clip(magnitude, 0, COARSE_SIDE, out=magnitude)
    np.negative(magnitude, out=magnitude, where=values < 0)
    magnitude += COARSE_SIDE
    return magnitude


def _uniform_bins(values: Array, low: Array, high: Array, bins: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    width = np.where(high > low, high - low, 1.0)
    place = values - low
    place *= bins / width
    np.floor(place, out=place)
    np.clip(place, -1, bins, out=place)
    place += 1.0
    return place.astype(np.int64)
