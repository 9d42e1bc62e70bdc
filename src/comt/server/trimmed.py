"""Descents that choose part of the rows: the model and the rows take turns, and the objective falls at every turn.

A turn tries two models: the one that the chosen rows ask for (it cannot raise the objective where it minimises their sum),
and the one that also foresees which rows will cross the threshold (:mod:`comt.optimize.trimming`); the lower one is taken.
Each is judged by the rows of smallest loss under itself, a threshold found by counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comt.optimize import primal
from comt.optimize.linear import EPS
from comt.optimize.points import Asking, Points, drive
from comt.optimize.trimming import boundary_hessian
from comt.problem import Array, TeachingProblem, direct_gradient, direct_hessian
from comt.server.direct_runs import Exchange, Question, Run, State

#: rows are settled when choosing them again would lower the objective by less than this share
SETTLED = 1e-10
#: half-width of the ring of rows around the threshold that tells how many will cross it, relative to the threshold
RING = 0.1
#: of a step that did not descend, this share is tried next
SHORTER = 0.25


@dataclass(frozen=True)
class Steps:
    """When to stop: relative gradient, and the step that is no longer worth taking in a rough descent."""

    tol: float
    max_rounds: int
    max_turns: int
    settle: float


def descend_exactly(ask: Exchange, part: Exchange, runs: Sequence[Run], steps: Steps) -> None:
    """Descend until the gradient vanishes and choosing rows again saves nothing; ``part`` asks about fewer rows."""
    if not runs:
        return
    for run, state in zip(runs, ask.sums(ask.chosen([(run, run.task.start, np.nan) for run in runs])), strict=True):
        run.move(state)
    crossing = _crossing(part, runs)
    live = list(runs)
    for turn in range(1, steps.max_turns + 1):
        plain = {run: _minimizer(run, run.state, steps) for run in live}
        proposals = [(run, plain[run], run.state.threshold) for run in live]
        proposals += [
            (run, ahead, run.state.threshold) for run in live if (ahead := _ahead(run, crossing[run])) is not None
        ]
        stay = [Question(run, plain[run], run.state.keep_model, run.state.threshold) for run in live]
        questions = [*stay, *ask.chosen(proposals)]
        answers = ask.sums(questions)
        following = []
        for run, same_rows in zip(live, answers, strict=False):
            own = [s for q, s in zip(questions[len(live) :], answers[len(live) :], strict=True) if q.run is run]
            saved = (same_rows.value - own[0].value) / max(abs(same_rows.value), np.finfo(np.float64).tiny)
            best = min(own, key=lambda state: state.value)
            settled = same_rows.certificate <= steps.tol and saved <= SETTLED
            if not settled and turn < steps.max_turns and _better(best, run.state):
                crossing[run] = corrected(run.problem, crossing[run], run.state, best)
                run.move(best)
                following.append(run)
                continue
            run.selection_gap = max(saved, 0.0)
            if settled or _better(same_rows, run.state):
                run.move(same_rows)
        live = following
        if not live:
            break
    _finish(ask, runs, steps)


def _finish(ask: Exchange, runs: Sequence[Run], steps: Steps) -> None:
    """Where choosing rows ended before the gradient vanished, minimise over the rows chosen last."""
    unfinished = [run for run in runs if run.state.certificate > steps.tol]
    for run, state in zip(
        unfinished, descend_fixed(ask, unfinished, steps.tol, primal.SETTLE, steps.max_rounds), strict=True
    ):
        run.move(state)


def descend_roughly(ask: Exchange, runs: Sequence[Run], steps: Steps) -> None:
    """Go most of the way, of all rows or of a part: thresholds read off one histogram, one step a turn, no proof."""
    if not runs:
        return
    first = ask.sums(ask.chosen([(run, run.task.start, np.nan) for run in runs], exact=False))
    for run, state in zip(runs, first, strict=True):
        run.move(state)
    step = {run: _minimizer(run, run.state, steps) - run.state.theta for run in runs}
    live = list(runs)
    for _ in range(steps.max_turns):
        live = [run for run in live if np.linalg.norm(step[run]) > steps.settle * (1.0 + _norm(run.state.theta))]
        if not live:
            return
        proposals = [(run, run.state.theta + step[run], run.state.threshold) for run in live]
        for run, state in zip(live, ask.sums(ask.chosen(proposals, exact=False)), strict=True):
            if state.value < run.state.value:
                run.move(state)
                step[run] = _minimizer(run, state, steps) - state.theta
            else:
                step[run] = SHORTER * step[run]


def _norm(theta: Array) -> float:
    return float(np.linalg.norm(theta))


def _minimizer(run: Run, state: State, steps: Steps) -> Array:
    """Return what the rows of a state ask for: the minimum for squared rows, else Newton's step towards it."""
    problem = run.problem
    if problem.loss.piecewise_quadratic:
        moments = primal.SquaredMoments.at(problem, state.theta, state.sums)
        newton = primal.newton(problem, state.theta, tol=steps.tol, max_rounds=steps.max_rounds)
        return drive(newton, moments.answer).theta
    gradient = direct_gradient(problem, state.theta, state.sums)
    return state.theta + primal.Shifted(direct_hessian(problem, state.theta, state.sums), gradient).step(0.0)


def _ahead(run: Run, crossing: Array) -> Array | None:
    """Return where Newton's method goes if rows cross the threshold as they did around the start; None if nowhere."""
    if not crossing.any():
        return None
    state = run.state
    hessian = direct_hessian(run.problem, state.theta, state.sums) + crossing
    system = primal.Shifted(hessian, direct_gradient(run.problem, state.theta, state.sums))
    return state.theta + system.step(0.0) if system.convex else None


def corrected(problem: TeachingProblem, crossing: Array, old: State, new: State) -> Array:
    """Return the curvature of crossing rows as the last move shows it: the symmetric rank-one change that explains it."""
    moved = new.theta - old.theta
    turned = direct_gradient(problem, new.theta, new.sums) - direct_gradient(problem, old.theta, old.sums)
    missed = turned - (direct_hessian(problem, new.theta, new.sums) + crossing) @ moved
    along = float(missed @ moved)
    if abs(along) <= 1e-8 * _norm(missed) * _norm(moved):
        return crossing
    return crossing + np.outer(missed, missed) / along


def _crossing(part: Exchange, runs: Sequence[Run]) -> dict[Run, Array]:
    rings = [1.0 - RING, 1.0, 1.0 + RING]
    questions = [Question(r, r.state.theta, r.state.theta, ring * r.state.threshold) for r in runs for ring in rings]
    sums = [state.sums for state in part.sums(questions)]
    return {run: boundary_hessian(*sums[3 * i : 3 * i + 3]) for i, run in enumerate(runs)}


def _better(new: State, old: State) -> bool:
    """Tell whether the objective falls; where values can no longer tell better from worse, gradients can."""
    blunt = 1e3 * EPS * (1.0 + abs(old.value))
    if new.value < old.value - blunt:
        return True
    return new.value <= old.value + blunt and new.certificate <= 0.5 * old.certificate


def descend_fixed(ask: Exchange, runs: Sequence[Run], tol: float, settle: float, max_rounds: int) -> list[State]:
    """Minimise over θ with every run's rows fixed; all runs in the same exchanges."""
    solvers: dict[int, Asking[primal.Descent]] = {}
    asked: dict[int, Points] = {}
    ended: dict[int, State] = {}

    def kept(run: Run) -> tuple[Array, float]:
        return (run.task.start, np.inf) if run.at is None else (run.at.keep_model, run.at.threshold)

    def advance(index: int, answers: list[State] | None) -> None:
        run, solver = runs[index], solvers[index]
        try:
            asked[index] = next(solver) if answers is None else solver.send([state.sums for state in answers])
        except StopIteration as stop:
            found: primal.Descent = stop.value
            run.history += found.values
            ended[index] = State(run.problem, found.theta, *kept(run), found.sums)

    for index, run in enumerate(runs):
        start = run.task.start if run.at is None else run.at.theta
        solvers[index] = primal.solve(run.problem, start, tol=tol, settle=settle, max_rounds=max_rounds)
        advance(index, None)
    while asked:
        order = sorted(asked)
        answers = iter(ask.sums([Question(runs[i], theta, *kept(runs[i])) for i in order for theta in asked[i].theta]))
        waiting = {i: [next(answers) for _ in asked[i].theta] for i in order}
        asked.clear()
        for i in order:
            advance(i, waiting[i])
    return [ended[index] for index in range(len(runs))]
