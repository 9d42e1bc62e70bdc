"""Who is better than whom: paired tests over seeds, which every such word on the pages rests on."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

from comt.bench.render_tables import markdown

#: a verdict is given below this probability, after Holm's correction over the lines of one data set
LEVEL = 0.05
#: told apart or not, a smaller mean difference is of no use to anybody
NEGLIGIBLE = 0.001
CELL = ["corruption", "noise", "trusted"]


def paired_probability(difference: pd.Series) -> float:
    """Return the p of Wilcoxon's signed-rank test that differences are centred at 0; 1 if all are 0."""
    return float(wilcoxon(difference).pvalue) if (difference != 0).any() else 1.0


def holm(probabilities: list[float]) -> list[float]:
    """Correct probabilities for their number, by Holm's method.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(probabilities, kind="stable")
    corrected, largest = [0.0] * len(probabilities), 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - place) * probabilities[int(index)]))
        corrected[int(index)] = largest
    return corrected


def against_everybody(results: pd.DataFrame, ours: str = "CoMT") -> str:
    """Return one line per data set and rival: cells of one seed share their rows, so a seed counts once."""
    lines = []
    for data, part in results.groupby("data", sort=False):
        pivot = part.pivot_table(index=["seed", *CELL], columns="method", values="score")
        if ours not in pivot:
            continue
        rivals = [m for m in dict.fromkeys(part["method"]) if m not in (ours, "clean oracle") and m in pivot]
        difference = {rival: (pivot[ours] - pivot[rival]).dropna() for rival in rivals}
        seeds = {rival: values.groupby(level="seed").mean() for rival, values in difference.items()}
        corrected = holm([paired_probability(seeds[rival]) for rival in rivals])
        for rival, p in zip(rivals, corrected, strict=True):
            cells, by_seed = difference[rival].groupby(level=CELL).mean(), seeds[rival]
            lines.append(
                [
                    str(data),
                    rival,
                    f"{by_seed.median():+.3f}",
                    f"{int((cells > 0.01).sum())} / {int((cells < -0.01).sum())} of {len(cells)}",
                    f"{int((by_seed > 0).sum())} of {len(by_seed)}",
                    f"{p:.1g}",
                    _verdict(by_seed, p),
                ]
            )
    if not lines:
        return ""
    head = [
        "data",
        f"{ours} against",
        "median seed's difference",
        "cells won / lost by .01",
        "seeds won",
        "p",
        f"{ours} is",
    ]
    return markdown(head, lines)


def _verdict(by_seed: pd.Series, p: float) -> str:
    if p >= LEVEL:
        return "not told apart"
    if abs(by_seed.mean()) < NEGLIGIBLE:
        return "the same to .001"
    return "better" if by_seed.median() > 0 else "worse"


def where_the_simple_choice_wins(results: pd.DataFrame) -> str:
    """Say in which cells TI-only or Buggy-only beats CoMT, paired over the cell's seeds."""
    sentences = []
    for simple in ("TI-only", "Buggy-only"):
        won, probabilities = [], []
        for (data, noise, trusted), cell in results.groupby(["data", "noise", "trusted"], sort=False):
            pair = cell.pivot_table(index="seed", columns="method", values="score")
            difference = (pair[simple] - pair["CoMT"]).dropna()
            if difference.mean() > 0:
                won.append(f"{data} at noise {noise:g} with {trusted:g} % trusted ({difference.mean():+.3f})")
                probabilities.append(paired_probability(difference))
        sure = [cell for cell, p in zip(won, holm(probabilities), strict=True) if p < LEVEL]
        sentences.append(f"{simple} beats CoMT in {len(sure)} cells" + (": " + "; ".join(sure) if sure else "") + ".")
    return " ".join(sentences) + "\n"
