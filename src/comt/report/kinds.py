"""Kinds of issues, and what the columns "given", "suggested" and "column" of an issue table mean for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

#: what the kinds are called in a report
NAMES = {
    "label": "label",
    "target": "target",
    "feature": "value",
    "agent": "whole source",
    "unit": "unit",
    "missing code": "missing code",
    "duplicate": "copy",
}
#: nothing is suggested about the target
NOT_OF_THE_TARGET = ("unit", "missing code", "feature", "duplicate")
#: one cell is meant; noisy features ("feature") may also be spread over the row
ALWAYS_OF_A_CELL = ("unit", "missing code")


def kinds_of(table: pd.DataFrame, task: str) -> NDArray[np.str_]:
    """Return the kind of every line; tables without kinds speak of targets or labels only."""
    if "kind" in table.columns:
        return table["kind"].astype(str).to_numpy(dtype=np.str_)
    return np.full(len(table), "label" if task == "classification" else "target")


def about_a_cell(table: pd.DataFrame, kinds: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Tell which lines' "given" and "suggested" are those of the first column named, not of the target."""
    named = table["column"].fillna("").ne("").to_numpy() if "column" in table.columns else np.zeros(len(table), bool)
    about: NDArray[np.bool_] = np.isin(kinds, ALWAYS_OF_A_CELL) | (named & (kinds == "feature"))
    return about


def columns_named(text: str, columns: Sequence[str]) -> list[str]:
    """Return the columns that an issue table names, of which there may be several; those of categories by their column.

    >>> columns_named("height, ward=north", ["height", "ward"])
    ['height', 'ward']
    """
    names = [text] if column_of(text, columns) in columns else text.split(", ")
    return [name for name in dict.fromkeys(column_of(name, columns) for name in names) if name in columns]


def column_of(feature: str, columns: Sequence[str]) -> str:
    """Return the column that a feature comes from: "ward" for "ward=north" and "ward is missing".

    >>> column_of("ward=north", ["age", "ward"]), column_of("age is missing", ["age"]), column_of("age", ["age"])
    ('ward', 'age', 'age')
    """
    if feature in columns:
        return feature
    owners = [name for name in map(str, columns) if feature.startswith(f"{name}=") or feature == f"{name} is missing"]
    return max(owners, key=len, default=feature)
