"""What the coordinator's report is given: counts, sums and scores over many rows. No field can hold a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class AgentSummary:
    """One agent in numbers."""

    name: str
    #: unverified rows, trusted rows; of the unverified ones: how many look wrong, how many were learnt from
    rows: int
    trusted_rows: int
    flagged: int
    used: int | None = None
    #: share of its unverified rows that look right, or the method's own estimate, 0 to 1
    reliability: float | None = None
    #: how far the automatic choice believes its rows: 1 fully, 0 not at all, below 0: its labels are reversed
    weight: float | None = None
    #: how they are read, where that is not simply as they are
    reading: str = ""
    #: bytes that left it, by purpose, from its ledger: {"dual sums": 12800, …}
    sent: Mapping[str, int] = field(default_factory=dict)
    #: arrays that left it, and the fewest rows that any number in them sums
    arrays: int = 0
    fewest_rows: int | None = None
    #: values that were missing in its file
    missing: int = 0


@dataclass(frozen=True, kw_only=True)
class SelectionPoint:
    """How well a selected fraction does on held-out trusted rows."""

    rule: str
    fraction: float
    score: float


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One candidate that "auto" weighed, in words, with its score (larger is better) and its weight in the model."""

    choice: str
    score: float
    weight: float


@dataclass(frozen=True, kw_only=True)
class ColumnSummary:
    """How a column entered the model: kind, missing values over all agents, agreed categories."""

    column: str
    #: "number" or "categories"
    kind: str
    missing: int = 0
    #: categories that enough rows have, and how many rows have a rarer one
    categories: Sequence[str] = ()
    rare: int = 0
    coefficient: float | None = None


@dataclass(frozen=True, kw_only=True)
class AggregateReport:
    """Everything the aggregate report shows."""

    run: str
    task: Literal["regression", "classification"]
    target: str
    agents: Sequence[AgentSummary]
    #: rounds in all, the certificate reached and the one asked for
    rounds: int
    certificate: float
    tol: float
    #: ``estimator.history_``: per round, "objective" and "certificate" are drawn if they are there
    history: Sequence[Mapping[str, float]] = ()
    curve: Sequence[SelectionPoint] = ()
    selected_fraction: float = 1.0
    #: score on trusted rows by model, e.g. {"joint model": .93, "trusted rows only": .81, "unverified rows only": .74}
    comparison: Mapping[str, float] = field(default_factory=dict)
    #: the model that does clearly better than the others; "": none does
    best: str = ""
    #: what these scores are, in words, and on how many trusted rows
    metric: str = ""
    comparison_rows: int = 0
    #: whether no model saw the rows it is scored on
    held_out: bool = False
    choices: Sequence[Choice] = ()
    #: one sentence: why "auto" chose so
    choice_reason: str = ""
    columns: Sequence[ColumnSummary] = ()
    #: parameters of the fit as text
    settings: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    seconds: float | None = None


def write_aggregate_report(path: str | Path, report: AggregateReport) -> None:
    """Write the aggregate report as one HTML file; it appears whole or not at all."""
    from comt.report.aggregate_page import page
    from comt.writing import write_whole

    write_whole(Path(path), page(report))
