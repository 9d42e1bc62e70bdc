"""Which labels look wrong: the posterior probability that a label was flipped, given the agent's two flip rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from comt.issue_context import LabelModel
from comt.problem import Array

#: flip rates of an agent that nobody has counted
UNKNOWN = (0.05, 0.05)
#: flip rates from which on an agent's labels are reversed as a whole
REVERSED = 0.75
#: share of what others' labels usually say below which an agent's labels say nothing
SAYS_NOTHING = 0.25


@dataclass(frozen=True)
class LabelVerdict:
    """What is thought of an agent's labels."""

    score: Array
    #: P(right label is +1)
    positive: Array
    #: whether the agent's labels are wrong as a whole
    whole: bool


def judge_labels(logits: Array, given: Array, agent: str, models: Sequence[LabelModel]) -> LabelVerdict:
    """Return the posterior probability that each label (±1) is wrong, averaged over models; ``logits`` are models × rows."""
    positive = np.zeros(len(given))
    for odds, model in zip(logits, models, strict=True):
        flips = model.flips.get(agent, UNKNOWN)
        right = expit(odds) * np.where(given > 0, 1.0 - flips[0], flips[0])
        wrong = expit(-odds) * np.where(given > 0, flips[1], 1.0 - flips[1])
        positive += model.weight * right / np.maximum(right + wrong, 1e-300)
    main = max(models, key=lambda model: model.weight)
    return LabelVerdict(np.where(given > 0, 1.0 - positive, positive), positive, _whole(agent, main.flips))


def _whole(agent: str, flips: Mapping[str, tuple[float, float]]) -> bool:
    """Tell whether an agent's labels are reversed, or say nothing (shuffled, constant) where those of others do."""
    own = flips.get(agent, UNKNOWN)
    if min(own) > REVERSED:
        return True
    # labels that are drawn without a look at the row are flipped at rates that add up to one
    others = [abs(1.0 - sum(rates)) for name, rates in flips.items() if name != agent]
    return bool(others) and abs(1.0 - sum(own)) < SAYS_NOTHING * float(np.median(others))
