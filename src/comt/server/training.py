"""A whole training as the server sees it: agree on scales, solve, select. Sums only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from comt.errors import InputError
from comt.federation.base import Federation
from comt.optimize.points import Solution
from comt.preparation import Preparation
from comt.problem import Array, TeachingProblem
from comt.queries import Query, Totals
from comt.server import admm, dual, newton_cg, selection
from comt.server.ask import sums_at
from comt.server.auto import choose
from comt.server.auto.choice import Choice
from comt.server.dual import Watch
from comt.server.scaling import agree_on_preparation

Teaching = Literal["auto", "dual", "direct"]
SolverName = Literal["newton", "newton-cg", "admm"]
#: beyond this many columns a d × d sum is no longer a small message, and vectors are asked for instead
MAX_MATRIX_WIDTH = 1000
_DEFAULT_ROUNDS: dict[SolverName, int] = {"newton": 200, "newton-cg": 5_000, "admm": 5_000}
FOLDS = 5
#: from this many rows on, a smooth problem is first solved roughly on one row in PART
PART_FROM, PART = 100_000, 16


@dataclass(frozen=True)
class Settings:
    """Everything a training needs to know besides the data."""

    problem: TeachingProblem  # its ``intercept`` says whether one is fitted
    teaching: Teaching = "dual"
    #: names of the λ's that the trusted rows are to choose
    automatic: frozenset[str] = frozenset()
    standardize: bool = True
    solver: SolverName = "newton"
    rho: float | str = "auto"
    gamma: float = 1.0
    tol: float = 1e-8
    max_rounds: int | None = None
    select: float | str | None = None
    select_by: selection.Rule | None = None


@dataclass(frozen=True)
class Training:
    """The result: how rows are prepared, the solution before selection, the final θ, and what was selected."""

    settings: Settings
    preparation: Preparation
    solution: Solution
    theta: Array
    solver: SolverName
    rounds: int
    selected: selection.Selected | None = None
    curve: list[selection.CurvePoint] = field(default_factory=list)
    #: what the automatic choice found; None where nothing was chosen
    choice: Choice | None = None

    @property
    def problem(self) -> TeachingProblem:
        """The problem that was solved."""
        return self.settings.problem


def train(
    federation: Federation,
    settings: Settings,
    *,
    start: tuple[Array, Array] | None = None,
    n_rows: int = 0,
    watch: Watch | None = None,
) -> Training:
    """Train over a federation.

    ``start`` = (r, θ) of an earlier model of the same width warm-starts the solver; ``n_rows``, where it is known, says
    whether a start on a part of the rows is worth its exchanges.
    """
    before = federation.rounds
    columns = federation.declare()
    problem = settings.problem
    preparation = agree_on_preparation(
        federation,
        len(columns),
        standardize=settings.standardize,
        fit_intercept=problem.intercept,
        scale_target=problem.loss_name == "squared",
    )
    if settings.teaching == "auto":
        return _choose(federation, settings, preparation, before, watch)
    solver = settings.solver
    if solver == "newton" and preparation.width > MAX_MATRIX_WIDTH:
        solver = "newton-cg"
    limit = settings.max_rounds or _DEFAULT_ROUNDS[solver]
    zero = np.zeros(preparation.width)
    smooth = solver == "newton" and not problem.loss.piecewise_quadratic
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
    return Training(
        settings=settings,
        preparation=preparation,
        solution=solution,
        theta=solution.theta if selected is None else selected.theta,
        solver=solver,
        rounds=federation.rounds - before,
        selected=selected,
        curve=curve,
    )


def _choose(
    federation: Federation, settings: Settings, preparation: Preparation, before: int, watch: Watch | None
) -> Training:
    """Let the trusted rows choose; the sums at the chosen model take one more exchange."""
    if preparation.width > MAX_MATRIX_WIDTH:
        raise InputError(
            f"teaching='auto' compares whole matrices and takes at most {MAX_MATRIX_WIDTH} columns, here are "
            f"{preparation.width}; use teaching='dual' with numbers for every lambda and solver='newton-cg'."
        )
    choice = choose(
        Watched(federation, watch), replace(preparation, compressed=settings.standardize), settings.problem.loss_name
    )
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


class Watched:
    """A federation that tells somebody of every exchange."""

    def __init__(self, federation: Federation, watch: Watch | None) -> None:
        self._federation, self._watch = federation, watch

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents."""
        return self._federation.agents

    @property
    def rounds(self) -> int:
        """Exchanges so far."""
        return self._federation.rounds

    def declare(self) -> tuple[str, ...]:
        """Agree on the columns."""
        return self._federation.declare()

    def sum(self, query: Query) -> Totals:
        """Ask all agents, and tell."""
        totals = self._federation.sum(query)
        if self._watch is not None:
            self._watch({"exchange": float(self._federation.rounds)})
        return totals

    def each(self, query: Query) -> dict[str, Totals]:
        """Return every agent's own answer."""
        return self._federation.each(query)


def _select(
    federation: Federation, preparation: Preparation, settings: Settings, task: dual.Task, solution: Solution
) -> tuple[selection.Selected | None, list[selection.CurvePoint]]:
    fraction = settings.select
    limit = _DEFAULT_ROUNDS["newton"]
    curve: list[selection.CurvePoint] = []
    rule: selection.Rule = settings.select_by or ("loss" if fraction == "auto" else "alpha")
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
