"""The lines of the private report's table: what is shown of each row, ready to be written as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from comt.errors import InputError
from comt.report.kinds import NOT_OF_THE_TARGET, about_a_cell, columns_named, kinds_of
from comt.report.private_reasons import Opinions, cell
from comt.report.wording import confidence, why

if TYPE_CHECKING:
    import pandas as pd

    from comt.report.private import AgentReport

NEEDED = ("row", "score", "flagged", "given", "suggested")
CHANGE = "change "
#: suggested changes shown per row at most, and the smallest worth showing, in spreads
MOST_CHANGES, SMALLEST_CHANGE = 5, 0.05


def check(report: AgentReport) -> None:
    """Refuse tables that cannot be shown."""
    missing = [name for name in NEEDED if name not in report.issues.columns]
    if missing:
        raise InputError(f"the issue table lacks the columns {', '.join(missing)}; give what `issues()` returned.")
    if not report.rows.index.is_unique:
        raise InputError("the rows of a report have an index that repeats; index them by the issue table's 'row'.")


def columns_to_show(report: AgentReport, most: int) -> list[str]:
    """Return the columns of the agent's rows that lines carry along: those with suggestions first if not all fit."""
    names = [name for name in report.rows.columns if name != report.target]
    if len(names) <= most:
        return names
    said = set(report.issues["column"].fillna("")) if "column" in report.issues.columns else set()
    named = {name for text in said for name in columns_named(str(text), names)}
    changed = {name.removeprefix(CHANGE) for name in report.issues.columns if name.startswith(CHANGE)}
    kept = set(sorted(names, key=lambda name: (name not in named, name not in changed))[:most])
    return [name for name in names if name in kept]


def lines(
    report: AgentReport, table: pd.DataFrame, columns: Sequence[str], drawn: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Return one object per line of an issue table, in its order."""
    rows = report.rows.reindex(table["row"])
    cells = [[cell(value) for value in rows[name].tolist()] for name in columns]
    targets = [cell(value) for value in rows[report.target].tolist()] if report.target in rows.columns else None
    changes = {name: table[name].to_numpy(float) for name in table.columns if name.startswith(CHANGE)}
    used = table["used"].tolist() if "used" in table.columns else [True] * len(table)
    suspicious = table["column"].fillna("").tolist() if "column" in table.columns else [""] * len(table)
    opinions = Opinions(report, table, columns)
    kinds = kinds_of(table, report.task)
    of_a_cell = about_a_cell(table, kinds)
    result = []
    for place, (row, score, flagged, given, suggested) in enumerate(
        table[list(NEEDED)].itertuples(index=False, name=None)
    ):
        kind, old, new = str(kinds[place]), cell(given), cell(suggested)
        values = {name: column[place] for name, column in zip(columns, cells, strict=True)}
        named = columns_named(str(suspicious[place]), columns) if flagged else []
        found: dict[str, Any] = dict.fromkeys(named)
        if of_a_cell[place]:
            if named and not isinstance(new, str):
                found[named[0]] = _rounded(new, report.spreads.get(named[0], math.nan))
            old = new = targets[place] if targets is not None else None
        if flagged and (kind in NOT_OF_THE_TARGET or "kind" not in table.columns):
            moved = {name.removeprefix(CHANGE): float(change[place]) for name, change in changes.items()}
            for name, value in _changes(report, moved, values).items():
                found[name] = value if found.get(name) is None else found[name]
        size = max([_size(report, name, values[name], value) for name, value in found.items()], default=0.0)
        if kind not in NOT_OF_THE_TARGET and report.task == "regression":
            size = max(size, _size(report, report.target, old, new))
        suspect = next(((name, values[name], value) for name, value in found.items()), None)
        result.append(
            {
                "row": int(row),
                "score": _share(float(score)),
                "sure": confidence(float(score)) if flagged else "looks right",
                "flagged": bool(flagged),
                "kind": kind,
                "given": old,
                "suggested": new,
                "used": bool(used[place]),
                "drawn": drawn.get(int(row)),
                "size": round(size, 3) or None,
                "why": why(
                    kind,
                    score=float(score),
                    flagged=bool(flagged),
                    given=old,
                    suggested=new,
                    target=report.target,
                    cell=suspect,
                    size=size,
                    reasons=[(name, values[name]) for name in opinions.reasons(place, new)],
                    look_at=opinions.look_at(place),
                ),
                "changes": [[columns.index(name), value] for name, value in found.items()],
                "cells": list(values.values()),
            }
        )
    return result


def _share(score: float) -> float:
    """Round, but never to 1: a model is never certain."""
    return min(round(score, 6), 0.999999)


def _changes(report: AgentReport, changes: Mapping[str, float], values: Mapping[str, Any]) -> dict[str, float]:
    """Return the values that the largest suggested changes lead to, largest first."""
    found = []
    for name, change in changes.items():
        given = values.get(name)
        if not math.isfinite(change) or isinstance(given, (bool, str, type(None))):
            continue
        new = _rounded(given + change, report.spreads.get(name, math.nan))
        size = _size(report, name, given, new)
        if size >= SMALLEST_CHANGE or (not report.spreads.get(name, 0.0) > 0 and change != 0):
            found.append((size, name, new))
    return {name: new for _, name, new in sorted(found, key=lambda entry: -entry[0])[:MOST_CHANGES]}


def _size(report: AgentReport, name: str, given: Any, suggested: Any) -> float:
    """Return the size of a change in spreads of its column; 0 where it has none."""
    spread = report.spreads.get(name, math.nan)
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (given, suggested))
    return abs(float(suggested) - float(given)) / spread if numbers and 0 < spread < math.inf else 0.0


def _rounded(value: Any, spread: float) -> Any:
    """Drop digits that are a millionth of the spread: they are not meant."""
    if value is None or not (spread > 0 and math.isfinite(spread)):
        return value
    return round(float(value), max(0, 6 - math.floor(math.log10(spread))))
