"""Did teaching help? The joint model against simple ones on trusted rows that none of them saw.

Holds both sides, as the estimators do: all agents are in this process. What leaves them is entered in their ledgers.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comt.agent import Agent
from comt.agent.data import Block
from comt.agent.folds import fold_of
from comt.agent.joining import METRICS, Task, cross_predicted, is_clear, losses, score
from comt.errors import ComtError
from comt.problem import Array

FOLDS = 5
#: trusted rows in all from which a comparison is made
FEWEST = 10
JOINT, TRUSTED, BUGGY = "joint model", "trusted rows only", "unverified rows only"


@dataclass(frozen=True)
class Comparison:
    """Scores of the joint model and of two simple ones, and what the joint one says of each agent's trusted rows."""

    metric: str
    scores: dict[str, float]
    #: the model that does clearly better than each of the others; "": none does
    best: str
    rows: int
    #: per agent, one prediction per trusted row (target, or log-odds), by a model trained without it
    joint: dict[str, Array]


def compare(model: Any, agents: Sequence[Agent]) -> Comparison | None:
    """Cross-validate a fitted estimator's settings over its agents.

    None if there are too few trusted rows, or so few at one agent that two sums would differ by fewer rows than its
    policy lets out.
    """
    trusted = [agent.rows.trusted() for agent in agents]
    features = np.concatenate([block for block, _ in trusted])
    targets = np.concatenate([wanted for _, wanted in trusted])
    fold = fold_of(features, targets, FOLDS)
    if len(targets) < FEWEST or len(np.unique(fold)) < 2:
        return None
    if not _allowed(agents, trusted):
        return None
    task: Task = "regression" if getattr(model, "classes_", None) is None else "classification"
    joint = np.empty(len(targets))
    try:
        for held_out in np.unique(fold):
            asked = fold == held_out
            joint[asked] = _predicted(model, agents, ~asked, features[asked])
        buggy = _predicted(model, agents, np.zeros(len(targets), dtype=bool), features)
    except ComtError:
        return None  # a setting that solves the whole problem may fail on a part of it; the model itself stands
    predicted = {JOINT: joint, TRUSTED: cross_predicted(features, targets, None, task, FOLDS), BUGGY: buggy}
    ends = np.cumsum([len(wanted) for _, wanted in trusted])[:-1]
    return Comparison(
        metric=METRICS[task],
        scores={name: score(values, targets, task) for name, values in predicted.items()},
        best=_best({name: losses(values, targets, task) for name, values in predicted.items()}),
        rows=len(targets),
        joint=dict(zip((agent.name for agent in agents), np.split(joint, ends), strict=True)),
    )


def _allowed(agents: Sequence[Agent], trusted: Sequence[Block]) -> bool:
    """Whether no fold of an agent is smaller than its minimum: sums with and without it would show it."""
    for agent, block in zip(agents, trusted, strict=True):
        sizes = np.bincount(fold_of(*block, FOLDS), minlength=FOLDS)
        if ((sizes > 0) & (sizes < agent.policy.min_rows)).any():
            return False
    return True


def _best(found: dict[str, Array]) -> str:
    name = min(found, key=lambda name: float(found[name].mean()))
    rest = [values - found[name] for other, values in found.items() if other != name]
    return name if all(is_clear(gain) for gain in rest) else ""


def _predicted(model: Any, agents: Sequence[Agent], kept: NDArray[np.bool_], asked: Array) -> Array:
    """Train again with some of the trusted rows, and predict others."""
    import pandas as pd
    from sklearn.base import clone

    part, start = [], 0
    for agent in agents:
        end = start + len(agent.rows.trusted()[1])
        part.append(agent.with_trusted(kept[start:end]))
        start = end
    again = clone(model).set_params(verbose=0, warm_start=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit of all rows has said what there is to say
        again.fit_agents(part)
    table = pd.DataFrame(asked, columns=list(agents[0].columns))
    found: Array = again.predict(table) if getattr(model, "classes_", None) is None else again.decision_function(table)
    return found
