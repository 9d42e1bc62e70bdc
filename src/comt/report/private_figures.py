"""Figures of the private report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from comt.report import svg
from comt.report.page import count, percent, short
from comt.report.private_lines import CHANGE

if TYPE_CHECKING:
    import pandas as pd

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
    found = [_labels(report)] if report.task == "classification" else _target(report)
    issues = report.issues
    flagged = issues[issues["flagged"].astype(bool)]
    effects: list[tuple[float, str]] = []
    for name in (column.removeprefix(CHANGE) for column in issues.columns if column.startswith(CHANGE)):
        spread = report.spreads.get(name, 0.0)
        if name in report.rows.columns and spread > 0:
            effects.append((float(flagged[CHANGE + name].abs().sum()) / spread, name))
    for effect, name in sorted(effects, reverse=True)[: MOST_COLUMNS - len(found)]:
        if effect > 0:
            found += _column(report, flagged, name)
    return found


def _column(report: AgentReport, flagged: pd.DataFrame, name: str) -> list[Figure]:
    try:
        values = report.rows[name].astype(float)
    except (TypeError, ValueError):
        return []
    change = flagged.set_index("row")[CHANGE + name].reindex(values.index).fillna(0.0)
    before, after = np.asarray(values, dtype=np.float64), np.asarray(values + change, dtype=np.float64)
    known = np.isfinite(before)
    return _histograms(name, before[known], after[known])


def _target(report: AgentReport) -> list[Figure]:
    given = report.issues["given"].to_numpy(dtype=np.float64)
    suggested = report.issues["suggested"].to_numpy(dtype=np.float64)
    return _histograms(report.target, given, np.where(report.issues["flagged"].to_numpy(dtype=bool), suggested, given))


def _histograms(name: str, before: NDArray[np.float64], after: NDArray[np.float64]) -> list[Figure]:
    if not len(before):
        return []
    changed = int((before != after).sum())
    described = f"Histogram of {name} as given and with {changed} suggestions taken"
    caption = f"{count(changed)} of {count(len(before))} values change if all suggestions for flagged rows are taken."
    return [Figure(f"{name}: before and after", svg.before_after(before, after, described), caption)]


def _labels(report: AgentReport) -> Figure:
    issues = report.issues
    flagged = issues["flagged"].to_numpy(dtype=bool)
    after = issues["given"].where(~flagged, issues["suggested"])
    names = list(report.classes) or sorted(set(issues["given"]) | set(issues["suggested"]), key=str)
    bars = []
    for name in names:
        for values, when, tone in ((issues["given"], "as given", "plain"), (after, "with suggestions", "good")):
            number = int((values == name).sum())
            bars.append(svg.Bar(f"{name}, {when}", number, count(number), tone))
    described = "; ".join(f"{bar.label}: {bar.text}" for bar in bars)
    changed = int((issues["given"] != after).sum())
    return Figure(
        f"{report.target}: before and after",
        svg.rows(bars, described),
        f"{count(changed)} of {count(len(issues))} labels change if all suggestions for flagged rows are taken.",
    )
