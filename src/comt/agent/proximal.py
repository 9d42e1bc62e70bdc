"""The agent's step of Algorithm 1, corrected (errata E1, E2), solved exactly and jointly in (α_k, β_k).

With the others' contribution fixed, the agent minimises

    Σℓ*(−α) + λ_α‖α‖₁ + λ_Z‖β‖² + (σ/2)‖τ_k − v‖²,     τ_k = (1/λ_w) Σ α s (x + β),     v = τ_k^old + shift

whose dual has d unknowns p:  Σφ_i(p) + λ_w²‖p‖²/(2σ) + λ_w p·v. The damped and the sharing form of the algorithm
differ only in what the server broadcasts as shift, σ and damping.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from comt import rows as row_maths
from comt.agent.recursion import constants_of, follow
from comt.errors import ProtocolError
from comt.optimize import convex
from comt.optimize.algorithm1 import State
from comt.optimize.points import Points, drive
from comt.problem import Array, Sums, TeachingProblem
from comt.queries import Answer, ProximalStep

if TYPE_CHECKING:
    from comt.agent.agent import Agent
    from comt.agent.data import PreparedRows


#: where an agent keeps the state after the latest round, and after the one before it
LATEST, BEFORE = "admm", "admm before"


@dataclass
class AdmmState:
    """What an agent keeps between rounds: α_k, q_k (β_i = α_i s_i q), the round, and that round's answer."""

    training: str
    round: int
    alpha: Array
    direction: Array  # q_k
    price: Array  # p_k, to start the next round's Newton from
    answer: Answer
    public: State | None = None  # θ̃, u, ρ of the round, as they follow from the sums
    constants: bytes = b""  # of what must not change during a training


def proximal_step(query: ProximalStep, agent: Agent) -> Answer:
    """Apply one step, or repeat the answer of one of the two steps applied last: a coordinator may have lost a round."""
    state = agent.store.get(LATEST)
    for known in (state, agent.store.get(BEFORE)):
        if isinstance(known, AdmmState) and (known.training, known.round) == (query.training, query.round):
            return known.answer
    prepared = agent.prepared(query.preparation)
    before: AdmmState | None = None
    if query.round == 0:
        width = query.preparation.width
        alpha, direction, price = np.zeros(prepared.n_rows), np.zeros(width), np.zeros(width)
    elif isinstance(state, AdmmState) and state.training == query.training and state.round == query.round - 1:
        before = state
        alpha, direction, price = state.alpha, state.direction, state.price
    else:
        held = state.round if isinstance(state, AdmmState) and state.training == query.training else "none"
        raise ProtocolError(
            f"agent {agent.name} was asked for round {query.round} of training {query.training} but holds {held}; "
            "start the training again from round 0."
        )
    public, constants = None, constants_of(query)
    if query.recursion is not None:
        same = before is None or before.constants == constants
        public = follow(query, before.public if before else None, agent.name, same_constants=same)
    new = _step(query, prepared, alpha, direction, price)
    new.public, new.constants = public, constants
    if state is not None:
        agent.store[BEFORE] = state
    agent.store[LATEST] = new
    return new.answer


def _step(query: ProximalStep, rows: PreparedRows, alpha: Array, direction: Array, price: Array) -> AdmmState:
    problem = query.problem(query.lambda_alpha, query.lambda_z, query.lambda_w)
    lambda_w = query.lambda_w

    def evaluate(points: Points) -> list[Sums]:
        return [_local_sums(problem, rows, points)]

    old_tau = _tau(query, rows, alpha, direction)
    target = old_tau + query.shift
    price = drive(convex.solve(problem, lambda_w**2 / query.sigma, lambda_w * target, price), evaluate)
    fresh = [row_maths.alphas(problem, features, targets, price) for features, targets in rows.blocks()]
    new_alpha = np.concatenate(fresh) if fresh else np.empty(0)
    new_direction = problem.crafting_direction(price) if np.isfinite(query.lambda_z) else np.zeros_like(price)
    alpha = alpha + query.damping * (new_alpha - alpha)
    direction = direction + query.damping * (new_direction - direction)
    tau = _tau(query, rows, alpha, direction)
    trusted = row_maths.trusted_sums(problem, *rows.trusted, query.theta)
    arrays = {
        "tau": tau,
        "conjugate": np.array(_conjugate(query, rows, alpha)),
        "alpha_abs": np.array(np.abs(alpha).sum()),
        "beta_sq": np.array((alpha @ alpha) * (direction @ direction)),
        "moved_sq": np.array(float((tau - old_tau) @ (tau - old_tau))),
        "rows": np.array(float(rows.n_rows)),
        "size_sq": np.array(rows.size_sq),
        "trusted_value": np.array(trusted["trusted_value"]),
        "trusted_rows": np.array(trusted["trusted_rows"]),
        "trusted_slope": np.asarray(trusted["trusted_slope"]),
        "trusted_bend": np.asarray(trusted["trusted_bend"]),
    }
    n_trusted = len(rows.trusted[1])
    counts = {name: n_trusted if name.startswith("trusted") else rows.n_rows for name in arrays}
    return AdmmState(query.training, query.round, alpha, direction, price, Answer(arrays, counts))


def _local_sums(problem: TeachingProblem, rows: PreparedRows, points: Points) -> Sums:
    """Sum over the agent's own buggy rows; its step knows no trusted ones."""
    width = points.r.shape[1]
    blocks = list(rows.blocks()) or [(np.empty((0, width)), np.empty(0))]
    parts = [row_maths.buggy_sums(problem, *block, points.r[0], points.curvature) for block in blocks]
    totals: dict[str, Any] = {name: sum(part[name] for part in parts) for name in parts[0]}
    totals |= {"trusted_value": 0.0, "trusted_slope": np.zeros(width), "trusted_rows": 0.0, "trusted_size_sq": 0.0}
    return Sums(size_sq=rows.size_sq, **totals)


def _tau(query: ProximalStep, rows: PreparedRows, alpha: Array, direction: Array) -> Array:
    """τ_k = (1/λ_w)(Σ α s x + ‖α‖² q)."""
    loss = query.problem().loss
    total = np.zeros(query.preparation.width)
    start = 0
    for features, targets in rows.blocks():
        part = alpha[start : start + len(targets)]
        total += (part * loss.signs(targets)) @ features
        start += len(targets)
    return (total + float(alpha @ alpha) * direction) / query.lambda_w


def _conjugate(query: ProximalStep, rows: PreparedRows, alpha: Array) -> float:
    loss = query.problem().loss
    total, start = 0.0, 0
    for _, targets in rows.blocks():
        total += float(loss.conjugate(alpha[start : start + len(targets)], targets).sum())
        start += len(targets)
    return total
