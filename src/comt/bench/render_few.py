"""Five trusted rows, many seeds, beside the limit of choosing between two models: made from two CSV files."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from comt.bench.automatic import Automatic
from comt.bench.limits import CELL, MAY_LOSE
from comt.bench.render_choice import SIMPLE
from comt.bench.render_tables import markdown, origin


def render_few(folder: Path) -> str | None:
    """Return the text of the page, or None if there are no results, or none of automatic choice."""
    if not (folder / "few.csv").exists() or not (folder / "few_limits.csv").exists():
        return None
    results, found = pd.read_csv(folder / "few.csv"), pd.read_csv(folder / "few_limits.csv")
    if Automatic.name not in set(results["method"]):
        return None
    # limits are those of labels
    limits = {_name(line): np.array([line["limit"], line["unknown"]]) for line in found.to_dict("records")}
    none = np.full(2, np.nan)
    scores = results.pivot_table(index=[*CELL, "seed"], columns="method", values="score", sort=False).dropna()
    lines, lost, above = [], 0, []
    for _, seeds in scores.groupby(level=CELL, sort=False):
        cell = _name(seeds.reset_index().iloc[0].to_dict())
        mean = seeds.mean()
        better = SIMPLE[int(np.argmax([mean[name] for name in SIMPLE]))]
        away = seeds[Automatic.name] - seeds[better]
        unsure = float(away.std(ddof=1)) / np.sqrt(len(away))
        lost += away.mean() < -MAY_LOSE
        limit = limits.get(cell, none)
        above.append(float(mean[Automatic.name]) - limit)
        told = f"**{away.mean():+.3f}**" if away.mean() < -MAY_LOSE else f"{away.mean():+.3f}"
        numbers = [_told(number) for number in (*limit, *(mean[name] for name in SIMPLE))]
        # a difference and its error stay on one line
        lines.append(
            [
                *cell[1:],
                f"{mean[Automatic.name]:.3f}",
                f"{told}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{unsure:.3f}",
                *numbers,
                cell[0],
            ]
        )
    header = ["data", "corruption", "rows", "CoMT (auto)", "to the better one", "limit, models known"]
    header += ["limit, right model unknown", *SIMPLE, "cells of"]
    (known, unknown), worst = (np.array(above) < -MAY_LOSE).sum(axis=0), np.nanmin(above, axis=0)
    counted = (
        f"Of {len(lines)} cells automatic choice loses {lost} by more than {MAY_LOSE} to the better simple choice; "
        f"{unknown} lie more than {MAY_LOSE} below what choosing can reach without knowing the right model "
        f"(worst {worst[1]:+.3f}), {known} below what it could if it knew both models (worst {worst[0]:+.3f}).\n"
    )
    return "\n".join([origin(results), counted, markdown(header, lines)])


def _told(number: float) -> str:
    return "" if np.isnan(number) else f"{number:.3f}"


def _name(line: dict[Hashable, Any]) -> tuple[str, str, str, str]:
    size = f" {line['noise']:g}" if line["noise"] else ""
    corruption = str(line["corruption"]).replace("_", " ")
    return str(line["experiment"]), str(line["data"]), f"{corruption}{size}", f"{line['trusted']:.0f}"
