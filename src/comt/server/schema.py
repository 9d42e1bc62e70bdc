"""Agreeing on the columns of tables: declarations first, then sums over what is missing. Sees no row.

A level of a category is agreed on if one agent at least has enough rows of it. Missing numbers become the median over all
agents, found from histograms as scales are.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import partial

from comt.declaration import Declaration, Declare, DeclaredColumn, MissingCells, PresentHistogram
from comt.errors import InputError
from comt.federation.base import TableFederation
from comt.schema import Column, Level, Schema, as_text
from comt.server.scaling import column_quantiles


def agree_on_schema(
    federation: TableFederation,
    question: Declare,
    *,
    target: str,
    first: str | None = None,
    categorical: Collection[str] = (),
) -> Schema:
    """Return how every column becomes features.

    Parameters
    ----------
    federation, question:
        Whom to ask, and from how many rows on a level may be told.
    target:
        Name of the column that is predicted.
    first:
        The agent whose order of columns counts; by default the first by name.
    categorical:
        Columns that are categories even where they hold numbers.
    """
    declarations = federation.declarations(question)
    leader = next((d for d in declarations if d.agent == first), declarations[0])
    names = _shared_names(leader, declarations)
    by_agent = {d.agent: {column.name: column for column in d.columns} for d in declarations}
    columns: list[tuple[str, str, list[DeclaredColumn]]] = []
    for name in names:
        told = [(agent, found[name]) for agent, found in by_agent.items() if name in found]
        kind = _kind(name, told, forced=name in categorical)
        if kind != "empty":
            columns.append((name, kind, [column for _, column in told]))
    wanted = tuple(name for name, _, _ in columns)
    counts = federation.sum(MissingCells(columns=wanted))["missing"]
    # under noise a count may come back negative or between two whole numbers
    missing = {name: max(0, round(float(count))) for name, count in zip(wanted, counts, strict=True)}
    gaps = tuple(name for name, kind, _ in columns if kind == "number" and missing[name])
    medians = dict.fromkeys(gaps, 0.0)
    if gaps:
        ask = partial(PresentHistogram, columns=gaps)
        coarse = federation.sum(ask(n_columns=len(gaps)))["counts"]
        quartiles = column_quantiles(federation, coarse, ask=ask)
        medians = {name: float(median) for name, median in zip(gaps, quartiles[:, 1], strict=True)}
    agreed = []
    for name, kind, told_columns in columns:
        if kind == "number":
            often = any(column.often_missing for column in told_columns)
            agreed.append(Column(name, "number", medians.get(name), often))
        else:
            enough = missing[name] >= question.min_count
            agreed.append(Column(name, "category", None, enough, _levels(told_columns)))
    return Schema(tuple(agreed), target, question.min_count, {name: n for name, n in missing.items() if n})


def _shared_names(leader: Declaration, declarations: list[Declaration]) -> list[str]:
    """Return the columns, once all agents are found to have the same (a sparse file may end early)."""
    names = [column.name for column in leader.columns]
    if leader.sparse:
        longer = max((d for d in declarations if d.sparse), key=lambda d: len(d.columns))
        names = [column.name for column in longer.columns]
    for other in declarations:
        its = [column.name for column in other.columns]
        differing = set(names) ^ set(its)
        if other.sparse:
            differing = {name for name in differing if name in its or not re.fullmatch(r"x\d+", name)}
        if differing:
            raise InputError(
                f"{other.agent} and {leader.agent} differ in the columns {', '.join(sorted(differing))}; give every file "
                "the same columns, or leave these out with --drop."
            )
    return names


def _kind(name: str, told: list[tuple[str, DeclaredColumn]], *, forced: bool) -> str:
    kinds = {column.kind: agent for agent, column in told if column.kind != "empty"}
    if len(kinds) > 1:
        raise InputError(
            f"column '{name}' holds numbers at {kinds['number']} and text at {kinds['category']}; write it alike in all "
            f"files, or leave it out with --drop {name}."
        )
    if not kinds:
        return "empty"
    return "category" if forced else next(iter(kinds))


def _levels(told: list[DeclaredColumn]) -> tuple[Level, ...]:
    levels = {level for column in told for level in column.levels}
    if any(isinstance(level, str) for level in levels):
        return tuple(sorted({as_text(level) for level in levels}))
    return tuple(sorted(levels))
