"""Rows that were written again and again: in continuous data one row does not occur many times by chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comt.problem import Array

#: a copied row occurs at least this often, and fills at least this share of the rows
FEWEST_COPIES, LEAST_SHARE = 5, 0.02
#: believed of a copy: one of them may be the right one
CONFIDENCE = 0.9


def often(counts: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Tell which of the distinct values are copies, given how often each occurs; none if values repeat by nature."""
    total = int(counts.sum())
    if 2 * len(counts) < total:
        return np.zeros(len(counts), dtype=np.bool_)
    return counts >= max(FEWEST_COPIES, LEAST_SHARE * total)


def copied_rows(features: Array, targets: Array) -> Array:
    """Return the rows (features and target) that a sample holds too often."""
    rows, counts = np.unique(np.column_stack([features, targets]), axis=0, return_counts=True)
    copied: Array = rows[often(counts)]
    return copied


def mark_copies(copies: Array, features: Array, targets: Array) -> NDArray[np.bool_]:
    """Mark the copies in a block."""
    mask = np.zeros(len(targets), dtype=np.bool_)
    for row in copies:
        mask |= (targets == row[-1]) & (features == row[:-1]).all(axis=1)
    return mask
