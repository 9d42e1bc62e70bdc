"""Tables of methods × corruptions, and the one sentence that sums them up."""

from __future__ import annotations

import numpy as np
import pandas as pd

from comt.bench.render_tables import markdown
from comt.bench.render_verdicts import paired_probability


def comparison(results: pd.DataFrame) -> str:
    """Return one table per data set: mean over seeds, the best method (oracle aside) in bold."""
    text = []
    for data, part in results.groupby("data", sort=False):
        methods = [m for m in dict.fromkeys(part["method"]) if m != "clean oracle"]
        lines = []
        order = {name: place for place, name in enumerate(dict.fromkeys(part["corruption"]))}
        cells = sorted(part.groupby(["corruption", "trusted"]), key=lambda item: (order[item[0][0]], item[0][1]))
        for (corruption, trusted), cell in cells:
            means = {
                m: float(cell.loc[cell["method"] == m, "score"].astype(float).mean())
                for m in (*methods, "clean oracle")
            }
            best = max((means[m] for m in methods if np.isfinite(means[m])), default=np.nan)
            shown = [_bold(means[m], best) for m in methods]
            lines.append(
                [str(corruption).replace("_", " "), str(trusted), _bold(means["clean oracle"], np.inf), *shown]
            )
        text.append(f"## {data}\n")
        text.append(markdown(["corruption", "trusted rows", "clean oracle", *methods], lines))
    return "\n".join(text)


def _bold(value: float, best: float) -> str:
    if not np.isfinite(value):
        return "failed"
    shown = f"{max(value, -9.99):.3f}"
    return f"**{shown}**" if value >= best - 0.0005 else shown


def against_the_simple_choice(results: pd.DataFrame) -> str:
    """Say in how many cells tuned CoMT loses to the better of TI-only and Buggy-only."""
    pivot = results.pivot_table(index=["data", "corruption", "trusted", "seed"], columns="method", values="score")
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
