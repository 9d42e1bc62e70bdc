"""Squared rows: minimise P(r) = Σφ_i(r) + ½rᵀQr + b·r by freezing the set of active rows.

While the active set A = {i : |y_i − x_i·r| > λ_α} does not change, P is

    (rᵀG r − 2h·r + k) / (2ω(r)) + ½rᵀQr + b·r,     ω(r) = 1 − ‖r‖²/(2λ_Z)

with G, h, k sums over A. That model is minimised without asking anybody; then the active set is looked up again. With
λ_α = 0 the model is exact and the first answer settles everything. The quadratic (Q, b) carries the trusted rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from comt.errors import ConvergenceError, CraftingError
from comt.optimize.linear import EPS, SpdMatrix
from comt.optimize.points import Asking, Points, Solution
from comt.problem import Array, Sums, TeachingProblem, certificate, row_gradient, saddle_value

#: below this ω the crafted features swallow the signal; method page, section 3
MIN_OMEGA = 1e-6
#: step sizes, and shares of the inactive rows' curvature, tried together when a full step disappoints
SHORTER = np.concatenate([np.arange(0.9, 0.05, -0.1), 0.05 * 0.5 ** np.arange(0.0, 10.0, 1.0)])
WIDER = (1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 1.0)
LONGER = (1.0, 2.0, 4.0)


class TrustedQuadratic:
    """max over θ of λ_w r·θ − (λ_w/2)‖θ‖² − λ_trusted L̃(θ) for quadratic L̃: ½rᵀQr + b·r, its constant dropped.

    The constant would be huge at large λ_trusted and spoil every comparison of values by cancellation.
    """

    def __init__(self, problem: TeachingProblem, at: Array, slope: Array, bend: Array) -> None:
        self.at, self.slope, self.bend = at, slope, bend  # θ₀, ∇L̃(θ₀), ∇²L̃
        self._lambda_w = problem.lambda_w
        self._inner = SpdMatrix(problem.lambda_w * np.eye(len(at)) + problem.lambda_trusted * bend)
        self._pull = -problem.lambda_trusted * (slope - bend @ at)
        hessian = problem.lambda_w**2 * self._inner.solve(np.eye(len(at)))
        self.hessian = 0.5 * (hessian + hessian.T)  # Q
        self.linear = problem.lambda_w * self._inner.solve(self._pull)  # b

    def theta(self, r: Array) -> Array:
        """Return the trusted fit around r: argmin λ_trusted L̃(θ) + (λ_w/2)‖θ − r‖²."""
        return self._inner.solve(self._lambda_w * r + self._pull)

    def value(self, r: Array) -> float:
        """½rᵀQr + b·r."""
        return float(0.5 * r @ self.hessian @ r + self.linear @ r)


@dataclass(frozen=True)
class FrozenModel:
    """The model of P with a fixed active set; ``gram``, ``cross``, ``energy`` are G, h, k above."""

    problem: TeachingProblem
    outer: TrustedQuadratic
    gram: Array
    cross: Array
    energy: float

    @classmethod
    def at(cls, problem: TeachingProblem, outer: TrustedQuadratic, r: Array, sums: Sums) -> FrozenModel:
        """Read G, h, k off the sums at r: Σαx = (h − Gr)/ω and ‖α‖² = (rᵀGr − 2h·r + k)/ω²."""
        assert sums.weight_xx is not None
        omega = 1.0 - problem.coupling(r)
        gram = omega * sums.weight_xx
        cross = omega * sums.alpha_x + gram @ r
        energy = omega**2 * sums.alpha_sq - float(r @ gram @ r) + 2.0 * float(cross @ r)
        return cls(problem, outer, gram, cross, energy)

    def widened(self, other: FrozenModel, share: float, r: Array) -> FrozenModel:
        """Add a share of the inactive rows' curvature around r (share 1 majorises P): shorter, safer steps."""
        extra = share * (other.gram - self.gram)
        pull = extra @ r
        return replace(self, gram=self.gram + extra, cross=self.cross + pull, energy=self.energy + float(r @ pull))

    def derivatives(self, r: Array) -> tuple[float, Array, Array]:
        """Value, gradient and Hessian of the model."""
        problem = self.problem
        energy = max(float(r @ self.gram @ r - 2.0 * self.cross @ r + self.energy), 0.0)
        slope = self.gram @ r - self.cross
        gradient = self.outer.hessian @ r + self.outer.linear
        hessian = self.gram + self.outer.hessian
        value = self.outer.value(r)
        if not np.isfinite(problem.lambda_z):
            return value + 0.5 * energy, gradient + slope, hessian
        omega = 1.0 - problem.coupling(r)
        seen = problem.crafted(r) / problem.lambda_z
        cross = np.outer(slope, seen) / omega**2
        hessian = self.gram / omega + self.outer.hessian + cross + cross.T
        hessian += (energy / omega**3) * np.outer(seen, seen)
        flat = problem.crafted(np.full(r.shape, energy / (2.0 * omega**2 * problem.lambda_z)))
        hessian.flat[:: len(r) + 1] += flat
        gradient = gradient + slope / omega + (energy / (2.0 * omega**2)) * seen
        return value + energy / (2.0 * omega), gradient, hessian

    def minimizer(self, start: Array) -> Array:
        """Minimise the model: one linear solve without crafting, damped Newton inside the ball with it."""
        if not np.isfinite(self.problem.lambda_z):
            return SpdMatrix(self.gram + self.outer.hessian).solve(self.cross - self.outer.linear)
        r = start
        value, gradient, hessian = self.derivatives(r)
        for _ in range(200):
            step = -SpdMatrix(hessian).solve(gradient)
            slope = float(gradient @ step)
            if -slope <= 1e3 * EPS * (1.0 + abs(value)):
                # values can no longer tell better from worse, but the gradient still can: finish with plain steps
                return self._polished(r, step)
            size = 1.0
            while True:
                trial = r + size * step
                if self.problem.coupling(trial) < 1.0 - 1e-9:
                    new_value, new_gradient, new_hessian = self.derivatives(trial)
                    if new_value <= value + 1e-4 * size * slope:
                        break
                size *= 0.5
                if size < 1e-14:
                    return r
            r, value, gradient, hessian = trial, new_value, new_gradient, new_hessian
        return r

    def _polished(self, r: Array, step: Array) -> Array:
        """Take Newton steps while they shrink."""
        for _ in range(3):
            if self.problem.coupling(r + step) >= 1.0 - 1e-9:
                break
            r = r + step
            _, gradient, hessian = self.derivatives(r)
            following = -SpdMatrix(hessian).solve(gradient)
            if np.linalg.norm(following) >= 0.5 * np.linalg.norm(step):
                break
            step = following
        return r

    def sums(self, r: Array, moments: Sums) -> Sums:
        """Return what the rows would answer at r if the frozen set is theirs (exact for λ_α = 0)."""
        omega = 1.0 - self.problem.coupling(r)
        energy = max(float(r @ self.gram @ r - 2.0 * self.cross @ r + self.energy), 0.0)
        alpha_x = (self.cross - self.gram @ r) / omega
        theta = self.outer.theta(r)
        moved = theta - self.outer.at
        value = moments.trusted_value + float(self.outer.slope @ moved + 0.5 * moved @ self.outer.bend @ moved)
        return replace(
            moments,
            phi=energy / (2.0 * omega),
            alpha_x=alpha_x,
            alpha_sq=energy / omega**2,
            weight_xx=self.gram / omega,
            weight_alpha_x=alpha_x / omega,
            weight_alpha_sq=energy / omega**3,
            trusted_value=value,
            trusted_slope=self.outer.slope + self.outer.bend @ moved,
        )


def solve(
    problem: TeachingProblem,
    start: Array,
    *,
    tol: float = 1e-8,
    max_rounds: int = 200,
    history: list[dict[str, float]] | None = None,
) -> Asking[Solution]:
    """Solve the teaching problem for a piecewise quadratic loss; every yield is one exchange."""
    zero = np.zeros_like(start)
    (moments,) = yield Points.one(zero, zero, lambda_alpha=0.0)
    assert moments.trusted_bend is not None
    outer = TrustedQuadratic(problem, zero, moments.trusted_slope, moments.trusted_bend)
    everything = FrozenModel.at(problem, outer, zero, moments)
    r = everything.minimizer(_inside(problem, start))
    history = [] if history is None else history
    sums = everything.sums(r, moments)

    def finished() -> Solution:
        theta = outer.theta(r)
        gap = certificate(problem, r, theta, sums)
        history.append({"certificate": gap, "objective": -saddle_value(problem, r, theta, sums)})
        return Solution(r, theta, sums, gap, history)

    if problem.lambda_alpha == 0.0:
        _check_ball(problem, r)
        done = finished()
        fit = SpdMatrix(everything.derivatives(r)[2])
        if done.certificate <= tol and fit.condition() * EPS < 1e-9:
            return done
        # ill-conditioned: refine against the residuals of the rows themselves, which the moments cannot see
        for _ in range(3):
            (sums,) = yield Points.one(r, outer.theta(r), "none")
            done = finished()
            step = -fit.solve(row_gradient(problem, r, sums) + outer.hessian @ r + outer.linear)
            small = np.linalg.norm(step) <= 1e-11 * (1.0 + np.linalg.norm(r))
            if done.certificate <= tol and small:
                return done
            if problem.coupling(r + step) >= 1.0:
                # outside the ball the equations have solutions that are none of the problem
                if done.certificate <= tol:
                    return done
                raise CraftingError(
                    f"lambda_z={problem.lambda_z:g} is too small: the solution lies where crafting the features leaves "
                    f"1 - |r|²/(2 lambda_z) = {1.0 - problem.coupling(r):.1e} of the signal, too little to compute with; "
                    "increase lambda_z."
                )
            r = r + step
        if done.certificate <= tol:
            return done
        raise _stalled(problem, done.certificate, tol, len(history))

    (sums,) = yield Points.one(r, outer.theta(r))
    for _ in range(max_rounds):
        done = finished()
        model = FrozenModel.at(problem, outer, r, sums)
        target = model.minimizer(r)
        step = target - r
        if done.certificate <= tol and np.linalg.norm(step) <= 1e-9 * (1.0 + np.linalg.norm(r)):
            _check_ball(problem, r)
            return done
        value = sums.phi + outer.value(r)
        promised = model.derivatives(r)[0] - model.derivatives(target)[0]
        noise = 8 * EPS * (1.0 + abs(value))
        (answer,) = yield Points.one(target, outer.theta(target))
        gained = value - answer.phi - outer.value(target)
        if gained >= 0.25 * promised - noise:
            r, sums = target, answer
            continue
        # rows became active on the way: other steps and wider models, all compared in one exchange
        trials = [r + size * step for size in SHORTER]
        aims = [model.widened(everything, share, r).minimizer(r) - r for share in WIDER]
        trials += [r + size * aim for aim in aims for size in LONGER if problem.coupling(r + size * aim) < 1.0]
        answers = yield Points(np.stack(trials), np.stack([outer.theta(trial) for trial in trials]))
        trials, answers = [*trials, target], [*answers, answer]
        values = [sums.phi + outer.value(trial) for sums, trial in zip(answers, trials, strict=True)]
        best = int(np.argmin(values))
        if values[best] >= value:
            if done.certificate <= tol:
                _check_ball(problem, r)
                return done
            break
        r, sums = trials[best], answers[best]
    _check_ball(problem, r)
    done = finished()
    if done.certificate <= tol:
        return done
    raise _stalled(problem, done.certificate, tol, len(history))


def _inside(problem: TeachingProblem, start: Array) -> Array:
    """Pull a warm start into the ball ‖r‖² < 2λ_Z where the problem lives."""
    coupling = problem.coupling(start)
    return start if coupling < 0.5 else start * np.sqrt(0.5 / coupling)


def _check_ball(problem: TeachingProblem, r: Array) -> None:
    omega = 1.0 - problem.coupling(r)
    if not omega >= MIN_OMEGA:
        raise CraftingError(
            f"lambda_z={problem.lambda_z:g} is too small: crafting the features leaves 1 - |r|²/(2 lambda_z) = "
            f"{omega:.1e} of the signal, at least {MIN_OMEGA:g} is needed; increase lambda_z."
        )


def _stalled(problem: TeachingProblem, gap: float, tol: float, rounds: int) -> ConvergenceError:
    return ConvergenceError(
        f"newton stopped after {rounds} rounds at a certificate of {gap:.1e} where tol={tol:g} is wanted; standardise "
        f"the features, raise lambda_w (now {problem.lambda_w:g}) or lambda_z (now {problem.lambda_z:g}), or raise tol.",
        certificate=gap,
    )
