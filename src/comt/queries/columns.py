"""Questions about columns: histograms and spreads, from which scales are agreed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from comt.problem import Array
from comt.queries.base import Query

#: the public grid of the first histogram: one bin per octave, 2⁻¹²⁸ to 2¹²⁸, both signs, one bin around zero
OCTAVES = 128
COARSE_SIDE = 2 * OCTAVES
COARSE_BINS = 2 * COARSE_SIDE + 1


def coarse_edges() -> Array:
    """Return the edges (COARSE_BINS + 1) of the public grid, outermost ones infinite."""
    positive = 2.0 ** np.arange(-OCTAVES, OCTAVES)
    return np.concatenate([[-np.inf], -positive[:0:-1], [-positive[0]], positive[:1], positive[1:], [np.inf]])


@dataclass(frozen=True, kw_only=True)
class Histogram(Query):
    """How many rows, buggy and trusted, fall into each bin of each column (the target is the last column).

    Without edges the bins are the public grid; otherwise ``bins`` equal ones between low and high per column, with
    one more on either side.
    """

    purpose: ClassVar[str] = "histogram of columns"
    n_columns: int
    low: Array | None = None
    high: Array | None = None
    bins: int = 256

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """One row of counts per column."""
        return {"counts": (self.n_columns, COARSE_BINS if self.low is None else self.bins + 2)}


@dataclass(frozen=True, kw_only=True)
class Spread(Query):
    """First and second moments of every column around a given centre, for columns whose quartiles coincide."""

    purpose: ClassVar[str] = "spread of columns"
    center: Array

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Σ(x − c), Σ(x − c)², n."""
        width = len(self.center)
        return {"first": (width,), "second": (width,), "rows": ()}
