"""Reports as single HTML files: a private one for each data holder, an aggregate one without any row for everybody.

Two pages, two packages of facts, nothing shared but looks:

* :class:`AgentReport` → :func:`write_agent_report`: shows rows, so it is written readable by its owner only.
* :class:`AggregateReport` → :func:`write_aggregate_report`: counts, sums and scores; has no field that could hold a row.

Pages are given all they show. What is computed from rows (whether joining was worth it, which rows to inspect first, which
columns look corrupted) is computed in :mod:`comt.agent`.
"""

from comt.report.aggregate import (
    AgentSummary,
    AggregateReport,
    Choice,
    ColumnSummary,
    SelectionPoint,
    write_aggregate_report,
)
from comt.report.fragments import issues_html, model_html
from comt.report.private import AgentReport, ColumnFinding, Joining, write_agent_report

__all__ = [
    "AgentReport",
    "AgentSummary",
    "AggregateReport",
    "Choice",
    "ColumnFinding",
    "ColumnSummary",
    "Joining",
    "SelectionPoint",
    "issues_html",
    "model_html",
    "write_agent_report",
    "write_aggregate_report",
]
