"""Plain words for what the numbers say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from comt.report.kinds import ALWAYS_OF_A_CELL, NAMES, NOT_OF_THE_TARGET
from comt.report.page import percent, short
from comt.report.private import Joining

#: spreads from which a target is called far from what is expected
FAR = 3.0


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
    size: float = 0.0,
    reasons: Sequence[tuple[str, Any]] = (),
    look_at: str = "",
) -> str:
    """Say in a sentence why a row was (not) flagged.

    ``cell`` is the most suspicious one (column, given, suggested), ``size`` that of the change in spreads, ``reasons`` are
    the columns and values that the joint model's opinion of the target rests on; ``look_at`` names a column that alone
    moves it too far to be believed.
    """
    if kind == "duplicate":
        return "The very same row occurs many times, as if it had been copied; at most one of the copies is real."
    if cell is not None and flagged and kind in NOT_OF_THE_TARGET:
        return _about_cell(kind, *cell)
    if kind in ALWAYS_OF_A_CELL:
        return (
            f"One of its values looks wrong ({NAMES[kind]})."
            if flagged
            else "Nothing in this row is likely to be wrong."
        )
    because = (
        ", mostly because of " + listed([f"{name} ({shown(value)})" for name, value in reasons]) if reasons else ""
    )
    if isinstance(given, (int, float)) and not isinstance(given, bool) and kind != "label":
        side = "above" if given > suggested else "below"
        if not flagged:
            return f"The joint model expects {shown(suggested)}; {shown(given)} is within what right rows show."
        pattern = " Most rows of this source do not follow the model." if kind == "agent" else ""
        if kind == "feature":
            pattern = " The columns of this source are noisy, so the other values may be wrong instead."
        if look_at:
            pattern += f" Look at {look_at} first: that cell alone moves it so far."
        far = "far " if size >= FAR else ""
        return f"{target} is {far}{side} the {shown(suggested)} that the joint model expects{because}.{pattern}"
    if given == suggested:
        return f"The joint model agrees, {percent(1 - score)} sure{because}."
    pattern = " The labels of this source as a whole do not follow the model." if kind == "agent" else ""
    return f"The joint model is {percent(score)} sure of {shown(suggested)}{because}.{pattern}"


def _about_cell(kind: str, name: str, given: Any, suggested: Any) -> str:
    would = "" if suggested is None else f" {shown(suggested)} would fit."
    if kind == "missing code":
        return f"{name} is {shown(given)}: far out and frequent, it looks like a code for “missing”.{would}"
    if kind == "unit":
        return f"{name} is {shown(given)}, as if measured in another unit.{would}"
    return f"{name} is {shown(given)}, which does not fit the rest of the row.{would}"


def listed(words: Sequence[str]) -> str:
    """Join words as people do.

    >>> listed(["size", "age", "weight"])
    'size, age and weight'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


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
