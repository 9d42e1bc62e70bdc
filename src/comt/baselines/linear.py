"""The two linear learners that all baselines share: their loss, its derivatives, and exact fits.

    regression       loss(s, y) = (s - y)^2 / 2
    classification   loss(s, y) = log(1 + exp(-y s)),   y = -1 or +1

with score s = x.w; no intercept is fitted.
"""

from __future__ import annotations

import numpy as np

from comt.baselines.base import Array, Task
from comt.baselines.logistic import chance, softplus
from comt.errors import ConvergenceError

# Newton's method converges quadratically, so that this is reached one step after 1e-6.
_TOLERANCE = 1e-11
_MAX_STEPS = 100


def loss(scores: Array, targets: Array, task: Task) -> Array:
    """Return the loss of each row."""
    if task == "regression":
        return 0.5 * (scores - targets) ** 2
    return softplus(-targets * scores)


def loss_slope(scores: Array, targets: Array, task: Task) -> Array:
    """Return the derivative of each row's loss by its score."""
    if task == "regression":
        return scores - targets
    return -targets * chance(-targets * scores)


def loss_gradient(features: Array, targets: Array, coef: Array, task: Task) -> Array:
    """Return the gradient of the SUM of losses over the rows."""
    return features.T @ loss_slope(features @ coef, targets, task)


def largest_curvature(task: Task) -> float:
    """Return the upper bound of the loss's second derivative by the score."""
    return 1.0 if task == "regression" else 0.25


def fit_exact(
    features: Array,
    targets: Array,
    task: Task,
    lambda_w: float,
    *,
    weights: Array | None = None,
    centre: Array | None = None,
    start: Array | None = None,
) -> Array:
    """Minimise sum_i c_i loss(x_i.w, y_i) + (lambda_w/2) |w - centre|^2; c = 1 and centre = 0 unless given.

    >>> fit_exact(np.eye(2), np.array([2.0, 4.0]), "regression", 1.0)
    array([1., 2.])
    """
    c = np.ones(len(targets)) if weights is None else weights
    centre = np.zeros(features.shape[1]) if centre is None else centre
    if task == "regression":
        residual = targets - features @ centre
        return centre + _newton_step(features, c, lambda_w, features.T @ (c * residual))
    return _fit_logistic(features, targets, lambda_w, c, centre, centre if start is None else start)


def _newton_step(features: Array, curvature: Array, lambda_w: float, right_side: Array) -> Array:
    hessian = features.T @ (curvature[:, None] * features)
    hessian[np.diag_indices_from(hessian)] += lambda_w
    return np.asarray(np.linalg.solve(hessian, right_side), dtype=np.float64)


def _fit_logistic(
    features: Array, targets: Array, lambda_w: float, weights: Array, centre: Array, coef: Array
) -> Array:
    def objective(w: Array, margins: Array) -> float:
        return float(weights @ softplus(-margins) + 0.5 * lambda_w * (w - centre) @ (w - centre))

    # the rows y_i x_i give margins; column by column, products with a vector are fastest
    signed = np.asfortranarray(features * targets[:, None])
    # the gradient is a sum of terms of about this size, so rounding allows a zero of that relative size only
    scale = float(np.linalg.norm(np.abs(signed).T @ weights)) + lambda_w * (1 + float(np.linalg.norm(centre)))
    margins = signed @ coef
    value, certificate = objective(coef, margins), np.inf
    for _ in range(_MAX_STEPS):
        against = chance(-margins)
        gradient = lambda_w * (coef - centre) - signed.T @ (weights * against)
        certificate = float(np.linalg.norm(gradient)) / scale
        if certificate <= _TOLERANCE:
            return coef
        direction = -_newton_step(signed, weights * against * (1 - against), lambda_w, gradient)
        slope, along, length = float(gradient @ direction), signed @ direction, 1.0
        # the last digits of the objective are noise: without the slack the final Newton steps would be refused
        slack = 1e-12 * (1 + abs(value))
        while length > 1e-10:
            trial, trial_margins = coef + length * direction, margins + length * along
            reached = objective(trial, trial_margins)
            if reached <= value + 1e-4 * length * slope + slack:
                coef, margins, value = trial, trial_margins, reached
                break
            length /= 2
    raise ConvergenceError(
        f"the logistic fit ended with a relative gradient of {certificate:.1e} where {_TOLERANCE} "
        "is expected; standardise the features or raise lambda_w.",
        certificate=certificate,
    )
