"""How an agent answers the question behind the judgement of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from comt.agent.answers import compute, zeros
from comt.agent.folds import fair_rows
from comt.agent.suspect_copies import often
from comt.problem import Array
from comt.queries import RANK_BINS, Answer, ScoresByLabel, rank_edges

if TYPE_CHECKING:
    from comt.agent.agent import Agent


@compute.register(ScoresByLabel)
def _scores_by_label(query: ScoresByLabel, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    arrays = zeros(query)
    for features, targets in prepared.blocks():
        arrays["counts"][query.slot(agent.name)] += _counted(features @ query.theta, targets)
    features, targets = (part[fair_rows(agent.rows)] for part in prepared.trusted)
    arrays["trusted"] += _counted(features @ query.theta, targets)
    return Answer(arrays, {"counts": prepared.n_rows, "trusted": len(targets)})


def _counted(scores: Array, targets: Array) -> Array:
    return np.stack([_histogram(scores[targets * sign > 0]) for sign in (-1.0, 1.0)])


def _histogram(scores: Array) -> Array:
    """Count scores; a row that was copied many times counts once, or it would pass for a rate of flipped labels."""
    distinct, counts = np.unique(scores, return_counts=True)
    bins = np.searchsorted(rank_edges(), distinct, side="right")
    weights = np.where(often(counts), 1, counts)
    return np.bincount(bins, weights=weights.astype(np.float64), minlength=RANK_BINS).astype(np.float64)
