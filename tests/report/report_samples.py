"""Small reports with one of everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from comt.agent.inspection import inspect_first
from comt.report import (
    AgentReport,
    AgentSummary,
    AggregateReport,
    Choice,
    ColumnFinding,
    ColumnSummary,
    Joining,
    SelectionPoint,
)

EVIL = '</script><script>document.title="run"</script><img src=x onerror=alert(1)>'


def classification(n_rows: int = 60, **changes: Any) -> AgentReport:
    """Labels; row 7 holds markup, every tenth row is set aside, row 3 has a wrong unit."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "patient": [f"P-{i:04d}" for i in range(n_rows)],
            "height": rng.normal(1.7, 0.1, n_rows).round(2),
            "ward": np.where(np.arange(n_rows) == 7, EVIL, "north"),
            "diagnosis": np.where(np.arange(n_rows) % 2, "ill", "well"),
        }
    )
    score = np.linspace(0.9999, 0.0, n_rows)
    flagged = score > 0.5
    given = rows["diagnosis"].to_numpy()
    issues = pd.DataFrame(
        {
            "row": np.arange(n_rows),
            "agent": "clinic A",
            "score": score,
            "flagged": flagged,
            "given": given,
            "suggested": np.where(flagged, np.where(given == "ill", "well", "ill"), given),
            "kind": "label",
            "column": "",
            "used": np.arange(n_rows) % 10 != 9,
        }
    ).astype({"given": object, "suggested": object})
    # of units, given and suggested are those of the cell
    issues.loc[3, ["kind", "column", "given", "suggested"]] = ["unit", "height", 170.0, 1.7]
    rows.loc[3, "height"] = 170.0
    facts: dict[str, Any] = {
        "agent": "clinic A",
        "run": "run 1",
        "task": "classification",
        "target": "diagnosis",
        "issues": issues,
        "rows": rows,
        "trusted_rows": 12,
        "classes": ("ill", "well"),
        "features": ("height", "ward"),
        "trusted_suspects": issues.head(1).assign(row=999),
        "joining": Joining(
            metric="share of right labels",
            own=0.7,
            joint=0.95,
            own_kind="all your rows",
            trusted_rows=12,
            held_out=True,
            verdict="joint",
        ),
        "columns": [ColumnFinding(column="height", kind="unit", rows=1, sentence="1 value is 100 times as large.")],
        "inspect": inspect_first(issues, 20),
        "spreads": {"height": 0.1},
        "notes": ["A note."],
    }
    return AgentReport(**{**facts, **changes})


def regression(n_rows: int = 50, **changes: Any) -> AgentReport:
    """Targets; the first ten rows are flagged."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"size": rng.normal(0, 1, n_rows), "price": rng.normal(10, 2, n_rows)})
    rows.loc[:9, "price"] = 100.0 + np.arange(10)
    score = np.linspace(1.0, 0.0, n_rows)
    issues = pd.DataFrame(
        {
            "row": np.arange(n_rows),
            "agent": "north",
            "score": score,
            "flagged": np.arange(n_rows) < 10,
            "given": rows["price"],
            "suggested": rows["price"].clip(upper=10.0),
        }
    )
    facts: dict[str, Any] = {
        "agent": "north",
        "run": "run 2",
        "task": "regression",
        "target": "price",
        "issues": issues,
        "rows": rows,
        "trusted_rows": 0,
        "spreads": {"price": 2.0},
    }
    return AgentReport(**{**facts, **changes})


def aggregate(**changes: Any) -> AggregateReport:
    """Two agents, all sections."""
    facts: dict[str, Any] = {
        "run": "run 1",
        "task": "classification",
        "target": "diagnosis",
        "agents": [
            AgentSummary(
                name="A & <B>", rows=100, trusted_rows=5, flagged=7, used=90, reliability=0.93, sent={"sums": 4096}
            ),
            AgentSummary(
                name="C", rows=50, trusted_rows=0, flagged=40, reliability=0.2, sent={"sums": 4096, "counts": 100}
            ),
        ],
        "rounds": 9,
        "certificate": 3e-11,
        "tol": 1e-8,
        "history": [{"certificate": 10.0 ** (-2 * i), "objective": 5 + 10.0 ** (-i)} for i in range(6)],
        "curve": [SelectionPoint(rule="loss", fraction=f / 10, score=0.9 - 0.01 * f) for f in range(1, 11)],
        "selected_fraction": 0.8,
        "comparison": {"joint model": 0.93, "trusted rows only": 0.8, "unverified rows only": 0.7},
        "metric": "share of right labels",
        "comparison_rows": 40,
        "best": "joint model",
        "held_out": True,
        "choices": [
            Choice(choice="sources weighed", score=-12.0, weight=0.8),
            Choice(choice="none", score=-14.0, weight=0.2),
        ],
        "choice_reason": "The trusted rows refute the simple choice.",
        "columns": [
            ColumnSummary(column="height", kind="number", missing=3, coefficient=1.5),
            ColumnSummary(column="ward", kind="categories", categories=("north", "south"), rare=4),
        ],
        "settings": {"lambda_w": "1.0"},
        "notes": ["Agent C has no trusted rows."],
        "seconds": 1.25,
    }
    return AggregateReport(**{**facts, **changes})
