"""From a plan to a trained model: open the files, agree on columns, infer the task, fit, score on rows left out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from comt.cli.progress import stage, training_bar
from comt.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from comt.agent import Agent, TableRows
    from comt.agent.tables import Verdict
    from comt.model_file import TaughtModel
    from comt.runs import Plan
    from comt.schema import Schema
    from comt.validation import HeldOut


@dataclass
class Trained:
    """Everything that came out of a training; sees both sides, as the command line does."""

    model: Any
    agents: list[Agent]
    tables: dict[str, TableRows]
    schema: Schema
    task: str
    reason: str
    issues: pd.DataFrame
    held_out: HeldOut | None
    seconds: float
    notes: list[str] = field(default_factory=list)

    @property
    def classes(self) -> tuple[Any, ...]:
        """The two labels, or none."""
        return tuple(getattr(self.model, "classes_", ()))

    def suspects(self, agent: str) -> pd.DataFrame:
        """Return the trusted rows of an agent that look wrong themselves."""
        from comt.validation import suspects

        return suspects(self.held_out, agent, self.tables[agent].trusted_places, self.classes)


def train_plan(
    plan: Plan,
    parameters: Mapping[str, Any],
    *,
    verdicts: Mapping[str, Mapping[int, Verdict]] | None = None,
    before: TaughtModel | None = None,
    transcript: Path | None = None,
) -> Trained:
    """Train; ``before`` is a model of the same files whose schema is kept and from which the solver starts.

    What a coordinator would see of it is kept in the file ``transcript``, if one is given.
    """
    from comt import CoMTClassifier, CoMTRegressor
    from comt.federation.transcript import Transcript
    from comt.reporting import shows_changes
    from comt.validation import held_out

    start = monotonic()
    with stage("reading and checking the files") as say:
        agents, tables = open_agents(plan, verdicts or {}, say)
        task, reason = infer_task(plan, list(tables.values()))
        say("agreeing on columns")
        schema = agree(plan, agents) if before is None or before.schema is None else before.schema
        for table in tables.values():
            table.use_schema(schema)
    model = (CoMTRegressor if task == "regression" else CoMTClassifier)(**parameters)
    if before is not None:
        model.set_params(warm_start=True)
        model.theta_, model.r_ = before.theta, before.r
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with training_bar(model.tol):
            model.fit_agents(agents, transcript=None if transcript is None else Transcript(transcript))
        seconds = monotonic() - start
        with stage("looking for rows that look wrong"):
            issues = model.issues(changes=shows_changes(agents))
        with training_bar(model.tol, "scoring on rows left out"):
            held = held_out(model, agents)
    notes = list(dict.fromkeys([*column_notes(plan, tables, schema), *(str(warning.message) for warning in caught)]))
    if held is not None and held.note:
        notes.append(held.note)
    if not any(table.n_trusted for table in tables.values()):
        notes.insert(0, _no_trusted(plan))
    return Trained(model, agents, tables, schema, task, reason, issues, held, seconds, notes)


def open_agents(
    plan: Plan, verdicts: Mapping[str, Mapping[int, Verdict]], say: Callable[[str], None]
) -> tuple[list[Agent], dict[str, TableRows]]:
    """Open every file, in the order given, and say which one is being read."""
    from comt.agent import Agent, TableRows

    tables = {}
    for source in plan.sources:
        say(f"reading and checking {source.path.name}")
        tables[source.agent] = TableRows(
            source.path,
            target=plan.target,
            trusted=plan.trusted,
            drop=plan.drop,
            categorical=plan.categorical,
            trusted_path=source.trusted_path,
            verdicts=verdicts.get(source.agent),
        )
    if not any(table.n_rows for table in tables.values()):
        raise InputError("every row is trusted, so there is none to teach; add unverified rows.")
    return [Agent(name, table) for name, table in tables.items()], tables


def agree(plan: Plan, agents: Sequence[Agent]) -> Schema:
    """Have the agents agree on columns, categories and what missing values become."""
    from comt.declaration import Declare
    from comt.federation import LocalFederation
    from comt.server.schema import agree_on_schema

    federation = LocalFederation(agents)
    with federation.open():
        return agree_on_schema(
            federation,
            Declare(min_count=plan.min_count),
            target=plan.target,
            first=agents[0].name,
            categorical=plan.categorical,
        )


def infer_task(plan: Plan, tables: Sequence[TableRows]) -> tuple[str, str]:
    """Return the task and why it is that one."""
    target, labels = plan.target, set()
    kinds: dict[type, str] = {}
    for table in tables:
        labels |= table.labels
        for label in table.labels:
            kinds.setdefault(type(label), table.path.name)
    if len(kinds) > 1:
        names = " and ".join(f"{kind.__name__} in {file}" for kind, file in kinds.items())
        raise InputError(f"the target '{target}' is of different kinds ({names}); write it alike in all files.")
    (kind,) = kinds
    if kind not in (str, bool, float):
        raise InputError(f"the target '{target}' is of type {kind.__name__}; give numbers, or two labels as text.")
    if len(labels) == 1:
        raise InputError(f"the target '{target}' is {labels.pop()!r} in every row; give rows that differ in it.")
    numeric = kind is float
    if plan.task == "regression" and not numeric:
        raise InputError(f"the target '{target}' holds no numbers, as --task regression needs; give numbers.")
    if plan.task == "regression" or (plan.task is None and numeric and len(labels) > 2):
        return "regression", "given" if plan.task else f"'{target}' holds more than two different numbers"
    if len(labels) > 2:
        found = f"{len(labels)} labels" if not numeric else "more than two different numbers"
        raise InputError(f"the target '{target}' holds {found} where a classification needs two; merge them into two.")
    return "classification", "given" if plan.task else f"'{target}' holds two different values"


def column_notes(plan: Plan, tables: Mapping[str, TableRows], schema: Schema) -> list[str]:
    """Say what happened to columns that did not simply pass."""
    notes = []
    for name in next(iter(tables.values())).scans:
        scans = {agent: table.scans[name] for agent, table in tables.items() if name in table.scans}
        if name not in schema.names:
            notes.append(f"column '{name}' has no values at all and is not used.")
            continue
        column = schema.columns[schema.names.index(name)]
        if all(scan.identifier for scan in scans.values()):
            used = (
                "it is used as a number"
                if column.kind == "number"
                else "no category of it is shared, so it is not used"
            )
            notes.append(
                f"column '{name}' looks like an identifier (no value occurs twice; {used}); leave it out with --drop {name}."
            )
        elif column.kind == "category" and not column.features:
            notes.append(
                f"column '{name}' has no category with at least {plan.min_count} rows at one agent and is not used."
            )
    return notes


def _no_trusted(plan: Plan) -> str:
    if plan.trusted is None:
        return "no trusted column was given (--trusted), so the model learns from buggy rows alone."
    return f"no row is trusted ('{plan.trusted}' is nowhere true), so the model learns from buggy rows alone."
