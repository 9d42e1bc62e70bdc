"""Solve teaching problems over a federation with Newton's method: any number of them side by side, one exchange a round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from comt.errors import ConvergenceError
from comt.federation.base import Federation
from comt.optimize import frozen, saddle, trusted_alone
from comt.optimize.points import Asking, Points, Solution, drive
from comt.preparation import Preparation
from comt.problem import Array, Sums, TeachingProblem
from comt.queries import MAX_ANSWER_BYTES, MAX_BATCH, Curvature, DualSums, Keep

#: the most that one exchange asks an agent to send: below the limit that owners set unless they say otherwise
MAX_EXCHANGE_BYTES = MAX_ANSWER_BYTES // 2

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
    #: learn from the trusted rows alone
    alone: bool = False


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
        answers = _exchange(federation, preparation, tasks, asked, n_folds, thin)
        following: dict[int, Points] = {}
        for index, own in answers.items():
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
        return _exchange(federation, preparation, [task], {0: points}, 0, thin)[0]

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
    if task.alone:
        return trusted_alone.solve(problem, task.start_theta, tol=tol, settle=settle, max_rounds=max_rounds)
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
    n_folds: int,
    thin: int,
) -> dict[int, list[Sums]]:
    """Answer the questions of all tasks: one exchange, or more where their answers are too many or too large for one.

    Tasks that ask the same (least squares begins with the same moments, whatever the λ's) share one answer.
    """
    firsts: dict[tuple[object, ...], int] = {}
    same = {i: firsts.setdefault(_content(tasks[i], points), i) for i, points in sorted(asked.items())}
    distinct = {i: asked[i] for i in firsts.values()}
    answers: dict[int, list[Sums]] = {}
    for group in _groups(distinct):
        query = _question(preparation, [(tasks[i], asked[i]) for i in group], n_folds, thin)
        found = iter(query.unpack(federation.sum(query)))
        for i in group:
            own = [next(found) for _ in asked[i].r]
            answers[i] = own if thin == 1 else [scaled(sums, thin) for sums in own]
    return {i: answers[first] for i, first in same.items()}


def _content(task: Task, points: Points) -> tuple[object, ...]:
    """Return all that an answer depends on; features are not crafted at r = 0, whatever λ_Z is."""
    price = task.problem.lambda_z if points.r.any() else np.inf
    alpha = task.problem.lambda_alpha if points.lambda_alpha is None else points.lambda_alpha
    keep = None if task.keep_model is None else (task.keep_model.tobytes(), task.keep_threshold)
    models = (points.r.tobytes(), points.theta.tobytes())
    return (*models, points.curvature, alpha, price, keep, task.held_out)


def _groups(asked: dict[int, Points]) -> Iterator[list[int]]:
    """Put tasks together as long as one question may name all their models, and one answer hold all their matrices."""
    group: list[int] = []
    models = size = 0
    for i in sorted(asked):
        count = len(asked[i].r)
        own = count * answer_bytes(asked[i].r.shape[1])
        if group and (models + count > MAX_BATCH or size + own > MAX_EXCHANGE_BYTES):
            yield group
            group, models, size = [], 0, 0
        group.append(i)
        models += count
        size += own
    if group:
        yield group


def answer_bytes(width: int) -> int:
    """Return how large the sums at one model are: two matrices, three vectors, and some numbers."""
    return 8 * (2 * width**2 + 3 * width + 16)


def _question(preparation: Preparation, asking: Sequence[tuple[Task, Points]], n_folds: int, thin: int) -> DualSums:
    """Ask for the sums at all points of some tasks."""
    by_model = [(task, points) for task, points in asking for _ in points.r]
    owners = [task for task, _ in by_model]
    lambda_alpha = [
        task.problem.lambda_alpha if points.lambda_alpha is None else points.lambda_alpha for task, points in by_model
    ]
    curvature: Curvature = "full" if any(points.curvature == "full" for _, points in asking) else "none"
    keep = None
    if any(task.keep_model is not None for task in owners):
        models = [np.zeros(preparation.width) if task.keep_model is None else task.keep_model for task in owners]
        keep = Keep("loss", np.stack(models), np.array([task.keep_threshold for task in owners]))
    return DualSums(
        loss_name=owners[0].problem.loss_name,
        preparation=preparation,
        r=np.concatenate([points.r for _, points in asking]),
        theta=np.concatenate([points.theta for _, points in asking]),
        lambda_alpha=np.array(lambda_alpha, dtype=np.float64),
        lambda_z=np.array([task.problem.lambda_z for task in owners]),
        curvature=curvature,
        keep=keep,
        held_out=np.array([task.held_out for task in owners]) if n_folds else None,
        n_folds=n_folds,
        thin=thin,
    )
