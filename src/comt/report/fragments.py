"""Small pieces of HTML for notebooks: an issue table, a model. They carry their own looks and no script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from comt.report.page import percent, short
from comt.report.private_reasons import cell
from comt.report.wording import shown

if TYPE_CHECKING:
    import pandas as pd

#: lines and coefficients shown
WORST = 10
_CELL = "padding:3px 10px;text-align:{}"
_TABLE = Markup('<table style="border-collapse:collapse"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>')


def issues_html(table: pd.DataFrame) -> str:
    """Return the ten worst lines of an issue table and how many there are, for ``_repr_html_``."""
    flagged = int(table["flagged"].sum()) if len(table) else 0
    names = [
        name for name in ("row", "agent", "score", "kind", "column", "given", "suggested") if name in table.columns
    ]
    worst = table.sort_values("score", ascending=False, kind="stable").head(WORST)
    lines = []
    for line in worst[[*names, "flagged"]].itertuples(index=False, name=None):
        *values, wrong = line
        lines.append(
            Markup("").join(_issue_cell(name, value, bool(wrong)) for name, value in zip(names, values, strict=True))
        )
    title = Markup("<p><b>{} of {} rows look wrong.</b> {}</p>").format(
        f"{flagged:,}", f"{len(table):,}", f"The {len(worst)} worst:" if len(worst) else ""
    )
    return str(Markup("<div>{}{}</div>").format(title, _table(names, lines) if len(worst) else ""))


def model_html(title: str, facts: Mapping[str, Any], coefficients: Mapping[str, float] | None = None) -> str:
    """Return a model's facts and its ten largest coefficients, for ``_repr_html_``.

    Examples
    --------
    >>> "<td" in model_html("CoMTRegressor", {"rounds": 5, "certificate": 1e-12}, {"size": 2.0})
    True
    """
    said = Markup(" · ").join(Markup("{} <b>{}</b>").format(name, _fact(value)) for name, value in facts.items())
    largest = sorted((coefficients or {}).items(), key=lambda item: -abs(item[1]))[:WORST]
    lines = [_td(name, "left") + _td(short(value), "right") for name, value in largest]
    more = len(coefficients or {}) - len(largest)
    rest = Markup("<p>and {} smaller coefficients</p>").format(f"{more:,}") if more > 0 else Markup("")
    table = _table(["column", "coefficient"], lines) + rest if lines else Markup("")
    return str(Markup("<div><p><b>{}</b></p><p>{}</p>{}</div>").format(title, said, table))


def _fact(value: Any) -> str:
    return short(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def _issue_cell(name: str, value: Any, wrong: bool) -> Markup:
    value = cell(value)
    if name == "score":
        return _td(percent(value), "right")
    if name == "row":
        return _td(str(value), "right")
    text = "" if value is None else str(value)
    if name in ("given", "suggested"):
        text = shown(value)
        if wrong:
            return _td(Markup("<del>{}</del>" if name == "given" else "<b>{}</b>").format(text), "left")
    return _td(text, "left")


def _td(text: str | Markup, side: str) -> Markup:
    return Markup('<td style="{}">{}</td>').format(_CELL.format(side), text)


def _table(names: list[str], lines: list[Markup]) -> Markup:
    head = Markup("").join(Markup('<th style="{}">{}</th>').format(_CELL.format("left"), name) for name in names)
    return _TABLE.format(head, Markup("").join(Markup("<tr>{}</tr>").format(line) for line in lines))
