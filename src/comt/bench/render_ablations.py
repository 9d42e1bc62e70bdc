"""Which change brings our numbers to the print's: one line per change, beside the same cells and seeds unchanged."""

from __future__ import annotations

import numpy as np
import pandas as pd

from comt.bench import published
from comt.bench.ablations import CHANGES
from comt.bench.render_differences import NAMES, PRINTED, TOLERANCE
from comt.bench.render_tables import markdown, origin

UNCHANGED = "nothing"
INTRO = (
    "One thing changed at a time, the rest as in the tables above; the first line of each method is the unchanged one in the "
    "same cells and seeds. *Near* counts the printed numbers that our mean comes within .02 of.\n"
)


def printed(table: str, noise: float, eta: float, method: str) -> list[float]:
    """Return the printed means that belong to one of our cells: those of all blocks where the noise is a mere name."""
    every_block = table == "flips" and noise == 0.4
    return [
        cell.mean
        for cell in published.table(NAMES[table])
        if (PRINTED.get(cell.method, cell.method), cell.eta_percent) == (method, eta)
        and (every_block or cell.noise == noise)
    ]


def gaps(scores: pd.DataFrame, table: str, method: str) -> list[float]:
    """Return ours − print for every printed number of a method that the scores have a cell for."""
    return [
        float(cell["score"].mean()) - number
        for (noise, eta), cell in scores.groupby(["noise", "trusted"])
        for number in printed(table, float(str(noise)), float(str(eta)), method)
    ]


def near(differences: list[float]) -> int:
    """Count the differences that need no explanation."""
    return sum(abs(gap) <= TOLERANCE for gap in differences)


def ablations(changed: pd.DataFrame, unchanged: pd.DataFrame) -> str:
    """Return the table of changes, and what none of them explains."""
    lines: list[list[str]] = []
    reached: dict[str, list[str]] = {"all": [], "some": [], "none": []}
    for (table, method), part in changed.groupby(["data", "method"], sort=False):
        base = unchanged[(unchanged["data"] == table) & (unchanged["method"] == method)]
        base = base[base["seed"].isin(part["seed"])]
        named = {change.name: change for change in CHANGES if (change.table, change.method) == (table, method)}
        found = {UNCHANGED: gaps(base, str(table), str(method))}
        found |= {name: gaps(part[part["corruption"] == name], str(table), str(method)) for name in named}
        found = {name: differences for name, differences in found.items() if differences}
        for name, differences in found.items():
            first = name == UNCHANGED
            lines.append(
                [
                    str(table) if first else "",
                    str(method) if first else "",
                    name,
                    f"{near(differences)} of {len(differences)}",
                    f"{np.abs(differences).mean():.3f}",
                    f"{min(differences):+.2f} to {max(differences):+.2f}",
                ]
            )
        best = max(found, key=lambda name: (near(found[name]) / len(found[name]), -np.abs(found[name]).mean()))
        count, total = near(found[best]), len(found[best])
        kind = "all" if count == total else "some" if count else "none"
        how = "unchanged" if best == UNCHANGED else f"*{best}*"
        reached[kind].append(f"{table}, {method} ({how}" + (")" if kind == "all" else f": {count} of {total})"))
    head = ["table", "method", "what is changed", "near", "mean distance", "ours − print"]
    return "\n".join([INTRO, origin(changed), markdown(head, lines), _summary(reached)])


def _summary(reached: dict[str, list[str]]) -> str:
    said = []
    if reached["all"]:
        said.append("Every printed number is reproduced for " + "; ".join(reached["all"]) + ".")
    if reached["some"]:
        said.append("At best a part is reproduced for " + "; ".join(reached["some"]) + ".")
    if reached["none"]:
        said.append("Nothing tried comes near a single number for " + "; ".join(reached["none"]) + ".")
    if reached["some"] or reached["none"]:
        said.append("For these the reason given above is our best reading, not a reproduction.")
    return " ".join(said) + "\n"


def orderings(results: pd.DataFrame) -> str:
    """Say how often two methods whose printed means differ by more than .02 stand in the same order here."""
    ours = results.groupby(["data", "noise", "trusted", "method"])["score"].mean()
    counts = []
    for table, name in NAMES.items():
        agree = total = 0
        blocks: dict[tuple[float, float], dict[str, float]] = {}
        for cell in published.table(name):
            blocks.setdefault((cell.noise, cell.eta_percent), {})[PRINTED.get(cell.method, cell.method)] = cell.mean
        for (noise, eta), block in blocks.items():
            place = (table, 0.4 if table == "flips" else noise, eta)
            means = {method: float(ours[(*place, method)]) for method in block if (*place, method) in ours.index}
            for a in means:
                for b in means:
                    if block[a] - block[b] > TOLERANCE:
                        total += 1
                        agree += means[a] > means[b]
        if total:
            counts.append(f"{agree} of {total} ({table})")
    return (
        "Of the pairs of methods in a cell whose printed means differ by more than .02, ours stand in the same order in "
        + ", ".join(counts)
        + ".\n"
    )
