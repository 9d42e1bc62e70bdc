"""FedAvg: local gradient steps, then the mean of the local models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from comt.baselines.base import AgentRows, Array, LinearModel, Task
from comt.baselines.rounds import UpdateBaseline


def weighted_mean(updates: Array, shares: Array) -> Array:
    """Return sum_k share_k g_k: what plain federated averaging does, and any single agent can bend."""
    return shares @ updates


@dataclass(frozen=True, kw_only=True)
class FedAvg(UpdateBaseline):
    """w <- sum_k (n_k/n) w_k, w_k = E steps u <- u - step grad F_k(u) from u = w (McMahan et al. 2017).

    The local epochs are full gradients, so that a run has no randomness. With E = ``local_steps`` = 1 this
    is gradient descent on the pooled rows; with more steps and unlike agents it converges to a point near,
    not at, the pooled optimum.
    """

    local_steps: int = 5

    name: ClassVar[str] = "FedAvg"
    sends: ClassVar[str] = "d numbers per agent and round (the local model)"

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Run the rounds with the mean weighted by row counts."""
        return self.run(self.objectives(agents, task), lambda updates, now: weighted_mean(updates, now.shares))
