"""Algorithm 1 of the paper, with its errata corrected (E1, E2, E4 on the errata page), in two schedules.

Damped as printed, or (the default) in the sharing form: see ``comt.optimize.algorithm1``. Both agree with Newton's method on
the solution; Newton needs far fewer rounds. One exchange per round in either form. Every question carries the sums of the
round before, so that agents can check that what is broadcast follows from them.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

import numpy as np

from comt.errors import ConvergenceError
from comt.federation.base import Federation
from comt.optimize.algorithm1 import NEEDED, Schedule, State
from comt.optimize.points import Solution
from comt.preparation import Preparation
from comt.problem import TeachingProblem, certificate
from comt.queries import ProximalStep, Recursion, Totals
from comt.server.ask import sums_at
from comt.server.dual import Watch


def solve(
    federation: Federation,
    preparation: Preparation,
    problem: TeachingProblem,
    *,
    rho: float | str = "auto",
    gamma: float = 1.0,
    tol: float,
    max_rounds: int,
    watch: Watch | None = None,
) -> Solution:
    """Run Algorithm 1 to the given certificate, or raise with the certificate reached."""
    schedule = Schedule(problem, len(federation.agents), gamma, sharing=rho == "auto")
    training = uuid.uuid4().hex
    state = State.first(preparation.width, _first_rho(federation, preparation, problem, rho))
    recursion = Recursion(
        lambda_trusted=problem.lambda_trusted,
        rho=state.rho,
        gamma=gamma,
        sharing=schedule.sharing,
        n_agents=schedule.n_agents,
        totals={},
    )
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
                recursion=recursion,
            )
        )
        recursion = replace(recursion, totals={name: totals[name] for name in NEEDED})
        previous, state = state, schedule.update(state, totals)
        residuals = schedule.residuals(previous, state, totals)
        history.append(
            {
                "objective": _objective(problem, totals),
                "primal_residual": residuals.primal,
                "dual_residual": residuals.dual,
            }
        )
        if not np.isfinite(residuals.primal) or residuals.size > 1e12:
            break
        largest = max(residuals.primal, residuals.dual)
        if largest <= check_at:
            r = schedule.price(state)
            if problem.coupling(r) < problem.loss.max_coupling:
                sums = sums_at(federation, preparation, problem, r, state.theta)
                gap = certificate(problem, r, state.theta, sums)
                history[-1]["certificate"] = gap
                if gap <= tol:
                    return Solution(r, state.theta, sums, gap, history)
            check_at = 0.3 * largest
        if watch is not None:
            watch(history[-1])
    raise _failure(federation, preparation, schedule, state, history, tol, max_rounds)


def _first_rho(federation: Federation, preparation: Preparation, problem: TeachingProblem, rho: float | str) -> float:
    if not isinstance(rho, str):
        return float(rho)
    zero = np.zeros(preparation.width)
    size = sums_at(federation, preparation, problem, zero, zero).size_sq / len(federation.agents)
    # the curvature that an average agent's rows have in τ_k; logistic rows bend at most a quarter as much
    factor = 1.0 if problem.loss.piecewise_quadratic else 4.0
    return float(factor * problem.lambda_w**2 * len(zero) / size) if size > 0 else 1.0


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
