"""Centered clipping of the agents' updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from comt.baselines.base import AgentRows, Array, LinearModel, Task
from comt.baselines.checks import check_positive
from comt.baselines.rounds import UpdateBaseline


def centered_clipping(updates: Array, start: Array, radius: float | None = None, n_clips: int = 1) -> Array:
    """Return v after ``n_clips`` of v <- v + mean_k (g_k - v) min(1, radius/|g_k - v|), from v = ``start``.

    Without ``radius`` each clip uses the median distance |g_k - v|.

    >>> centered_clipping(np.array([[1.0], [2.0], [90.0]]), np.zeros(1), radius=3.0)
    array([2.])
    """
    centre = start
    for _ in range(n_clips):
        offsets = updates - centre
        lengths = np.linalg.norm(offsets, axis=1)
        limit = float(np.median(lengths)) if radius is None else radius
        # an offset of length zero stays zero whatever its factor; 1 avoids 0/0
        factors = np.where(lengths > limit, limit / np.where(lengths > 0, lengths, 1.0), 1.0)
        centre = centre + (factors[:, None] * offsets).mean(axis=0)
    return centre


@dataclass(frozen=True, kw_only=True)
class CenteredClipping(UpdateBaseline):
    """v <- v + mean_k (g_k - v) min(1, radius/|g_k - v|), v = previous aggregate (Karimireddy et al. 2021).

    A fixed ``radius`` must be right on the scale of the gradients, which shrink during training; by default
    it is the median distance of the current round (our choice), so that at most half of the agents are
    clipped.
    """

    radius: float | None = None
    n_clips: int = 1

    name: ClassVar[str] = "Centered clipping"
    sends: ClassVar[str] = "d numbers per agent and clip (clipped updates; plus one distance for the median)"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(n_clips=self.n_clips)
        if self.radius is not None:
            check_positive(radius=self.radius)

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Run the rounds with centered clipping."""
        return self.run(
            self.objectives(agents, task),
            lambda updates, now: centered_clipping(updates, now.previous, self.radius, self.n_clips),
        )
