"""Plain words for what the numbers say."""

from __future__ import annotations

from typing import Any

from comt.report.page import percent, short
from comt.report.private import Joining

#: names of the kinds of issues, as the table shows them
KINDS = {
    "label": "label",
    "target": "target",
    "feature": "value",
    "agent": "whole source",
    "unit": "unit",
    "missing code": "missing code",
}


def shown(value: Any) -> str:
    """Write a cell: numbers short, text in quotation marks."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return short(value)
    return f"“{value}”"


def why(
    kind: str,
    *,
    score: float,
    flagged: bool,
    given: Any,
    suggested: Any,
    target: str,
    cell: tuple[str, Any, Any] | None,
) -> str:
    """Say in a sentence why a row was (not) flagged; ``cell`` is its most suspicious one: column, given, suggested."""
    if cell is not None and kind in ("feature", "unit", "missing code"):
        name, old, new = cell
        would = "" if new is None else f" {shown(new)} would fit."
        if kind == "missing code":
            return f"{name} is {shown(old)}: far out and frequent, it looks like a code for “missing”.{would}"
        if kind == "unit":
            return f"{name} is {shown(old)}, as if measured in another unit.{would}"
        return f"{name} is {shown(old)}, which does not fit the rest of the row.{would}"
    if given == suggested:
        return f"The joint model also says {shown(given)} ({percent(1 - score)} sure)."
    if kind == "agent":
        return f"Many rows of this source deviate alike, and this one fits the pattern: {shown(suggested)} would fit."
    if isinstance(given, (int, float)) and not isinstance(given, bool) and kind != "label":
        side = "above" if given > suggested else "below"
        close = "" if flagged else " That is within what right rows show."
        return f"{target} is {shown(given)}, {side} the {shown(suggested)} that the joint model expects of such a row.{close}"
    return f"The file says {shown(given)}, the joint model {shown(suggested)} ({percent(score)} sure)."


def confidence(score: float) -> str:
    """Say how sure the joint model is that something is wrong with a row."""
    for least, words in ((0.99, "almost certain"), (0.9, "very likely"), (0.75, "likely"), (0.5, "rather likely")):
        if score >= least:
            return words
    return "looks right"


def joining(found: Joining) -> tuple[str, str]:
    """Return the answer to "was it worth joining?" in a few words, and its explanation."""
    rows = f"your {found.trusted_rows:,} trusted rows" if found.trusted_rows != 1 else "your one trusted row"
    if found.verdict == "joint":
        return "Yes", f"On {rows} the joint model does clearly better than the best model from your rows alone."
    if found.verdict == "own":
        return "Not this time", f"On {rows} a model from your rows alone does clearly better than the joint one."
    if found.verdict == "undecided":
        return "No clear difference", f"On {rows} the joint model and one from your rows alone do about equally well."
    if not found.trusted_rows:
        return (
            "Cannot be told",
            "You have no trusted rows to compare on. Verify some, for example the rows drawn at random.",
        )
    return (
        "Too early to tell",
        f"You have {found.trusted_rows} trusted rows, too few for a fair comparison: verify more.",
    )
