"""The coordinator's aggregate report as a page: no script, no row."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from markupsafe import Markup

from comt.report import svg
from comt.report.page import percent, render, short, size

if TYPE_CHECKING:
    from comt.report.aggregate import AggregateReport

#: colours of the purposes that most bytes were sent for; all others share the last
TONES = ("main", "good", "soft", "plain")


def page(report: AggregateReport) -> str:
    """Return the page."""
    rows, trusted = sum(agent.rows for agent in report.agents), sum(agent.trusted_rows for agent in report.agents)
    flagged = sum(agent.flagged for agent in report.agents)
    sent = [sum(agent.sent.values()) for agent in report.agents]
    return render(
        "aggregate.html",
        "",
        report=report,
        rows=rows,
        trusted=trusted,
        flagged=flagged,
        learnt_from=_learnt_from(report),
        sent=sent,
        comparison=_comparison(report) if report.comparison else None,
        reliability=_reliability(report),
        convergence=_convergence(report) if report.history else None,
        selection=_selection(report) if report.curve else None,
        bytes=_bytes(report) if any(sent) else None,
        purposes=list(zip(_purposes(report), TONES, strict=False)),
        missing=sum(column.missing for column in report.columns),
        has_weights=any(agent.weight is not None for agent in report.agents),
        has_categories=any(column.categories for column in report.columns),
        has_coefficients=any(column.coefficient is not None for column in report.columns),
    )


def _learnt_from(report: AggregateReport) -> float:
    """Return the share of all rows that were learnt from; that of the selection if agents did not count them."""
    rows, used = 0, 0
    for agent in report.agents:
        if agent.used is None:
            return report.selected_fraction
        rows, used = rows + agent.rows, used + agent.used
    return used / rows if rows else 1.0


def _comparison(report: AggregateReport) -> Markup:
    write = percent if report.metric.startswith("share") else short
    bars = [
        svg.Bar(name, score, write(score), "main" if place == 0 else "plain")
        for place, (name, score) in enumerate(report.comparison.items())
    ]
    described = f"{report.metric}: " + ", ".join(f"{bar.label} {bar.text}" for bar in bars)
    return svg.rows(bars, described, largest=1.0)


def _reliability(report: AggregateReport) -> Markup | None:
    known = [agent for agent in report.agents if agent.reliability is not None]
    bars = [
        svg.Bar(
            agent.name, agent.reliability or 0.0, percent(agent.reliability or 0.0), _tone(agent.reliability or 0.0)
        )
        for agent in known
    ]
    described = "Reliability: " + ", ".join(f"{bar.label} {bar.text}" for bar in bars)
    return svg.rows(bars, described, largest=1.0) if bars else None


def _tone(reliability: float) -> str:
    if reliability >= 0.75:
        return "good"
    return "soft" if reliability >= 0.5 else "bad"


def _convergence(report: AggregateReport) -> Markup:
    """Draw the certificate by round, and how far the objective was from its last value where it was recorded."""
    drawn = []
    certificate = [record.get("certificate", math.nan) for record in report.history]
    rounds = list(range(1, len(report.history) + 1))
    if any(math.isfinite(value) for value in certificate):
        drawn.append(svg.Line("certificate", rounds, certificate, "main"))
    objective = [record.get("objective", math.nan) for record in report.history]
    if len(objective) > 1 and all(math.isfinite(value) for value in objective):
        scale = abs(objective[-1]) or 1.0
        gap = [abs(value - objective[-1]) / scale for value in objective[:-1]]
        drawn.append(svg.Line("objective above its last value", rounds[:-1], gap, "good"))
    described = f"Certificate by round, down to {report.certificate:.1e} after {len(rounds)} rounds of the solver"
    marked = (report.tol, f"asked for: {report.tol:.0e}") if report.tol > 0 else None
    return svg.lines(drawn, "round of the solver", described, logarithmic=True, marked_y=marked)


def _selection(report: AggregateReport) -> Markup:
    rules = list(dict.fromkeys(point.rule for point in report.curve))
    names = {"loss": "smallest losses kept", "alpha": "largest |α| kept"}
    drawn = []
    for rule, tone in zip(rules, ("main", "soft", "plain"), strict=False):
        points = sorted((point.fraction, point.score) for point in report.curve if point.rule == rule)
        drawn.append(svg.Line(names.get(rule, rule), [x for x, _ in points], [y for _, y in points], tone))
    described = "Score on held-out trusted rows by the fraction of rows learnt from; chosen: "
    chosen = f"chosen: {percent(report.selected_fraction)}"
    return svg.lines(
        drawn,
        "fraction of unverified rows learnt from",
        described + percent(report.selected_fraction),
        marked_x=(report.selected_fraction, chosen),
    )


def _purposes(report: AggregateReport) -> list[str]:
    """Return the purposes that bytes were sent for, most first; if they are many, the small ones as "other"."""
    total: Counter[str] = Counter()
    for agent in report.agents:
        total.update(agent.sent)
    names = [name for name, _ in total.most_common()]
    return names if len(names) <= len(TONES) else [*names[: len(TONES) - 1], "other"]


def _bytes(report: AggregateReport) -> Markup:
    named = _purposes(report)
    bars = []
    for agent in report.agents:
        parts = [float(agent.sent.get(name, 0)) for name in named]
        if named[-1] == "other":
            parts[-1] = sum(agent.sent.values()) - sum(parts[:-1])
        bars.append((agent.name, parts, size(sum(parts))))
    described = "Sent: " + ", ".join(f"{name} {text}" for name, _, text in bars)
    return svg.stacked_rows(bars, TONES[: len(named)], described)
