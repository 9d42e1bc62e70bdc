"""Small pieces of HTML for notebooks: an issue table, a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def issues_html(table: pd.DataFrame) -> str:
    """Return the ten worst lines of an issue table and how many there are, for ``_repr_html_``."""
    raise NotImplementedError


def model_html(title: str, facts: Mapping[str, Any], coefficients: Mapping[str, float] | None = None) -> str:
    """Return a model's facts and its ten largest coefficients, for ``_repr_html_``."""
    raise NotImplementedError
