"""Krum and Multi-Krum: believe the update that has the closest company."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from comt.baselines.base import AgentRows, Array, LinearModel, Task
from comt.baselines.rounds import UpdateBaseline, check_n_bad
from comt.errors import InputError


def krum_scores(updates: Array, n_neighbours: int) -> Array:
    """Return each update's sum of squared distances to its ``n_neighbours`` nearest others."""
    differences = updates[:, None, :] - updates[None, :, :]
    distances = np.sum(differences**2, axis=2)
    # the first column is the update's distance to itself
    nearest = np.sort(distances, axis=1)[:, 1 : n_neighbours + 1]
    return np.asarray(nearest.sum(axis=1), dtype=np.float64)


def largest_n_bad(n_agents: int) -> int:
    """Return the largest f with K > 2f + 2, or 0 where there is none."""
    return max((n_agents - 3) // 2, 0)


def multi_krum(updates: Array, n_bad: int, n_selected: int | None = None) -> Array:
    """Return the mean of the ``n_selected`` (K - f unless given) updates with the lowest scores.

    The score counts K - f - 2 neighbours, as in the original; libraries that count K - f - 1 choose
    otherwise.
    """
    n_agents = len(updates)
    check_n_bad(n_bad, largest_n_bad(n_agents), n_agents)
    n_selected = n_agents - n_bad if n_selected is None else n_selected
    if not 1 <= n_selected <= n_agents:
        raise InputError(f"n_selected={n_selected} must lie between 1 and the {n_agents} agents; choose such a number.")
    # one or two agents have fewer than one neighbour to count: then the nearest other decides, or nobody
    n_neighbours = max(n_agents - n_bad - 2, 1)
    best = np.argsort(krum_scores(updates, n_neighbours), kind="stable")[:n_selected]
    return np.asarray(updates[best].mean(axis=0), dtype=np.float64)


def krum(updates: Array, n_bad: int) -> Array:
    """Return the one update with the lowest score; of equals, the first.

    >>> krum(np.array([[0.0], [1.0], [2.5], [2.9], [10.0], [-4.0], [3.4]]), 1)
    array([2.5])
    """
    return multi_krum(updates, n_bad, 1)


@dataclass(frozen=True, kw_only=True)
class Krum(UpdateBaseline):
    """rule(g) = g_k with the least sum of squared distances to its K - f - 2 nearest (Blanchard et al. 2017).

    f = ``n_bad`` defaults to the largest with K > 2f + 2, that is (K-3)//2; with fewer than five agents f =
    0, and with two agents the first is taken. One agent's update is used as it is, so the model follows
    single agents and keeps their peculiarities.
    """

    n_bad: int | None = None

    name: ClassVar[str] = "Krum"
    sends: ClassVar[str] = "d numbers per agent and round, each agent's update in the clear (no secure sum)"

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Run the rounds with Krum."""
        n_bad = largest_n_bad(len(agents)) if self.n_bad is None else self.n_bad
        return self.run(self.objectives(agents, task), lambda updates, _: krum(updates, n_bad))


@dataclass(frozen=True, kw_only=True)
class MultiKrum(UpdateBaseline):
    """rule(g) = mean of the K - f updates with the lowest Krum scores (Blanchard et al. 2017).

    ``n_bad`` as in Krum; ``n_selected`` replaces K - f.
    """

    n_bad: int | None = None
    n_selected: int | None = None

    name: ClassVar[str] = "Multi-Krum"
    sends: ClassVar[str] = "d numbers per agent and round, each agent's update in the clear (no secure sum)"

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Run the rounds with Multi-Krum."""
        n_bad = largest_n_bad(len(agents)) if self.n_bad is None else self.n_bad
        return self.run(self.objectives(agents, task), lambda updates, _: multi_krum(updates, n_bad, self.n_selected))
