"""Which labels look wrong: the posterior probability that a label was flipped, given the agent's two flip rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from comt.issue_context import IssueContext
from comt.problem import Array


@dataclass(frozen=True)
class LabelVerdict:
    """What is thought of an agent's labels."""

    score: Array
    #: P(right label is +1)
    positive: Array
    flips: tuple[float, float]


def judge_labels(margin: Array, given: Array, agent: str, context: IssueContext) -> LabelVerdict:
    """Return the posterior probability that each label (±1) is wrong; ``margin`` is x·θ."""
    flips = context.flips.get(agent, (0.05, 0.05))
    chance = expit(context.score_slope * margin + context.score_shift)
    right = chance * np.where(given > 0, 1.0 - flips[0], flips[0])
    wrong = (1.0 - chance) * np.where(given > 0, flips[1], 1.0 - flips[1])
    positive = right / np.maximum(right + wrong, 1e-300)
    return LabelVerdict(np.where(given > 0, 1.0 - positive, positive), positive, flips)
