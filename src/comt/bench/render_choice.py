"""Automatic choice against the two simple choices, cell by cell: made from one CSV file and from nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from comt.bench.automatic import Automatic
from comt.bench.prototypes import Prototype
from comt.bench.render_tables import markdown, origin
from comt.bench.unseen_errors import GROUPS
from comt.bench.unseen_tables import MADE_UP, table

SIMPLE = ["TI-only", "Buggy-only"]
CELL = ["data", "corruption", "noise", "trusted"]
LOST = 0.01
#: trusted rows that are many (five per column and more), and errors that most methods cannot stand
MANY = 100
#: gaps to the oracle smaller than this are chance
NO_GAP = 0.002
HALF_WRONG = ("negated_targets", "wrong_agents", "malicious_agent", "boosted_update")


def render_choice(folder: Path, experiment: str = "choice") -> str | None:
    """Return the text of the experiment's page, or None if there are no results."""
    path = folder / f"{experiment}.csv"
    if not path.exists():
        return None
    results = pd.read_csv(path)
    if not {Automatic.name, *SIMPLE, "clean oracle"} <= set(results["method"]):
        return None  # a run of single methods has nothing to compare
    means = _means(results)
    shown = [Automatic.name, *SIMPLE, "clean oracle", *([Prototype.name] if Prototype.name in means else [])]
    header = ["data", "corruption", "size", "trusted rows", *shown, "to the better one"]
    lines = []
    for row in means.reset_index().to_dict("records"):
        difference = row[Automatic.name] - max(row[name] for name in SIMPLE)
        told = f"**{difference:+.3f}**" if difference < -LOST else f"{difference:+.3f}"
        scores = [f"{row[name]:.3f}" for name in shown]
        size = f"{row['noise']:g}" if row["noise"] else ""
        lines.append([row["data"], row["corruption"], size, str(row["trusted"]), *scores, told])
    said = [_sentence(results)]
    groups = {
        **{f"of the {which} group": tuple(data) for which, data in GROUPS.items()},
        "in which the prototypes lost": tuple(MADE_UP),
    }
    for told, names in groups.items():
        part = results[results["data"].isin(names)]
        if len(part):
            said.append(f"Of these cells, those {told} ({', '.join(dict.fromkeys(part['data']))}). {_sentence(part)}")
    if experiment == "unseen":
        said.append(_by_rows_per_column(_ahead(means, Automatic.name)))
    return "\n".join([origin(results), *said, markdown(header, lines)])


def _means(results: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of every method in every cell, over the seeds that all of them have."""
    scores = results.pivot_table(index=[*CELL, "seed"], columns="method", values="score", sort=False).dropna()
    return scores.groupby(level=CELL, sort=False).mean()


def _ahead(means: pd.DataFrame, name: str) -> pd.Series:
    """Return by how much a method is ahead of the better simple choice, cell by cell."""
    return pd.Series(means[name] - means[SIMPLE].max(axis=1))


def _by_rows_per_column(difference: pd.Series) -> str:
    """Say how many cells are lost, and the worst, by the number of trusted rows for each column."""
    columns = difference.index.get_level_values("data").map(lambda name: table(name).features.shape[1])
    per_column = difference.index.get_level_values("trusted") / columns
    parts = []
    for told, least, below in (
        ("five trusted rows or more for each column", 5.0, np.inf),
        ("one to five", 1.0, 5.0),
        ("half a row to one", 0.5, 1.0),
        ("fewer", 0.0, 0.5),
    ):
        part = difference[(per_column >= least) & (per_column < below)]
        if len(part):
            parts.append(f"{told}: {int((part < -LOST).sum())} of {len(part)} (worst {part.min():+.3f})")
    return f"Lost by the number of trusted rows: {'; '.join(parts)}.\n"


def _sentence(results: pd.DataFrame) -> str:
    means = _means(results)
    difference = _ahead(means, Automatic.name)
    lost = difference[difference < -LOST]
    beside = ""
    if Prototype.name in means:
        theirs = _ahead(means, Prototype.name)
        beside = f" The prototype recipes lose {int((theirs < -LOST).sum())} (worst {theirs.min():+.3f})."
    return (
        f"Of {len(means)} cells automatic choice loses {len(lost)} by more than {LOST} to the better of TI-only and "
        f"Buggy-only, chosen with hindsight (worst {difference.min():+.3f}), and wins {int((difference > LOST).sum())}; "
        f"bold: lost.{beside}\n"
    )


def auto_against_everybody(results: pd.DataFrame) -> str:
    """Say how automatic choice compares with the simple choices and with the best of all methods, on common seeds."""
    if not {Automatic.name, *SIMPLE} <= set(results["method"]):
        return ""
    scores = results.pivot_table(index=[*CELL, "seed"], columns="method", values="score")
    scores = scores.dropna(subset=[Automatic.name, *SIMPLE])
    means = scores.groupby(level=CELL).mean()
    simple = _ahead(means, Automatic.name)
    # methods have different numbers of seeds: each is compared on those it shares with automatic choice
    others = scores.drop(columns=[Automatic.name, "clean oracle"], errors="ignore")
    best = others.rsub(scores[Automatic.name], axis=0).groupby(level=CELL).mean().min(axis=1)
    lost = simple[simple < -LOST].sort_values().rename("by").reset_index().to_dict("records")
    worst = "; ".join(
        f"{row['data']} {row['corruption']} with {row['trusted']} trusted rows {row['by']:+.3f}" for row in lost
    )
    seeds = scores.index.get_level_values("seed").nunique()
    return (
        f"Automatic choice ({seeds} seeds): of {len(means)} cells it loses {len(lost)} by more than "
        f"{LOST} to the better of TI-only and Buggy-only{f' ({worst})' if worst else ''} and wins "
        f"{int((simple > LOST).sum())}. It is within {LOST} of the best of all methods, chosen with hindsight per cell, in "
        f"{int((best >= -LOST).sum())} cells and above it in {int((best > 0).sum())}"
        f"{_with_many_rows(scores, best)}.\n"
    )


def _with_many_rows(scores: pd.DataFrame, best: pd.Series) -> str:
    """Say the same of the cells with many trusted rows, and how much is gained where half of the targets are wrong."""
    many = best[best.index.get_level_values("trusted") >= MANY]
    if many.empty or "clean oracle" not in scores:
        return ""
    closed, nothing_left = [], []
    for cell in many.index[many.index.get_level_values("corruption").isin(HALF_WRONG)]:
        seeds = pd.DataFrame(scores.xs(cell, level=CELL))
        others = seeds.drop(columns=[Automatic.name, "clean oracle"]).dropna(axis=1, how="all")
        strongest = str(others.rsub(seeds[Automatic.name], axis=0).mean().idxmin())
        common = seeds[[Automatic.name, strongest, "clean oracle"]].dropna()
        ours, theirs, oracle = common.to_numpy().mean(axis=0).tolist()
        if oracle - theirs < NO_GAP:
            nothing_left.append(ours - theirs)
        else:
            closed.append(min(1.0, (ours - theirs) / (oracle - theirs)))
    said = f"; with {MANY} trusted rows or more, in {int((many >= -LOST).sum())} of {len(many)}"
    if closed:
        said += (
            f". Where half of the targets or whole agents are wrong ({len(closed) + len(nothing_left)} of these), it closes "
            f"at least {min(closed):.0%} of the gap between the best of all other methods and the oracle"
        )
    if closed and nothing_left:
        said += (
            f", but for {len(nothing_left)} in which that gap is less than {NO_GAP} (there it is {min(nothing_left):+.4f} "
            f"from the best of them)"
        )
    return said
