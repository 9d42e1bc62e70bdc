"""What a site keeps of a training, for its owner's eyes only: the model, the issue table, a report to open in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from comt.agent.agent import Agent
from comt.agent.findings import column_findings
from comt.agent.formats import rows_of
from comt.agent.gaps import table_of
from comt.agent.inspection import inspect_first
from comt.agent.joining import Task, worth_joining
from comt.agent.private import write_private, write_table
from comt.agent.sampling import rows_at, spread_sample
from comt.agent.simple_issues import classification_issues, regression_issues
from comt.model_file import TaughtModel, load
from comt.report.private import AgentReport, write_agent_report
from comt.report.private_page import rows_to_show

if TYPE_CHECKING:
    from comt.agent.site_config import SiteConfig

MODEL, ISSUES, REPORT = "model.json", "issues.csv", "report.html"
#: rows that columns are judged by at most
JUDGED_BY = 100_000
#: what the report says about what to do next
NEXT = (
    "Correct what is wrong in your own file and mark the rows as verified there: in the next training they are trusted."
)


def write_results(
    folder: Path, agent: Agent, config: SiteConfig, *, training: str, model: str, residual_size: float
) -> int:
    """Write everything into a private folder; return how many rows look wrong."""
    write_private(folder / MODEL, model.encode())
    taught = load(folder / MODEL)
    issues = _issues(agent, taught, residual_size)
    write_table(issues.drop(columns="agent"), folder / ISSUES)
    write_agent_report(folder / REPORT, _report(agent, config, taught, issues, training))
    return int(issues["flagged"].sum())


def _issues(agent: Agent, model: TaughtModel, residual_size: float) -> pd.DataFrame:
    """Return one line per unverified row, worst first; rows are numbered as in the file."""
    if model.classes is None:
        issues = regression_issues(agent, model.preparation, model.theta, residual_size)
    else:
        issues = classification_issues(agent, model.preparation, model.theta, model.classes)
    issues["row"] = table_of(agent).positions()
    return issues.sort_values("score", ascending=False, kind="stable", ignore_index=True)


def _report(agent: Agent, config: SiteConfig, model: TaughtModel, issues: pd.DataFrame, training: str) -> AgentReport:
    rows, preparation = table_of(agent), model.preparation
    names: Sequence[str] = agent.columns
    inspect = inspect_first(issues)
    shown = rows_to_show(issues, inspect)
    features, _ = rows_at(rows, np.searchsorted(rows.positions(), shown))
    width = len(names)
    effects = preparation.features(features)[:, :width] * model.theta[:width] * float(preparation.target_scale)
    task: Task = "regression" if model.classes is None else "classification"
    joint = model.preparation.predict(rows.trusted()[0], model.theta, model.coef, model.intercept)
    sample = spread_sample(rows, JUDGED_BY)[0]
    scale = {name: float(value) for name, value in zip(names, preparation.scale, strict=True)}
    return AgentReport(
        agent=agent.name,
        run=training,
        task=task,
        target=config.target,
        issues=issues,
        rows=_as_given(config, shown),
        trusted_rows=rows.n_trusted,
        classes=model.classes or (),
        features=() if rows.schema is None else rows.schema.names,
        joining=worth_joining(rows, np.asarray(joint), task=task, held_out=False),
        columns=column_findings(sample, names, preparation.center, preparation.scale, issues, rows.trusted()[0]),
        inspect=inspect,
        spreads={**scale, config.target: float(preparation.target_scale)},
        effects=pd.DataFrame(effects, index=shown, columns=list(names)),
        notes=[NEXT, *_privacy(agent)],
    )


def _privacy(agent: Agent) -> list[str]:
    """Say what noisy answers have cost so far."""
    if agent.accountant is None or agent.noise is None:
        return []
    return [
        f"Differential privacy: all {agent.accountant.rounds} noisy answers of this site so far cost ε = "
        f"{agent.accountant.epsilon():.3g} at δ = {agent.noise.delta:g}, for one row more or less. At ε = "
        f"{agent.noise.max_epsilon:g} the site answers no more."
    ]


def _as_given(config: SiteConfig, shown: NDArray[np.int64]) -> pd.DataFrame:
    found: pd.DataFrame = rows_of(config.data, shown.tolist(), target=config.target)
    return found.reindex(shown)
