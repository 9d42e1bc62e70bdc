"""A direct training: weigh the agents, choose what is left to choose, solve Eq. 1 in the primal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from comt.federation.base import Federation
from comt.optimize.points import Solution
from comt.preparation import Preparation
from comt.server import selection
from comt.server.auto.agents import ask_moments, moments_of
from comt.server.auto.choice import Choice, Line
from comt.server.auto.moments import total
from comt.server.contradiction import weigh_by_contradiction
from comt.server.direct import teach
from comt.server.trained import DEFAULT_ROUNDS, Settings, Training
from comt.server.tuned_choice import choice_of
from comt.server.tuned_training import choose_parameters, teach_trusted_alone


def teach_directly(federation: Federation, settings: Settings, preparation: Preparation, before: int) -> Training:
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
    settings, tuned = choose_parameters(federation, settings, preparation, weights)
    if tuned is not None and tuned.chosen.candidate.alone:
        return teach_trusted_alone(federation, settings, preparation, before, tuned)
    choice = None if tuned is None else choice_of(tuned, preparation, federation.agents)
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
        max_rounds=settings.max_rounds or DEFAULT_ROUNDS["newton"],
    )
    best = direct.best
    selected = None
    if fraction < 1.0:
        selected = selection.Selected("loss", fraction, best.keep_threshold, best.sums.rows, best.theta)
    history = [{"objective": value, "certificate": best.certificate} for value in best.history]
    unknown = np.full(len(best.theta), np.nan)
    told = " ".join([*([choice.said] if choice else []), direct.sentence(), judged.sentence()])
    taught = choice or Choice(
        theta=best.theta,
        preparation=preparation,
        lines=(Line(f"direct teaching, started from {best.name}", 1.0, best.value),),
        trusted_rows=int(best.sums.trusted_rows),
        agents=judged.agents,
        agent_weights=judged.weights,
    )
    return Training(
        settings=settings,
        preparation=preparation,
        solution=Solution(unknown, best.theta, best.sums, best.certificate, history),
        theta=best.theta,
        solver="newton",
        rounds=federation.rounds - before,
        selected=selected,
        choice=replace(
            taught,
            theta=best.theta,
            agents=judged.agents,
            agent_weights=judged.weights,
            certificate=best.certificate,
            said=told,
        ),
    )
