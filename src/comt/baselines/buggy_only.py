"""Buggy-only: train on everything as if nothing were wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from comt.baselines.base import AgentRows, Baseline, LinearModel, Task
from comt.baselines.checks import UseTrusted, check_agents, check_positive, training_rows
from comt.baselines.linear import fit_exact


@dataclass(frozen=True, kw_only=True)
class BuggyOnly(Baseline):
    """min_w sum_k sum_{i in k} loss(x_i.w, y_i) + (lambda_w/2) |w|^2.

    The point to which plain federated training (distributed gradient descent, CoCoA) converges, computed
    directly. Trusted rows count like any other row (``use_trusted="append"``) or are left out ("ignore").
    """

    lambda_w: float = 1.0
    use_trusted: UseTrusted = "append"

    name: ClassVar[str] = "Buggy-only"
    tasks: ClassVar[frozenset[Task]] = frozenset({"regression", "classification"})
    sends: ClassVar[str] = "d numbers per agent and round (gradients over all rows), until converged"

    def __post_init__(self) -> None:
        check_positive(lambda_w=self.lambda_w)

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Fit the rows of all agents together."""
        check_agents(self, agents, task)
        rows = [training_rows(agent, self.use_trusted) for agent in agents]
        features = np.concatenate([features for features, _ in rows])
        targets = np.concatenate([targets for _, targets in rows])
        return LinearModel(fit_exact(features, targets, task, self.lambda_w))
