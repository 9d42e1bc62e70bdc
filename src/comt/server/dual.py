"""Solve teaching problems over a federation with Newton's method: any number of them side by side, one exchange a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from comt.errors import ConvergenceError
from comt.federation.base import Federation
from comt.optimize import frozen, saddle
from comt.optimize.points import Asking, Points, Solution, drive
from comt.preparation import Preparation
from comt.problem import Array, Sums, TeachingProblem
from comt.queries import Curvature, DualSums, Keep

Watch = Callable[[dict[str, float]], None]


@dataclass(frozen=True)
class Task:
    """One problem of a batch: where to start, which buggy rows take part, which trusted fold stays out."""

    problem: TeachingProblem
    start_r: Array
    start_theta: Array
    #: rows whose loss under this model reaches the threshold do not take part
    keep_model: Array | None = None
    keep_threshold: float = np.inf
    held_out: int = -1


def solve(
    federation: Federation,
    preparation: Preparation,
    tasks: Sequence[Task],
    *,
    tol: float,
    max_rounds: int,
    n_folds: int = 0,
    watch: Watch | None = None,
) -> list[Solution]:
    """Solve all tasks together; every exchange serves all that are not finished. One failure fails them all."""
    solved: list[Solution] = []
    for outcome in attempt(
        federation, preparation, tasks, tol=tol, max_rounds=max_rounds, n_folds=n_folds, watch=watch, strict=True
    ):
        assert isinstance(outcome, Solution)
        solved.append(outcome)
    return solved


def attempt(
    federation: Federation,
    preparation: Preparation,
    tasks: Sequence[Task],
    *,
    tol: float,
    max_rounds: int,
    max_exchanges: int | None = None,
    n_folds: int = 0,
    thin: int = 1,
    settle: float = 1e-9,
    watch: Watch | None = None,
    strict: bool = False,
) -> list[Solution | ConvergenceError]:
    """Solve all tasks together, with the error in the place of a solution where there is none (raised if ``strict``).

    ``thin`` looks at every thin-th row only; sums over them are scaled up, so the weights of the objective keep their
    meaning. ``settle`` is the (relative) step below which a smooth problem counts as solved;
    what is not solved after ``max_exchanges`` is given up.
    """
    histories: list[list[dict[str, float]]] = [[] for _ in tasks]
    running: dict[int, Asking[Solution]] = {
        i: _solver(task, tol, settle, max_rounds, histories[i]) for i, task in enumerate(tasks)
    }
    asked: dict[int, Points] = {index: next(solver) for index, solver in running.items()}
    solved: dict[int, Solution | ConvergenceError] = {}
    exchanges = 0
    while asked:
        if exchanges == max_exchanges:
            given_up = ConvergenceError(
                f"no solution within {exchanges} exchanges; raise lambda_w.", certificate=np.nan
            )
            return [solved.get(index, given_up) for index in range(len(tasks))]
        exchanges += 1
        order = sorted(asked)
        owner = np.concatenate([np.full(len(asked[i].r), i) for i in order])
        answers = _exchange(federation, preparation, tasks, asked, order, owner, n_folds, thin)
        if thin > 1:
            answers = [scaled(sums, thin) for sums in answers]
        following: dict[int, Points] = {}
        for index in order:
            own = [answers[position] for position in np.flatnonzero(owner == index)]
            try:
                following[index] = running[index].send(own)
            except StopIteration as done:
                solved[index] = done.value
            except ConvergenceError as error:
                if strict:
                    raise
                solved[index] = error
        asked = following
        if watch is not None and histories[0]:
            watch(histories[0][-1])
    return [solved[index] for index in range(len(tasks))]


def start_on_a_part(
    federation: Federation, preparation: Preparation, problem: TeachingProblem, thin: int
) -> tuple[Array, Array]:
    """Solve the problem roughly on 1/thin of the rows: most of Newton's way is cheap there.

    Sums over the part are scaled up, so the weights of the objective keep their meaning.
    """
    zero = np.zeros(preparation.width)
    task = Task(problem, zero, zero)
    asking = saddle.solve(problem, zero, zero, tol=1e-2, settle=1e-1, max_rounds=12)

    def answer(points: Points) -> list[Sums]:
        owner = np.zeros(len(points.r), dtype=np.int64)
        part = _exchange(federation, preparation, [task], {0: points}, [0], owner, 0, thin)
        return [scaled(sums, thin) for sums in part]

    try:
        rough = drive(asking, answer)
    except ConvergenceError:
        return zero, zero  # the whole of the rows will do without
    return rough.r, rough.theta


def scaled(sums: Sums, factor: float) -> Sums:
    """Return the sums over a part of the buggy rows as if they were over all."""
    assert sums.weight_xx is not None
    assert sums.weight_alpha_x is not None
    return replace(
        sums,
        phi=factor * sums.phi,
        alpha_x=factor * sums.alpha_x,
        alpha_sq=factor * sums.alpha_sq,
        weight_xx=factor * sums.weight_xx,
        weight_alpha_x=factor * sums.weight_alpha_x,
        weight_alpha_sq=factor * sums.weight_alpha_sq,
    )


def _solver(
    task: Task, tol: float, settle: float, max_rounds: int, history: list[dict[str, float]]
) -> Asking[Solution]:
    problem = task.problem
    if problem.loss.piecewise_quadratic:
        return frozen.solve(problem, task.start_r, tol=tol, max_rounds=max_rounds, history=history)
    return saddle.solve(
        problem, task.start_r, task.start_theta, tol=tol, settle=settle, max_rounds=max_rounds, history=history
    )


def _exchange(
    federation: Federation,
    preparation: Preparation,
    tasks: Sequence[Task],
    asked: dict[int, Points],
    order: list[int],
    owner: NDArray[np.int64],
    n_folds: int,
    thin: int = 1,
) -> list[Sums]:
    problems = [tasks[i].problem for i in owner]
    lambda_alpha = [
        asked[i].lambda_alpha if asked[i].lambda_alpha is not None else tasks[i].problem.lambda_alpha for i in owner
    ]
    curvature: Curvature = "full" if any(asked[i].curvature == "full" for i in order) else "none"
    keep = None
    if any(tasks[i].keep_model is not None for i in order):
        models = [m if (m := tasks[i].keep_model) is not None else np.zeros(preparation.width) for i in owner]
        keep = Keep("loss", np.stack(models), np.array([tasks[i].keep_threshold for i in owner]))
    query = DualSums(
        loss_name=problems[0].loss_name,
        preparation=preparation,
        r=np.concatenate([asked[i].r for i in order]),
        theta=np.concatenate([asked[i].theta for i in order]),
        lambda_alpha=np.array(lambda_alpha, dtype=np.float64),
        lambda_z=np.array([p.lambda_z for p in problems]),
        curvature=curvature,
        keep=keep,
        held_out=np.array([tasks[i].held_out for i in owner]) if n_folds else None,
        n_folds=n_folds,
        thin=thin,
    )
    return query.unpack(federation.sum(query))
