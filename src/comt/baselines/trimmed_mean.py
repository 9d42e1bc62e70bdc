"""Coordinate-wise trimmed mean of the agents' updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from comt.baselines.base import AgentRows, Array, LinearModel, Task
from comt.baselines.rounds import UpdateBaseline, check_n_bad


def trimmed_mean(updates: Array, n_bad: int) -> Array:
    """Return, for each column of a K x d array, the mean without the ``n_bad`` smallest and largest values.

    >>> trimmed_mean(np.array([[0.0], [1.0], [2.0], [99.0], [-99.0]]), 1)
    array([1.])
    """
    n_agents = len(updates)
    check_n_bad(n_bad, (n_agents - 1) // 2, n_agents)
    ordered = np.sort(updates, axis=0)
    return np.asarray(ordered[n_bad : n_agents - n_bad].mean(axis=0), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class TrimmedMean(UpdateBaseline):
    """rule(g)_j = mean of g_(f+1)j ... g_(K-f)j, sorted per coordinate (Yin et al. 2018).

    f = ``n_bad`` defaults to (K-1)//2, the most the theory allows; that is the median itself. A smaller f
    wastes fewer honest updates.
    """

    n_bad: int | None = None

    name: ClassVar[str] = "Trimmed mean"
    sends: ClassVar[str] = "d numbers per agent and round, each agent's update in the clear (no secure sum)"

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Run the rounds with the trimmed mean."""
        n_bad = (len(agents) - 1) // 2 if self.n_bad is None else self.n_bad
        return self.run(self.objectives(agents, task), lambda updates, _: trimmed_mean(updates, n_bad))
