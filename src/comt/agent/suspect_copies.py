"""Rows that were written again and again: in continuous data one row does not occur many times by chance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from comt.agent.data import Block, RowSource
from comt.agent.folds import content_hash, fair_rows
from comt.agent.sampling import spread_sample
from comt.problem import Array

#: a copied row occurs at least this often, and fills at least this share of the rows
FEWEST_COPIES, LEAST_SHARE = 5, 0.02
#: believed of a copy: one of them may be the right one
CONFIDENCE = 0.9
#: a copy has a value that at most this share of the other rows have: rows of common values are alike by nature
UNCOMMON = 0.01
#: rows among which copies are looked for
SAMPLE = 20_000


def often(counts: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Tell which of the distinct values are copies, given how often each occurs; none if values repeat by nature."""
    total = int(counts.sum())
    if 2 * len(counts) < total:
        return np.zeros(len(counts), dtype=np.bool_)
    return counts >= max(FEWEST_COPIES, LEAST_SHARE * total)


def copied_rows(features: Array, targets: Array) -> Array:
    """Return the rows (features and target) that a sample holds too often."""
    _, first, place, counts = np.unique(
        content_hash(features, targets), return_index=True, return_inverse=True, return_counts=True
    )
    repeated = often(counts)
    candidates = np.column_stack([features[first[repeated]], targets[first[repeated]]])
    if not len(candidates):
        return candidates
    others = np.column_stack([features, targets])[~repeated[place]]
    uncommon = [not len(others) or (others == row).mean(axis=0).min() <= UNCOMMON for row in candidates]
    copied: Array = candidates[np.array(uncommon, dtype=np.bool_)]
    return copied


def mark_copies(copies: Array, features: Array, targets: Array) -> NDArray[np.bool_]:
    """Mark the copies in a block."""
    mask = np.zeros(len(targets), dtype=np.bool_)
    for row in copies:
        mask |= _same(row, features, targets)
    return mask


def _same(row: Array, features: Array, targets: Array) -> NDArray[np.bool_]:
    return np.asarray((targets == row[-1]) & (features == row[:-1]).all(axis=1))


class DistinctRows:
    """An agent's rows with those that were written again and again counted once; its trusted rows are as they are."""

    def __init__(self, source: RowSource, least: int) -> None:
        """Leave out at least so many copies of a row or none: fewer would show in the difference to a sum of all rows."""
        self._source = source
        copied = copied_rows(*spread_sample(source, SAMPLE))
        #: which rows of the source are left
        self.kept = np.ones(source.n_rows, dtype=np.bool_)
        # one pass over the source, which may be a file, however many rows were copied
        marked = [[_same(row, *block) for row in copied] for block in source.blocks()] if len(copied) else []
        for parts in zip(*marked, strict=True):
            places = np.concatenate(parts).nonzero()[0]
            if len(places) > least:
                self.kept[places[1:]] = False
        self.names, self.n_rows = source.names, int(np.count_nonzero(self.kept))
        self.trusted, self.scored = source.trusted, fair_rows(source)

    def blocks(self) -> Iterator[Block]:
        """Yield blocks without copies."""
        start = 0
        for features, targets in self._source.blocks():
            kept = self.kept[start : start + len(targets)]
            start += len(targets)
            yield (features, targets) if kept.all() else (features[kept], targets[kept])
