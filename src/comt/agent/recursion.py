"""Does a step of Algorithm 1 follow from the sums before it? Agents recompute θ̃, u, ρ and refuse what does not follow.

A coordinator free to choose the point of every step asks whatever it likes under the name of a training. Bound to the
recursion, all it can choose are the constants of round 0, which then stay, and when to stop. That the sums it shows are
the sums that the sites have opened is checked apart, under masks, by receipts (``comt.masking.receipts``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from comt import wire
from comt.errors import GateError
from comt.masking.receipts import Receipt, fits
from comt.optimize.algorithm1 import NEEDED, Schedule, State
from comt.problem import TeachingProblem
from comt.queries import ProximalStep

#: other processors round otherwise; relative to the size of θ̃, τ and u
TOLERANCE = 1e-6


def constants_of(query: ProximalStep) -> bytes:
    """Return a digest of what must be the same in every step of a training."""
    recursion = None if query.recursion is None else replace(query.recursion, totals={})
    kept = replace(query, round=0, shift=np.empty(0), theta=np.empty(0), sigma=0.0, damping=0.0, recursion=recursion)
    return hashlib.sha256(wire.pack(kept)).digest()


def follow(query: ProximalStep, before: State | None, agent: str, *, same_constants: bool = True) -> State:
    """Return the public state of the step, or refuse it; ``before`` is that of the step before, None in round 0."""
    recursion = query.recursion
    assert recursion is not None
    schedule = Schedule(
        TeachingProblem(query.loss_name, query.lambda_w, recursion.lambda_trusted, query.lambda_alpha, query.lambda_z),
        max(recursion.n_agents, 1),
        recursion.gamma,
        recursion.sharing,
    )
    width = query.preparation.width
    if query.round == 0:
        state = State.first(width, recursion.rho)
    else:
        shapes = {"tau": (width,), "trusted_slope": (width,), "trusted_bend": (width, width), "moved_sq": ()}
        if before is None or {name: total.shape for name, total in recursion.totals.items()} != shapes:
            raise _refusal(agent, query, f"the sums {', '.join(NEEDED)} of the round before are not in it")
        if not same_constants:
            raise _refusal(agent, query, "λ, ρ, γ, the preparation or the number of sites were others before")
        state = schedule.update(before, recursion.totals)
    shift, sigma, damping = schedule.broadcast(state)
    size = 1.0 + float(max(np.linalg.norm(part) for part in (state.theta, state.tau, state.u, shift)))
    for name, expected, scale in (
        ("theta", state.theta, size),
        ("shift", shift, size),
        ("sigma", np.array(sigma), abs(sigma)),
        ("damping", np.array(damping), abs(damping)),
    ):
        given = np.asarray(getattr(query, name))
        if given.shape != expected.shape or not float(np.abs(given - expected).max()) <= TOLERANCE * scale:
            raise _refusal(agent, query, f"'{name}' is not what the sums of the round before lead to")
    return state


def believe(query: ProximalStep, store: Mapping[str, object], agent: str, n_sites: int) -> None:
    """Refuse a step under masks whose sums of the round before are not those that the sites have opened."""
    recursion, held, receipt = query.recursion, store.get("admm"), store.get("receipt")
    if recursion is None:
        return
    if recursion.n_agents != n_sites:
        raise _refusal(agent, query, f"it speaks of {recursion.n_agents} sites where {n_sites} take part")
    if getattr(held, "training", None) != query.training or getattr(held, "round", None) != query.round - 1:
        return  # it starts, it is repeated, or it is refused anyway
    opened = isinstance(receipt, Receipt) and (receipt.training, receipt.round) == (query.training, query.round - 1)
    if not opened or set(recursion.totals) != set(NEEDED):
        raise _refusal(agent, query, "the sums of the round before were not opened by all of its sites")
    assert isinstance(receipt, Receipt)
    if not fits(receipt, recursion.totals, NEEDED):
        raise _refusal(agent, query, "it shows other sums of the round before than the sites have opened")


def _refusal(agent: str, query: ProximalStep, reason: str) -> GateError:
    return GateError(
        f"agent {agent} refuses round {query.round} of Algorithm 1, in which the coordinator departs from the recursion: "
        f"{reason}; nothing was sent."
    )
