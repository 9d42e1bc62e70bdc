"""Bins that hold few rows are merged before their counts leave."""

from __future__ import annotations

import numpy as np

from comt.problem import Array
from comt.queries import (
    ErrorCounts,
    ErrorsByPrediction,
    Histogram,
    MomentsByAgent,
    Query,
    RankCounts,
    ScoreHistogram,
    ScoresByLabel,
)

#: arrays that count buggy rows in bins: their bins are merged until each holds enough rows
BINNED: dict[type[Query], tuple[str, ...]] = {
    Histogram: ("counts",),
    ScoreHistogram: ("counts",),
    ErrorCounts: ("counts",),
    ErrorsByPrediction: ("counts",),
    RankCounts: ("buggy",),
    ScoresByLabel: ("counts", "trusted"),
    MomentsByAgent: ("columns",),
}


def cells(counts: Array, least: int) -> Array:
    """Merge neighbouring bins until each holds no row or at least ``least``; totals stay, quantiles move by a bin or two.

    A merged group is put where its middle row lies. What is left over at the end joins the last group.
    """
    merged = np.zeros_like(counts)
    for line, row in zip(merged.reshape(-1, counts.shape[-1]), counts.reshape(-1, counts.shape[-1]), strict=True):
        filled = np.flatnonzero(row)
        held, start, last = 0.0, 0, -1
        for place, bin_ in enumerate(filled):
            held += row[bin_]
            if held >= least:
                group = filled[start : place + 1]
                middle = group[np.searchsorted(row[group].cumsum(), held / 2.0)]
                line[middle] += held
                held, start, last = 0.0, place + 1, middle
        if held and last >= 0:
            line[last] += held
    return merged
