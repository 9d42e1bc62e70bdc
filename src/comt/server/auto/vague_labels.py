"""Labels that follow the features vaguely: right, because the matter is uncertain, or right ones flipped at random?

It matters: if they are right, few trusted rows must not overrule them; if about half of them are flipped, only the trusted
rows know the sign. The shape tells the two apart. Log-odds of right labels go on growing with the score; where a share f
is flipped, no label is surer than 1 − f, however far out its row lies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from comt.problem import Array
from comt.server.auto.laplace import Hypothesis

#: odds that vague labels are right as they are, before their shape is looked at, and the share of "or all reversed" in them
AS_THEY_ARE, REVERSED = 3.0, 0.03
#: log-odds per standard deviation of the score that right labels follow clearly, and what flips leave of them at least where
#: labels are not vague
STEEP, CLEAR_SLOPE = 1.5, 1.1
#: log-odds per standard deviation of the score below which labels tell so little that few would want to learn them: the
#: odds that they are right fall with them
TELLING = 0.35
#: labels that are vaguer than this are taken for so clear: flips at random are not told from pure chance
LEAST_CLEAR = 0.1
#: most that the shape may say for either side, in nats: real labels have neither
LOUDEST = 3.0
#: most that bending may say for right labels: it may come from mistakes, too
BENT = 1.5


def clearness(size: float) -> float:
    """Return how clearly labels follow a score of this standard deviation (in log-odds), from 0 to 1."""
    return min(1.0, size / CLEAR_SLOPE)


def flip_rate(size: float) -> float:
    """Return the rate at which labels that follow a model clearly must have been flipped to look so vague."""
    return 0.5 * (1.0 - max(clearness(size), LEAST_CLEAR))


def behind_flips(theta: Array, size: float, flipped: float, positive: float, constant: float) -> Array:
    """Return about the model θ·x behind labels that flips have made so vague; ``positive`` is the share of labels +1."""
    steep = max(1.0, STEEP / size) * theta
    if constant:
        right = np.clip((positive - flipped) / (1.0 - 2.0 * flipped), 0.01, 0.99)
        # the mean of a logistic curve over a normal score: its slope counts less
        steep[-1] = logit(right) * np.sqrt(1.0 + np.pi / 8.0 * STEEP**2) / constant
    return steep


@dataclass(frozen=True)
class Reading:
    """What vague labels are taken for before trusted rows are asked."""

    #: odds that they are right as they are
    right: float
    #: how many times likelier than beforehand mistakes are that have the shape of right labels (a rule, a column)
    other_mistakes: float


def read(size: float, reliability: float, flips_explain: float, bending_explains: float) -> Reading:
    """Read labels by their shape; flips, or bending, explain them better by so many nats.

    Of labels that hardly tell a model (of little ``reliability``) it is no use to believe that they are right. What a shape
    says against flips at random speaks for right labels, and as loudly for mistakes that follow the features.
    """
    if flips_explain == np.inf:
        return Reading(0.0, 1.0)
    # what bends levels off without a flip
    against = max(flips_explain - bending_explains, min(flips_explain, -BENT))
    shape, vague = -float(np.clip(against, -LOUDEST, LOUDEST)), 1.0 - clearness(size)
    # a penalty has made the score smaller than labels follow it
    told = min(1.0, size / np.sqrt(reliability) / TELLING)
    return Reading(
        right=AS_THEY_ARE * reliability * vague * told * float(np.exp(shape)),
        other_mistakes=float(np.exp(vague * max(shape, 0.0))),
    )


def as_they_are(theta: Array, covariance: Array, odds: float, intercept: Array) -> list[Hypothesis]:
    """Trusted labels follow the model of the unverified ones, but for the chance that made it; or its opposite.

    That one class is rare may be a mistake (``intercept`` spreads it, then), which must not speak for the opposite model.
    """
    if odds <= 0.0:
        return []
    values, vectors = np.linalg.eigh(covariance)
    unsure = vectors * np.sqrt(np.maximum(values, 0.0))
    balanced = np.where(intercept.any(axis=1), 0.0, theta)
    return [
        Hypothesis(f"all unverified rows, {told}", sign * mean, spread, float(np.log(0.5 * odds * share)))
        for told, sign, share in (("as they are", 1.0, 1.0 - REVERSED), ("all labels reversed", -1.0, REVERSED))
        for mean, spread in ((theta, unsure), (balanced, np.hstack([unsure, intercept])))
    ]
