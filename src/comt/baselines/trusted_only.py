"""TI-only: forget the buggy rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from comt.baselines.base import AgentRows, Baseline, LinearModel, Task
from comt.baselines.checks import check_agents, check_positive, trusted_rows
from comt.baselines.linear import fit_exact


@dataclass(frozen=True, kw_only=True)
class TrustedOnly(Baseline):
    """min_w sum_{i trusted} loss(x_i.w, y_i) + (lambda_w/2) |w|^2.

    The point to which a federated fit on the trusted rows of all agents converges, computed directly. It
    cannot depend on how bad the buggy rows are: a table in which it does has an error.
    """

    lambda_w: float = 1.0

    name: ClassVar[str] = "TI-only"
    tasks: ClassVar[frozenset[Task]] = frozenset({"regression", "classification"})
    sends: ClassVar[str] = "d numbers per agent and round (gradients over trusted rows), until converged"

    def __post_init__(self) -> None:
        check_positive(lambda_w=self.lambda_w)

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Fit the trusted rows of all agents together."""
        check_agents(self, agents, task)
        features, targets = trusted_rows(self, agents)
        return LinearModel(fit_exact(features, targets, task, self.lambda_w))
