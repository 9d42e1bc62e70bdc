"""The public half of Algorithm 1: what θ̃, u and ρ become once the sums of a round are known, in two schedules.

*Damped*, as printed: every agent minimises with the others fixed, moves γ/K of the way, and θ̃ follows with penalty ρ.
*Sharing* (Boyd et al. 2011, section 7.3): the same messages without damping; ρ follows from the data.

Everything here is a function of sums, so whoever knows them can compute it: the server, which drives the loop, and every
agent, which checks that the server does (``comt.agent.recursion``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from comt.optimize.linear import SpdMatrix
from comt.problem import Array, TeachingProblem

#: the sums of a round that the next one follows from
NEEDED = ("tau", "trusted_slope", "trusted_bend", "moved_sq")


@dataclass(frozen=True)
class State:
    """Everything between two rounds: small vectors, no row-level value; enough to go on after a stop."""

    round: int
    tau: Array  # Σ τ_k
    theta: Array  # θ̃
    u: Array  # scaled dual variable
    rho: float

    @classmethod
    def first(cls, width: int, rho: float) -> State:
        """Return where every training starts."""
        zero = np.zeros(width)
        return cls(0, zero, zero, zero, rho)


@dataclass(frozen=True)
class Residuals:
    """How far a round is from a fixed point, relative to the size of θ̃."""

    primal: float
    dual: float
    size: float


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

    def update(self, state: State, totals: Mapping[str, Array]) -> State:
        """Take one (for squared loss exact) Newton step on θ̃, move u, and balance ρ every ten rounds."""
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
        new = State(state.round + 1, tau, theta, u, state.rho)
        if self.sharing and new.round % 10 == 0 and new.round <= 200:
            return _balanced(new, self.residuals(state, new, totals))
        return new

    @staticmethod
    def residuals(old: State, new: State, totals: Mapping[str, Array]) -> Residuals:
        """Return the residuals of the round that led from one state to the next."""
        size = 1.0 + float(np.linalg.norm(new.theta))
        moved = max(float(np.linalg.norm(new.theta - old.theta)), float(np.sqrt(totals["moved_sq"])))
        return Residuals(float(np.linalg.norm(new.tau - new.theta)) / size, moved / size, size)

    def price(self, state: State) -> Array:
        """Return r: λ_w r = ρu in the sharing form, λ_w(θ − r) = ρu in the damped one."""
        scaled = state.rho / self.problem.lambda_w * state.u
        return scaled if self.sharing else state.theta - scaled


def _balanced(state: State, found: Residuals) -> State:
    """Shift the penalty towards the residual that lags behind; u is scaled by ρ and follows, so that r does not move."""
    lags = found.primal > 10.0 * found.dual, found.dual > 10.0 * found.primal
    factor = 2.0 if lags[0] else 0.5 if lags[1] else 1.0
    return replace(state, rho=state.rho * factor, u=state.u / factor)
