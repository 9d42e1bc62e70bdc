"""Local-only: no federation at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from comt.baselines.base import AgentRows, Baseline, LinearModel, Task
from comt.baselines.checks import UseTrusted, check_agents, check_positive, training_rows
from comt.baselines.linear import fit_exact


@dataclass(frozen=True, kw_only=True)
class LocalOnly(Baseline):
    """w_k = argmin_w sum_{i in k} loss(x_i.w, y_i) + (lambda_w/2) |w|^2, each agent for itself.

    What an agent has when it does not take part. ``found["models"]`` holds the agents' models in their order;
    the model returned is their mean, weighted by row counts, and exists for reporting only.
    """

    lambda_w: float = 1.0
    use_trusted: UseTrusted = "append"

    name: ClassVar[str] = "Local-only"
    tasks: ClassVar[frozenset[Task]] = frozenset({"regression", "classification"})
    sends: ClassVar[str] = "nothing"

    def __post_init__(self) -> None:
        check_positive(lambda_w=self.lambda_w)

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Fit every agent alone."""
        check_agents(self, agents, task)
        rows = [training_rows(agent, self.use_trusted) for agent in agents]
        coefs = [fit_exact(features, targets, task, self.lambda_w) for features, targets in rows]
        n_rows = [len(targets) for _, targets in rows]
        return LinearModel(
            np.average(coefs, axis=0, weights=n_rows),
            found={"models": tuple(LinearModel(coef) for coef in coefs)},
        )
