"""The issue table as people see it: a pandas table that shows its worst lines in a notebook."""

from __future__ import annotations

from typing import Any

import pandas as pd

from comt.report.fragments import issues_html


class IssueTable(pd.DataFrame):
    """A table of issues; whatever is cut out of it is one, too, and shows as an ordinary table if it lacks columns.

    Examples
    --------
    >>> table = IssueTable({"row": [3], "score": [0.9], "flagged": [True], "given": [1.0], "suggested": [2.0]})
    >>> "1 of 1 rows look wrong" in table._repr_html_()
    True
    """

    @property
    def _constructor(self) -> Any:
        return IssueTable

    def _repr_html_(self) -> str:
        if {"row", "score", "flagged"} <= set(self.columns) and self.columns.is_unique:
            return issues_html(self)
        shown: str = super()._repr_html_()  # type: ignore[misc]
        return shown
