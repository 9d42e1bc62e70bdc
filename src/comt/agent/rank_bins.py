"""Which bin of the public grid of ranks a value falls into: the same as a binary search, several times faster.

The highest bits of a double (sign, exponent, a few of the mantissa) order values coarsely. Cells of values that share them
are narrower than the bins, so that a table by cell is wrong by one bin at most, and one comparison puts it right.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from comt.problem import Array
from comt.queries import RANK_BINS, rank_edges

#: low bits of a double that cells ignore: 17 bits are left, five of them of the mantissa (3 % wide; bins are 6 % or more)
_IGNORED = np.uint64(47)


def counted(values: Array) -> Array:
    """Count each column of values (no NaN) on the grid of ranks; returns (columns, bins)."""
    by_column = np.ascontiguousarray(values.T)
    first, edges = _cells()
    bins = first[(by_column.view(np.uint64) >> _IGNORED).astype(np.intp)].astype(np.intp)
    bins += by_column >= edges[bins]
    bins += RANK_BINS * np.arange(len(by_column))[:, None]
    counts = np.bincount(bins.ravel(), minlength=RANK_BINS * len(by_column))
    return counts.reshape(len(by_column), RANK_BINS).astype(np.float64)


@cache
def _cells() -> tuple[NDArray[np.int16], Array]:
    """Return the bin of the lowest value of every cell, and the edge above every bin."""
    edges = rank_edges()
    nearest = np.arange(2 ** (64 - int(_IGNORED)), dtype=np.uint64) << _IGNORED  # to zero, of every cell
    farthest = nearest | np.uint64(2 ** int(_IGNORED) - 1)
    lowest = np.where(nearest >> np.uint64(63), farthest.view(np.float64), nearest.view(np.float64))
    above = np.append(edges, np.nan)  # nothing is above the last bin
    return np.searchsorted(edges, lowest, side="right").astype(np.int16), above
