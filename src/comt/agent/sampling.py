"""A part of an agent's rows that stands for all of them, and single rows by their place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comt.agent.data import ArrayRows, Block, RowSource
from comt.agent.folds import fair_rows


def spread_sample(rows: RowSource, most: int) -> Block:
    """Return at most ``most`` unverified rows, spread evenly over the source."""
    step = -(-rows.n_rows // most) or 1
    features, targets, start = [rows.trusted()[0][:0]], [rows.trusted()[1][:0]], 0
    for block, wanted in rows.blocks():
        first = -start % step
        features.append(block[first::step])
        targets.append(wanted[first::step])
        start += len(wanted)
    return np.concatenate(features), np.concatenate(targets)


def rows_at(rows: RowSource, places: NDArray[np.intp]) -> Block:
    """Return the unverified rows at these places of the source, in the order of ``places``."""
    features, targets = np.empty((len(places), len(rows.names))), np.empty(len(places))
    start = 0
    for block, wanted in rows.blocks():
        here = np.flatnonzero((places >= start) & (places < start + len(wanted)))
        features[here], targets[here] = block[places[here] - start], wanted[places[here] - start]
        start += len(wanted)
    return features, targets


class SampledRows:
    """A sample of an agent's unverified rows, read once and kept, with all its trusted ones."""

    def __init__(self, source: RowSource, most: int) -> None:
        self._sample = ArrayRows(*spread_sample(source, most), names=source.names)
        self.names, self.n_rows = source.names, self._sample.n_rows
        self.blocks, self.trusted = self._sample.blocks, source.trusted
        self.scored = fair_rows(source)


class FewerTrusted:
    """An agent's rows with some of its trusted ones left out, as cross-validation needs them."""

    def __init__(self, source: RowSource, kept: NDArray[np.bool_]) -> None:
        self._source, self._kept = source, kept
        self.names, self.n_rows = source.names, source.n_rows
        self.blocks = source.blocks
        self.scored = fair_rows(source)[kept]

    def trusted(self) -> Block:
        """Return the trusted rows that are left."""
        features, targets = self._source.trusted()
        return features[self._kept], targets[self._kept]
