"""Where an agent's rows come from, and how they are prepared: a source gives raw blocks, any number of times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from comt.preparation import Preparation
from comt.problem import Array

#: rows per block: small enough that a block and its temporaries stay in the processor's cache
BLOCK = 16_384

#: XᵀX of blocks is kept up to this many columns
MAX_GRAM_WIDTH = 256

#: rows of a file are kept in memory up to this size: reading them again in every round costs more than all sums
KEEP_BYTES = 64 * 2**20

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
            features, targets = own_rows(features, index), targets[index]
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


def own_rows(features: Array, index: NDArray[np.intp]) -> Array:
    """Gather rows out of a larger array with contiguous columns, a block at a time that fits the innermost caches."""
    gathered = np.empty((len(index), features.shape[1]), order="F")
    for start in range(0, len(index), BLOCK // 4):
        part = slice(start, start + BLOCK // 4)
        gathered[part] = features.take(index[part], axis=0, mode="clip")
    return gathered


class PreparedRows:
    """Rows under a preparation. In memory they are prepared once and kept; from large files, block by block."""

    def __init__(self, source: RowSource, preparation: Preparation) -> None:
        self.preparation = preparation
        self._source = source
        self._kept: Block | None = None
        self._size_sq: float | None = None
        self._grams: list[Array] = []
        self._part: tuple[int, Block] | None = None
        features, targets = source.trusted()
        self.trusted: Block = (preparation.features(features), preparation.targets(targets))
        self.n_rows = source.n_rows
        if isinstance(source, ArrayRows):
            self._kept = self._prepare_once(source)
        elif 8 * self.n_rows * preparation.width <= KEEP_BYTES:
            self._kept = self._read_once(source)

    def _prepare_once(self, source: ArrayRows) -> Block:
        if self.preparation.trivial and source.features.strides[0] == source.features.itemsize:
            return source.features, self._targets(source.targets)
        blocks = (self.preparation.features(features) for features, _ in source.blocks())
        features = by_columns(blocks, self.n_rows, self.preparation.width)
        return features, self._targets(source.targets)

    def _targets(self, raw: Array) -> Array:
        return self.preparation.believed(self.preparation.targets(raw))

    def _read_once(self, source: RowSource) -> Block:
        features, targets = np.empty((self.n_rows, self.preparation.width), order="F"), np.empty(self.n_rows)
        start = 0
        for raw_features, raw_targets in source.blocks():
            part = slice(start, start + len(raw_targets))
            features[part] = self.preparation.features(raw_features)
            targets[part] = self._targets(raw_targets)
            start = part.stop
        return features, targets

    def blocks(self) -> Iterator[Block]:
        """Yield prepared blocks of the buggy rows."""
        if self._kept is None:
            yield from self._streamed()
            return
        features, targets = self._kept
        for start in range(0, self.n_rows, BLOCK):
            yield features[start : start + BLOCK], targets[start : start + BLOCK]

    def part(self, thin: int) -> Iterator[Block]:
        """Yield every thin-th row of each block, gathered once; all blocks for thin = 1."""
        if thin == 1 or self.n_rows == 0:
            yield from self.blocks()
            return
        if self._part is None or self._part[0] != thin:
            taken = [(features[::thin], targets[::thin]) for features, targets in self.blocks()]
            count = sum(len(targets) for _, targets in taken)
            features = by_columns((block for block, _ in taken), count, self.preparation.width)
            self._part = (thin, (features, np.concatenate([targets for _, targets in taken])))
        yield self._part[1]

    def _streamed(self) -> Iterator[Block]:
        """Prepare blocks as they are read; the first whole pass also adds up Σ‖x‖², which would cost a pass of its own."""
        size_sq = 0.0
        for raw_features, raw_targets in self._source.blocks():
            features = self.preparation.features(raw_features)
            if self._size_sq is None:
                size_sq += float(np.einsum("ij,ij->", features, features))
            yield features, self._targets(raw_targets)
        if self._size_sq is None:
            self._size_sq = size_sq

    def blocks_with_gram(self) -> Iterator[tuple[Block, Array | None]]:
        """Yield every block with its XᵀX, which is computed once and kept (a block has few columns and many rows)."""
        if self.preparation.width > MAX_GRAM_WIDTH:
            yield from ((block, None) for block in self.blocks())
            return
        for position, block in enumerate(self.blocks()):
            if position == len(self._grams):
                self._grams.append(block[0].T @ block[0])
            yield block, self._grams[position]

    @property
    def size_sq(self) -> float:
        """Σ ‖x‖² over the buggy rows."""
        if self._size_sq is None:
            self._size_sq = float(sum(np.einsum("ij,ij->", block, block) for block, _ in self.blocks()))
        return self._size_sq
