"""Minimise Σφ_i(r) + (κ/2)‖r‖² + b·r: the small convex problem an agent solves in each round of Algorithm 1.

Newton's method with a line search on the value. Inside the agent evaluations are cheap, so nothing is batched.
"""

from __future__ import annotations

import numpy as np

from comt.errors import ConvergenceError
from comt.optimize.linear import EPS, SpdMatrix
from comt.optimize.points import Asking, Points
from comt.problem import Array, Sums, TeachingProblem, row_gradient, row_hessian


def solve(
    problem: TeachingProblem, kappa: float, linear: Array, start: Array, *, max_rounds: int = 100
) -> Asking[Array]:
    """Return the minimiser; it yields the points where it wants the row sums."""
    zero = np.zeros_like(start)
    limit = problem.loss.max_coupling
    r = start if problem.coupling(start) < 0.9 * limit else zero

    def parts(at: Array, sums: Sums) -> tuple[float, Array]:
        value = sums.phi + 0.5 * kappa * float(at @ at) + float(linear @ at)
        return value, row_gradient(problem, at, sums) + kappa * at + linear

    (sums,) = yield Points.one(r, zero)
    value, gradient = parts(r, sums)
    for _ in range(max_rounds):
        step = -SpdMatrix(row_hessian(problem, r, sums) + kappa * np.eye(len(r))).solve(gradient)
        slope = float(gradient @ step)
        if np.linalg.norm(step) <= 1e-12 * (1.0 + np.linalg.norm(r)):
            return r
        if -slope <= 1e3 * EPS * (1.0 + abs(value)) and problem.coupling(r + step) < limit:
            # values can no longer tell better from worse; the gradient still can
            (trial_sums,) = yield Points.one(r + step, zero)
            trial_value, trial_gradient = parts(r + step, trial_sums)
            if np.linalg.norm(trial_gradient) > 0.5 * np.linalg.norm(gradient):
                return r
            r, sums, value, gradient = r + step, trial_sums, trial_value, trial_gradient
            continue
        size = 1.0
        while True:
            trial = r + size * step
            if problem.coupling(trial) < limit:
                (trial_sums,) = yield Points.one(trial, zero)
                trial_value, trial_gradient = parts(trial, trial_sums)
                if trial_value <= value + 1e-4 * size * slope:
                    break
            size *= 0.5
            if size < 1e-12:
                return r  # no value below this one can be told apart any more
        r, sums, value, gradient = trial, trial_sums, trial_value, trial_gradient
    raise ConvergenceError(
        f"an agent's own step of admm did not settle within {max_rounds} Newton iterations; standardise the features "
        "or raise rho."
    )
