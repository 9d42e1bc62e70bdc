"""Where an agent's rows come from, and how they are prepared: a source gives raw blocks, any number of times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from comt.problem import Array
from comt.queries import Preparation

#: rows per block: small enough that a block and its temporaries stay in the processor's cache
BLOCK = 8192

Block = tuple[Array, Array]


class RowSource(Protocol):
    """An agent's raw rows: blocks of buggy rows in a fixed order, and all trusted rows at once."""

    names: tuple[str, ...]
    n_rows: int

    def blocks(self) -> Iterator[Block]:
        """Yield (features, targets) of the buggy rows, in a fixed order, finite numbers only."""

    def trusted(self) -> Block:
        """Return (features, targets) of the trusted rows."""


class ArrayRows:
    """Rows in memory; with ``index``, those rows of larger arrays that are this agent's."""

    def __init__(
        self,
        features: Array,
        targets: Array,
        trusted_features: Array | None = None,
        trusted_targets: Array | None = None,
        *,
        index: NDArray[np.intp] | None = None,
        names: tuple[str, ...] | None = None,
    ) -> None:
        if index is not None:
            features, targets = _own_rows(features, index), targets[index]
        self.features, self.targets = features, targets
        if trusted_features is None or trusted_targets is None:
            trusted_features, trusted_targets = np.empty((0, features.shape[1])), np.empty(0)
        self._trusted = (trusted_features, trusted_targets)
        self.names = names or tuple(f"x{i}" for i in range(features.shape[1]))
        self.n_rows = len(targets)

    def blocks(self) -> Iterator[Block]:
        """Yield views."""
        for start in range(0, self.n_rows, BLOCK):
            yield self.features[start : start + BLOCK], self.targets[start : start + BLOCK]

    def trusted(self) -> Block:
        """Return the trusted rows."""
        return self._trusted


def by_columns(blocks: Iterator[Array], n_rows: int, width: int) -> Array:
    """Lay blocks out with contiguous columns: products with a model, the bulk of all work, run about twice as fast."""
    features = np.empty((n_rows, width), order="F")
    start = 0
    for block in blocks:
        features[start : start + len(block)] = block
        start += len(block)
    return features


def _own_rows(features: Array, index: NDArray[np.intp]) -> Array:
    """Gather an agent's rows out of a larger array, a cache-sized block at a time."""
    parts = (features[index[start : start + BLOCK]] for start in range(0, len(index), BLOCK))
    return by_columns(parts, len(index), features.shape[1])


class PreparedRows:
    """Rows under a preparation. In memory they are prepared once and kept; from files, block by block."""

    def __init__(self, source: RowSource, preparation: Preparation) -> None:
        self.preparation = preparation
        self._source = source
        self._kept: Block | None = None
        self._size_sq: float | None = None
        features, targets = source.trusted()
        self.trusted: Block = (preparation.features(features), preparation.targets(targets))
        self.n_rows = source.n_rows
        if isinstance(source, ArrayRows):
            self._kept = self._prepare_once(source)

    def _prepare_once(self, source: ArrayRows) -> Block:
        if self.preparation.trivial and source.features.flags.f_contiguous:
            return source.features, self.preparation.targets(source.targets)
        blocks = (self.preparation.features(features) for features, _ in source.blocks())
        features = by_columns(blocks, self.n_rows, self.preparation.width)
        return features, self.preparation.targets(source.targets)

    def blocks(self) -> Iterator[Block]:
        """Yield prepared blocks of the buggy rows."""
        if self._kept is None:
            for features, targets in self._source.blocks():
                yield self.preparation.features(features), self.preparation.targets(targets)
            return
        features, targets = self._kept
        for start in range(0, self.n_rows, BLOCK):
            yield features[start : start + BLOCK], targets[start : start + BLOCK]

    @property
    def size_sq(self) -> float:
        """Σ ‖x‖² over the buggy rows."""
        if self._size_sq is None:
            self._size_sq = float(sum(np.einsum("ij,ij->", block, block) for block, _ in self.blocks()))
        return self._size_sq
