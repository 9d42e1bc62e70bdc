"""Did teaching help? The joint model against simple ones on trusted rows that none of them saw.

Holds both sides, as the estimators do: all agents are in this process. What leaves them is entered in their ledgers.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from comt.agent import Agent
from comt.agent.joining import cross_predicted, is_clear, losses, score
from comt.errors import ComtError
from comt.problem import Array
from comt.validation import HeldOut

JOINT, TRUSTED, BUGGY = "joint model", "trusted rows only", "unverified rows only"


@dataclass(frozen=True)
class Comparison:
    """Scores of the joint model and of two simple ones on the same rows."""

    metric: str
    scores: dict[str, float]
    #: the model that does clearly better than each of the others; "": none does
    best: str
    rows: int


def compare(model: Any, agents: Sequence[Agent], held: HeldOut) -> Comparison:
    """Score what models that had not seen them say of trusted rows: the joint one, and two simple ones.

    Parameters
    ----------
    model, agents:
        A fitted estimator and its agents.
    held:
        What :func:`comt.validation.held_out` found.
    """
    fair = [held.scored[agent.name] for agent in agents]
    trusted = [agent.rows.trusted()[0][mask] for agent, mask in zip(agents, fair, strict=True)]
    features = np.concatenate(trusted)
    targets = np.concatenate([held.targets[agent.name][mask] for agent, mask in zip(agents, fair, strict=True)])
    joint = np.concatenate([held.predicted[agent.name][mask] for agent, mask in zip(agents, fair, strict=True)])
    predicted = {JOINT: joint, TRUSTED: cross_predicted(features, targets, None, held.task, held.folds)}
    buggy = _without_trusted(model, agents, features)
    if buggy is not None:
        predicted[BUGGY] = buggy
    return Comparison(
        metric=held.metric,
        scores={name: score(values, targets, held.task) for name, values in predicted.items()},
        best=_best({name: losses(values, targets, held.task) for name, values in predicted.items()}),
        rows=len(targets),
    )


def _best(found: dict[str, Array]) -> str:
    name = min(found, key=lambda name: float(found[name].mean()))
    rest = [values - found[name] for other, values in found.items() if other != name]
    return name if all(is_clear(gain) for gain in rest) else ""


def _without_trusted(model: Any, agents: Sequence[Agent], features: Array) -> Array | None:
    """Train again without any trusted row, and predict; None if that cannot be solved."""
    from sklearn.base import clone

    again = clone(model).set_params(verbose=0, warm_start=False)
    none = [agent.with_trusted(np.zeros(len(agent.rows.trusted()[1]), dtype=bool)) for agent in agents]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit of all rows has said what there is to say
        try:
            again.fit_agents(none)
        except ComtError:
            return None
        found: Array = again.decision_function(features) if hasattr(model, "classes_") else again.predict(features)
    return found
