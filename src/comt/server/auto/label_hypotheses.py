"""What a model of the unverified labels says about the trusted ones: a slope, an intercept, a sign, perhaps a wrong column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from comt.problem import Array
from comt.server.auto.labels import reliability, score_size
from comt.server.auto.laplace import Hypothesis
from comt.server.auto.vague_labels import STEEP

#: least expected slope of trusted log-odds per standard deviation of a reliable score, and its spread
SLOPE, SLOPE_SD = STEEP, 0.7
#: the same slope where the matter is uncertain and labels were flipped besides, and the probability of that
UNCERTAIN_SLOPE, UNCERTAIN = 0.6, 0.5
#: trusted rows between which that comes in: few rows would not tell it, and would be less sure of a sign for it
ROWS_TO_TELL = (10.0, 60.0)
#: probability that the balance of the unverified labels says nothing about that of right ones
ONE_SIDED = 0.5
#: odds that one of the columns that weigh most, so many of them, has a wrong weight: labels or mistakes follow a rule on it
ONE_COLUMN, COLUMNS = 0.5, 10


@dataclass(frozen=True)
class LabelModel:
    """A model of unverified labels, and how far it is believed before trusted rows are asked."""

    name: str
    theta: Array
    covariance: Array
    reliability: float
    prior: float
    #: probability that all its labels are reversed
    reversed: float
    #: a column whose weight the unverified labels do not tell; None: there is none
    free: int | None = None


def but_for_one_column(model: LabelModel, spread: Array) -> list[LabelModel]:
    """Return the model without the weight of one column, for each of the columns that weigh most.

    A rule of thumb, or a mistake that depends on one measurement, gives its column a wrong weight; the others lose in
    size but keep their direction.
    """
    d = len(spread)
    weighs = np.abs(model.theta[:d]) * np.sqrt(np.maximum(np.diag(spread), 0.0))
    heaviest = np.argsort(-weighs)[:COLUMNS]
    found = []
    for column in heaviest[weighs[heaviest] > 0].tolist():
        theta = model.theta.copy()
        theta[column] = 0.0
        found.append(
            replace(
                model,
                name=f"{model.name}, but for one column",
                theta=theta,
                reliability=reliability(theta, model.covariance, spread),
                prior=ONE_COLUMN * model.prior / len(heaviest),
                free=column,
            )
        )
    return found


def trusted_rows_follow(
    model: LabelModel, spread: Array, intercept: Array, rows: float, odds: float
) -> Iterator[Hypothesis]:
    """Trusted labels follow a model, more or less clearly, with its balance of classes or another; or its opposite.

    ``intercept`` (p, 1) is how far theirs may lie from the expected one, ``rows`` their number, ``odds`` what the prior of
    the model is multiplied by.
    """
    d, size = len(spread), score_size(model.theta, spread)
    unit = model.theta / size
    values, vectors = np.linalg.eigh(model.covariance)
    unsure = vectors * np.sqrt(np.maximum(values, 0.0)) / size
    free = np.zeros((len(unit), 0 if model.free is None else 1))
    if model.free is not None:
        free[model.free] = 1.0 / np.sqrt(d * spread[model.free, model.free])
    for slope, chance in _slopes(size, rows):
        reliable = slope * np.sqrt(model.reliability)
        known = np.hstack([SLOPE_SD / SLOPE * slope * unit[:, None], intercept, reliable * unsure, slope * free])
        expected = reliable * unit
        # trusted rows of one class must not speak for reversed labels only because one class was mislabelled
        balanced = np.where(intercept.any(axis=1), 0.0, expected)
        for sign, probability in ((1.0, 1.0 - model.reversed), (-1.0, model.reversed)):
            name = model.name if sign > 0 else f"{model.name}, all labels reversed"
            for mean, share in ((expected, 1.0 - ONE_SIDED), (balanced, ONE_SIDED)):
                log_prior = float(np.log(odds * model.prior * chance * probability * share))
                yield Hypothesis(name, sign * mean, known, log_prior)


def _slopes(size: float, rows: float) -> list[tuple[float, float]]:
    """Return how clearly right labels may follow a model that unverified ones follow with this slope, and how likely it is.

    Errors blur: right labels follow a right model at least as clearly.
    """
    if size >= SLOPE:
        return [(size, 1.0)]
    uncertain = float(np.interp(rows, ROWS_TO_TELL, (0.0, UNCERTAIN)))
    found = [(SLOPE, 1.0 - uncertain), (max(size, UNCERTAIN_SLOPE), uncertain)]
    return [(slope, chance) for slope, chance in found if chance > 0.0]
