"""Direct teaching at fixed rows: minimise Σφ_i(θ) + λ_trusted L̃(θ) + (λ_w/2)‖θ‖², φ the loss of a repaired row.

    squared loss    φ = e²/(2(1 + q)),   q = ‖θ‖²/(2λ_Z)          (errors in variables: total least squares)
    logistic loss   φ = min over u of ℓ(z + u) + u²/(2q)           (the Moreau envelope of the loss)

Not convex in θ: where Newton's step does not descend, the Hessian is shifted until it is positive and the lowest point of
a whole path of such steps is taken. For squared rows everything follows from their second moments: one answer settles it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from comt.optimize.linear import EPS
from comt.optimize.points import Asking, Points, drive
from comt.problem import (
    Array,
    Sums,
    TeachingProblem,
    direct_certificate,
    direct_gradient,
    direct_hessian,
    direct_value,
)

#: shifts of the Hessian tried together when its own step does not descend, in units of its largest eigenvalue
SHIFTS = 10.0 ** np.array([-7.0, -6.0, -5.0, -4.0, -3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 1.0, 3.0, 6.0])
#: eigenvalues below this share of the largest are raised to it
FLAT = 1e-12
#: relative size of the step that is no longer taken
SETTLE = 1e-10


@dataclass(frozen=True)
class Descent:
    """Where Newton's method ended, with the sums there; ``values`` are the objectives on the way, never increasing.

    Whether ``certificate`` is small enough is for the caller to say: among several starts one failure does no harm.
    """

    theta: Array
    sums: Sums
    value: float
    certificate: float
    values: list[float] = field(default_factory=list)


def solve(
    problem: TeachingProblem, start: Array, *, tol: float = 1e-8, settle: float = SETTLE, max_rounds: int = 200
) -> Asking[Descent]:
    """Find the minimum that is reached downhill from ``start``; every yield is one exchange."""
    if not problem.loss.piecewise_quadratic:
        return (yield from newton(problem, start, tol=tol, settle=settle, max_rounds=max_rounds))
    (sums,) = yield Points.one(start, start)
    theta, values = start, [direct_value(problem, start, sums)]
    for _ in range(max_rounds):
        moments = SquaredMoments.at(problem, theta, sums)
        found = drive(newton(problem, theta, tol=tol, max_rounds=max_rounds), moments.answer)
        if np.linalg.cond(direct_hessian(problem, found.theta, found.sums)) * EPS < 1e-9:
            return replace(found, values=[*values, *found.values])
        # ill-conditioned: moments are differences of large sums, and the rows themselves have the last word
        (answer,) = yield Points.one(found.theta, found.theta)
        value = direct_value(problem, found.theta, answer)
        if value > values[-1] + 64 * EPS * abs(values[-1]) or np.array_equal(found.theta, theta):
            break
        settled = np.linalg.norm(found.theta - theta) <= 1e-9 * (1.0 + np.linalg.norm(theta))
        theta, sums = found.theta, answer
        values.append(min(value, values[-1]))
        if settled and direct_certificate(problem, theta, sums) <= tol:
            break
    return _ended(problem, theta, sums, values)


def newton(
    problem: TeachingProblem, start: Array, *, tol: float = 1e-8, settle: float = SETTLE, max_rounds: int = 200
) -> Asking[Descent]:
    """Newton's method; where its step does not descend, the lowest point on a path of shorter steps.

    The path is −(H + μI)⁻¹g for shifts μ that make H positive, all in one exchange. It ends where the certificate is at
    most ``tol`` and the next step would move θ by less than ``settle``.
    """
    theta = start
    (sums,) = yield Points.one(theta, theta)
    value, gradient = direct_value(problem, theta, sums), direct_gradient(problem, theta, sums)
    values = [value]
    for _ in range(max_rounds):
        system = Shifted(direct_hessian(problem, theta, sums), gradient)
        step = system.step(0.0)
        settled = np.linalg.norm(step) <= settle * (1.0 + np.linalg.norm(theta))
        if settled and direct_certificate(problem, theta, sums) <= tol:
            break
        if system.convex:
            (answer,) = yield Points.one(theta + step, theta + step)
            found, moved = direct_value(problem, theta + step, answer), direct_gradient(problem, theta + step, answer)
            slope = float(gradient @ step)
            # where values can no longer tell better from worse, gradients can
            blunt = -slope <= 1e3 * EPS * (1.0 + abs(value))
            shrunk = np.linalg.norm(moved) <= 0.5 * np.linalg.norm(gradient)
            if found <= value + 1e-4 * slope or (blunt and shrunk):
                theta, sums, value, gradient = theta + step, answer, found, moved
                values.append(min(value, values[-1]))
                continue
            if blunt:
                break
        trials = [theta + system.step(shift) for shift in system.path()]
        answers = yield Points(np.stack(trials), np.stack(trials))
        reached = [direct_value(problem, trial, answer) for trial, answer in zip(trials, answers, strict=True)]
        best = int(np.argmin(reached))
        if not reached[best] < value:
            break
        theta, sums, value = trials[best], answers[best], reached[best]
        gradient = direct_gradient(problem, theta, sums)
        values.append(value)
    return _ended(problem, theta, sums, values)


class Shifted:
    """Steps −(H + μI)⁻¹g for any shift μ, from one decomposition of H."""

    def __init__(self, hessian: Array, gradient: Array) -> None:
        self._curvature, self._directions = np.linalg.eigh(0.5 * (hessian + hessian.T))
        self._pull = self._directions.T @ gradient
        self._span = max(float(np.abs(self._curvature).max()), np.finfo(np.float64).tiny)
        self.convex = bool(self._curvature[0] > FLAT * self._span)

    def step(self, shift: float) -> Array:
        """Return the step; what is left of a negative curvature counts by its size."""
        curvature = np.maximum(np.abs(self._curvature + shift), FLAT * self._span)
        step: Array = -self._directions @ (self._pull / curvature)
        return step

    def path(self) -> Array:
        """Return shifts from the smallest that makes H positive to some that leave a short step along −g."""
        return max(0.0, -float(self._curvature[0])) + self._span * SHIFTS


def _ended(problem: TeachingProblem, theta: Array, sums: Sums, values: list[float]) -> Descent:
    return Descent(theta, sums, values[-1], direct_certificate(problem, theta, sums), values)


@dataclass(frozen=True)
class SquaredMoments:
    """What squared rows answer at any θ, from G = Σxxᵀ, h = Σxy, k = Σy² of the rows that take part."""

    problem: TeachingProblem
    gram: Array
    cross: Array
    energy: float
    seen: Sums
    at_theta: Array

    @classmethod
    def at(cls, problem: TeachingProblem, theta: Array, sums: Sums) -> SquaredMoments:
        """Read them off the sums at θ: Σαx = (h − Gθ)/ω, Σα² = (θᵀGθ − 2h·θ + k)/ω², ω = 1 + q."""
        assert sums.weight_xx is not None
        omega = 1.0 - problem.coupling(theta)
        return cls(problem, omega * sums.weight_xx, omega * sums.alpha_x, omega**2 * sums.alpha_sq, sums, theta)

    def answer(self, points: Points) -> list[Sums]:
        """Answer a solver's question."""
        return [self._sums(theta) for theta in points.theta]

    def _sums(self, theta: Array) -> Sums:
        # around θ₀, not around 0: the residuals there are small, so little cancels
        assert self.seen.trusted_bend is not None
        moved = theta - self.at_theta
        omega = 1.0 - self.problem.coupling(theta)
        pushed = self.gram @ moved
        residual_x = self.cross - pushed
        energy = max(self.energy - 2.0 * float(self.cross @ moved) + float(moved @ pushed), 0.0)
        bent = self.seen.trusted_bend @ moved
        return replace(
            self.seen,
            phi=energy / (2.0 * omega),
            alpha_x=residual_x / omega,
            alpha_sq=energy / omega**2,
            weight_xx=self.gram / omega,
            weight_alpha_x=residual_x / omega**2,
            weight_alpha_sq=energy / omega**2 / omega,  # omega³ may be too large for a number
            trusted_value=self.seen.trusted_value + float(self.seen.trusted_slope @ moved + 0.5 * moved @ bent),
            trusted_slope=self.seen.trusted_slope + bent,
        )
