"""FedProx: FedAvg whose agents are held near the joint model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from comt.baselines.base import AgentRows, LinearModel, Task
from comt.baselines.fedavg import weighted_mean
from comt.baselines.rounds import UpdateBaseline
from comt.errors import InputError


@dataclass(frozen=True, kw_only=True)
class FedProx(UpdateBaseline):
    """w <- sum_k (n_k/n) w_k, w_k ~ argmin_u F_k(u) + (mu/2) |u - w|^2 (Li et al. 2020).

    F_k is a MEAN over the agent's rows, which is the scale on which mu is usually tuned over 0.001 ... 1. The
    local problem is solved by ``local_steps`` gradient steps; mu = 0 is FedAvg.
    """

    local_steps: int = 5
    mu: float = 0.1

    name: ClassVar[str] = "FedProx"
    sends: ClassVar[str] = "d numbers per agent and round (the local model)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.mu >= 0:
            raise InputError(f"mu={self.mu!r} must not be negative; pass 0 for FedAvg or a positive number.")

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Run the rounds with proximal local steps and the mean weighted by row counts."""
        return self.run(
            self.objectives(agents, task),
            lambda updates, now: weighted_mean(updates, now.shares),
            proximal=self.mu,
        )
