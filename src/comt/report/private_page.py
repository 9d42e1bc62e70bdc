"""The private report as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from comt.report.private import AgentReport

#: lines of the table at most; the worst are shown, and the page says how many are not
SHOWN = 1000


def rows_to_show(issues: pd.DataFrame, inspect: pd.DataFrame | None = None) -> NDArray[np.int64]:
    """Return which rows the report will show: those to inspect, then the worst."""
    first = [] if inspect is None else inspect["row"].tolist()
    worst = issues["row"].tolist()[:SHOWN]
    return np.array(list(dict.fromkeys([*first, *worst]))[: max(SHOWN, len(first))], dtype=np.int64)


def page(report: AgentReport) -> str:
    """Return the page."""
    raise NotImplementedError
