"""DUTI for logistic regression: a bilevel problem, its gradient by implicit differentiation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize
from scipy.special import expit

from comt.baselines.base import Array
from comt.baselines.duti_path import RepairPath, rank_by_entry
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
    coef = start
    largest = max(float(np.abs(features).sum(axis=0).max(initial=0.0)), np.finfo(np.float64).tiny)

    def objective(coef: Array, scores: Array) -> float:
        return float(np.logaddexp(0.0, scores).sum() - shares @ scores + 0.5 * lambda_w * np.dot(coef, coef))

    scores = features @ coef
    value = objective(coef, scores)
    certificate = np.inf
    for _ in range(max_steps):
        chance = expit(scores)
        gradient = features.T @ (chance - shares) + lambda_w * coef
        certificate = float(np.abs(gradient).max(initial=0.0)) / largest
        if certificate <= tolerance:
            return coef
        hessian = features.T @ (features * (chance * (1.0 - chance))[:, None])
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


class ClassificationRepair:
    """O_gamma(w) = 1/m sum c l(yt ft) + 1/n sum ((1-w) l(y f) + w l(-y f)) + gamma/n sum w,  0 <= w <= 1.

    w_i is the mass that moves to the opposite label, f = X theta, and theta minimises the second term plus
    lambda_w/(2n) |theta|^2. Not convex in w: the result is the one reached from w = 0 along the path.
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
        inner_tolerance: float = 1e-6,
    ) -> None:
        self.features, self.targets = features, targets
        self.trusted_features = trusted_features
        self.trusted_shares = (trusted_targets > 0).astype(np.float64)
        m = trusted_targets.size
        self.weights = np.broadcast_to(np.asarray(confidence, dtype=np.float64), (m,)) / m
        self.n = targets.size
        self.lambda_w, self.inner_tolerance = lambda_w, inner_tolerance
        self._theta = np.zeros(features.shape[1])  # warm start only: no result depends on it beyond tolerance

    def learner(self, moved: Array) -> Array:
        """Return theta for the mass ``moved`` to opposite labels."""
        shares = np.where(self.targets > 0, 1.0 - moved, moved)
        self._theta = fit_shares(
            self.features, shares, self.lambda_w, start=self._theta, tolerance=self.inner_tolerance
        )
        return self._theta

    def objective_and_gradient(self, moved: Array, gamma: float) -> tuple[float, Array]:
        """Return O_gamma and its gradient in w, at the price of one d x d solve beyond the inner fit."""
        n, theta = self.n, self.learner(moved)
        scores, trusted_scores = self.features @ theta, self.trusted_features @ theta
        chance, margins = expit(scores), self.targets * scores
        fit = np.logaddexp(0.0, -margins).sum() + moved @ margins + gamma * moved.sum()
        trusted_fit = np.logaddexp(0.0, trusted_scores) - self.trusted_shares * trusted_scores
        hessian = self.features.T @ (self.features * (chance * (1.0 - chance))[:, None])
        hessian.flat[:: hessian.shape[0] + 1] += self.lambda_w
        # at the inner optimum the fit term pulls theta exactly as hard as the ridge penalty pushes
        outer = -self.lambda_w * theta + n * self.trusted_features.T @ (
            self.weights * (expit(trusted_scores) - self.trusted_shares)
        )
        response = np.linalg.solve(hessian, outer)
        gradient = (gamma + self.targets * (self.features @ (theta - response))) / n
        return float(fit / n + self.weights @ trusted_fit), gradient

    def largest_gamma(self) -> float:
        """Return gamma_0, the smallest price at which the original labels are stationary."""
        return self.n * float((-self.objective_and_gradient(np.zeros(self.n), 0.0)[1]).max())

    def solve(self, gamma: float, start: Array, *, max_steps: int = 40, tolerance: float = 1e-8) -> Array:
        """Minimise O_gamma over the box, from a warm start nudged off the bounds."""
        # on the bounds a row can look stationary only because it cannot move: start just inside
        inside = np.clip(start + 1e-5, 0.0, 1.0 - 1e-5)
        found = minimize(
            self.objective_and_gradient,
            inside,
            args=(gamma,),
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(0.0, 1.0),
            options={"maxiter": max_steps, "ftol": tolerance, "gtol": 1e-6 / self.n},
        )
        return np.asarray(found.x, dtype=np.float64)


def classification_path(
    problem: ClassificationRepair,
    *,
    path_points: int = 12,
    budget: float = 0.5,
    gammas: Array | None = None,
    max_steps: int = 40,
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
            moved = problem.solve(float(gamma), moved, max_steps=max_steps)
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
