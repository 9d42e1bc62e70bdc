"""Which fold a trusted row belongs to: decided by its content, so that it is the same whoever holds the row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from comt.problem import Array

if TYPE_CHECKING:
    from comt.agent.data import RowSource


def fair_rows(source: RowSource) -> NDArray[np.bool_]:
    """Return which trusted rows are a fair sample of right rows; those reviewed because they looked bad are not."""
    scored: NDArray[np.bool_] | None = getattr(source, "scored", None)
    return np.ones(len(source.trusted()[1]), dtype=bool) if scored is None else scored


def trusted_folds(source: RowSource, features: Array, targets: Array, n_folds: int) -> NDArray[np.int64]:
    """Return the fold of every trusted row of a source; −1, never left out and never scored, if it is no fair sample."""
    return np.where(fair_rows(source), fold_of(features, targets, n_folds), -1)


def fold_of(features: Array, targets: Array, n_folds: int) -> NDArray[np.int64]:
    """Return the fold (0 … n_folds − 1) of every row. Equal rows share a fold, so none is trained and tested on."""
    return (content_hash(features, targets) % np.uint64(max(n_folds, 1))).astype(np.int64)


def content_hash(features: Array, targets: Array) -> NDArray[np.uint64]:
    """Return a number per row that depends on nothing but its content."""
    content = np.ascontiguousarray(np.column_stack([features, targets])) + 0.0  # −0 becomes 0
    words = content.view(np.uint64)
    state = np.full(len(content), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in words.T:  # over columns; each step mixes one word of every row (splitmix64's finaliser)
        state ^= column
        state *= np.uint64(0xBF58476D1CE4E5B9)
        state ^= state >> np.uint64(29)
        state *= np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(32)
    return state
