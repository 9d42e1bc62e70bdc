"""DUTI for logistic regression: a bilevel problem, its derivatives by implicit differentiation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comt.baselines.base import Array
from comt.baselines.duti_box_model import minimise_in_box, positive_part
from comt.baselines.duti_path import RepairPath, rank_by_entry
from comt.baselines.logistic import chance, softplus
from comt.errors import ConvergenceError


def fit_shares(
    features: Array,
    shares: Array,
    lambda_w: float,
    *,
    start: Array,
    tolerance: float,
    max_steps: int = 100,
) -> Array:
    """Minimise sum_i log(1 + exp(f_i)) - t_i f_i + lambda_w/2 |w|^2, f = X w, by damped Newton steps.

    ``shares`` holds t_i in [0, 1], the share of row i that belongs to the class +1. The certificate is the
    largest entry of the gradient, relative to the largest it could be.
    """
    coef, moment = start, features.T @ shares
    largest = max(float(np.abs(features).sum(axis=0).max(initial=0.0)), np.finfo(np.float64).tiny)

    def objective(coef: Array, scores: Array) -> float:
        return float(softplus(scores).sum() - moment @ coef + 0.5 * lambda_w * np.dot(coef, coef))

    scores = features @ coef
    value = objective(coef, scores)
    certificate = np.inf
    for _ in range(max_steps):
        positive = chance(scores)
        gradient = features.T @ positive - moment + lambda_w * coef
        certificate = float(np.abs(gradient).max(initial=0.0)) / largest
        if certificate <= tolerance:
            return coef
        hessian = features.T @ (features * (positive * (1.0 - positive))[:, None])
        hessian.flat[:: hessian.shape[0] + 1] += lambda_w
        step = np.linalg.solve(hessian, gradient)
        # the slack lets steps through whose gain is below the rounding of the sum
        slack, length = 1e-13 * max(1.0, abs(value)), 1.0
        while True:
            trial = coef - length * step
            trial_scores = features @ trial
            trial_value = objective(trial, trial_scores)
            if trial_value <= value + slack or length < 1e-10:
                break
            length *= 0.5
        coef, scores, value = trial, trial_scores, trial_value
    raise ConvergenceError(
        f"DUTI's learner reached a relative gradient of {certificate:.1e}, not {tolerance:.1e}, in "
        f"{max_steps} steps: raise lambda_w, now {lambda_w}, or scale the features.",
        certificate=certificate,
    )


@dataclass(frozen=True)
class Response:
    """What the learner makes of the moved mass, and how O without its price follows b = sum_i w_i y_i x_i, all times n."""

    theta: Array
    value: float  # n O_0
    slope: Array  # d: its gradient in b
    curvature: Array  # d x d: its second derivative in b, which need not be positive
    sensitivity: Array  # d x d: -d theta / d b


class ClassificationRepair:
    """O_gamma(w) = 1/m sum c l(yt ft) + 1/n sum ((1-w) l(y f) + w l(-y f)) + gamma/n sum w,  0 <= w <= 1.

    w_i is the mass that moves to the opposite label, f = X theta, and theta minimises the second term plus
    lambda_w/(2n) |theta|^2. As l(-z) = l(z) + z, all that theta sees of w are the d numbers b = sum_i w_i y_i x_i.
    Not convex in w: the result is the one reached from w = 0 along the path.
    """

    def __init__(
        self,
        features: Array,
        targets: Array,
        trusted_features: Array,
        trusted_targets: Array,
        *,
        lambda_w: float,
        confidence: float | Array = 100.0,
        inner_tolerance: float = 1e-8,
    ) -> None:
        # column by column, products with a vector are twice as fast
        self.features, self.targets = np.asfortranarray(features), targets
        self.rows = self.features * targets[:, None]
        self.trusted_features = trusted_features
        self.trusted_shares = (trusted_targets > 0).astype(np.float64)
        m = trusted_targets.size
        self.weights = np.broadcast_to(np.asarray(confidence, dtype=np.float64), (m,)) / m
        self.n = targets.size
        self.lambda_w, self.inner_tolerance = lambda_w, inner_tolerance

    def respond(self, moved: Array, start: Array | None = None) -> Response:
        """Fit the learner to the mass ``moved`` to opposite labels, from a guess of it, and differentiate."""
        X, trusted, n = self.features, self.trusted_features, self.n
        shares = np.where(self.targets > 0, 1.0 - moved, moved)
        guess = np.zeros(X.shape[1]) if start is None else start
        theta = fit_shares(X, shares, self.lambda_w, start=guess, tolerance=self.inner_tolerance)
        scores, trusted_scores = X @ theta, trusted @ theta
        positive, trusted_positive = chance(scores), chance(trusted_scores)
        spread = positive * (1.0 - positive)
        ridge = self.lambda_w * np.eye(len(theta))
        hessian = X.T @ (X * spread[:, None]) + ridge
        sensitivity = np.asarray(np.linalg.inv(hessian), dtype=np.float64)
        # at the inner optimum the fit term pulls theta exactly as hard as the ridge penalty pushes
        outer = -self.lambda_w * theta + n * trusted.T @ (self.weights * (trusted_positive - self.trusted_shares))
        response = sensitivity @ outer
        bend = X.T @ (X * (spread * (1.0 - 2.0 * positive) * (X @ response))[:, None])
        trusted_spread = n * self.weights * trusted_positive * (1.0 - trusted_positive)
        inner = trusted.T @ (trusted * trusted_spread[:, None]) - bend - hessian - ridge
        margins = self.targets * scores
        trusted_fit = softplus(trusted_scores) - self.trusted_shares * trusted_scores
        value = float(softplus(-margins).sum() + moved @ margins + n * self.weights @ trusted_fit)
        return Response(theta, value, theta - response, sensitivity @ inner @ sensitivity, sensitivity)

    def objective_and_gradient(self, moved: Array, gamma: float) -> tuple[float, Array]:
        """Return O_gamma and its gradient in w."""
        response = self.respond(moved)
        value = response.value + gamma * moved.sum()
        return float(value) / self.n, (gamma + self.rows @ response.slope) / self.n

    def certificate(self, moved: Array, gamma: float) -> float:
        """Return what a linear model of O_gamma could still gain within the box, relative to O_gamma; 0 is stationary."""
        value, gradient = self.objective_and_gradient(moved, gamma)
        return _gain_in_box(gradient, moved) / value

    def largest_gamma(self) -> float:
        """Return gamma_0, the smallest price at which the original labels are stationary."""
        return self.n * float((-self.objective_and_gradient(np.zeros(self.n), 0.0)[1]).max())

    def solve(self, gamma: float, start: Array, *, max_steps: int = 100, tolerance: float = 1e-5) -> Array:
        """Minimise O_gamma over the box from a warm start, until its certificate is at most ``tolerance``.

        Each step minimises over all rows at once the price plus a quadratic model of the rest in b, without its
        concave part, and searches along the way there, along which O_gamma falls at first.
        """
        moved, response = start, self.respond(start)
        value = response.value + gamma * float(moved.sum())
        for _ in range(max_steps):
            gradient = gamma + self.rows @ response.slope
            if _gain_in_box(gradient, moved) <= tolerance * value:
                break
            # the entropy may cost a fraction of the accuracy asked for, whatever the scale of the rows
            smoothing = 0.1 * tolerance * value / self.n
            curvature = positive_part(response.curvature)
            way = minimise_in_box(self.rows, moved, response.slope, curvature, gamma, smoothing) - moved
            fall, length = float(gradient @ way), 1.0
            if fall >= 0.0:
                break  # the model is at its minimum to rounding
            along = response.sensitivity @ (self.rows.T @ way)
            while length > 1e-6:
                trial = np.clip(moved + length * way, 0.0, 1.0)
                reached = self.respond(trial, response.theta - length * along)
                trial_value = reached.value + gamma * float(trial.sum())
                if trial_value <= value + 1e-4 * length * fall:
                    break
                length *= 0.5
            else:
                break
            moved, response, value = trial, reached, trial_value
        return moved


def _gain_in_box(gradient: Array, moved: Array) -> float:
    return float(np.where(gradient > 0.0, gradient * moved, -gradient * (1.0 - moved)).sum())


def classification_path(
    problem: ClassificationRepair,
    *,
    path_points: int = 12,
    budget: float = 0.5,
    gammas: Array | None = None,
    tolerance: float = 1e-5,
) -> RepairPath:
    """Follow the repairs from gamma_0 by halving, until more than ``budget`` of the rows are flagged."""
    # below zero, the trusted rows agree with every label, and nothing is to be done at any price
    largest = max(problem.largest_gamma(), 0.0)
    if gammas is None:
        gammas = np.asarray(largest / 2.0 ** np.arange(path_points), dtype=np.float64)
    moved = np.zeros(problem.n)
    path = []
    for gamma in gammas:
        if gamma < largest * (1.0 - 1e-12):
            moved = problem.solve(float(gamma), moved, tolerance=tolerance)
        path.append(moved)
        if (moved > 0.5).sum() > budget * problem.n:
            break
    masses = np.array(path)
    flagged: NDArray[np.bool_] = masses > 0.5
    return RepairPath(
        gammas[: len(path)],
        np.where(flagged, -problem.targets, problem.targets),
        flagged,
        rank_by_entry(flagged, masses, gammas.size),
    )
