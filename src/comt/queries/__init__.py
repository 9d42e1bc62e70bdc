"""THE VOCABULARY: every question a server may ask, and the exact shape, meaning and limits of every answer.

A query is broadcast to all agents; each answers with arrays that are *sums over its rows*; only their sum over agents is
used. Queries carry everything an agent needs (the preparation of the features included), so an agent keeps nothing
between rounds, with one exception that says so: :class:`ProximalStep` of Algorithm 1.

A query carries a batch of B models, so that a whole path of parameters costs the rounds of one fit.
"""

from __future__ import annotations

from comt.queries.base import EVERYBODY, MAX_ANSWER_BYTES, MAX_BATCH, MAX_FEATURES, Answer, ModelQuery, Query, Totals
from comt.queries.bending import BendingSums
from comt.queries.choosing import (
    RANK_BINS,
    RANK_STATISTICS,
    ErrorCounts,
    ErrorsByPrediction,
    MomentsByAgent,
    MultipliedSums,
    NoisyLabelSums,
    RankCounts,
    RobustMoments,
    SlotQuery,
    TrustedLeftOut,
    TrustedSums,
    rank_edges,
    rank_middles,
)
from comt.queries.columns import COARSE_BINS, COARSE_SIDE, OCTAVES, Histogram, Spread, coarse_edges
from comt.queries.issues import ScoresByLabel
from comt.queries.solving import (
    Curvature,
    CurvatureTimes,
    DirectSums,
    DualSums,
    Keep,
    ProximalStep,
    Recursion,
    ResidualScale,
    ScoreHistogram,
    SubsetSum,
    TrustedScore,
)

__all__ = [
    "COARSE_BINS",
    "COARSE_SIDE",
    "EVERYBODY",
    "MAX_ANSWER_BYTES",
    "MAX_BATCH",
    "MAX_FEATURES",
    "OCTAVES",
    "RANK_BINS",
    "RANK_STATISTICS",
    "Answer",
    "BendingSums",
    "Curvature",
    "CurvatureTimes",
    "DirectSums",
    "DualSums",
    "ErrorCounts",
    "ErrorsByPrediction",
    "Histogram",
    "Keep",
    "ModelQuery",
    "MomentsByAgent",
    "MultipliedSums",
    "NoisyLabelSums",
    "ProximalStep",
    "Query",
    "RankCounts",
    "Recursion",
    "ResidualScale",
    "RobustMoments",
    "ScoreHistogram",
    "ScoresByLabel",
    "SlotQuery",
    "Spread",
    "SubsetSum",
    "Totals",
    "TrustedLeftOut",
    "TrustedScore",
    "TrustedSums",
    "coarse_edges",
    "rank_edges",
    "rank_middles",
]
