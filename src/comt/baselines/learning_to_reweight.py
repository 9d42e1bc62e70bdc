"""Learning to reweight: in every round, weigh rows by how much they help the trusted ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from comt.baselines.base import AgentRows, Array, Baseline, LinearModel, Task, pooled
from comt.baselines.checks import check_agents, check_positive, trusted_rows
from comt.baselines.linear import largest_curvature, loss_gradient, loss_slope


def row_weights(slopes: Array, features: Array, trusted_gradient: Array) -> Array:
    """Return max(u_i, 0) / sum_j max(u_j, 0), u_i = <grad loss_i, trusted gradient>; all 0 if none helps.

    u_i is, up to the step, how fast the trusted loss falls when row i is given weight in a gradient step.
    For a linear model grad loss_i = slope_i x_i, so that no second back-propagation is needed.
    """
    helpful = np.maximum(slopes * (features @ trusted_gradient), 0.0)
    total = float(helpful.sum())
    return helpful / total if total > 0 else helpful


@dataclass(frozen=True, kw_only=True)
class LearningToReweight(Baseline):
    """w <- w - step (sum_i v_i grad loss_i(w) + (lambda_w/n) w), v_i ~ max(<grad loss_i, g_trusted>, 0).

    Ren et al. (2018), with all rows as one batch, so that a run has no randomness. The step is 1/L of the
    round's weighted loss, L <= curvature * sum_i v_i |x_i|^2, and falls as 1/sqrt(1 + t/50) (our choice):
    the weights sum to one even when hardly any row helps, and the model would circle around its goal
    otherwise. Trusted rows guide and are not trained on. ``found["weights"]`` holds the last weights, in
    the order of the pooled rows.
    """

    lambda_w: float = 1.0
    n_rounds: int = 500

    name: ClassVar[str] = "Learning to reweight"
    tasks: ClassVar[frozenset[Task]] = frozenset({"regression", "classification"})
    sends: ClassVar[str] = "2d + 2 numbers per agent and round (trusted gradient; weighted gradient, two sums)"

    def __post_init__(self) -> None:
        check_positive(lambda_w=self.lambda_w, n_rounds=self.n_rounds)

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Run the rounds from w = 0."""
        check_agents(self, agents, task)
        features, targets, _, _ = pooled(agents)
        features = np.asfortranarray(features)  # products with a vector are faster column by column
        trusted_features, trusted_targets = trusted_rows(self, agents)
        decay = self.lambda_w / max(len(targets), 1)
        squares = np.sum(features**2, axis=1)
        coef = np.zeros(features.shape[1])
        weights = np.zeros(len(targets))
        for number in range(self.n_rounds):
            guide = loss_gradient(trusted_features, trusted_targets, coef, task) / len(trusted_targets)
            slopes = loss_slope(features @ coef, targets, task)
            weights = row_weights(slopes, features, guide)
            lipschitz = largest_curvature(task) * float(weights @ squares) + decay
            step = 1.0 / (lipschitz * np.sqrt(1 + number / 50))
            coef = coef - step * (features.T @ (weights * slopes) + decay * coef)
        return LinearModel(coef, found={"weights": weights})
