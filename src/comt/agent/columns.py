"""What one column of an agent's file holds, found in one pass: kind, levels with their counts, missing cells."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from comt.declaration import MAX_LEVELS, OFTEN_MISSING, DeclaredColumn
from comt.errors import InputError
from comt.schema import Cells, Level, texts

#: different levels that are counted at most; a column with more is no category
COUNTED = 20_000
#: a column looks like an identifier if all of its first rows differ, and there are at least so many
LOOKED_AT, ENOUGH = 10_000, 30


class ColumnScan:
    """What is known about a column so far.

    Parameters
    ----------
    name:
        Its name.
    numeric:
        Whether its cells are numbers.
    category:
        Whether it is a category: of text always, of numbers where the user says so.
    """

    def __init__(self, name: str, *, numeric: bool, category: bool) -> None:
        self.name, self.numeric, self.category = name, numeric, category
        self.rows = self.missing = 0
        self.infinite: int | None = None
        self.counts: Counter[Level] = Counter()
        self._first: list[NDArray[Any]] = []
        self._looked = 0

    def add(self, cells: Cells) -> None:
        """Look at some more rows."""
        empty = pd.isna(cells)
        if self.numeric and self.infinite is None and np.isinf(cells).any():
            self.infinite = self.rows + int(np.argmax(np.isinf(cells)))
        self.rows += len(cells)
        self.missing += int(np.count_nonzero(empty))
        if self._looked < LOOKED_AT:
            self._first.append(cells[~empty][: LOOKED_AT - self._looked])
            self._looked += len(self._first[-1])
        if self.category and len(self.counts) < COUNTED:
            codes, levels = pd.factorize(cells[~empty])
            self.counts.update(dict(zip(levels.tolist(), np.bincount(codes).tolist(), strict=True)))

    @property
    def identifier(self) -> bool:
        """Whether all values differ and are text or whole numbers."""
        values = np.concatenate(self._first) if self._first else np.empty(0)
        if len(values) < ENOUGH or len(pd.unique(values)) < len(values):
            return False
        return not self.numeric or bool((values == np.floor(values)).all())

    def declared(self, min_count: int) -> DeclaredColumn:
        """Return what may be said about the column."""
        often = self.missing >= max(min_count, OFTEN_MISSING * self.rows)
        if self.missing == self.rows:
            return DeclaredColumn(self.name, "empty", often_missing=often, fewest_rows=self.rows)
        if not self.category:
            return DeclaredColumn(self.name, "number", often_missing=often, fewest_rows=self.rows)
        common = [(level, count) for level, count in self.counts.most_common(MAX_LEVELS) if count >= min_count]
        return DeclaredColumn(
            self.name,
            "category",
            levels=tuple(sorted(level for level, _ in common)),
            fewest_rows=min((count for _, count in common), default=self.rows),
            often_missing=often,
        )


def cells_of(column: pa.Array, *, numeric: bool, name: str, file: str) -> Cells:
    """Return a column of a batch as floats (NaN: missing) or as text (None: missing)."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if numeric:
        if not is_number(kind):
            raise InputError(f"{file}: column '{name}' is of type {kind} where numbers are needed; write numbers.")
        if pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
            column = column.cast(pa.float64())
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    if pa.types.is_boolean(kind):
        return texts(column.to_pylist())
    if is_number(kind):
        return texts(np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64))
    found: Cells = column.to_numpy(zero_copy_only=False)
    empty = found == ""
    if empty.any():
        found = found.copy()
        found[empty] = None
    return found


def is_number(kind: pa.DataType) -> bool:
    """Whether Arrow's type is one of numbers (true and false are 1 and 0; an empty column may be anything)."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in tests)


def is_text(kind: pa.DataType) -> bool:
    """Whether Arrow's type is one of text."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
