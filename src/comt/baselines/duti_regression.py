"""DUTI for ridge regression: the repair of targets is a lasso, solved here without any n x n matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comt.baselines.base import Array
from comt.baselines.duti_path import RepairPath, rank_by_entry
from comt.errors import ConvergenceError


def soft_threshold(values: Array, threshold: float) -> Array:
    """Return sign(v) max(|v| - threshold, 0)."""
    return np.asarray(np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0))


class RegressionRepair:
    """O_gamma(delta) = 1/m sum c (yt - f(xt))^2 + 1/n sum (y + delta - f(x))^2 + gamma/n |delta|_1.

    f is the ridge fit to (X, y + delta). With u = y + delta, b = X'u, Q = (X'X + lambda_w I)^-1 and T = Xt Q,
    f(Xt) = T b and the second term is (|u|^2 - b'(Q + lambda_w Q^2) b)/n, so that all coupling between rows
    passes through the d numbers b:

        O_gamma(delta) = |u|^2/n + b'H b/2 + g'b + constant + gamma/n |delta|_1.

    A row's optimal delta_i is a soft threshold of -y_i - n/2 x_i'(H b + g): knowing who is in the support,
    and with which sign, leaves a d x d system.
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
    ) -> None:
        self.features, self.targets = features, targets
        self.n, width = features.shape
        m = trusted_targets.size
        weights = np.broadcast_to(np.asarray(confidence, dtype=np.float64), (m,)) / m
        inverse = np.linalg.inv(features.T @ features + lambda_w * np.eye(width))
        trusted_map = trusted_features @ inverse
        self.inverse = inverse
        self.curvature = 2.0 * (trusted_map.T * weights) @ trusted_map
        self.curvature -= (2.0 / self.n) * (inverse + lambda_w * inverse @ inverse)
        self.slope = -2.0 * trusted_map.T @ (weights * trusted_targets)
        self.constant = float(weights @ trusted_targets**2)
        root = np.sqrt(weights)[:, None] * trusted_map
        # |diag(sqrt(c/m)) A|_2^2 from an m x m matrix, A = T X'
        self.lipschitz = 2.0 / self.n + 2.0 * float(np.linalg.norm(root @ features.T @ features @ root.T, 2))
        self.unit = max(float(np.abs(targets).max()), float(np.abs(trusted_targets).max()), 1e-300)

    def learner(self, repaired: Array) -> Array:
        """Return the coefficients of the ridge fit to repaired targets, T fits for T x n targets."""
        return np.asarray(repaired @ self.features @ self.inverse)

    def objective(self, delta: Array, gamma: float) -> float:
        """Return O_gamma(delta)."""
        repaired = self.targets + delta
        b = self.features.T @ repaired
        smooth = repaired @ repaired / self.n + b @ (0.5 * self.curvature @ b + self.slope) + self.constant
        return float(smooth + gamma / self.n * np.abs(delta).sum())

    def _pull(self, delta: Array) -> Array:
        return np.asarray(self.curvature @ (self.features.T @ (self.targets + delta)) + self.slope)

    def gradient(self, delta: Array) -> Array:
        """Return the gradient of the smooth part of O."""
        return np.asarray(2.0 / self.n * (self.targets + delta) + self.features @ self._pull(delta))

    def largest_gamma(self) -> float:
        """Return the price from which on no target is changed."""
        return float(self.n * np.abs(self.gradient(np.zeros(self.n))).max())

    def residual(self, delta: Array, gamma: float) -> float:
        """Certificate: how far delta is from the soft threshold it should be, relative to the targets."""
        wanted = soft_threshold(self._wish(self._pull(delta)), 0.5 * gamma)
        return float(np.abs(delta - wanted).max()) / self.unit

    def _wish(self, pull: Array) -> Array:
        return np.asarray(-self.targets - 0.5 * self.n * (self.features @ pull))

    def _solve_on_support(self, sign: Array, gamma: float) -> Array:
        """Return H b + g at the optimum over deltas with these signs (zero: not in the support)."""
        inside = sign != 0
        rows = self.features[inside]
        known = self.features.T @ np.where(inside, -0.5 * gamma * sign, self.targets)
        system = np.eye(rows.shape[1]) + 0.5 * self.n * self.curvature @ (rows.T @ rows)
        return np.asarray(np.linalg.solve(system, self.curvature @ known + self.slope))

    def solve(self, gamma: float, start: Array, *, tolerance: float = 1e-9, max_rounds: int = 200) -> Array:
        """Minimise O_gamma from a warm start.

        Each round jumps to the optimum for the signs that the rows wish for, a semismooth Newton step; a few
        usually suffice. Where the jump does not lower O, FISTA steps, twice as many each time, settle the
        signs, and a line search towards the optimum for them, a direction of descent, takes its place.
        """
        delta, value, steps = start, self.objective(start, gamma), 20
        for _ in range(max_rounds):
            certificate = self.residual(delta, gamma)
            if certificate <= tolerance:
                return delta
            sign = np.sign(soft_threshold(self._wish(self._pull(delta)), 0.5 * gamma))
            trial = soft_threshold(self._wish(self._solve_on_support(sign, gamma)), 0.5 * gamma)
            trial_value = self.objective(trial, gamma)
            if trial_value >= value:
                trial = self._line_search(self.fista(gamma, delta, steps=steps), gamma)
                trial_value, steps = self.objective(trial, gamma), min(2 * steps, 2000)
            if value - trial_value <= 1e-15 * abs(value) and certificate <= 1e3 * tolerance:
                return delta  # what is left is rounding
            delta, value = trial, trial_value
        raise ConvergenceError(
            f"DUTI's repair at gamma={gamma:.3g} is {certificate:.1e} from its optimality condition after "
            f"{max_rounds} rounds: raise lambda_w or scale the features.",
            certificate=certificate,
        )

    def _line_search(self, delta: Array, gamma: float) -> Array:
        sign = np.sign(delta)
        target = np.where(sign != 0, self._wish(self._solve_on_support(sign, gamma)) - 0.5 * gamma * sign, 0.0)
        value, length = self.objective(delta, gamma), 1.0
        while length > 1e-8:
            trial = delta + length * (target - delta)
            if self.objective(trial, gamma) < value:
                return trial
            length *= 0.5
        return delta

    def fista(self, gamma: float, start: Array, *, steps: int) -> Array:
        """Take accelerated proximal gradient steps, with a restart whenever the momentum points uphill."""
        delta, ahead, momentum = start, start, 1.0
        for _ in range(steps):
            old = delta
            delta = soft_threshold(ahead - self.gradient(ahead) / self.lipschitz, gamma / (self.n * self.lipschitz))
            if (ahead - delta) @ (delta - old) > 0:
                momentum, ahead = 1.0, delta
                continue
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            ahead = delta + (momentum - 1.0) / following * (delta - old)
            momentum = following
        return delta


def regression_path(
    problem: RegressionRepair, *, path_points: int = 12, smallest: float = 1e-4, gammas: Array | None = None
) -> RepairPath:
    """Follow the repairs from the price at which nothing changes down to ``smallest`` times it."""
    largest = problem.largest_gamma()
    if gammas is None:
        gammas = largest * np.geomspace(1.0, smallest, path_points)
    delta = np.zeros(problem.n)
    deltas = np.empty((gammas.size, problem.n))
    for point, gamma in enumerate(gammas):
        # the first price is the exact threshold: rounding must not let a row slip through
        if gamma < largest * (1.0 - 1e-12):
            delta = problem.solve(float(gamma), delta)
        deltas[point] = delta
    flagged: NDArray[np.bool_] = deltas != 0.0
    size = np.abs(deltas)
    strength = size / np.maximum(size.max(axis=1, keepdims=True), 1e-300)
    return RepairPath(gammas, problem.targets + deltas, flagged, rank_by_entry(flagged, strength, gammas.size))
