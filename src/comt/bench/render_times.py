"""Seconds of every method, and of the paper's."""

from __future__ import annotations

import numpy as np
import pandas as pd

from comt.bench.published import REPEATS
from comt.bench.render_differences import NAMES, printed_cells
from comt.bench.render_tables import markdown

CELL = ["data", "method", "corruption", "noise", "trusted"]


def seconds_by_method(results: pd.DataFrame) -> pd.Series:
    """Return seconds: the fastest seed of each cell, as a busy machine only adds to them, then the median cell."""
    return _fastest(results).groupby(level=["data", "method"], sort=False).median()


def _fastest(results: pd.DataFrame) -> pd.Series:
    """Return each cell's fastest seed; lines without seconds were timed otherwise (wall clock) and do not count."""
    return results.dropna(subset=["seconds"]).groupby(CELL, sort=False)["seconds"].min()


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
    # a protocol counts once every method of every cell has been timed
    whole = {
        protocol: REPEATS * float(_fastest(results).sum()) / 2 / 60
        for protocol, results in protocols.items()
        if len(_fastest(results)) == len(results.groupby(CELL))
    }
    note = (
        "Processor time of one core in seconds (column `seconds` of the files): the fastest seed of each cell, as other work "
        "on the machine only adds to it, then the median cell; the fair protocol's include tuning. Lines of the files without "
        "seconds stem from early runs that took wall-clock time, which is left out. "
        "In italics the print's median."
    )
    if whole:
        minutes = ", ".join(f"{value:.0f} minutes ({protocol})" for protocol, value in whole.items())
        note += f" {REPEATS} repetitions of all cells on two cores add up to {minutes}."
    return f"## Times of every method\n\n{note}\n\n" + markdown(["protocol", "method", *NAMES], lines)


def _printed(table: str) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for (_, _, method), cells in printed_cells(table).items():
        found.setdefault(method, []).extend(cell.seconds for cell in cells)
    return {method: float(np.median(values)) for method, values in found.items()}
