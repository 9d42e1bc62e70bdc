"""The coordinator's report of a training across sites: who took part, what was asked, what came out. No field can hold a row.

Nothing is about one site but its name and whether it stayed: under masks the coordinator knows no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from comt.report import svg
from comt.report.aggregate import Choice, ColumnSummary
from comt.report.page import render


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One question: what it was for, how often it was asked, and how long a round took in the middle, in seconds."""

    purpose: str
    rounds: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class FederationReport:
    """Everything the report shows."""

    #: identifies the training
    run: str
    task: Literal["regression", "classification"]
    target: str
    sites: Sequence[str]
    #: sites that left, and why
    left: Mapping[str, str] = field(default_factory=dict)
    #: sites that are in the model but did not take note of it, and why
    not_informed: Mapping[str, str] = field(default_factory=dict)
    masked: bool
    #: over all sites
    rows: float
    trusted_rows: float
    rounds: int
    #: rounds taken from the checkpoint after an interruption
    replayed: int = 0
    certificate: float
    tol: float
    #: certificates by round of the solver, where it records them
    certificates: Sequence[float] = ()
    seconds: float
    sent: int
    received: int
    asked: Sequence[Asked] = ()
    choices: Sequence[Choice] = ()
    choice_reason: str = ""
    columns: Sequence[ColumnSummary] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    #: "epsilon" and "delta" of a site's noisy answers, the largest of all sites; None: sums were exact
    privacy: Mapping[str, float] | None = None


def write_federation_report(path: str | Path, report: FederationReport) -> None:
    """Write the report as one HTML file; it appears whole or not at all."""
    from comt.writing import write_whole

    write_whole(Path(path), page(report))


def page(report: FederationReport) -> str:
    """Return the page."""
    # on noisy sums no certificate gets small, and none is asked for
    told = len(report.certificates) > 1 and report.privacy is None
    return render(
        "federation.html",
        "",
        report=report,
        convergence=_convergence(report) if told else None,
        missing=sum(column.missing for column in report.columns),
        has_categories=any(column.categories for column in report.columns),
    )


def _convergence(report: FederationReport) -> object:
    rounds = list(range(1, len(report.certificates) + 1))
    described = f"Certificate by round, down to {report.certificate:.1e} after {len(rounds)} rounds of the solver"
    return svg.lines(
        [svg.Line("certificate", rounds, list(report.certificates), "main")],
        "round of the solver",
        described,
        logarithmic=True,
        marked_y=(report.tol, f"asked for: {report.tol:.0e}"),
    )
