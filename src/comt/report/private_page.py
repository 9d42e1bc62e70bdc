"""The data holder's private report as a page: figures, and a table to sort, filter, search and decide in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from comt.report import wording
from comt.report.kinds import NAMES, NOT_OF_THE_TARGET
from comt.report.page import LIMIT, embedded, render, source
from comt.report.private_figures import figures, joining_bars
from comt.report.private_lines import check, columns_to_show, lines
from comt.report.private_reasons import cell

if TYPE_CHECKING:
    import pandas as pd

    from comt.report.private import AgentReport

#: lines of the table at most; the worst are shown, and the page says how many are not
SHOWN = 1000
#: columns of the agent's rows that lines carry along at most
COLUMNS = 60
#: of trusted rows that look wrong, and of column findings, at most this many are listed
LISTED = 50


def rows_to_show(issues: pd.DataFrame, inspect: pd.DataFrame | None = None, most: int = SHOWN) -> NDArray[np.int64]:
    """Return which rows the report will show: those to inspect, then the worst."""
    first = [] if inspect is None else inspect["row"].tolist()
    return np.array(list(dict.fromkeys([*first, *issues["row"].tolist()[:most]]))[:most], dtype=np.int64)


def page(report: AgentReport) -> str:
    """Return the page; if it would be too large it shows fewer columns, then fewer lines, and says so."""
    check(report)
    for most, columns in ((SHOWN, COLUMNS), (SHOWN, 20), (SHOWN // 4, 20), (100, 10)):
        text = _page(report, most, columns)
        if len(text.encode()) < LIMIT:
            break
    return text


def _page(report: AgentReport, most: int, most_columns: int) -> str:
    issues = report.issues
    # lists stay as they come, worst first; only the rows to inspect may come from further down
    shown = issues[issues["row"].isin(rows_to_show(issues, report.inspect, most))]
    columns = columns_to_show(report, most_columns)
    drawn = (
        {}
        if report.inspect is None
        else dict(zip(report.inspect["row"].tolist(), report.inspect["drawn"], strict=True))
    )
    data = {
        "agent": report.agent,
        "run": report.run,
        "target": report.target,
        "classes": [cell(name) for name in report.classes],
        "columns": [str(name) for name in columns],
        "editable": [not report.features or name in report.features for name in columns],
        "kinds": NAMES,
        "aside": list(NOT_OF_THE_TARGET),
        "inspect": list(drawn),
        "lines": lines(report, shown, columns, drawn),
    }
    script = source("private.js")
    return render(
        "private.html",
        script,
        report=report,
        data=embedded(data),
        n_rows=len(issues),
        n_shown=len(shown),
        n_flagged=int(issues["flagged"].sum()),
        n_used=int(issues["used"].sum()) if "used" in issues.columns else len(issues),
        n_drawn=len(drawn),
        n_random=sum(1 for how in drawn.values() if how == "random"),
        hidden_columns=len(report.rows.columns) - len(columns) - (report.target in report.rows.columns),
        joining=None if report.joining is None else (*wording.joining(report.joining), joining_bars(report.joining)),
        findings=report.columns[:LISTED],
        suspects=_suspects(report),
        figures=figures(report),
    )


def _suspects(report: AgentReport) -> list[dict[str, Any]]:
    if report.trusted_suspects is None or report.trusted_suspects.empty:
        return []
    table = report.trusted_suspects.head(LISTED)
    found = lines(report, table, [], {})
    return [
        {**line, "given": wording.shown(line["given"]), "suggested": wording.shown(line["suggested"])} for line in found
    ]
