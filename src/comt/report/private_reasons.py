"""Why the joint model thinks what it thinks of a row: the columns that its opinion rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from comt.report.kinds import column_of

if TYPE_CHECKING:
    import pandas as pd

    from comt.report.private import AgentReport

#: columns named as reasons at most, and the least share of the evidence that one of them must carry
MOST_REASONS, LEAST_REASON = 3, 0.1
#: spreads of the target within which the joint model's expectation is an ordinary value
TYPICAL = 0.5
#: spreads of the target that no single column should move it by
BEYOND_BELIEF = 5.0
LONGEST_TEXT = 120


class Opinions:
    """What each column adds to the joint model's score of each line; features of a category count as their column."""

    def __init__(self, report: AgentReport, table: pd.DataFrame, columns: Sequence[str]) -> None:
        self._report, self._columns = report, columns
        self._names: list[str] = []
        self._effects: NDArray[np.float64] = np.empty((len(table), 0))
        if report.effects is not None:
            owners = [column_of(str(name), columns) for name in report.effects.columns]
            self._names = list(dict.fromkeys(owners))
            single = report.effects.reindex(table["row"]).to_numpy(dtype=np.float64)
            together = [single[:, [owner == name for owner in owners]].sum(axis=1) for name in self._names]
            self._effects = np.column_stack(together) if together else self._effects

    def reasons(self, line: int, suggested: Any) -> list[str]:
        """Return the columns that speak most for what the joint model says."""
        effects, report = self._effects[line], self._report
        if not np.isfinite(effects).all():
            return []
        direction = float(np.sign(effects.sum()))
        if report.task == "classification":
            direction = 1.0 if len(report.classes) and suggested == cell(report.classes[-1]) else -1.0
        elif abs(effects.sum()) < TYPICAL * self._target_spread:
            return []  # such a row is expected to be ordinary: no column stands out
        speaking = np.maximum(direction * effects, 0.0)
        best = [i for i in np.argsort(-speaking)[:MOST_REASONS] if speaking[i] > LEAST_REASON * speaking.sum()]
        return [self._names[i] for i in best if self._names[i] in self._columns]

    def look_at(self, line: int) -> str:
        """Return the column that alone moves the expected target beyond belief: rather that cell is wrong, then."""
        effects = self._effects[line]
        if self._report.task == "classification" or not effects.size or not np.isfinite(effects).all():
            return ""
        largest = int(np.argmax(np.abs(effects)))
        return self._names[largest] if abs(effects[largest]) > BEYOND_BELIEF * self._target_spread else ""

    @property
    def _target_spread(self) -> float:
        return self._report.spreads.get(self._report.target, math.inf)


def cell(value: Any) -> Any:
    """Return a value of a table as JSON knows it: true, false, a number, text, or nothing."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else str(value)
    text = str(value)
    if text in ("NaT", "<NA>"):
        return None
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"
