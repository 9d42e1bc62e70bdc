"""Which labels look wrong: the posterior probability that a label was flipped, given the agent's two flip rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from comt.issue_context import LabelModel
from comt.problem import Array

#: flip rates of an agent that nobody has counted
UNKNOWN = (0.05, 0.05)


@dataclass(frozen=True)
class LabelVerdict:
    """What is thought of an agent's labels."""

    score: Array
    #: P(right label is +1)
    positive: Array
    #: the agent's flip rates under the model that counts most
    flips: tuple[float, float]


def judge_labels(logits: Array, given: Array, agent: str, models: Sequence[LabelModel]) -> LabelVerdict:
    """Return the posterior probability that each label (±1) is wrong, averaged over models; ``logits`` are models × rows."""
    positive = np.zeros(len(given))
    for odds, model in zip(logits, models, strict=True):
        flips = model.flips.get(agent, UNKNOWN)
        right = expit(odds) * np.where(given > 0, 1.0 - flips[0], flips[0])
        wrong = expit(-odds) * np.where(given > 0, flips[1], 1.0 - flips[1])
        positive += model.weight * right / np.maximum(right + wrong, 1e-300)
    main = max(models, key=lambda model: model.weight)
    return LabelVerdict(np.where(given > 0, 1.0 - positive, positive), positive, main.flips.get(agent, UNKNOWN))
