"""Gold loss correction: learn from the trusted rows how labels go wrong, and train through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize

from comt.baselines.base import AgentRows, Array, Baseline, LinearModel, Task, pooled
from comt.baselines.checks import check_agents, check_positive, trusted_rows
from comt.baselines.linear import fit_exact, loss, loss_slope
from comt.baselines.logistic import chance

_CLASSES = (-1.0, 1.0)


def corruption_matrix(noisy_coef: Array, trusted_features: Array, trusted_targets: Array) -> Array:
    """Return C_ij = mean over trusted rows of class i of p(noisy label j | x), classes in the order -1, +1.

    A class without trusted rows keeps its row of the identity: nothing speaks against its labels.
    """
    noisy = chance(trusted_features @ noisy_coef)
    matrix = np.eye(2)
    for row, label in enumerate(_CLASSES):
        if (members := trusted_targets == label).any():
            positive = float(noisy[members].mean())
            matrix[row] = 1 - positive, positive
    return matrix


def corrected_loss(coef: Array, features: Array, targets: Array, matrix: Array) -> tuple[float, Array]:
    """Return sum_i -log sum_c C_{c,y_i} p(c | x_i), and its gradient by ``coef``."""
    # with an exact zero in C a confident row would cost an infinite loss
    matrix = np.clip(matrix, 1e-12, 1.0)
    column = (targets > 0).astype(np.intp)
    if_negative, if_positive = matrix[0, column], matrix[1, column]
    p = chance(features @ coef)
    observed = if_negative * (1 - p) + if_positive * p
    slope = -(if_positive - if_negative) * p * (1 - p) / observed
    return float(-np.log(observed).sum()), features.T @ slope


@dataclass(frozen=True, kw_only=True)
class GLC(Baseline):
    """min_w sum_{buggy} -log (C'p_w(x_i))_{y_i} + sum_{trusted} -log p_w(y_i | x_i) + (lambda_w/2) |w|^2.

    C is estimated from the trusted rows with a model fitted to the buggy ones (Hendrycks et al. 2018); one C
    serves all agents, since some have no trusted rows. The objective is not convex: the search starts at the
    noisy model. ``found["corruption"]`` holds C.
    """

    lambda_w: float = 1.0

    name: ClassVar[str] = "GLC"
    tasks: ClassVar[frozenset[Task]] = frozenset({"classification"})
    sends: ClassVar[str] = "d numbers per agent and round in two trainings, and 4 numbers per agent between them"

    def __post_init__(self) -> None:
        check_positive(lambda_w=self.lambda_w)

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Fit the noisy model, estimate C, refit through C."""
        check_agents(self, agents, task)
        features, targets, _, _ = pooled(agents)
        trusted = trusted_rows(self, agents)
        noisy = fit_exact(features, targets, task, self.lambda_w)
        matrix = corruption_matrix(noisy, *trusted)

        def objective(coef: Array) -> tuple[float, Array]:
            value, gradient = corrected_loss(coef, features, targets, matrix)
            scores = trusted[0] @ coef
            value += float(loss(scores, trusted[1], task).sum()) + 0.5 * self.lambda_w * float(coef @ coef)
            gradient = gradient + trusted[0].T @ loss_slope(scores, trusted[1], task) + self.lambda_w * coef
            return value, gradient

        result = minimize(objective, noisy, jac=True, method="BFGS", options={"gtol": 1e-6, "maxiter": 500})
        return LinearModel(
            np.asarray(result.x, dtype=np.float64),
            found={"corruption": matrix, "gradient": float(np.abs(result.jac).max())},
        )
