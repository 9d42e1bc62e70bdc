"""Seconds of every method, and of the paper's."""

from __future__ import annotations

import numpy as np
import pandas as pd

from comt.bench.published import REPEATS
from comt.bench.render_differences import NAMES, printed_cells
from comt.bench.render_tables import markdown


def seconds_by_method(results: pd.DataFrame) -> pd.Series:
    """Return seconds: the fastest seed of each cell, as a busy machine only adds to them, then the median cell."""
    return _fastest(results).groupby(level=["data", "method"], sort=False).median()


def _fastest(results: pd.DataFrame) -> pd.Series:
    """Return each cell's fastest seed; lines without seconds were timed otherwise (wall clock) and do not count."""
    timed = results.dropna(subset=["seconds"])
    return timed.groupby(["data", "method", "corruption", "noise", "trusted"], sort=False)["seconds"].min()


def times(protocols: dict[str, pd.DataFrame]) -> str:
    """Return the table of times: one line per method, a column per table, protocol by protocol."""
    printed = {table: _printed(table) for table in NAMES}
    lines = []
    for protocol, results in protocols.items():
        seconds = seconds_by_method(results)
        for method in dict.fromkeys(results["method"]):
            line = [protocol, method]
            for table in NAMES:
                mine = seconds.get((table, method))
                theirs = printed[table].get(method) if protocol == "paper" else None
                beside = "" if theirs is None else f" *({theirs:.0f})*"
                line.append("–" if mine is None else f"{mine:.2f}{beside}")
            lines.append(line)
    whole = {protocol: REPEATS * float(_fastest(results).sum()) / 2 / 60 for protocol, results in protocols.items()}
    note = (
        "Processor time of one core in seconds (column `seconds` of the files): the fastest seed of each cell, as other work "
        "on the machine only adds to it, then the median cell; the fair protocol's include tuning. Lines of the files without "
        "seconds stem from early runs that took wall-clock time, which is left out. "
        f"In italics the print's median. {REPEATS} repetitions of all cells on two cores add up to "
        + ", ".join(f"{minutes:.0f} minutes ({protocol})" for protocol, minutes in whole.items())
        + ".\n\n"
    )
    return "## Times of every method\n\n" + note + markdown(["protocol", "method", *NAMES], lines)


def _printed(table: str) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for (_, _, method), cells in printed_cells(table).items():
        found.setdefault(method, []).extend(cell.seconds for cell in cells)
    return {method: float(np.median(values)) for method, values in found.items()}
