"""Algorithm 1 of the paper, with its errata corrected (E1, E2, E4 on the errata page), in two schedules.

*Damped*, as printed: every agent minimises with the others fixed, moves γ/K of the way, and θ̃ follows with penalty ρ.
*Sharing* (Boyd et al. 2011, section 7.3), the default: the same messages without damping; ρ follows from the data.
Both agree with Newton's method on the solution; Newton needs far fewer rounds. One exchange per round in either form.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import numpy as np

from comt.errors import ConvergenceError
from comt.federation.base import Federation
from comt.optimize.linear import SpdMatrix
from comt.optimize.points import Solution
from comt.preparation import Preparation
from comt.problem import Array, TeachingProblem, certificate
from comt.queries import ProximalStep, Totals
from comt.server.ask import sums_at
from comt.server.dual import Watch


@dataclass(frozen=True)
class State:
    """Everything the server holds between rounds: small vectors, no row-level value; enough to go on after a stop."""

    round: int
    tau: Array  # Σ τ_k
    theta: Array  # θ̃
    u: Array  # scaled dual variable
    rho: float


@dataclass(frozen=True)
class Schedule:
    """One of the two forms: what it broadcasts, and how it updates θ̃, u and r from the answers."""

    problem: TeachingProblem
    n_agents: int
    gamma: float
    sharing: bool

    def broadcast(self, state: State) -> tuple[Array, float, float]:
        """Return shift, σ and damping of the agents' step."""
        if self.sharing:
            return (state.theta - state.tau) / self.n_agents - state.u, state.rho, 1.0
        sigma = self.problem.lambda_w + state.rho
        return state.rho * (state.theta + state.u) / sigma - state.tau, sigma, self.gamma / self.n_agents

    def update(self, state: State, totals: Totals) -> State:
        """Take one (for squared loss exact) Newton step on θ̃, then move u."""
        problem, tau = self.problem, totals["tau"]
        slope = problem.lambda_trusted * totals["trusted_slope"]
        bend = problem.lambda_trusted * totals["trusted_bend"]
        identity = np.eye(len(tau))
        if self.sharing:
            pull = state.rho / self.n_agents
            goal = tau + self.n_agents * state.u
            gradient = problem.lambda_w * state.theta + slope + pull * (state.theta - goal)
            curvature = (problem.lambda_w + pull) * identity + bend
        else:
            gradient = slope + state.rho * (state.theta - tau + state.u)
            curvature = state.rho * identity + bend
        theta = state.theta - SpdMatrix(curvature).solve(gradient)
        u = state.u + ((tau - theta) / self.n_agents if self.sharing else theta - tau)
        return State(state.round + 1, tau, theta, u, state.rho)

    def price(self, state: State) -> Array:
        """Return r: λ_w r = ρu in the sharing form, λ_w(θ − r) = ρu in the damped one."""
        scaled = state.rho / self.problem.lambda_w * state.u
        return scaled if self.sharing else state.theta - scaled


def solve(
    federation: Federation,
    preparation: Preparation,
    problem: TeachingProblem,
    *,
    rho: float | str = "auto",
    gamma: float = 1.0,
    tol: float,
    max_rounds: int,
    start: State | None = None,
    watch: Watch | None = None,
) -> Solution:
    """Run Algorithm 1 to the given certificate, or raise with the certificate reached."""
    schedule = Schedule(problem, len(federation.agents), gamma, sharing=rho == "auto")
    training = uuid.uuid4().hex
    state = start or _first_state(federation, preparation, problem, rho)
    history: list[dict[str, float]] = []
    check_at = 1e-4  # residuals at which the certificate is worth an exchange of its own
    for _ in range(max_rounds):
        shift, sigma, damping = schedule.broadcast(state)
        totals = federation.sum(
            ProximalStep(
                loss_name=problem.loss_name,
                preparation=preparation,
                training=training,
                round=state.round,
                lambda_w=problem.lambda_w,
                lambda_alpha=problem.lambda_alpha,
                lambda_z=problem.lambda_z,
                shift=shift,
                sigma=sigma,
                damping=damping,
                theta=state.theta,
            )
        )
        previous, state = state, schedule.update(state, totals)
        size = 1.0 + float(np.linalg.norm(state.theta))
        primal = float(np.linalg.norm(state.tau - state.theta)) / size
        dual = max(float(np.linalg.norm(state.theta - previous.theta)), float(np.sqrt(totals["moved_sq"]))) / size
        history.append(
            {
                "objective": _objective(problem, totals),
                "primal_residual": primal,
                "dual_residual": dual,
            }
        )
        if not np.isfinite(primal) or size > 1e12:
            break
        if max(primal, dual) <= check_at:
            r = schedule.price(state)
            if problem.coupling(r) < problem.loss.max_coupling:
                sums = sums_at(federation, preparation, problem, r, state.theta)
                gap = certificate(problem, r, state.theta, sums)
                history[-1]["certificate"] = gap
                if gap <= tol:
                    return Solution(r, state.theta, sums, gap, history)
            check_at = 0.3 * max(primal, dual)
        if watch is not None:
            watch(history[-1])
        if schedule.sharing and state.round % 10 == 0 and state.round <= 200:
            state = _balanced(state, primal, dual)
    raise _failure(federation, preparation, schedule, state, history, tol, max_rounds)


def _first_state(federation: Federation, preparation: Preparation, problem: TeachingProblem, rho: float | str) -> State:
    zero = np.zeros(preparation.width)
    if isinstance(rho, str):
        size = sums_at(federation, preparation, problem, zero, zero).size_sq / len(federation.agents)
        # the curvature that an average agent's rows have in τ_k; logistic rows bend at most a quarter as much
        factor = 1.0 if problem.loss.piecewise_quadratic else 4.0
        rho = factor * problem.lambda_w**2 * len(zero) / size if size > 0 else 1.0
    return State(0, zero, zero, zero, float(rho))


def _balanced(state: State, primal: float, dual: float) -> State:
    """Shift the penalty towards the residual that lags behind; u is scaled by ρ and follows."""
    factor = 2.0 if primal > 10.0 * dual else 0.5 if dual > 10.0 * primal else 1.0
    return replace(state, rho=state.rho * factor, u=state.u / factor)


def _objective(problem: TeachingProblem, totals: Totals) -> float:
    """D(α, β), with the trusted loss where it was measured: at θ̃, which converges to θ."""
    crafting = problem.lambda_z * float(totals["beta_sq"]) if np.isfinite(problem.lambda_z) else 0.0
    return float(
        totals["conjugate"]
        + problem.lambda_alpha * totals["alpha_abs"]
        + crafting
        + 0.5 * problem.lambda_w * totals["tau"] @ totals["tau"]
        + problem.lambda_trusted * totals["trusted_value"]
    )


def _failure(
    federation: Federation,
    preparation: Preparation,
    schedule: Schedule,
    state: State,
    history: list[dict[str, float]],
    tol: float,
    max_rounds: int,
) -> ConvergenceError:
    gap = float("inf")
    problem, r = schedule.problem, schedule.price(state)
    if np.isfinite(r).all() and problem.coupling(r) < problem.loss.max_coupling:
        gap = certificate(problem, r, state.theta, sums_at(federation, preparation, problem, r, state.theta))
    diverged = len(history) < max_rounds
    advice = "rho='auto'" if not schedule.sharing else "solver='newton'"
    happened = "diverged" if diverged else "did not converge"
    return ConvergenceError(
        f"admm {happened} in {len(history)} rounds (rho={state.rho:g}, gamma={schedule.gamma:g}): certificate {gap:.1e} "
        f"where tol={tol:g} is wanted; use {advice}, a smaller gamma or more max_rounds.",
        certificate=gap,
        history=history,
    )
