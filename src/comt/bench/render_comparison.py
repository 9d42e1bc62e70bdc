"""Tables of methods × corruptions, and the one sentence that sums them up."""

from __future__ import annotations

import numpy as np
import pandas as pd

from comt.bench.render_tables import markdown
from comt.bench.render_verdicts import paired_probability

#: what a reader must know about cells that are more than a corruption of rows
NOTES = {
    "boosted_update": "*boosted update*: the rows of *malicious agent*, and that agent multiplies every update it sends by "
    "the number of agents (Bhagoji et al. 2018), so that it outweighs a plain mean. This acts on the methods that combine one "
    "update per agent (FedAvg, FedProx, FLTrust, medians, trimmed mean, Krum, clipping); in the other columns the cell equals "
    "*malicious agent*. Whoever sends sums, as CoMT's agents do, could falsify those as well; that is not simulated.",
    "trusted_at_one_agent": "*trusted at one agent*: the errors of *mixed*, all trusted rows at the first agent. DUTI then "
    "repairs that agent's rows only.",
}


def notes(results: pd.DataFrame) -> str:
    """Explain the cells that need it, as far as they are there."""
    return "".join(f"* {text}\n" for cell, text in NOTES.items() if (results["corruption"] == cell).any())


SEEDS = (
    "Means are over the seeds that most methods of a cell have. A number in brackets: over that many seeds only, and not in "
    "the running for bold.\n"
)


def on_common_seeds(cell: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the mean score and number of seeds of every method, none over more seeds than most methods have."""
    usual = int(cell.groupby("method")["seed"].nunique().mode().max())
    first = cell[cell["seed"].isin(sorted(cell["seed"].unique())[:usual])].groupby("method")
    return first["score"].mean(), first["seed"].nunique()


def comparison(results: pd.DataFrame) -> str:
    """Return one table per data set: mean over seeds, the best method (oracle aside) in bold."""
    text = [SEEDS]
    for data, part in results.groupby("data", sort=False):
        methods = [m for m in dict.fromkeys(part["method"]) if m != "clean oracle"]
        lines = []
        order = {name: place for place, name in enumerate(dict.fromkeys(part["corruption"]))}
        cells = sorted(part.groupby(["corruption", "trusted"]), key=lambda item: (order[item[0][0]], item[0][1]))
        for (corruption, trusted), cell in cells:
            means, seeds = on_common_seeds(cell)
            whole = means[seeds == seeds.max()]
            best = float(whole.drop("clean oracle", errors="ignore").max())
            shown = [
                _bold(means.get(m), best) if m in whole or m not in means else f"{_bold(means[m], np.inf)} ({seeds[m]})"
                for m in methods
            ]
            oracle = _bold(means.get("clean oracle"), np.inf)
            lines.append([str(corruption).replace("_", " "), str(trusted), oracle, *shown])
        text.append(f"## {data}\n")
        text.append(markdown(["corruption", "trusted rows", "clean oracle", *methods], lines))
    return "\n".join(text)


def _bold(value: float | None, best: float) -> str:
    if value is None:
        return "–"  # not run
    if not np.isfinite(value):
        return "failed"
    shown = f"{max(value, -9.99):.3f}"
    return f"**{shown}**" if value >= best - 0.0005 else shown


def against_the_simple_choice(results: pd.DataFrame) -> str:
    """Say in how many cells tuned CoMT loses to the better of TI-only and Buggy-only; nothing if one was not run."""
    if not {"CoMT", "TI-only", "Buggy-only"} <= set(results["method"]):
        return ""
    pivot = results.pivot_table(index=["data", "corruption", "trusted", "seed"], columns="method", values="score")
    pivot = pivot.dropna(subset=["CoMT", "TI-only", "Buggy-only"])  # the same seeds for all three
    cells = pivot.groupby(level=[0, 1, 2]).mean()
    simple = cells[["TI-only", "Buggy-only"]].max(axis=1)
    difference = cells["CoMT"] - simple
    lost, won = int((difference < -0.01).sum()), int((difference > 0.01).sum())
    ti = int((cells["TI-only"] > cells[["CoMT", "Buggy-only"]].max(axis=1) + 0.005).sum())
    buggy = int((cells["Buggy-only"] > cells[["CoMT", "TI-only"]].max(axis=1) + 0.005).sum())
    # cells of one seed share their rows: average them first, so that only seeds count as independent
    paired = (pivot["CoMT"] - pivot[["TI-only", "Buggy-only"]].max(axis=1)).dropna().groupby(level="seed").mean()
    p = paired_probability(paired)
    return (
        f"Of {len(cells)} cells, the paper's CoMT, tuned like everybody else, loses {lost} by more than .01 to the better of "
        f"TI-only and Buggy-only (chosen with hindsight) and wins {won}; worst {difference.min():+.3f}, mean "
        f"{difference.mean():+.3f} (paired Wilcoxon over seeds p = {p:.2g}). TI-only is the best of "
        f"the three in {ti} cells by more than .005, Buggy-only in {buggy}.\n"
    )
