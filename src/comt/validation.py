"""How good is a model on verified rows that it has not seen? Fits again without each fold of the trusted rows.

Runs where all agents are in one process. Rows that were reviewed because they looked bad always take part in training and
never in a score: they are no fair sample.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from sklearn.base import clone

from comt.agent import Agent
from comt.agent.folds import fair_rows, trusted_folds
from comt.agent.joining import METRICS, Task, score
from comt.problem import Array

FOLDS = 5
#: from this many rows on, fits are long, and those of the folds learn from a sample: about so many rows
LARGE, SAMPLE = 300_000, 150_000
#: of every agent at least so many rows (or all) are in the sample
SAMPLE_EACH = 20_000
#: robust standard deviations, or the probability, from which a trusted row is listed as one that looks wrong itself
SUSPECT, SURE = 4.0, 0.9


@dataclass(frozen=True)
class HeldOut:
    """What models that have not seen them say about the trusted rows, by agent: target, or log-odds of +1."""

    classification: bool
    predicted: dict[str, Array]
    targets: dict[str, Array]
    #: which of them may enter a score
    scored: dict[str, NDArray[np.bool_]]
    folds: int
    #: unverified rows that each of these models learnt from, and how many there are
    learnt_from: int = 0
    unverified: int = 0

    @property
    def task(self) -> Task:
        """What was learnt."""
        return "classification" if self.classification else "regression"

    @property
    def rows(self) -> int:
        """Number of rows that enter the score."""
        return int(sum(np.count_nonzero(mask) for mask in self.scored.values()))

    @property
    def note(self) -> str:
        """Say so if the models that were scored learnt from a sample."""
        if self.learnt_from >= self.unverified:
            return ""
        return (
            f"to score models on trusted rows that they have not seen, {self.folds} models were trained on a sample: "
            f"{self.learnt_from:,} of the {self.unverified:,} unverified rows, spread evenly over each agent's."
        )

    @property
    def metric(self) -> str:
        """What the score is, in words."""
        return METRICS[self.task]

    @property
    def score(self) -> float:
        """R² or the share of right labels, over all agents."""
        predicted, targets = (
            np.concatenate([values[name][mask] for name, mask in self.scored.items()])
            for values in (self.predicted, self.targets)
        )
        return score(predicted, targets, self.task)


def held_out(model: Any, agents: Sequence[Agent], n_folds: int = FOLDS) -> HeldOut | None:
    """Fit again without each fold and predict it.

    None if there are too few rows to leave any out, or so few at one agent that two sums would differ by fewer rows than
    its policy lets out.

    Parameters
    ----------
    model:
        A fitted CoMT estimator; it is not changed.
    agents:
        The agents it was fitted on.
    n_folds:
        How many; of large data, the fits of the folds learn from a sample of the unverified rows.
    """
    classification = hasattr(model, "classes_")
    scored = {agent.name: fair_rows(agent.rows) for agent in agents}
    if sum(np.count_nonzero(mask) for mask in scored.values()) < 2 * FOLDS:
        return None
    fold = {agent.name: trusted_folds(agent.rows, *agent.rows.trusted(), n_folds) for agent in agents}
    if not all(_large_enough(fold[agent.name], agent.gate.policy.min_rows) for agent in agents):
        return None
    learners = _sampled(agents)
    predicted = {agent.name: np.full(len(fold[agent.name]), np.nan) for agent in agents}
    for left_out in range(n_folds):
        part = clone(model).set_params(verbose=0, warm_start=False)
        rest = [agent.with_trusted(fold[agent.name] != left_out) for agent in learners]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what there is to say was said of the fit of all rows
            part.fit_agents(rest)
            for agent in agents:
                asked = fold[agent.name] == left_out
                if asked.any():
                    features = agent.rows.trusted()[0][asked]
                    scores = part.decision_function(features) if classification else part.predict(features)
                    predicted[agent.name][asked] = scores
    targets = {agent.name: agent.rows.trusted()[1] for agent in agents}
    learnt_from, unverified = (sum(agent.rows.n_rows for agent in side) for side in (learners, agents))
    return HeldOut(classification, predicted, targets, scored, n_folds, learnt_from, unverified)


def suspects(held: HeldOut | None, agent: str, places: NDArray[np.intp], classes: Sequence[Any]) -> pd.DataFrame:
    """Return the trusted rows of an agent that look wrong themselves, worst first, judged by models without them.

    Regression: residuals beyond :data:`SUSPECT` times their robust size over all agents. Classification: a probability of
    at least :data:`SURE` that the label is another.
    """
    columns = ["row", "score", "flagged", "given", "suggested"]
    if held is None:
        return pd.DataFrame(columns=columns)
    predicted, targets = held.predicted[agent], held.targets[agent]
    asked = np.isfinite(predicted)
    if held.classification:
        score_of = expit(-targets * predicted)
        wrong = asked & (score_of >= SURE)
        labels = np.array(list(classes))
        given, suggested = labels[(targets > 0).astype(int)], labels[(predicted > 0).astype(int)]
    else:
        errors = np.concatenate([held.targets[name] - held.predicted[name] for name in held.targets])
        size = float(np.nanmedian(np.abs(errors))) * 1.4826
        distance = np.abs(targets - predicted) / max(size, 1e-300)
        score_of = 1.0 - 2.0 * ndtr(-distance)
        wrong = asked & (distance >= SUSPECT)
        given, suggested = targets, predicted
    table = pd.DataFrame({"row": places, "score": score_of, "flagged": wrong, "given": given, "suggested": suggested})
    return table[wrong].sort_values("score", ascending=False, kind="stable", ignore_index=True)[columns]


def _sampled(agents: Sequence[Agent]) -> list[Agent]:
    """Return the agents, of large data with a sample of their rows that keeps their proportions (but for small ones)."""
    rows = sum(agent.rows.n_rows for agent in agents)
    if rows < LARGE:
        return list(agents)
    return [agent.with_sample(max(SAMPLE_EACH, round(SAMPLE * agent.rows.n_rows / rows))) for agent in agents]


def _large_enough(fold: NDArray[np.int64], min_rows: int) -> bool:
    """Whether no fold of an agent is smaller than its minimum: sums with and without it would show it."""
    sizes = np.bincount(fold[fold >= 0])
    return not bool(((sizes > 0) & (sizes < min_rows)).any())
