"""Parameters that cross-validation chooses before a dual or direct training; and that of trusted rows alone, if it won."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.server.grids import Wanted
from comt.server.trained import DEFAULT_ROUNDS, Settings, Training
from comt.server.tuned_choice import choice_of, fit_alone
from comt.server.tuning import Tuned, tune


def choose_parameters(
    federation: Federation, settings: Settings, preparation: Preparation, weights: Array | None = None
) -> tuple[Settings, Tuned | None]:
    """Choose what is left to choose by cross-validation on the trusted rows; the chosen models are places to start from."""
    if not settings.choosing:
        return settings, None
    problem = settings.problem

    def given(name: str) -> float | None:
        return None if name in settings.automatic else float(getattr(problem, name))

    every = 1.0 if settings.select is None else settings.select
    teaching: Literal["dual", "direct"] = "direct" if settings.teaching == "direct" else "dual"
    wanted = Wanted(
        problem.loss_name,
        teaching,
        lambda_w=given("lambda_w"),
        lambda_trusted=given("lambda_trusted"),
        lambda_alpha=given("lambda_alpha"),
        lambda_z=given("lambda_z"),
        fraction=None if every == "auto" else float(every),
        intercept=problem.intercept,
    )
    # scored and fitted under the same rule: the paper's keeps the worst rows, and is for those who ask for it
    tuned = tune(federation, preparation, wanted, weights=weights, rule=settings.rule)
    select = None if tuned.fraction == 1.0 else tuned.fraction
    settled = replace(settings, problem=tuned.problem, automatic=frozenset(), select=select, select_by=settings.rule)
    return settled, tuned


def teach_trusted_alone(
    federation: Federation, settings: Settings, preparation: Preparation, before: int, tuned: Tuned
) -> Training:
    """Train on the trusted rows alone, which cross-validation preferred to all that unverified rows have part in."""
    limit = settings.max_rounds or DEFAULT_ROUNDS["newton"]
    starts = [theta for _, theta in tuned.models]
    solution = fit_alone(federation, preparation, settings.problem, starts, tol=settings.tol, max_rounds=limit)
    choice = choice_of(tuned, preparation, federation.agents)
    return Training(
        settings=settings,
        preparation=preparation,
        solution=solution,
        theta=solution.theta,
        solver="newton",
        rounds=federation.rounds - before,
        choice=replace(choice, theta=solution.theta, certificate=solution.certificate),
    )
