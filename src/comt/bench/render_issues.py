"""The page of issues: tables made from ``issues.csv`` and from nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from comt.bench.issues_unseen import UNSEEN
from comt.bench.render_figures import reliability
from comt.bench.render_tables import markdown

TITLES = {"regression": "Regression", "classification": "Classification"}
GROUPS = ("regression", "classification", "not designed for")


def render_issues(folder: Path) -> str | None:
    """Return the text of ``_issues.md`` (and draw ``issues.png`` beside it), or None if there are no results."""
    path = folder / "issues.csv"
    if not path.exists():
        return None
    results = pd.read_csv(path)
    seeds = results.groupby(["task", "corruption", "trusted"])["seed"].nunique()
    versions = ", ".join(sorted(results["version"].astype(str).unique()))
    unseen = np.array([name in UNSEEN[task] for task, name in zip(results["task"], results["corruption"], strict=True)])
    parts = [f"Seeds per cell: {seeds.min()} to {seeds.max()} (0, 1, 2, …). CoMT version {versions}.\n"]
    parts += [_reliability(results, unseen, folder / "issues.png")]
    for task, title in TITLES.items():
        own = results[(results["task"] == task) & ~unseen]
        if not own.empty:
            parts += [f"## {title}\n", _ranking(own), _against(own), _repairs(own)]
    if unseen.any():
        parts.append("## Not designed for\n")
        for task, title in TITLES.items():
            own = results[(results["task"] == task) & unseen]
            if not own.empty:
                parts += [f"### {title}\n", _ranking(own), _repairs(own)]
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


def _counts(values: pd.Series) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.array([text.split() for text in values], dtype=np.int64).sum(axis=0)
    return counts


def _reliability(results: pd.DataFrame, unseen: NDArray[np.bool_], path: Path) -> str:
    """How many of the rows with a score in each tenth are wrong; cells in which every row is wrong say nothing."""
    if "rows_by_score" not in results:
        return ""
    telling = results["rows_by_score"].notna() & (results["wrong"] < 1.0)
    masks = [~unseen & (results["task"] == task) for task in TITLES] + [unseen]
    shares, lines = {}, [[f"{k / 10:.1f} to {(k + 1) / 10:.1f}"] for k in range(10)]
    header = ["score"]
    for group, mask in zip(GROUPS, masks, strict=True):
        own = results[mask & telling]
        if own.empty:
            continue
        rows, wrong = _counts(own["rows_by_score"]), _counts(own["wrong_by_score"])
        shares[group] = np.where(rows > 0, wrong / np.maximum(rows, 1), np.nan), rows
        header += [f"{group}: rows", "of them wrong"]
        for line, count, share in zip(lines, rows, shares[group][0], strict=True):
            line += [f"{count:,}", "–" if count == 0 else f"{share:.3f}"]
    if not shares:
        return ""
    reliability(shares, path)
    picture = "![Share of wrong rows against their score, for the three groups of cells.](issues.png)\n"
    return "\n".join(["## Is a score a probability?\n", picture, markdown(header, lines)])


def _ranking(results: pd.DataFrame) -> str:
    """One line per corruption and number of trusted rows: what is found."""
    header = ["corruption", "trusted rows", "wrong rows", "average precision", "scored ≥ 0.8", "of them wrong"]
    columns = ["wrong", "average_precision", "high"]
    labels = results["suggested_right"].notna().any()
    if labels:
        header.append("suggested labels right")
    lines = []
    for name, m, cell in _cells(results):
        line = [name, str(m), *(_mean(cell[column], 3) for column in columns), _wrong_of_high(cell)]
        lines.append(line + ([_mean(cell["suggested_right"], 3)] if labels else []))
    return markdown(header, lines)


def _wrong_of_high(cell: pd.DataFrame) -> str:
    """Of all rows scored 0.8 or more, over all seeds together: a seed with two such rows must not count like one with 200."""
    high = cell["high"].fillna(0.0)
    if not high.sum():
        return "–"
    return f"{float((high * cell['precision_high'].fillna(0.0)).sum() / high.sum()):.3f}"


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
    header += ["left by the best rank-one repair", "reduction relative to it"]
    lines = []
    for name, m, cell in _cells(spoilt):
        columns = ("cells_named", "cells_misnamed", "error_left", "error_left_rank_one")
        best = 1.0 - cell["error_left_rank_one"].mean()
        reached = (1.0 - cell["error_left"].mean()) / best if best > 0.005 else np.nan
        line = [name, str(m), *(_mean(cell[column], 3) for column in columns)]
        lines.append([*line, "–" if np.isnan(reached) else f"{reached:.1f}"])
    return markdown(header, lines)
