"""Smooth rows: Newton's method on the saddle  min_r max_θ  Σφ_i(r) + λ_w r·θ − (λ_w/2)‖θ‖² − λ_trusted L̃(θ).

Nothing is nested: r and θ move together, and eliminating dθ leaves one p × p system per exchange,

    (∇²Σφ + λ_w² M⁻¹) dr = −g_r − λ_w M⁻¹ g_θ,      M = λ_w I + λ_trusted ∇²L̃,     M dθ = λ_w dr + g_θ.

Steps are accepted by the natural monotonicity test (Deuflhard): the Newton correction at the trial point, taken with
the old matrix, must be shorter than the step itself. It needs no function value and does not depend on units.
"""

from __future__ import annotations

import numpy as np

from comt.errors import ConvergenceError, CraftingError
from comt.optimize.linear import EPS, SpdMatrix
from comt.optimize.points import Asking, Points, Solution
from comt.problem import Array, Sums, TeachingProblem, certificate, residuals, row_hessian, saddle_value

#: step sizes tried together when the full step fails
SHORTER = 0.5 ** np.arange(1.0, 7.0)


class SaddleSystem:
    """The linear system of one Newton step, factorised once and used for trial points too."""

    def __init__(self, problem: TeachingProblem, r: Array, sums: Sums) -> None:
        assert sums.trusted_bend is not None
        self._lambda_w = problem.lambda_w
        identity = np.eye(len(r))
        self._inner = SpdMatrix(problem.lambda_w * identity + problem.lambda_trusted * sums.trusted_bend)
        outer = row_hessian(problem, r, sums) + problem.lambda_w**2 * self._inner.solve(identity)
        self._outer = SpdMatrix(outer)

    def correction(self, g_r: Array, g_theta: Array) -> tuple[Array, Array]:
        """Return (dr, dθ) for the residuals."""
        step_r = self._outer.solve(-g_r - self._lambda_w * self._inner.solve(g_theta))
        return step_r, self._inner.solve(self._lambda_w * step_r + g_theta)


def _length(step: tuple[Array, Array]) -> float:
    return float(np.sqrt(step[0] @ step[0] + step[1] @ step[1]))


def longest_step(problem: TeachingProblem, r: Array, step: Array) -> float:
    """Return the largest size ≤ 1 that keeps the coupling safely below its limit (1 without crafting)."""
    limit = problem.loss.max_coupling
    size = 1.0
    while problem.coupling(r + size * step) > limit - 0.1 * (limit - problem.coupling(r)) and size > 1e-10:
        size *= 0.8
    return size


def solve(
    problem: TeachingProblem,
    start_r: Array,
    start_theta: Array,
    *,
    tol: float = 1e-8,
    settle: float = 1e-9,
    max_rounds: int = 200,
    history: list[dict[str, float]] | None = None,
) -> Asking[Solution]:
    """Solve the teaching problem for a smooth loss; every yield is one exchange.

    It ends where the certificate is at most ``tol`` and the next step would move (r, θ) by less than ``settle``.
    """
    r, theta = start_r, start_theta
    if problem.coupling(r) > 0.9 * problem.loss.max_coupling:
        r, theta = np.zeros_like(r), np.zeros_like(theta)
    (sums,) = yield Points.one(r, theta)
    history = [] if history is None else history
    size = 1.0
    for _ in range(max_rounds):
        gap = certificate(problem, r, theta, sums)
        history.append({"certificate": gap, "objective": -saddle_value(problem, r, theta, sums)})
        system = SaddleSystem(problem, r, sums)
        step = system.correction(*residuals(problem, r, theta, sums))
        length = _length(step)
        settled = length <= settle * (1.0 + float(np.linalg.norm(r)) + float(np.linalg.norm(theta)))
        if gap <= tol and settled:
            return Solution(r, theta, sums, gap, history)
        if length <= 16 * EPS * (1.0 + float(np.linalg.norm(r))) or not np.isfinite(length):
            break  # rounding is all that is left, and it is more than tol
        # after a damped step, start from a little more than what was accepted last
        size = min(longest_step(problem, r, step[0]), 1.0 if size >= 0.5 else 4.0 * size)
        sizes = np.array([size])
        while True:
            trials = [(r + s * step[0], theta + s * step[1]) for s in sizes]
            answers = yield Points(np.stack([t[0] for t in trials]), np.stack([t[1] for t in trials]))
            lengths = np.array(
                [
                    _length(system.correction(*residuals(problem, *trial, answer)))
                    for trial, answer in zip(trials, answers, strict=True)
                ]
            )
            passed = np.flatnonzero(lengths <= (1.0 - 0.25 * sizes) * length + 64 * EPS)
            if passed.size or sizes[-1] < 1e-9:
                break
            sizes = sizes[-1] * SHORTER
        if not passed.size:
            if gap <= tol:  # certified; what is left of the step is rounding in a flat direction
                return Solution(r, theta, sums, gap, history)
            break
        best = int(passed[np.argmin(lengths[passed])])
        size = float(sizes[best])
        (r, theta), sums = trials[best], answers[best]
    raise _failure(problem, r, history, tol)


def _failure(problem: TeachingProblem, r: Array, history: list[dict[str, float]], tol: float) -> ConvergenceError:
    gap = history[-1]["certificate"]
    limit = problem.loss.max_coupling
    if problem.coupling(r) > 0.75 * limit:
        return CraftingError(
            f"lambda_z={problem.lambda_z:g} is too small: the solution has |r|² beyond {2 * limit:g} lambda_z, where "
            "crafting has many minima; increase lambda_z (or decrease lambda_trusted).",
            certificate=gap,
        )
    return ConvergenceError(
        f"newton stopped after {len(history)} rounds at a certificate of {gap:.1e} where tol={tol:g} is wanted; raise "
        f"lambda_w (now {problem.lambda_w:g}), lower lambda_trusted (now {problem.lambda_trusted:g}) or raise tol.",
        certificate=gap,
    )
