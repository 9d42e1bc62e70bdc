"""From a fitted estimator to its reports: the place that holds both sides gathers what each report may show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    Choice,
    ColumnSummary,
    SelectionPoint,
    write_aggregate_report,
)
from comt.report.private import AgentReport, Joining, write_agent_report
from comt.report.private_page import rows_to_show
from comt.used_rows import used_rows
from comt.validation import HeldOut, held_out, suspects

if TYPE_CHECKING:
    import pandas as pd

#: gives an agent's rows as its file has them, by agent and row numbers, indexed by the latter
RowReader = Callable[[str, NDArray[np.int64]], "pd.DataFrame"]
#: rows that columns are judged by at most
JUDGED_BY = 100_000
REPORT = "report.html"
#: cells in all up to which changes of single features are asked for: the table has one more column per feature then
CHANGES_TO = 5_000_000


@dataclass(frozen=True, kw_only=True)
class Told:
    """What only whoever started the training can tell a report."""

    #: identifies the run
    run: str = "in this process"
    #: name of the predicted column
    target: str = "target"
    #: gives rows as their owner knows them; None: the features as they were fitted
    rows: RowReader | None = None
    #: how columns became features; (): all are numbers
    columns: Sequence[ColumnSummary] = ()
    #: missing values by agent
    missing: Mapping[str, int] = field(default_factory=dict)
    seconds: float | None = None
    #: sentences to show to everybody
    notes: Sequence[str] = ()


def write_reports(
    model: Any,
    folder: str | Path,
    told: Told | None = None,
    *,
    held: HeldOut | None = None,
    validate: bool = True,
    issues: pd.DataFrame | None = None,
    say: Callable[[str], None] = lambda now: None,
) -> None:
    """Write ``report.html`` for everybody, and ``<agent>/report.html`` for the eyes of each agent.

    Parameters
    ----------
    model:
        A :class:`~comt.estimators.CoMTRegressor` or :class:`~comt.estimators.CoMTClassifier` that was fitted in this process.
    folder:
        Made if it is missing, and so are the agents' folders in it, readable by their owner only.
    told:
        Names, and where to find the rows as their owners know them.
    held:
        What :func:`comt.validation.held_out` found, if it was asked already.
    validate:
        Otherwise: whether to train again without each fold of the trusted rows, so that models are compared on rows they
        did not see.
    issues:
        The model's issue table, if it was made already; with the changes of single features these are shown, too.
    say:
        Is told what is being done.
    """
    agents, told, folder = _agents(model), told or Told(), Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"folder {folder} is a file; give a folder, or a new name.")
    for agent in agents:
        if agent.name in ("", ".", "..", REPORT) or set(agent.name) & set("/\\\0"):
            raise InputError(
                f"agent {agent.name!r} is no name for a folder of its report; call it otherwise in agents."
            )
    folder.mkdir(parents=True, exist_ok=True)
    if held is None and validate:
        say("training again without some of the trusted rows")
        held = held_out(model, agents)
    if held is not None and held.note:
        told = replace(told, notes=tuple(dict.fromkeys((*told.notes, held.note))))
    if issues is None:
        say("looking for rows that look wrong")
        issues = model.issues(changes=shows_changes(agents))
    for agent in agents:
        say(f"writing the report of {agent.name}")
        private = folder / agent.name
        private.mkdir(mode=0o700, exist_ok=True)
        write_agent_report(private / REPORT, agent_report(model, agent, issues, told, held))
    say("comparing with simpler models")
    compared = None if held is None else compare(model, agents, held)
    write_aggregate_report(folder / REPORT, aggregate_report(model, issues, told, compared))


def shows_changes(agents: Sequence[Agent]) -> bool:
    """Whether the table of all rows is small enough for one more column per feature."""
    return sum(agent.rows.n_rows for agent in agents) * len(agents[0].columns) <= CHANGES_TO


def agent_report(
    model: Any, agent: Agent, issues: pd.DataFrame, told: Told, held: HeldOut | None = None, budget: int = 40
) -> AgentReport:
    """Gather what one agent's private report shows; ``issues`` is the model's table, of all agents or of this one."""
    import pandas as pd

    preparation, place = model._training.preparation, [other.name for other in _agents(model)].index(agent.name)
    table = issues[issues["agent"] == agent.name].reset_index(drop=True)
    positions = np.asarray(model._positions[place])
    if "used" not in table.columns:
        table["used"] = pd.Series(_used(model, agent, positions), index=positions).reindex(table["row"]).to_numpy()
    inspect = inspect_first(table, budget)
    shown = rows_to_show(table, inspect)
    order = np.argsort(positions)
    features, targets = rows_at(agent.rows, order[np.searchsorted(positions, shown, sorter=order)])
    effects = preparation.features(features)[:, : len(agent.columns)] * model.theta_[: len(agent.columns)]
    sample = spread_sample(agent.rows, JUDGED_BY)[0]
    center, scale = _center_and_scale(preparation, sample)
    joining = _joining(model, agent, held)
    names = list(agent.columns)
    return AgentReport(
        agent=agent.name,
        run=told.run,
        task=_task(model),
        target=told.target,
        issues=table,
        rows=_as_fitted(model, agent, features, targets, shown, told.target)
        if told.rows is None
        else told.rows(agent.name, shown),
        trusted_rows=len(agent.rows.trusted()[1]),
        classes=_classes(model),
        features=tuple(column.column for column in told.columns) or agent.columns,
        trusted_suspects=_suspects(model, agent, held),
        joining=joining,
        columns=column_findings(sample, names, center, scale, table, agent.rows.trusted()[0]),
        inspect=inspect,
        spreads={**dict(zip(names, scale.tolist(), strict=True)), told.target: float(preparation.target_scale)},
        effects=pd.DataFrame(effects * float(preparation.target_scale), index=shown, columns=names),
        notes=told.notes,
    )


def aggregate_report(
    model: Any, issues: pd.DataFrame, told: Told, compared: Comparison | None = None
) -> AggregateReport:
    """Gather what the report for everybody shows: counts, scores, totals of ledgers."""
    agents = _agents(model)
    flagged = issues.groupby("agent")["flagged"].sum().to_dict()
    used = {
        agent.name: int(_used(model, agent, np.asarray(rows)).sum())
        for agent, rows in zip(agents, model._positions, strict=True)
    }
    chosen = getattr(model, "choice_", None)
    weights = {} if chosen is None else dict(zip(chosen.agents, chosen.belief.tolist(), strict=True))
    readings = {} if chosen is None else {name: chosen.reading(name) for name in chosen.agents}
    plain = [
        ColumnSummary(column=name, kind="number", coefficient=float(value))
        for name, value in zip(agents[0].columns, np.ravel(model.coef_), strict=True)
    ]
    return AggregateReport(
        run=told.run,
        task=_task(model),
        target=told.target,
        agents=[
            replace(
                _summary(agent, int(flagged.get(agent.name, 0)), used[agent.name], told.missing.get(agent.name, 0)),
                weight=weights.get(agent.name),
                reading=readings.get(agent.name, ""),
            )
            for agent in agents
        ],
        rounds=model.n_rounds_,
        certificate=model.certificate_,
        tol=model.tol,
        history=model.history_,
        curve=[
            SelectionPoint(rule=point.rule, fraction=point.fraction, score=point.score)
            for point in model.selection_curve_
        ],
        selected_fraction=float(model.selected_fraction_),
        comparison={} if compared is None else compared.scores,
        metric=METRICS[_task(model)],
        best="" if compared is None else compared.best,
        comparison_rows=0 if compared is None else compared.rows,
        held_out=compared is not None,
        choices=[]
        if chosen is None
        else [Choice(choice=line.candidate, score=-line.loss, weight=line.share) for line in chosen.lines],
        choice_reason="" if chosen is None else chosen.sentence,
        columns=told.columns or plain,
        settings={
            name: str(value)
            for name, value in model.get_params().items()
            if value is not None and name not in ("verbose", "warm_start")
        },
        notes=told.notes,
        seconds=told.seconds,
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


def _as_fitted(
    model: Any, agent: Agent, features: Array, targets: Array, shown: NDArray[np.int64], target: str
) -> pd.DataFrame:
    """Return rows as the estimator was given them, the target included."""
    import pandas as pd

    table = pd.DataFrame(features, index=shown, columns=list(agent.columns))
    classes = _classes(model)
    table[target] = np.array(classes)[(targets > 0).astype(int)] if classes else targets
    return table


def _classes(model: Any) -> tuple[Any, ...]:
    return tuple(getattr(model, "classes_", ()))


def _suspects(model: Any, agent: Agent, held: HeldOut | None) -> pd.DataFrame | None:
    """Return the trusted rows that look wrong, where it is known which rows of the file they are."""
    places = getattr(agent.rows, "trusted_places", None)
    return None if held is None or places is None else suspects(held, agent.name, places, _classes(model))


def _joining(model: Any, agent: Agent, held: HeldOut | None) -> Joining:
    """Compare the joint model with the agent's own on trusted rows that are a fair sample."""
    if held is None:
        return worth_joining(agent.rows, _joint(model, agent), task=_task(model), held_out=False)
    fair = held.scored[agent.name]
    rows = agent.with_trusted(fair).rows
    return worth_joining(rows, held.predicted[agent.name][fair], task=_task(model), held_out=True)


def _used(model: Any, agent: Agent, positions: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which of an agent's unverified rows were learnt from."""
    if hasattr(model, "selected_"):
        chosen: NDArray[np.bool_] = model.selected_[positions]
        return chosen
    return used_rows(agent, model._training)


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
