"""Groups of cells so far from all others of their column that no tail reaches them, whatever the targets say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comt.issue_context import IssueContext
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import rank_edges

#: spreads beyond which cells may be a group of their own, the least size of one, and what is believed of its cells
FAR, FEWEST, LEAST_SHARE, CONFIDENCE = 6.0, 6, 0.005, 0.95
#: trusted rows out there, relative to the agent's own share, from which on the cells are natural
AS_OFTEN = 0.25


@dataclass(frozen=True, eq=False)
class FarGroups:
    """The columns with such a group."""

    columns: NDArray[np.bool_]
    low: Array
    high: Array

    @classmethod
    def found(cls, raw: Array, context: IssueContext, preparation: Preparation) -> FarGroups:
        """Look for them in a sample of raw rows."""
        known = np.where(np.isfinite(context.scale), context.scale, 0.0)
        low, high = context.center - FAR * known, context.center + FAR * known
        groups = cls(known > 0, low, high)
        out = groups(raw)
        share = out.mean(axis=0) if len(raw) else np.zeros(raw.shape[1])
        enough = (share * len(raw) >= FEWEST) & (share >= LEAST_SHARE) & (share <= 0.5)
        for column in np.flatnonzero(enough):
            size = np.abs(raw[out[:, column], column] - context.center[column])
            enough[column] = np.median(size) >= 3.0 * FAR * known[column]  # most of a long tail lies where it begins
        if context.trusted_columns is not None:
            natural = trusted_outside(low, high, context.trusted_columns, preparation)
            enough &= natural <= AS_OFTEN * share * context.trusted_rows
        return cls(enough, low, high)

    def __call__(self, raw: Array) -> NDArray[np.bool_]:
        """Mark the cells."""
        marked: NDArray[np.bool_] = self.columns & ((raw < self.low) | (raw > self.high))
        return marked


def trusted_outside(low: Array, high: Array, counts: Array, preparation: Preparation) -> Array:
    """Return how many of the federation's trusted rows have a column's value below or above these raw ones."""
    edges = rank_edges()
    ends = preparation.features(np.stack([low, high]))[:, : len(low)]
    outside: Array = np.array(
        [
            line[: np.searchsorted(edges, least)].sum() + line[np.searchsorted(edges, most) + 1 :].sum()
            for line, least, most in zip(counts, *ends, strict=True)
        ]
    )
    return outside
