"""Coordinate-wise median of the agents' updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from comt.baselines.base import AgentRows, Array, LinearModel, Task
from comt.baselines.rounds import UpdateBaseline


def coordinate_median(updates: Array) -> Array:
    """Return the median of each column of a K x d array.

    >>> coordinate_median(np.array([[0.0, 5.0], [1.0, 6.0], [99.0, -99.0]]))
    array([1., 5.])
    """
    return np.asarray(np.median(updates, axis=0), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class CoordinateMedian(UpdateBaseline):
    """rule(g_1, ..., g_K)_j = median_k g_kj (Yin et al. 2018).

    Agents count alike, whatever their number of rows. Stands up to (K-1)//2 bad agents, and needs no guess
    how many there are.
    """

    name: ClassVar[str] = "Coordinate median"
    sends: ClassVar[str] = "d numbers per agent and round, each agent's update in the clear (no secure sum)"

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Run the rounds with the coordinate-wise median."""
        return self.run(self.objectives(agents, task), lambda updates, _: coordinate_median(updates))
