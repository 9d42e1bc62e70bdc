"""A whole training as the server sees it: agree on scales, solve, select. Sums only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from comt.errors import InputError
from comt.federation.base import Federation
from comt.federation.pooled import Pooled
from comt.federation.watched import Watched
from comt.noise import Noisy
from comt.optimize.points import Solution
from comt.preparation import Preparation
from comt.problem import Array
from comt.server import admm, dual, newton_cg, noisy, selection
from comt.server.ask import sums_at
from comt.server.auto import choose
from comt.server.direct_training import teach_directly
from comt.server.dual import Watch
from comt.server.scaling import agree_on_preparation
from comt.server.trained import DEFAULT_ROUNDS, MAX_MATRIX_WIDTH, Settings, SolverName, Training
from comt.server.tuned_choice import choice_of
from comt.server.tuned_training import choose_parameters, teach_trusted_alone

__all__ = ["Settings", "SolverName", "Training", "train"]

FOLDS = 5
#: from this many rows on, a smooth problem is first solved roughly on one row in PART
PART_FROM, PART = 100_000, 16


def train(
    federation: Federation,
    settings: Settings,
    *,
    start: tuple[Array, Array] | None = None,
    n_rows: int = 0,
    by_agent: bool = True,
    watch: Watch | None = None,
) -> Training:
    """Train over a federation.

    ``start`` = (r, θ) of an earlier model of the same width warm-starts the solver; ``n_rows``, where it is known, says
    whether a start on a part of the rows is worth its exchanges. Where agents do not want to be seen one by one
    (``by_agent=False``), whatever is chosen is chosen for all of them together.
    """
    before = federation.rounds
    told = federation.noise if isinstance(federation, Noisy) else None
    if told is not None:
        noisy.check(settings)
    columns = federation.declare()
    problem = settings.problem
    preparation = agree_on_preparation(
        federation if told is None else noisy.Thresholded(federation, told),
        len(columns),
        standardize=settings.standardize,
        fit_intercept=problem.intercept,
        scale_target=problem.loss_name == "squared",
    )
    if told is not None:
        preparation = noisy.prepared(preparation)
        solution = noisy.solve(federation, preparation, problem, told, rounds=settings.max_rounds, watch=watch)
        return Training(settings, preparation, solution, solution.theta, "newton", federation.rounds - before)
    watched = (Watched if by_agent else Pooled)(federation, watch)
    if settings.teaching == "auto":
        return _choose(watched, settings, preparation, before)
    if settings.teaching == "direct":
        return teach_directly(watched, settings, preparation, before)
    settings, tuned = choose_parameters(watched, settings, preparation)
    if tuned is not None and tuned.chosen.candidate.alone:
        return teach_trusted_alone(watched, settings, preparation, before, tuned)
    problem = settings.problem
    choice = None if tuned is None else choice_of(tuned, preparation, watched.agents)
    models = () if tuned is None else tuned.models
    solver = settings.solver
    if solver == "newton" and preparation.width > MAX_MATRIX_WIDTH:
        solver = "newton-cg"
    limit = settings.max_rounds or DEFAULT_ROUNDS[solver]
    zero = np.zeros(preparation.width)
    smooth = solver == "newton" and not problem.loss.piecewise_quadratic
    if start is not None and np.isnan(start[0]).any():  # an earlier model that has no r
        start = (start[1], start[1])
    if start is None and models:
        start = (np.mean([r for r, _ in models], axis=0), np.mean([theta for _, theta in models], axis=0))
    if start is None and smooth and n_rows >= PART_FROM:
        start = dual.start_on_a_part(federation, preparation, problem, PART)
    start_r, start_theta = start or (zero, zero)
    if start_r.shape != zero.shape or start_theta.shape != zero.shape:
        raise InputError(
            f"the warm start has {len(start_r)} coefficients where {len(zero)} are needed; fit afresh, or keep the "
            "same columns and fit_intercept."
        )
    task = dual.Task(problem, start_r, start_theta)
    if solver == "newton":
        (solution,) = dual.solve(federation, preparation, [task], tol=settings.tol, max_rounds=limit, watch=watch)
    elif solver == "newton-cg":
        solution = newton_cg.solve(
            federation,
            preparation,
            problem,
            start_r,
            start_theta,
            tol=settings.tol,
            max_rounds=limit,
            watch=watch,
        )
    else:
        solution = admm.solve(
            federation,
            preparation,
            problem,
            rho=settings.rho,
            gamma=settings.gamma,
            tol=settings.tol,
            max_rounds=limit,
            watch=watch,
        )
    selected, curve = _select(federation, preparation, settings, task, solution)
    theta = solution.theta if selected is None else selected.theta
    return Training(
        settings=settings,
        preparation=preparation,
        solution=solution,
        theta=theta,
        solver=solver,
        rounds=federation.rounds - before,
        selected=selected,
        curve=curve,
        choice=None if choice is None else replace(choice, theta=theta, certificate=solution.certificate),
    )


def _choose(federation: Federation, settings: Settings, preparation: Preparation, before: int) -> Training:
    """Let the trusted rows choose; the sums at the chosen model take one more exchange."""
    if preparation.width > MAX_MATRIX_WIDTH:
        raise InputError(
            f"teaching='auto' compares whole matrices and takes at most {MAX_MATRIX_WIDTH} columns, here are "
            f"{preparation.width}; use teaching='dual' with numbers for every lambda and solver='newton-cg'."
        )
    compressing = preparation.tamed() if settings.standardize else preparation
    choice = choose(federation, compressing, settings.problem.loss_name)
    sums = sums_at(federation, choice.preparation, settings.problem, choice.theta, choice.theta)
    unknown = np.full(len(choice.theta), np.nan)
    return Training(
        settings=settings,
        preparation=choice.preparation,
        solution=Solution(unknown, choice.theta, sums, choice.certificate),
        theta=choice.theta,
        solver="newton",
        rounds=federation.rounds - before,
        choice=choice,
    )


def _select(
    federation: Federation, preparation: Preparation, settings: Settings, task: dual.Task, solution: Solution
) -> tuple[selection.Selected | None, list[selection.CurvePoint]]:
    fraction = settings.select
    limit = DEFAULT_ROUNDS["newton"]
    curve: list[selection.CurvePoint] = []
    rule = settings.rule
    if fraction == "auto":
        n_folds = int(min(FOLDS, solution.sums.trusted_rows))
        if n_folds < 2:
            return None, curve
        curve = selection.held_out_curve(
            federation,
            preparation,
            task.problem,
            solution,
            [rule],
            selection.FRACTIONS,
            n_folds=n_folds,
            tol=settings.tol,
            max_rounds=limit,
        )
        fraction = selection.best_fraction(curve)
    if fraction is None or (rule == "loss" and fraction == 1.0):
        return None, curve
    assert not isinstance(fraction, str)
    ((selected,),) = selection.select(
        federation, preparation, [task], [solution], rule, [fraction], tol=settings.tol, max_rounds=limit
    )
    return selected, curve
