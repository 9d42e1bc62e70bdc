"""How the columns of a table become numbers: the server agrees on it, agents apply it, models carry it along.

A number stays a number, and where it is missing it becomes the agreed median. A category becomes one 0/1 feature per
agreed level; rare and unknown levels have none of them set ("other").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from comt.errors import InputError
from comt.problem import Array

Kind = Literal["number", "category"]
Level = str | float
#: the cells of a column: floats (NaN: missing), or text objects (None: missing)
Cells = NDArray[Any]


@dataclass(frozen=True)
class Column:
    """One column of the table and the features it becomes."""

    name: str
    kind: Kind
    #: what a missing number becomes; None: a missing number is refused
    fill: float | None = None
    #: whether a feature of its own says that the cell was empty
    missing_feature: bool = False
    #: the levels of a category that have a feature: all text, or all numbers
    levels: tuple[Level, ...] = ()

    @property
    def numeric(self) -> bool:
        """Whether its cells are numbers, as they are in categories that are coded as numbers, too."""
        return self.kind == "number" or (bool(self.levels) and not isinstance(self.levels[0], str))

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Names of the features, in order."""
        if self.kind == "number":
            names = [self.name]
        else:
            names = [f"{self.name}={as_text(level)}" for level in self.levels]
        return (*names, f"{self.name} is missing") if self.missing_feature else tuple(names)

    def encode(self, cells: Cells, into: Array) -> None:
        """Write the features of some rows into as many columns of an array."""
        if self.kind == "number":
            empty = np.isnan(cells)
            into[:, 0] = cells if self.fill is None else np.where(empty, self.fill, cells)
        else:
            empty = pd.isna(cells)
            into[:] = 0.0
            if self.levels:
                found: NDArray[np.intp] = self._index.get_indexer(cells)
                known = np.flatnonzero((found >= 0) & ~empty)
                into[known, found[known]] = 1.0
        if self.missing_feature:
            into[:, -1] = empty

    @cached_property
    def _index(self) -> Any:
        return pd.Index(np.array(self.levels, dtype=np.float64 if self.numeric else object))


@dataclass(frozen=True)
class Schema:
    """The agreed columns, in order."""

    columns: tuple[Column, ...]
    #: name of the column that is predicted
    target: str = ""
    #: a level of a category was agreed on if one owner has at least so many rows of it
    min_count: int = 1
    #: missing cells over all owners, per column that has any
    missing: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = list(self.features)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"two features would be named '{twice}'; rename that column or the one it collides with.")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Names of the features that the columns become."""
        return tuple(name for column in self.columns for name in column.features)

    @cached_property
    def plain(self) -> bool:
        """Whether every column is a number and nothing more, so that rows may be given as an array."""
        return self.features == self.names and all(column.kind == "number" for column in self.columns)

    def encode(self, cells: Mapping[str, Cells]) -> Array:
        """Return the features of some rows, one row each; a missing number without a fill stays NaN."""
        n_rows = len(cells[self.columns[0].name]) if self.columns else 0
        block = np.empty((n_rows, len(self.features)), order="F")
        start = 0
        for column in self.columns:
            width = len(column.features)
            column.encode(cells[column.name], block[:, start : start + width])
            start += width
        return block

    def cells(self, table: Any) -> dict[str, Cells]:
        """Take the columns out of a pandas or polars table."""
        missing = [name for name in self.names if name not in table.columns]
        if missing:
            raise InputError(f"the table has no columns {missing}, which the model needs; add them.")
        return {column.name: _cells(column, table[column.name]) for column in self.columns}

    def to_json(self) -> dict[str, Any]:
        """Return what goes into a model file."""
        columns: list[dict[str, Any]] = []
        for column in self.columns:
            entry: dict[str, Any] = {"name": column.name, "kind": column.kind}
            if column.kind == "number":
                entry |= {"missing_becomes": column.fill}
            else:
                entry |= {"levels": list(column.levels), "other_levels": "every feature is 0"}
            columns.append(entry | {"missing_feature": column.missing_feature, "features": list(column.features)})
        return {
            "target": self.target,
            "columns": columns,
            "missing_cells": dict(self.missing),
            "fewest_rows_of_a_level": self.min_count,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Schema:
        """Read what :meth:`to_json` wrote; anything else raises ``ValueError``, ``TypeError`` or ``KeyError``."""
        missing = given.get("missing_cells", {})
        if not isinstance(missing, dict) or not all(type(count) is int for count in missing.values()):
            raise TypeError("schema: missing_cells are not counts")
        columns = tuple(_column(entry) for entry in _typed(given, "columns", list))
        if len({column.name for column in columns}) < len(columns):
            raise ValueError("schema: a column occurs twice")
        return cls(columns, _typed(given, "target", str), int(given.get("fewest_rows_of_a_level", 1)), missing)


def as_text(level: Level) -> str:
    """Write a level as text: whole numbers without a point, however the file had them."""
    if isinstance(level, str):
        return level
    number = float(level)
    return str(int(number)) if number.is_integer() else repr(number)


def texts(values: Iterable[Any]) -> NDArray[np.object_]:
    """Return cells as text, None where they are missing or empty."""
    cells = [
        None if value is None or value is pd.NA or value == "" or value != value else cell_text(value)
        for value in values
    ]
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def cell_text(value: Any) -> str:
    """Write a cell that is there as text."""
    if isinstance(value, (bool, np.bool_)):
        return str(value)
    return as_text(float(value)) if isinstance(value, (int, float, np.number)) else str(value)


def _cells(column: Column, values: Any) -> Cells:
    if not column.numeric:
        return texts(np.asarray(values, dtype=object))
    try:
        found = np.asarray(values, dtype=object)
        cells: Cells = np.where(pd.isna(found), np.nan, found).astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"column '{column.name}' does not hold numbers, as it did in training; give numbers."
        ) from None
    infinite = np.isinf(cells)
    if infinite.any():
        raise InputError(
            f"column '{column.name}' is infinite in row {int(np.argmax(infinite))}; give finite numbers, or none."
        )
    return cells


def _typed(given: Any, name: str, kind: type) -> Any:
    if not isinstance(given, dict) or not isinstance(given[name], kind):
        raise TypeError(f"schema: {name} is no {kind.__name__}")
    return given[name]


def _column(entry: Any) -> Column:
    name, kind = _typed(entry, "name", str), _typed(entry, "kind", str)
    missing = _typed(entry, "missing_feature", bool)
    if kind == "number":
        fill = entry["missing_becomes"]
        if fill is not None and (isinstance(fill, bool) or not isinstance(fill, (int, float)) or not isfinite(fill)):
            raise TypeError(f"schema: '{name}' has no number for missing values")
        return Column(name, "number", None if fill is None else float(fill), missing)
    if kind != "category":
        raise ValueError(f"schema: '{name}' is of the unknown kind {kind!r}")
    levels = _typed(entry, "levels", list)
    numbers = all(isinstance(level, (int, float)) and not isinstance(level, bool) for level in levels)
    if not numbers and not all(isinstance(level, str) for level in levels):
        raise TypeError(f"schema: the levels of '{name}' are neither all text nor all numbers")
    return Column(name, "category", None, missing, tuple(float(x) if numbers else x for x in levels))
