"""Figures of the private report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from comt.report import svg
from comt.report.kinds import NOT_OF_THE_TARGET, about_a_cell, columns_named, kinds_of
from comt.report.page import count, percent, short
from comt.report.private_lines import CHANGE, SMALLEST_CHANGE

if TYPE_CHECKING:
    from comt.report.private import AgentReport, Joining

#: columns whose values are drawn before and after, the target included
MOST_COLUMNS = 4


@dataclass(frozen=True)
class Figure:
    """A drawing with its heading and a sentence that explains it."""

    heading: str
    drawing: Markup
    caption: str


def figures(report: AgentReport) -> list[Figure]:
    """Return all figures that the report has the facts for."""
    return [_scores(report.issues), _use(report.issues), *_before_after(report)]


def joining_bars(found: Joining) -> Markup:
    """Draw the score of the own and of the joint model."""
    write = percent if found.metric.startswith("share") else short
    bars = [
        svg.Bar("your rows alone", found.own, write(found.own), "plain"),
        svg.Bar("joint model", found.joint, write(found.joint), "main"),
    ]
    described = f"{found.metric}: your rows alone {write(found.own)}, joint model {write(found.joint)}"
    return svg.rows(bars, described, largest=1.0)


def _scores(issues: pd.DataFrame) -> Figure:
    score, flagged = issues["score"].to_numpy(dtype=np.float64), issues["flagged"].to_numpy(dtype=bool)
    tenth = np.clip((score * 10).astype(int), 0, 9)
    counts = np.bincount(tenth, minlength=10)
    # a bin is coloured by what most of its rows are
    wrong = np.bincount(tenth, weights=flagged, minlength=10) * 2 > counts
    labels = [str(10 * i) for i in range(11)]
    tones = ["bad" if of_bin else "plain" for of_bin in wrong]
    described = "Rows by how sure the joint model is that they are wrong: " + ", ".join(
        f"{label} percent and more: {number}" for label, number in zip(labels, counts, strict=False)
    )
    drawing = svg.columns(counts.astype(float).tolist(), labels, tones, described)
    return Figure(
        "How sure the model is", drawing, "Rows by confidence that something is wrong, in %. Flagged ones in orange."
    )


def _use(issues: pd.DataFrame) -> Figure:
    flagged = issues["flagged"].to_numpy(dtype=bool)
    used = issues["used"].to_numpy(dtype=bool) if "used" in issues.columns else np.ones(len(issues), dtype=bool)
    counted = [
        ("used, look right", int((used & ~flagged).sum()), "good"),
        ("used, look wrong", int((used & flagged).sum()), "soft"),
        ("set aside", int((~used).sum()), "bad"),
    ]
    bars = [
        svg.Bar(name, number, f"{count(number)} ({percent(number / max(len(issues), 1))})", tone)
        for name, number, tone in counted
    ]
    described = "Unverified rows: " + ", ".join(f"{name} {number}" for name, number, _ in counted)
    caption = "Rows set aside were not learnt from at all."
    if used.all():
        caption = "No row was set aside: rows that look wrong were learnt from, guided by the trusted ones."
    return Figure("Used and set aside", svg.parts(bars, described), caption)


def _before_after(report: AgentReport) -> list[Figure]:
    """Draw the target, then the columns in which most rows would change."""
    found = [_labels(report)] if report.task == "classification" else _target(report)
    repaired = _repaired(report)
    most = sorted(repaired, key=lambda name: -len(repaired[name]))[: MOST_COLUMNS - len(found)]
    for name in most:
        values = pd.to_numeric(report.rows[name], errors="coerce")
        before = values.to_numpy(dtype=np.float64)
        after = repaired[name].reindex(values.index).fillna(values).to_numpy(dtype=np.float64)
        known = np.isfinite(before) & np.isfinite(after)
        found += _histograms(name, before[known], after[known])
    return found


def _repaired(report: AgentReport) -> dict[str, pd.Series[float]]:
    """Return the suggested values of flagged rows by column, indexed by row: of cells, and by changes."""
    table = report.issues[report.issues["flagged"].astype(bool)].set_index("row")
    kinds = kinds_of(table, report.task)
    found: dict[str, pd.Series[float]] = {}
    for column in (name for name in table.columns if str(name).startswith(CHANGE)):
        name, spread = column.removeprefix(CHANGE), report.spreads.get(column.removeprefix(CHANGE), 0.0)
        if name not in report.rows.columns:
            continue
        mine = np.isin(kinds, NOT_OF_THE_TARGET) if "kind" in table.columns else np.ones(len(table), dtype=bool)
        change = table[column]
        change = change[mine & (change != 0).to_numpy() & (change.abs() >= SMALLEST_CHANGE * spread).to_numpy()]
        given = pd.to_numeric(report.rows[name], errors="coerce").reindex(change.index)
        found[name] = (given + change).dropna()
    if "column" in table.columns:
        cells = table[about_a_cell(table, kinds)]
        first = [next(iter(columns_named(str(text), list(report.rows.columns))), "") for text in cells["column"]]
        for owner, lines in cells.groupby(np.array(first, dtype=object)):
            if owner:
                own = pd.to_numeric(lines["suggested"], errors="coerce").dropna()
                found[str(owner)] = own.combine_first(found[str(owner)]) if str(owner) in found else own
    return {name: values for name, values in found.items() if len(values)}


def _of_the_target(report: AgentReport) -> pd.DataFrame:
    """Return the lines whose given and suggested values are those of the target, and what taking suggestions makes."""
    kinds = kinds_of(report.issues, report.task)
    taken = report.issues["flagged"].to_numpy(dtype=bool) & ~np.isin(kinds, NOT_OF_THE_TARGET)
    table = report.issues[["given", "suggested"]].assign(taken=taken)[~about_a_cell(report.issues, kinds)]
    return table.assign(after=table["given"].where(~table["taken"], table["suggested"]))


def _target(report: AgentReport) -> list[Figure]:
    table = _of_the_target(report)
    return _histograms(
        report.target, table["given"].to_numpy(dtype=np.float64), table["after"].to_numpy(dtype=np.float64)
    )


def _histograms(name: str, before: NDArray[np.float64], after: NDArray[np.float64]) -> list[Figure]:
    if not len(before):
        return []
    changed = int((before != after).sum())
    described = f"Histogram of {name} as given and with {changed} suggestions taken"
    caption = f"{count(changed)} of {count(len(before))} values change if all suggestions for flagged rows are taken."
    return [Figure(f"{name}: before and after", svg.before_after(before, after, described), caption)]


def _labels(report: AgentReport) -> Figure:
    table = _of_the_target(report)
    names = list(report.classes) or sorted(set(table["given"]) | set(table["suggested"]), key=str)
    bars = []
    for name in names:
        for when, values, tone in (("as given", "given", "plain"), ("with suggestions", "after", "good")):
            number = int((table[values] == name).sum())
            bars.append(svg.Bar(f"{name}, {when}", number, count(number), tone))
    described = "; ".join(f"{bar.label}: {bar.text}" for bar in bars)
    changed = int((table["given"] != table["after"]).sum())
    return Figure(
        f"{report.target}: before and after",
        svg.rows(bars, described),
        f"{count(changed)} of {count(len(table))} labels change if all suggestions for flagged rows are taken.",
    )
