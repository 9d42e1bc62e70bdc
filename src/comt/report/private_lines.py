"""The lines of the private report's table: what is shown of each row, ready to be written as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from comt.errors import InputError
from comt.report.private_reasons import Opinions, cell, column_of
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


def kinds_of(report: AgentReport, table: pd.DataFrame) -> list[str]:
    """Return the kind of every line; tables without kinds speak of targets or labels only."""
    if "kind" in table.columns:
        return [str(kind) for kind in table["kind"]]
    return ["label" if report.task == "classification" else "target"] * len(table)


def columns_to_show(report: AgentReport, most: int) -> list[str]:
    """Return the columns of the agent's rows that lines carry along: those with suggestions first if not all fit."""
    names = [name for name in report.rows.columns if name != report.target]
    if len(names) <= most:
        return names
    named = set(report.issues["column"]) if "column" in report.issues.columns else set()
    changed = {name.removeprefix(CHANGE) for name in report.issues.columns if name.startswith(CHANGE)}
    kept = set(sorted(names, key=lambda name: (name not in named, name not in changed))[:most])
    return [name for name in names if name in kept]


def lines(
    report: AgentReport, table: pd.DataFrame, columns: Sequence[str], drawn: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Return one object per line of an issue table, in its order."""
    rows = report.rows.reindex(table["row"])
    cells = [[cell(value) for value in rows[name].tolist()] for name in columns]
    changes = {
        name.removeprefix(CHANGE): table[name].to_numpy(float) for name in table.columns if name.startswith(CHANGE)
    }
    used = table["used"].tolist() if "used" in table.columns else [True] * len(table)
    suspicious = table["column"].fillna("").tolist() if "column" in table.columns else [""] * len(table)
    position = {name: place for place, name in enumerate(columns)}
    opinions = Opinions(report, table, columns)
    kinds = kinds_of(report, table)
    result = []
    for place, (row, score, flagged, given, suggested) in enumerate(
        table[list(NEEDED)].itertuples(index=False, name=None)
    ):
        old, new = cell(given), cell(suggested)
        values = [column[place] for column in cells]
        found = _changes(report, {name: change[place] for name, change in changes.items()}, position, values)
        named = column_of(str(suspicious[place]), columns)
        if named in position and named not in [name for name, *_ in found]:
            found.insert(0, (named, None, 0.0))
        worst = next((entry for entry in found if entry[0] == named), None)
        suspect = None if worst is None else (named, values[position[named]], worst[1])
        sizes = [size for *_, size in found] + [_target_size(report, old, new)]
        result.append(
            {
                "row": int(row),
                "score": _share(float(score)),
                "sure": confidence(float(score)) if flagged else "looks right",
                "flagged": bool(flagged),
                "kind": kinds[place],
                "given": old,
                "suggested": new,
                "used": bool(used[place]),
                "drawn": drawn.get(int(row)),
                "size": round(max(sizes), 3) or None,
                "why": why(
                    kinds[place],
                    score=float(score),
                    flagged=bool(flagged),
                    given=old,
                    suggested=new,
                    target=report.target,
                    cell=suspect,
                    size=max(sizes),
                    reasons=[(name, values[position[name]]) for name in opinions.reasons(place, new)],
                    look_at=opinions.look_at(place),
                ),
                "changes": [[position[name], value] for name, value, _ in found],
                "cells": values,
            }
        )
    return result


def _share(score: float) -> float:
    """Round, but never to 1: a model is never certain."""
    return min(round(score, 6), 0.999999)


def _changes(
    report: AgentReport, changes: Mapping[str, float], position: Mapping[str, int], values: Sequence[Any]
) -> list[tuple[str, Any, float]]:
    """Return the largest suggested changes: column, suggested value, size in spreads."""
    found = []
    for name, change in changes.items():
        given = values[position[name]] if name in position else None
        if not math.isfinite(change) or isinstance(given, (bool, str, type(None))):
            continue
        spread = report.spreads.get(name, math.nan)
        size = abs(change) / spread if spread > 0 else 0.0
        if size >= SMALLEST_CHANGE or (not spread > 0 and change != 0):
            found.append((name, _rounded(given + change, spread), float(size)))
    return sorted(found, key=lambda entry: -entry[2])[:MOST_CHANGES]


def _target_size(report: AgentReport, given: Any, suggested: Any) -> float:
    spread = report.spreads.get(report.target, math.nan)
    if report.task == "classification" or not spread > 0 or isinstance(given, str) or isinstance(suggested, str):
        return 0.0
    return 0.0 if given is None or suggested is None else abs(float(suggested) - float(given)) / spread


def _rounded(value: float, spread: float) -> float:
    """Drop digits that are a millionth of the spread: they are not meant."""
    if not (spread > 0 and math.isfinite(spread)):
        return float(value)
    return round(float(value), max(0, 6 - math.floor(math.log10(spread))))
