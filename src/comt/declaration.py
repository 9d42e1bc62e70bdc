"""What agents say about their tables before anything else, and the questions about columns that still have gaps.

A declaration names columns, and of a category only the levels that enough rows share. It is seen by itself, not as part
of a sum, and entered in the ledger as such.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from comt.queries import Histogram, Query
from comt.schema import Level

#: a level of a category is told from so many rows on
MIN_COUNT = 5
#: levels of one column that an agent tells at most: the most frequent ones
MAX_LEVELS = 100
#: a column with a larger share of missing cells at one agent gets a feature that says so
OFTEN_MISSING = 0.2


@dataclass(frozen=True)
class Declare:
    """Ask every agent for its declaration."""

    purpose: ClassVar[str] = "declaration of columns"
    min_count: int = MIN_COUNT


@dataclass(frozen=True)
class DeclaredColumn:
    """What an agent says about one column."""

    name: str
    #: "empty": no cell has a value
    kind: Literal["number", "category", "empty"]
    #: levels that enough rows have, sorted: their order tells nothing
    levels: tuple[Level, ...] = ()
    #: rows of the rarest level that is told, or of the column
    fewest_rows: int = 0
    #: whether a large share of the cells is missing
    often_missing: bool = False


@dataclass(frozen=True)
class Declaration:
    """What an agent says about its table."""

    agent: str
    columns: tuple[DeclaredColumn, ...]
    #: columns that it does not name are 0 in all its rows (LIBSVM files)
    sparse: bool = False


@dataclass(frozen=True, kw_only=True)
class MissingCells(Query):
    """How many cells of some columns are missing, in all rows, buggy and trusted."""

    purpose: ClassVar[str] = "missing cells of columns"
    columns: tuple[str, ...]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """One count per column, and the number of rows."""
        return {"missing": (len(self.columns),), "rows": ()}


@dataclass(frozen=True, kw_only=True)
class PresentHistogram(Histogram):
    """A histogram of some columns of numbers that leaves missing cells out: the median comes from it."""

    purpose: ClassVar[str] = "histogram of columns with missing cells"
    columns: tuple[str, ...]
