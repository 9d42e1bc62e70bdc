"""The issue table: what looks wrong in an agent's own rows. It is made at the data holder and stays there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from comt.agent.agent import Agent
from comt.agent.feature_repair import FeatureRepair
from comt.agent.stray_rows import StrayRows, stray_rows
from comt.agent.suspect_cells import CellRepair, ColumnIssue, suspect_columns
from comt.agent.suspect_copies import CONFIDENCE, copied_rows, mark_copies
from comt.agent.suspect_labels import judge_labels
from comt.agent.suspect_targets import judge_targets
from comt.agent.suspect_units import units_that_explain
from comt.agent.target_reading import LabelReading, TargetReading
from comt.issue_context import IssueContext
from comt.preparation import Preparation
from comt.problem import Array

#: rows at or above this score are flagged: at most about one in five of them should be a false alarm
FLAG_AT = 0.8
#: rows from which facts about the agent as a whole are taken
SAMPLE = 20_000
#: share of wrong rows from which on the agent as a whole is wrong
WHOLE_AGENT = 0.9
#: mean score from which on an agent's targets as a whole do not follow the model, whatever they follow
UNRELATED = 0.7


def issue_table(
    agent: Agent, preparation: Preparation, theta: Array, context: IssueContext, *, changes: bool = False
) -> pd.DataFrame:
    """Return one line per buggy row of the agent, in the order of its source.

    ``score`` is the probability that the row is wrong, ``kind`` what kind of error it looks like. ``given`` and
    ``suggested`` are the target or label; where a ``column`` is named, the value of the first one. With ``changes``
    there is one more column per feature: the change suggested, in raw units.
    """
    places, sample, targets = _sample(agent)
    trusted = agent.rows.trusted()[0]
    found = suspect_columns(sample, targets, trusted, context, preparation)
    found = units_that_explain(found, sample, targets, theta, context, preparation)
    cells = CellRepair.fitted(found, sample, preparation)
    rows = _read(agent, preparation, theta, context, cells, copied_rows(sample, targets))
    verdict = _verdict(agent, rows, preparation, theta, context)
    flagged, effects = verdict.score >= FLAG_AT, theta
    if context.classes is not None:
        effects = context.main_label_model.slope * context.main_label_model.theta
    strays = stray_rows(agent, cells, places, sample, verdict.reading, flagged, effects, context, preparation)
    noise = _noise(strays.repaired(cells(sample)[0], places), targets, preparation, context)
    kind = verdict.kind or _kind_of_targets(rows, verdict.score, strays, noise, theta, context)
    table = _table(agent, rows, found, verdict, kind, strays)
    if changes:
        names = [f"change {name}" for name in agent.columns]
        table = pd.concat(
            [table, pd.DataFrame(_changes(agent, preparation, cells, strays, noise), columns=names)], axis=1
        )
    return table


@dataclass(frozen=True, eq=False)
class _Rows:
    """What is kept of every row: n-sized arrays only, the features are read in blocks."""

    predicted: Array  # x·θ with wrong cells repaired: prepared targets, log-odds
    logits: Array  # of +1, one line per model that labels are judged by
    targets: Array  # prepared, not clipped
    raw_targets: Array
    copies: NDArray[np.bool_]
    marks: dict[int, NDArray[np.bool_]]  # by column issue
    cells: dict[int, tuple[Array, Array]]  # by column issue: given and suggested values of the marked rows


@dataclass(frozen=True, eq=False)
class _Verdict:
    score: Array
    given: NDArray[Any]
    suggested: NDArray[Any]
    #: what kind of error the agent's rows have; "": the features have to be looked at first
    kind: str
    reading: TargetReading | LabelReading


def _sample(agent: Agent) -> tuple[NDArray[np.intp], Array, Array]:
    """Return rows evenly spread over the agent's, and where they stand."""
    thin = max(1, -(-agent.rows.n_rows // SAMPLE))
    places, taken, start = [], [], 0
    for features, targets in agent.rows.blocks():
        places.append(np.arange(start, start + len(targets), thin))
        taken.append((features[::thin], targets[::thin]))
        start += len(targets)
    if not taken:
        return np.empty(0, dtype=np.intp), np.empty((0, len(agent.columns))), np.empty(0)
    features, targets = (np.concatenate(part) for part in zip(*taken, strict=True))
    return np.concatenate(places), features, targets


def _joined(parts: list[Any], kind: Any = np.float64) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=kind)


def _read(
    agent: Agent, preparation: Preparation, theta: Array, context: IssueContext, cells: CellRepair, copied: Array
) -> _Rows:
    predicted, logits, raw_targets, copies = [], [], [], []
    marks: dict[int, list[Any]] = {place: [] for place in range(len(cells.issues))}
    values: dict[int, list[tuple[Array, Array]]] = {place: [] for place in range(len(cells.issues))}
    for raw, targets in agent.rows.blocks():
        repaired, marked = cells(raw)
        ready = preparation.features(repaired)
        predicted.append(ready @ theta if context.classes is None else context.main_label_model.plain(ready))
        if context.label_models:
            logits.append(np.stack([model.logits(ready) for model in context.label_models], axis=1))
        copies.append(mark_copies(copied, raw, targets))
        raw_targets.append(np.asarray(targets, dtype=np.float64))
        for place, mask in marked.items():
            column = cells.issues[place].column
            marks[place].append(mask)
            values[place].append((raw[mask, column], repaired[mask, column]))
    given = _joined(raw_targets)
    return _Rows(
        _joined(predicted),
        np.concatenate(logits).T if logits else np.empty((len(context.label_models), 0)),
        preparation.targets(given),
        given,
        _joined(copies, np.bool_),
        {place: _joined(parts, np.bool_) for place, parts in marks.items()},
        {place: (_joined([g for g, _ in v]), _joined([s for _, s in v])) for place, v in values.items()},
    )


def _noise(repaired: Array, targets: Array, preparation: Preparation, context: IssueContext) -> FeatureRepair:
    ready = preparation.features(repaired)[:, : repaired.shape[1]]
    return FeatureRepair.fitted(ready, preparation.believed(preparation.targets(targets)), context)


def _verdict(agent: Agent, rows: _Rows, preparation: Preparation, theta: Array, context: IssueContext) -> _Verdict:
    if context.classes is not None:
        labels = judge_labels(rows.logits, rows.targets, agent.name, context.label_models)
        names = np.asarray(context.classes)
        given, suggested = names[(rows.targets > 0).astype(int)], names[(labels.positive > 0.5).astype(int)]
        kind = "agent" if labels.whole else "label"
        return _Verdict(labels.score, given, suggested, kind, LabelReading(rows.targets, rows.predicted))
    verdict = judge_targets(rows.predicted, rows.targets, context, len(theta))
    suggested = verdict.suggested * preparation.target_scale + preparation.target_center
    kind = "agent" if verdict.ruled > WHOLE_AGENT else ""
    return _Verdict(verdict.score, rows.raw_targets, suggested, kind, verdict.reading)


def _kind_of_targets(
    rows: _Rows, score: Array, strays: StrayRows, noise: FeatureRepair, theta: Array, context: IssueContext
) -> str:
    others = ~strays.rows
    if not others.any():
        return "target"
    if _blurred(rows.targets[others] - rows.predicted[others], noise, theta, context):
        return "feature"
    return "agent" if float(score[others].mean()) > UNRELATED else "target"


def _blurred(error: Array, noise: FeatureRepair, theta: Array, context: IssueContext) -> bool:
    """Tell whether noisy features account for most of what these rows are further off than trusted ones."""
    size = float(np.mean(np.clip(error, -10.0, 10.0) ** 2))
    due = float(noise.noise @ theta[: len(noise.noise)] ** 2)
    excess = size - context.trusted_error_sq / max(context.trusted_rows, 1.0)
    return noise.evident and due > max(0.5 * excess, 0.1 * size)


def _table(
    agent: Agent, rows: _Rows, found: list[ColumnIssue], verdict: _Verdict, whole: str, strays: StrayRows
) -> pd.DataFrame:
    n = len(verdict.score)
    kind = np.full(n, whole, dtype=object)
    column = np.full(n, "", dtype=object)
    given, suggested = verdict.given, verdict.suggested
    right, best = 1.0 - verdict.score, verdict.score.copy()
    if (strays.rows.any() or any(mask.any() for mask in rows.marks.values())) and given.dtype.kind != "f":
        given, suggested = given.astype(object), suggested.astype(object)
    given, suggested = given.copy(), suggested.copy()
    kind[strays.rows] = "feature"
    column[strays.rows] = np.asarray(agent.columns, dtype=object)[strays.column[strays.rows]]
    given[strays.rows], suggested[strays.rows] = strays.given[strays.rows], strays.suggested[strays.rows]
    right *= 1.0 - strays.confidence
    best = np.maximum(best, strays.confidence)
    right[rows.copies] *= 1.0 - CONFIDENCE
    kind[rows.copies & (best < CONFIDENCE)] = "duplicate"
    best[rows.copies] = np.maximum(best[rows.copies], CONFIDENCE)
    for place, mask in rows.marks.items():
        issue = found[place]
        right[mask] *= 1.0 - issue.confidence
        leading = mask & (best < issue.confidence)
        best[leading] = issue.confidence
        kind[leading] = issue.kind
        inside = leading[mask]
        given[leading], suggested[leading] = (values[inside] for values in rows.cells[place])
        name = agent.columns[issue.column]
        column[mask] = [f"{before}, {name}" if before else name for before in column[mask]]
    score = 1.0 - right
    return pd.DataFrame(
        {
            "row": np.arange(n),
            "agent": agent.name,
            "score": score,
            "flagged": score >= FLAG_AT,
            "given": given,
            "suggested": suggested,
            "kind": kind,
            "column": column,
        }
    )


def _changes(
    agent: Agent, preparation: Preparation, cells: CellRepair, strays: StrayRows, noise: FeatureRepair
) -> Array:
    n_features = len(agent.columns)
    known = np.where(np.isfinite(preparation.scale), preparation.scale, 0.0)  # a constant column has no scale
    parts, start = [], 0
    for raw, targets in agent.rows.blocks():
        here = slice(start, start + len(targets))
        repaired = strays.repaired(cells(raw)[0], here)
        start += len(targets)
        ready = preparation.features(repaired)[:, :n_features]
        moved = noise.changes(ready, preparation.believed(preparation.targets(targets)))
        moved[strays.cells(here, n_features)] = 0.0  # their targets were asked already
        # not stretched where tails are compressed: noise adds up in raw units wherever the cell lies
        parts.append(repaired - raw + moved * known)
    return np.concatenate(parts) if parts else np.empty((0, n_features))
