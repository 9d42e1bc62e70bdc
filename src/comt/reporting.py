"""From a fitted estimator to its reports: the place that holds both sides gathers what each report may show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from comt.agent import Agent
from comt.agent.findings import column_findings
from comt.agent.inspection import inspect_first
from comt.agent.joining import METRICS, Task, worth_joining
from comt.agent.sampling import rows_at, spread_sample
from comt.comparison import Comparison, compare
from comt.errors import InputError
from comt.problem import Array
from comt.report.aggregate import (
    AgentSummary,
    AggregateReport,
    ColumnSummary,
    SelectionPoint,
    write_aggregate_report,
)
from comt.report.private import AgentReport, write_agent_report
from comt.report.private_page import rows_to_show

if TYPE_CHECKING:
    import pandas as pd

#: gives an agent's rows as its file has them, by agent and row numbers, indexed by the latter
RowReader = Callable[[str, NDArray[np.int64]], "pd.DataFrame"]
#: rows that columns are judged by at most
JUDGED_BY = 100_000
REPORT = "report.html"


def write_reports(
    model: Any,
    folder: str | Path,
    *,
    run: str = "in this process",
    target: str = "target",
    rows: RowReader | None = None,
    cross_validate: bool = True,
) -> None:
    """Write ``report.html`` for everybody, and ``<agent>/report.html`` for the eyes of each agent.

    Parameters
    ----------
    model:
        A :class:`~comt.CoMTRegressor` or :class:`~comt.CoMTClassifier` that was fitted in this process.
    folder:
        An existing folder; the agents' folders in it are made if they are missing, readable by their owner only.
    run, target:
        Names of the run and of the predicted column.
    rows:
        Gives the rows to show as their owner knows them; by default the features as they were fitted.
    cross_validate:
        Train again without each fifth of the trusted rows, to compare models on rows that they did not see.
    """
    found = compare(model, _agents(model)) if cross_validate else None
    issues = model.issues()
    for agent in _agents(model):
        private = Path(folder) / agent.name
        private.mkdir(mode=0o700, exist_ok=True)
        own = agent_report(model, agent, issues=issues, run=run, target=target, rows=rows, compared=found)
        write_agent_report(private / REPORT, own)
    whole = aggregate_report(model, issues=issues, run=run, target=target, compared=found)
    write_aggregate_report(Path(folder) / REPORT, whole)


def agent_report(
    model: Any,
    agent: Agent,
    *,
    issues: pd.DataFrame,
    run: str,
    target: str,
    rows: RowReader | None = None,
    compared: Comparison | None = None,
    budget: int = 40,
    notes: Sequence[str] = (),
) -> AgentReport:
    """Gather what one agent's private report shows; ``issues`` is the model's table (of all agents, or of this one)."""
    import pandas as pd

    training, place = model._training, [other.name for other in _agents(model)].index(agent.name)
    table = issues[issues["agent"] == agent.name].reset_index(drop=True)
    positions = np.asarray(model._positions[place])
    if "used" not in table.columns:
        table["used"] = pd.Series(_used(model, agent, positions), index=positions).reindex(table["row"]).to_numpy()
    inspect = inspect_first(table, budget)
    shown = rows_to_show(table, inspect)
    order = np.argsort(positions)
    places = order[np.searchsorted(positions, shown, sorter=order)]
    features = rows_at(agent.rows, places)
    effects = training.preparation.features(features)[:, : len(agent.columns)] * model.theta_[: len(agent.columns)]
    effects *= training.preparation.target_scale
    sample = spread_sample(agent.rows, JUDGED_BY)[0]
    center, scale = _center_and_scale(training.preparation, sample)
    joint = _joint(model, agent) if compared is None else compared.joint[agent.name]
    return AgentReport(
        agent=agent.name,
        run=run,
        task=_task(model),
        target=target,
        issues=table,
        rows=pd.DataFrame(features, index=shown, columns=list(agent.columns))
        if rows is None
        else rows(agent.name, shown),
        trusted_rows=len(agent.rows.trusted()[1]),
        classes=tuple(getattr(model, "classes_", ())),
        features=() if rows is None else agent.columns,
        joining=worth_joining(agent.rows, joint, task=_task(model), held_out=compared is not None),
        columns=column_findings(sample, agent.columns, center, scale, table),
        inspect=inspect,
        spreads={**dict(zip(agent.columns, scale.tolist(), strict=True)), target: training.preparation.target_scale},
        effects=pd.DataFrame(effects, index=shown, columns=list(agent.columns)),
        notes=notes,
    )


def aggregate_report(
    model: Any,
    *,
    issues: pd.DataFrame,
    run: str,
    target: str,
    compared: Comparison | None = None,
    columns: Sequence[ColumnSummary] = (),
    missing: Mapping[str, int] | None = None,
    seconds: float | None = None,
    notes: Sequence[str] = (),
) -> AggregateReport:
    """Gather what the report for everybody shows: counts, scores, totals of ledgers.

    ``columns`` and ``missing`` (values, by agent) come from whoever read the files; without them columns are numbers.
    """
    flagged = issues.groupby("agent")["flagged"].sum().to_dict()
    positions = zip(_agents(model), model._positions, strict=True)
    used = {agent.name: int(_used(model, agent, np.asarray(rows)).sum()) for agent, rows in positions}
    coefficients = np.ravel(model.coef_)
    plain = [
        ColumnSummary(column=name, kind="number", coefficient=float(value))
        for name, value in zip(_agents(model)[0].columns, coefficients, strict=True)
    ]
    return AggregateReport(
        run=run,
        task=_task(model),
        target=target,
        agents=[
            _summary(agent, int(flagged.get(agent.name, 0)), used[agent.name], (missing or {}).get(agent.name, 0))
            for agent in _agents(model)
        ],
        rounds=model.n_rounds_,
        certificate=model.certificate_,
        tol=model.tol,
        history=model.history_,
        curve=[
            SelectionPoint(
                rule=point.rule,
                fraction=point.fraction,
                score=point.score,
                loss=point.loss,
                loss_error=point.loss_error,
            )
            for point in model.selection_curve_
        ],
        selected_fraction=float(model.selected_fraction_),
        comparison={} if compared is None else compared.scores,
        metric=METRICS[_task(model)],
        best="" if compared is None else compared.best,
        comparison_rows=0 if compared is None else compared.rows,
        held_out=compared is not None,
        columns=columns or plain,
        settings={
            name: str(value)
            for name, value in model.get_params().items()
            if value is not None and name not in ("verbose", "warm_start")
        },
        notes=notes,
        seconds=seconds,
    )


def _agents(model: Any) -> list[Agent]:
    check_is_fitted(model, "theta_")
    if not hasattr(model, "_agents"):
        raise InputError(
            "reports need the training rows, which are not stored with a model; fit again in this process."
        )
    agents: list[Agent] = model._agents
    return agents


def _task(model: Any) -> Task:
    return "regression" if getattr(model, "classes_", None) is None else "classification"


def _used(model: Any, agent: Agent, positions: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which of an agent's unverified rows were learnt from."""
    if hasattr(model, "selected_"):
        chosen: NDArray[np.bool_] = model.selected_[positions]
        return chosen
    training = model._training
    if training.selected is None:
        return np.ones(agent.rows.n_rows, dtype=bool)
    problem, preparation, solution = training.problem, training.preparation, training.solution
    threshold = float(training.selected.threshold)
    if training.selected.rule == "alpha":
        return np.abs(agent.alphas(problem, preparation, solution.r)) >= threshold
    return agent.losses(problem, preparation, solution.theta) < threshold


def _joint(model: Any, agent: Agent) -> Array:
    """Return what the model says of an agent's trusted rows, which it has seen."""
    preparation = model._training.preparation
    scores: Array = preparation.features(agent.rows.trusted()[0]) @ model.theta_
    if _task(model) == "classification":
        return scores
    return scores * float(preparation.target_scale) + float(preparation.target_center)


def _center_and_scale(preparation: Any, sample: Array) -> tuple[Array, Array]:
    """Return what all agents agreed on; if they agreed on nothing (``standardize=False``), this agent's own."""
    if not preparation.trivial and (preparation.scale != 1.0).any():
        return preparation.center, preparation.scale
    if not len(sample):
        return preparation.center, preparation.scale
    return np.median(sample, axis=0), np.std(sample, axis=0)


def _summary(agent: Agent, flagged: int, used: int, missing: int) -> AgentSummary:
    sent: Counter[str] = Counter()
    for entry in agent.ledger:
        sent[entry.purpose] += entry.bytes
    rows = agent.rows.n_rows
    return AgentSummary(
        name=agent.name,
        rows=rows,
        trusted_rows=len(agent.rows.trusted()[1]),
        flagged=flagged,
        used=used,
        reliability=1.0 - flagged / rows if rows else None,
        sent=dict(sent),
        arrays=len(agent.ledger),
        fewest_rows=min((entry.rows for entry in agent.ledger if entry.rows), default=None),
        missing=missing,
    )
