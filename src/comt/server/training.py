"""A whole training as the server sees it: agree on scales, solve, select. Sums only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from comt.errors import InputError
from comt.federation.base import Federation
from comt.federation.pooled import Pooled
from comt.federation.watched import Watched
from comt.noise import Noisy
from comt.optimize.points import Solution
from comt.preparation import Preparation
from comt.problem import Array, TeachingProblem
from comt.server import admm, dual, newton_cg, noisy, selection
from comt.server.ask import sums_at
from comt.server.auto import choose
from comt.server.auto.agents import ask_moments, moments_of
from comt.server.auto.choice import Choice, Line
from comt.server.auto.moments import total
from comt.server.contradiction import weigh_by_contradiction
from comt.server.direct import teach
from comt.server.dual import Watch
from comt.server.grids import Wanted
from comt.server.scaling import agree_on_preparation
from comt.server.tuning import tune

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
        problem = self.settings.problem
        return problem if self.settings.teaching != "direct" else replace(problem, lambda_alpha=0.0, repair=True)


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
        return _teach_directly(watched, settings, preparation, before)
    settings, choice, models = _tuned(watched, settings, preparation)
    problem = settings.problem
    solver = settings.solver
    if solver == "newton" and preparation.width > MAX_MATRIX_WIDTH:
        solver = "newton-cg"
    limit = settings.max_rounds or _DEFAULT_ROUNDS[solver]
    zero = np.zeros(preparation.width)
    smooth = solver == "newton" and not problem.loss.piecewise_quadratic
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
    return Training(
        settings=settings,
        preparation=preparation,
        solution=solution,
        theta=solution.theta if selected is None else selected.theta,
        solver=solver,
        rounds=federation.rounds - before,
        selected=selected,
        curve=curve,
        choice=choice,
    )


def _tuned(
    federation: Federation, settings: Settings, preparation: Preparation, weights: Array | None = None
) -> tuple[Settings, Choice | None, tuple[tuple[Array, Array], ...]]:
    """Choose what is left to choose by cross-validation on the trusted rows; the chosen models are places to start from."""
    free_fraction = settings.select == "auto" and (settings.teaching == "direct" or bool(settings.automatic))
    if not settings.automatic and not free_fraction:
        return settings, None, ()
    problem = settings.problem

    def given(name: str) -> float | None:
        return None if name in settings.automatic else float(getattr(problem, name))

    fraction = None if free_fraction else (1.0 if settings.select is None else float(settings.select))
    teaching: Literal["dual", "direct"] = "direct" if settings.teaching == "direct" else "dual"
    wanted = Wanted(
        problem.loss_name,
        teaching,
        lambda_w=given("lambda_w"),
        lambda_trusted=given("lambda_trusted"),
        lambda_alpha=given("lambda_alpha"),
        lambda_z=given("lambda_z"),
        fraction=fraction,
        intercept=problem.intercept,
    )
    tuned = tune(federation, preparation, wanted, weights=weights)
    choice = Choice(
        theta=np.zeros(0),
        preparation=preparation,
        lines=(Line(str(tuned.chosen.candidate.kind), 1.0, tuned.chosen.loss),),
        trusted_rows=0,
        agents=(),
        agent_weights=np.ones(0),
        said=tuned.sentence,
    )
    select = settings.select
    select_by = settings.select_by
    if free_fraction:
        select, select_by = (None, select_by) if tuned.fraction == 1.0 else (tuned.fraction, "loss")
    settled = replace(settings, problem=tuned.problem, automatic=frozenset(), select=select, select_by=select_by)
    return settled, choice, tuned.models


def _teach_directly(federation: Federation, settings: Settings, preparation: Preparation, before: int) -> Training:
    """Solve Eq. 1 in the primal; agents that contradict the trusted rows more than the others do count for less.

    Parameters are chosen with the agents weighted as in the fit itself, and the fit starts where it would start if they had
    been given: the same numbers, chosen or given, lead to the same model. Single agents give starts only where agents are
    not alike: otherwise who holds which row would decide which of many minima is found.
    """
    moments = ask_moments(federation, preparation, settings.problem.loss_name)
    judged = weigh_by_contradiction(
        federation,
        preparation,
        moments_of(moments["moments"], moments["rows"]),
        total(moments_of(moments["trusted"], moments["trusted_rows"])),
        settings.problem.loss_name,
    )
    weights = judged.weights if (judged.weights < 1.0).any() else None
    settings, choice, _ = _tuned(federation, settings, preparation, weights)
    fraction = 1.0 if settings.select is None else float(settings.select)
    direct = teach(
        federation,
        preparation,
        settings.problem,
        fraction=fraction,
        weights=weights,
        single_agents=weights is not None,
        n_rows=float(moments["rows"].sum()),
        tol=settings.tol,
        max_rounds=settings.max_rounds or _DEFAULT_ROUNDS["newton"],
    )
    best = direct.best
    selected = None
    if fraction < 1.0:
        selected = selection.Selected("loss", fraction, best.keep_threshold, best.sums.rows, best.theta)
    history = [{"objective": value, "certificate": best.certificate} for value in best.history]
    unknown = np.full(len(best.theta), np.nan)
    told = " ".join([*([choice.said] if choice else []), direct.sentence(), judged.sentence()])
    return Training(
        settings=settings,
        preparation=preparation,
        solution=Solution(unknown, best.theta, best.sums, best.certificate, history),
        theta=best.theta,
        solver="newton",
        rounds=federation.rounds - before,
        selected=selected,
        choice=Choice(
            theta=best.theta,
            preparation=preparation,
            lines=(Line(f"direct teaching, started from {best.name}", 1.0, best.value),),
            trusted_rows=int(best.sums.trusted_rows),
            agents=judged.agents,
            agent_weights=judged.weights,
            certificate=best.certificate,
            said=told,
        ),
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
