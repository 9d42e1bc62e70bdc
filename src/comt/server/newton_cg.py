"""Newton's method without matrices: every answer is a vector, for many features or holders who refuse d × d sums.

The Newton system of :mod:`comt.optimize.saddle` is solved by MINRES; each of its iterations asks the agents for the
curvature along one direction. Inexact steps are accepted when they shorten the (diagonally scaled) residual.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.sparse.linalg import LinearOperator, minres

from comt.errors import ConvergenceError
from comt.federation.base import Federation
from comt.optimize.points import Solution
from comt.optimize.saddle import longest_step
from comt.preparation import Preparation
from comt.problem import Array, Sums, TeachingProblem, certificate, residuals, saddle_value
from comt.queries import CurvatureTimes
from comt.server.ask import sums_at
from comt.server.dual import Watch


def solve(
    federation: Federation,
    preparation: Preparation,
    problem: TeachingProblem,
    start_r: Array,
    start_theta: Array,
    *,
    tol: float,
    max_rounds: int,
    watch: Watch | None = None,
) -> Solution:
    """Solve the teaching problem asking for vectors only."""
    server = _VectorServer(federation, preparation, problem)
    before = federation.rounds
    r, theta = start_r, start_theta
    sums = server.sums(r, theta)
    history: list[dict[str, float]] = []
    while federation.rounds - before < max_rounds:
        gap = certificate(problem, r, theta, sums)
        history.append({"certificate": gap, "objective": -saddle_value(problem, r, theta, sums)})
        if watch is not None:
            watch(history[-1])
        if gap <= 0.01 * tol:
            return Solution(r, theta, sums, gap, history)
        scale = server.scale(sums)
        residual = np.concatenate(residuals(problem, r, theta, sums))
        # solve loosely while far away, tightly near the solution (Eisenstat and Walker)
        step, _ = minres(
            server.operator(r, theta, sums),
            -residual,
            rtol=float(np.clip(gap, 1e-12, 1e-3)),
            M=LinearOperator((2 * len(r), 2 * len(r)), matvec=partial(_divided, scale=scale)),
            maxiter=max(50, 4 * len(r)),
        )
        size = longest_step(problem, r, step[: len(r)])
        length = float(np.linalg.norm(residual / np.sqrt(scale)))
        while True:
            trial = (r + size * step[: len(r)], theta + size * step[len(r) :])
            trial_sums = server.sums(*trial)
            moved = np.concatenate(residuals(problem, *trial, trial_sums)) / np.sqrt(scale)
            if np.linalg.norm(moved) <= (1.0 - 1e-4 * size) * length or size < 1e-6:
                break
            size *= 0.5
        if size < 1e-6:
            if gap <= tol:
                return Solution(r, theta, sums, gap, history)
            break
        (r, theta), sums = trial, trial_sums
    gap = certificate(problem, r, theta, sums)
    if gap <= tol:
        return Solution(r, theta, sums, gap, history)
    raise ConvergenceError(
        f"newton-cg stopped after {federation.rounds - before} rounds at a certificate of {gap:.1e} where tol={tol:g} "
        f"is wanted; standardise the features, raise max_rounds (now {max_rounds}) or lambda_w, or use solver='newton'.",
        certificate=gap,
    )


class _VectorServer:
    """The questions this solver asks, in one place."""

    def __init__(self, federation: Federation, preparation: Preparation, problem: TeachingProblem) -> None:
        self._federation, self._preparation, self._problem = federation, preparation, problem

    def sums(self, r: Array, theta: Array) -> Sums:
        return sums_at(self._federation, self._preparation, self._problem, r, theta, "diagonal")

    def scale(self, sums: Sums) -> Array:
        """Return a diagonal of the size of the system's own blocks, to even out unequal features."""
        assert sums.weight_xx is not None
        assert sums.trusted_bend is not None
        lambda_w = self._problem.lambda_w
        flat = sums.alpha_sq / (2.0 * self._problem.lambda_z)
        return np.concatenate(
            [sums.weight_xx + lambda_w + flat, lambda_w + self._problem.lambda_trusted * sums.trusted_bend]
        )

    def operator(self, r: Array, theta: Array, sums: Sums) -> LinearOperator:
        """Return the Newton matrix [[∇²Σφ, λ_w I], [λ_w I, −(λ_w I + λ_trusted ∇²L̃)]] as a product with vectors."""
        problem, width = self._problem, len(r)
        seen = problem.crafted(r) / problem.lambda_z
        assert sums.weight_alpha_x is not None
        cross = sums.weight_alpha_x

        def times(vector: Array) -> Array:
            along_r, along_theta = vector[:width], vector[width:]
            totals = self._federation.sum(
                CurvatureTimes(
                    loss_name=problem.loss_name,
                    preparation=self._preparation,
                    r=r,
                    theta=theta,
                    lambda_alpha=problem.lambda_alpha,
                    lambda_z=problem.lambda_z,
                    along_r=along_r,
                    along_theta=along_theta,
                )
            )
            first = totals["buggy"] - cross * (seen @ along_r) - seen * (cross @ along_r)
            first = first + sums.weight_alpha_sq * seen * (seen @ along_r)
            first = first + (sums.alpha_sq / (2.0 * problem.lambda_z)) * problem.crafted(along_r)
            second = -problem.lambda_w * along_theta - problem.lambda_trusted * totals["trusted"]
            return np.concatenate([first + problem.lambda_w * along_theta, problem.lambda_w * along_r + second])

        return LinearOperator((2 * width, 2 * width), matvec=times)


def _divided(vector: Array, scale: Array) -> Array:
    return vector / scale
