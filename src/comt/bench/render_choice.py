"""Automatic choice against the two simple choices, cell by cell: made from one CSV file and from nothing else."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from comt.bench.automatic import Automatic
from comt.bench.render_tables import markdown, origin
from comt.bench.unseen import AGAIN, MADE_UP

SIMPLE = ["TI-only", "Buggy-only"]
CELL = ["data", "corruption", "noise", "trusted"]
LOST = 0.01


def render_choice(folder: Path, experiment: str = "choice") -> str | None:
    """Return the text of the experiment's page, or None if there are no results."""
    path = folder / f"{experiment}.csv"
    if not path.exists():
        return None
    results = pd.read_csv(path)
    if not {Automatic.name, *SIMPLE, "clean oracle"} <= set(results["method"]):
        return None  # a run of single methods has nothing to compare
    means = results.pivot_table(index=CELL, columns="method", values="score", sort=False).dropna()
    header = ["data", "corruption", "size", "trusted rows", "CoMT (auto)", *SIMPLE, "clean oracle", "to the better one"]
    lines = []
    for row in means.reset_index().to_dict("records"):
        difference = row[Automatic.name] - max(row[name] for name in SIMPLE)
        told = f"**{difference:+.3f}**" if difference < -LOST else f"{difference:+.3f}"
        scores = [f"{row[name]:.3f}" for name in (Automatic.name, *SIMPLE, "clean oracle")]
        size = f"{row['noise']:g}" if row["noise"] else ""
        lines.append([row["data"], row["corruption"], size, str(row["trusted"]), *scores, told])
    said = [_sentence(results)]
    groups = {"written down and run last": tuple(AGAIN), "in which the prototypes lost": tuple(MADE_UP)}
    for told, names in groups.items():
        part = results[results["data"].isin(names)]
        if len(part):
            said.append(f"Of these cells, those {told} ({', '.join(dict.fromkeys(part['data']))}). {_sentence(part)}")
    return "\n".join([origin(results), *said, markdown(header, lines)])


def _sentence(results: pd.DataFrame) -> str:
    means = results.pivot_table(index=CELL, columns="method", values="score").dropna()
    difference = means[Automatic.name] - means[SIMPLE].max(axis=1)
    lost = difference[difference < -LOST]
    return (
        f"Of {len(means)} cells automatic choice loses {len(lost)} by more than {LOST} to the better of TI-only and "
        f"Buggy-only, chosen with hindsight (worst {difference.min():+.3f}), and wins {int((difference > LOST).sum())}; "
        "bold: lost.\n"
    )


def auto_against_everybody(results: pd.DataFrame) -> str:
    """Say how automatic choice compares with the simple choices and with the best of all methods, on common seeds."""
    if not {Automatic.name, *SIMPLE} <= set(results["method"]):
        return ""
    scores = results.pivot_table(index=[*CELL, "seed"], columns="method", values="score")
    scores = scores.dropna(subset=[Automatic.name, *SIMPLE])
    means = scores.groupby(level=CELL).mean()
    simple = means[Automatic.name] - means[SIMPLE].max(axis=1)
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
        f"{int((best >= -LOST).sum())} cells and above it in {int((best > 0).sum())}.\n"
    )
