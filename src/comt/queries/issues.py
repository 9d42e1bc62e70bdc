"""The question behind the judgement of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from comt.problem import Array
from comt.queries.base import check_batch
from comt.queries.choosing import RANK_BINS, SlotQuery


@dataclass(frozen=True, kw_only=True)
class ScoresByLabel(SlotQuery):
    """How many rows with each label have a score x·θ in each bin of the grid of ranks: agent by agent, and trusted."""

    purpose: ClassVar[str] = "scores by given label"
    theta: Array  # (p,)

    def __post_init__(self) -> None:
        check_batch(self.theta[None], "theta")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Counts by agent, label (−1, +1) and bin."""
        return {"counts": (len(self.agents), 2, RANK_BINS), "trusted": (2, RANK_BINS)}
