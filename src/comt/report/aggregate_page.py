"""The aggregate report as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from comt.report.aggregate import AggregateReport


def page(report: AggregateReport) -> str:
    """Return the page."""
    raise NotImplementedError
