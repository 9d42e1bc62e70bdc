"""The page of issues: tables made from ``issues.csv`` and from nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from comt.bench.render_tables import markdown

TITLES = {"regression": "Regression", "classification": "Classification"}


def render_issues(folder: Path) -> str | None:
    """Return the text of ``_issues.md``, or None if there are no results."""
    path = folder / "issues.csv"
    if not path.exists():
        return None
    results = pd.read_csv(path)
    seeds = results.groupby(["task", "corruption", "trusted"])["seed"].nunique()
    versions = ", ".join(sorted(results["version"].astype(str).unique()))
    parts = [f"Seeds per cell: {seeds.min()} to {seeds.max()} (0, 1, 2, …). CoMT version {versions}.\n"]
    for task, title in TITLES.items():
        own = results[results["task"] == task]
        if own.empty:
            continue
        parts += [f"## {title}\n", _ranking(own), _against(own), _repairs(own)]
    return "\n".join(part for part in parts if part)


def _mean(values: pd.Series, digits: int = 2) -> str:
    return "–" if values.dropna().empty else f"{values.mean():.{digits}f}"


def _cells(results: pd.DataFrame) -> list[tuple[str, int, pd.DataFrame]]:
    order = list(dict.fromkeys(results["corruption"]))
    trusted = sorted(results["trusted"].unique())
    return [
        (name, int(m), cell)
        for name in order
        for m in trusted
        if not (cell := results[(results["corruption"] == name) & (results["trusted"] == m)]).empty
    ]


def _ranking(results: pd.DataFrame) -> str:
    """One line per corruption and number of trusted rows: what is found."""
    header = ["corruption", "trusted rows", "wrong rows", "average precision", "scored ≥ 0.8", "of them wrong"]
    columns = ["wrong", "average_precision", "high", "precision_high"]
    if results["suggested_right"].notna().any():
        header.append("suggested labels right")
        columns.append("suggested_right")
    lines = [[name, str(m), *(_mean(cell[column], 3) for column in columns)] for name, m, cell in _cells(results)]
    return markdown(header, lines)


def _against(results: pd.DataFrame) -> str:
    """Average precision beside the competitors', with the number of seeds won."""
    compared = results[results["duti"].notna()]
    if compared.empty:
        return ""
    labels = compared["cleanlab"].notna().any()
    header = ["average precision of the ranking", "trusted rows", "CoMT", "DUTI", "seeds won"]
    header += ["cleanlab", "seeds won"] if labels else []
    lines = []
    for name, m, cell in _cells(compared):
        line = [name, str(m), _mean(cell["average_precision"], 3)]
        for rival in ("duti", "cleanlab") if labels else ("duti",):
            won = int(np.count_nonzero(cell["average_precision"] > cell[rival]))
            line += [_mean(cell[rival], 3), f"{won} of {len(cell)}"]
        lines.append(line)
    return markdown(header, lines)


def _repairs(results: pd.DataFrame) -> str:
    """What is left of the error of features, and how many wrong cells are named."""
    spoilt = results[results["cells_named"].notna()]
    if spoilt.empty:
        return ""
    header = ["corruption", "trusted rows", "wrong cells named", "right cells named", "squared feature error left"]
    columns = ["cells_named", "cells_misnamed", "error_left"]
    if spoilt["error_left_rank_one"].notna().any():
        header.append("best rank-one repair")
        columns.append("error_left_rank_one")
    lines = [[name, str(m), *(_mean(cell[column], 3) for column in columns)] for name, m, cell in _cells(spoilt)]
    return markdown(header, lines)
