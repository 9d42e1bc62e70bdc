"""Models of labels that were flipped: at random, at a rate of each agent's, or where the features say so.

    P(right label is +1) = σ(x·θ);   log-odds of a flip = a + b·u where the right label is +1, a' + b'·u where it is −1

u is a column, or the direction in which labels follow the score less and less. b' = −b is a rule of thumb, which overrules
labels that contradict its column; b' = b are mistakes made where a column is large. Such mistakes give a linear fit a
wrong weight, or make it cancel out; the model behind them explains the labels better than any fit of them as they are.
All of it is expectation–maximisation with one Newton step per exchange, all models in one batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from comt.problem import Array
from comt.server.auto.labels import BuggyLabels

#: exchanges; the last of them ask about all rows, where the others look at a sample
ROUNDS, ON_ALL_ROWS = 15, 4
#: flip rates start from this many imagined rows, a fifth of them flipped
IMAGINED_ROWS, IMAGINED_FLIPS = 10.0, 2.0
#: how many columns are looked along; after how many rounds only those that explain most are followed, and how many of them
COLUMNS, SCREENING, FINALISTS = 10, 8, 4
#: where flips that follow the features start from: rate, and log-odds per standard deviation
START_RATE, START_LEAN = 0.27, 3.0
#: rounds before flips change: which labels were flipped takes a model to tell
MODEL_FIRST = 2
#: log-odds of such flips that are expected, and the precision of that and of leans
EXPECTED, PRECISION = np.array([-1.5, 0.0]), np.array([0.5, 1.0])
#: how many times larger the covariance of a model is because right labels are not known
UNKNOWN = 2.0


@dataclass(frozen=True)
class FlipRates:
    """A logistic model of labels that are flipped at random."""

    theta: Array
    #: per agent: how often a right label is flipped that is +1, that is −1
    rates: Array  # (K, 2)
    #: Σ log loss of the labels if one rate that was given is everybody's
    value_of_common: float
    #: Σ log loss of the labels, with the penalty of the model
    objective: float


@dataclass(frozen=True)
class Leaning:
    """A logistic model of labels whose flips follow a direction of the features."""

    theta: Array
    #: covariance of θ, about: what is not known of the right labels makes it twice that of a fit to them
    covariance: Array
    axis: Array
    #: log-odds of a flip at zero and per unit of the axis, for right +1 and right −1
    flips: Array  # (2, 2)
    #: Σ log loss of the labels, with the penalty of the model and of its flips
    objective: float


@dataclass(frozen=True)
class Start:
    """What flips may follow: an axis, and whether it pulls labels to its own sign (a rule) or turns them where it is large."""

    axis: Array
    rule: bool

    @property
    def leans(self) -> Array:
        """Log-odds of a flip per unit of the axis, for right +1 and right −1."""
        return START_LEAN * np.array([-1.0 if self.rule else 1.0, 1.0])


def starts(theta: Array, spread: Array, turns: Array | None) -> list[Start]:
    """Return what flips may follow, for labels whose linear fit is θ and features of covariance ``spread``.

    Rules are on columns that weigh most. Mistakes made where a column is large are looked for along the direction (d,) in
    which labels ``turn`` and along its columns or, if that was not asked, along either side of the columns that weigh most.
    """
    d, sizes = len(spread), np.sqrt(np.maximum(np.diag(spread), 1e-12))

    def columns(direction: Array, rule: bool) -> list[Start]:
        weighs = direction * sizes
        heaviest = [j for j in np.argsort(-np.abs(weighs))[:COLUMNS].tolist() if weighs[j]]
        return [Start(np.sign(weighs[j]) / sizes[j] * np.eye(len(theta))[j], rule) for j in heaviest]

    found = columns(theta[:d], True)
    if turns is None:
        return found + columns(theta[:d], False) + columns(-theta[:d], False)
    size = float(np.sqrt(max(float(turns @ spread @ turns), 0.0)))
    whole = [Start(np.append(turns / size, np.zeros(len(theta) - d)), False)] if size > 0 else []
    return found + columns(turns, False) + whole


def flipped(
    labels: BuggyLabels, start: Array, rates: Array, steep: Array, common: float, tried: list[Start]
) -> tuple[FlipRates, list[Leaning]]:
    """Fit two flip rates per agent, from ``rates`` (K, 2) and a model ``start`` on; and models whose flips lean, best first.

    Beside them, a model from ``steep`` on with one rate that is given, ``common`` to all.
    """
    width, rules = labels.preparation.width, np.array([one.leans for one in tried]).reshape(-1, 2)
    prior = labels.precision(1.0)
    theta = np.vstack([start, steep, np.zeros((len(tried), width))])
    flips = np.stack([rates, np.full_like(rates, common), *[np.full_like(rates, START_RATE)] * len(tried)])
    axes = np.vstack([np.zeros((2, width)), *(one.axis[None] for one in tried)])
    leans = np.vstack([np.zeros((2, 2)), rules])
    for exchange in range(ROUNDS):
        last = exchange >= ROUNDS - ON_ALL_ROWS
        totals = labels.sums(theta, np.ones(flips.shape[:2]), flips, axes, leans, all_rows=last)
        at, pulled, inside = theta, theta @ prior, np.stack([logit(flips[:, 0]), leans], axis=2)
        away = PRECISION * (inside - EXPECTED)
        objective = totals["value"] + 0.5 * (pulled * theta).sum(axis=1)
        objective[2:] += 0.5 * (away * (inside - EXPECTED))[2:].sum(axis=(1, 2))
        theta = theta - np.linalg.solve(totals["bend"] + prior, (totals["slope"] + pulled)[..., None])[..., 0]
        right = totals["right"][0]
        flips[0] = np.clip((right[:, [1, 3]] + IMAGINED_FLIPS) / (right[:, [0, 2]] + IMAGINED_ROWS), 0.005, 0.995)
        if exchange >= MODEL_FIRST:
            bend = totals["lean_bend"] + np.diag(PRECISION)
            following = inside - np.linalg.solve(bend, (totals["lean_slope"] + away)[..., None])[..., 0]
            flips[2:] = np.clip(expit(following[2:, None, :, 0]), 1e-4, 1.0 - 1e-4)
            leans[2:] = following[2:, :, 1]
        if exchange == SCREENING - 1:
            kept = np.append([0, 1], 2 + np.argsort(objective[2:])[:FINALISTS])
            theta, flips, axes, leans = theta[kept], flips[kept], axes[kept], leans[kept]
    found = [
        Leaning(at[i], UNKNOWN * np.linalg.inv(totals["bend"][i] + prior), axes[i], inside[i], float(objective[i]))
        for i in (2 + np.argsort(objective[2:])).tolist()
    ]
    return FlipRates(theta[0], flips[0], float(totals["value"][1]), float(objective[0])), found
