"""Geometric median of the agents' updates (RFA)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from comt.baselines.base import AgentRows, Array, LinearModel, Task
from comt.baselines.checks import check_positive
from comt.baselines.rounds import UpdateBaseline


def geometric_median(
    updates: Array,
    shares: Array | None = None,
    *,
    smoothing: float = 1e-8,
    tolerance: float = 1e-10,
    max_iterations: int = 1000,
) -> Array:
    """Return argmin_z sum_k share_k |z - g_k| by smoothed Weiszfeld steps, equal shares unless given.

    ``smoothing`` and ``tolerance`` are relative to the largest distance from the mean; distances below the
    former count as equal to it, so that a step from an update is defined.
    """
    shares = np.ones(len(updates)) if shares is None else shares
    on_update = _minimum_on_an_update(updates, shares)
    if on_update is not None:
        return on_update
    centre: Array = shares @ updates / shares.sum()
    spread = float(np.linalg.norm(updates - centre, axis=1).max())
    for _ in range(max_iterations):
        distances = np.linalg.norm(updates - centre, axis=1)
        weights = shares / np.maximum(distances, smoothing * spread)
        moved: Array = (weights / weights.sum()) @ updates
        if float(np.linalg.norm(moved - centre)) <= tolerance * spread:
            return moved
        centre = moved
    return centre


def _minimum_on_an_update(updates: Array, shares: Array) -> Array | None:
    # Weiszfeld's steps crawl towards a minimum that is itself an update, so this is asked first: such an
    # update outweighs the sum of the unit pulls of all others. The margin leaves ties to the symmetric steps.
    offsets = updates[None, :, :] - updates[:, None, :]
    distances = np.linalg.norm(offsets, axis=2)
    own = (distances == 0) @ shares
    pulls = np.einsum("j,ijd->id", shares, offsets / np.where(distances > 0, distances, 1.0)[:, :, None])
    excess = own * (1 - 1e-9) - np.linalg.norm(pulls, axis=1)
    best = int(np.argmax(excess))
    return np.asarray(updates[best], dtype=np.float64) if excess[best] > 0 else None


@dataclass(frozen=True, kw_only=True)
class GeometricMedian(UpdateBaseline):
    """rule(g) = argmin_z sum_k (n_k/n) |z - g_k| (RFA; Pillutla et al. 2022).

    Stands bad agents as long as they hold less than half of the rows. Needs no guess how many there are.
    """

    smoothing: float = 1e-8

    name: ClassVar[str] = "Geometric median"
    sends: ClassVar[str] = "d numbers per agent and Weiszfeld step (weighted updates; secure sums suffice)"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(smoothing=self.smoothing)

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Run the rounds with the geometric median."""
        return self.run(
            self.objectives(agents, task),
            lambda updates, now: geometric_median(updates, now.shares, smoothing=self.smoothing),
        )
