"""What the data holder's private report is given. It holds rows: it is made, written and read at the data holder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["joint", "own", "undecided", "too few"]


@dataclass(frozen=True, kw_only=True)
class Joining:
    """Was it worth joining? The agent's own model and the joint one on the agent's own trusted rows.

    Made by :func:`comt.agent.joining.worth_joining`. The own model never saw the rows it is scored on;
    ``held_out`` says whether that is true of the joint one as well.
    """

    #: what is compared, in words: "R²" or "share of right labels"; larger is better
    metric: str
    own: float
    joint: float
    #: how the own model was trained, in words
    own_kind: str
    trusted_rows: int
    held_out: bool
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class ColumnFinding:
    """A column that looks corrupted, in plain words."""

    column: str
    #: "unit", "missing code", "noise", "shift", or what the issue table calls it
    kind: str
    #: rows concerned
    rows: int
    #: one sentence for the data holder
    sentence: str


@dataclass(frozen=True, kw_only=True)
class AgentReport:
    """Everything the private report of one agent shows.

    ``issues`` is the issue table of this agent, one line per unverified row, worst first: ``row``, ``agent``, ``score``,
    ``flagged``, ``given``, ``suggested``; optional are ``kind``, ``column`` (the suspicious one, "" for none), ``used``
    (False: set aside; absent: all were used) and, per feature, ``change <name>`` in the feature's own units.

    ``rows`` are the agent's rows as its file has them (any columns, text included), indexed by the values of
    ``issues["row"]``. It must hold the rows that are shown (``comt.report.private_page.rows_to_show`` names them);
    figures of columns are drawn of those rows that are here.
    """

    agent: str
    #: identifies the run, and goes into the exported review
    run: str
    task: Literal["regression", "classification"]
    target: str
    issues: pd.DataFrame
    rows: pd.DataFrame
    trusted_rows: int
    #: the two labels of a classification; ``()`` for a regression
    classes: Sequence[Any] = ()
    #: columns that the model learns from and a reviewer may correct; ``()``: all of ``rows`` but the target
    features: Sequence[str] = ()
    #: trusted rows that look wrong themselves, in the columns of ``issues``; None or empty: none does
    trusted_suspects: pd.DataFrame | None = None
    joining: Joining | None = None
    columns: Sequence[ColumnFinding] = ()
    #: ``comt.agent.inspection.inspect_first(issues)``: the lines to look at first, with ``drawn``: "worst" or "random"
    inspect: pd.DataFrame | None = None
    #: per column, the target included: what counts as one unit of change (interquartile range or standard deviation)
    spreads: Mapping[str, float] = field(default_factory=dict)
    #: by row, what each feature adds to the joint model's score (log-odds of ``classes[1]``, or target): the reasons given
    effects: pd.DataFrame | None = None
    #: sentences to show as they are: warnings of the training and the like
    notes: Sequence[str] = ()


def write_agent_report(path: str | Path, report: AgentReport) -> None:
    """Write the private report as one HTML file that only its owner can read; it appears whole or not at all."""
    from comt.report.private_page import page
    from comt.writing import write_whole

    write_whole(Path(path), page(report), private=True)
