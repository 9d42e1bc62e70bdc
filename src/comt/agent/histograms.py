"""Counting values into bins: the agent's part of federated medians, quartiles and thresholds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from comt.problem import Array
from comt.queries import COARSE_BINS, COARSE_SIDE, OCTAVES, Histogram

#: a float's leading 12 bits are its sign and its exponent: shifted down to them, a value is the number of its octave
_SHIFT, _PATTERNS, _BIAS = 52, 4096, 1023


def count_columns(query: Histogram, features: Array, targets: Array) -> Array:
    """Return (columns × bins) counts of a block; the target is the column after the features."""
    return count_each(query, [*np.asfortranarray(features).T, targets][: query.n_columns])


def count_each(query: Histogram, columns: Sequence[Array]) -> Array:
    """Return (columns × bins) counts of columns that may differ in length."""
    if query.low is None or query.high is None:
        return np.stack([_coarse_counts(column) for column in columns])
    edges = zip(columns, query.low, query.high, strict=True)
    return np.stack([_uniform_counts(column, float(low), float(high), query.bins) for column, low, high in edges])


def coarse_bins(values: Array) -> NDArray[np.int64]:
    """Return every value's bin in the public grid, read off the bits of the floats."""
    return _BIN_OF_PATTERN[_patterns(values)]


def _patterns(values: Array) -> NDArray[np.int64]:
    """Return sign and exponent of every value as a number from 0 to 4095."""
    return (np.ascontiguousarray(values).view(np.uint64) >> np.uint64(_SHIFT)).view(np.int64)


def _bin_of_pattern() -> NDArray[np.int64]:
    pattern = np.arange(_PATTERNS)
    octave = np.clip((pattern & 2047) - (_BIAS - OCTAVES) + 1, 0, COARSE_SIDE)
    bins: NDArray[np.int64] = COARSE_SIDE + np.where(pattern >= 2048, -octave, octave)
    return bins


_BIN_OF_PATTERN = _bin_of_pattern()


def _coarse_counts(values: Array) -> Array:
    # counting bit patterns first and sorting 4,096 counts into bins is far faster than finding every value's bin
    counts = np.bincount(_patterns(values), minlength=_PATTERNS).astype(np.float64)
    return np.bincount(_BIN_OF_PATTERN, weights=counts, minlength=COARSE_BINS).astype(np.float64)


def _uniform_counts(values: Array, low: float, high: float, bins: int) -> Array:
    place = values - low
    place *= bins / (high - low) if high > low else 1.0
    place += 1.0
    np.clip(place, 0.0, bins + 1.0, out=place)
    return np.bincount(place.astype(np.int64), minlength=bins + 2).astype(np.float64)
