"""How often labels are flipped, agent by agent, under a given model: from counts of scores alone.

    P(right label is +1) = σ(s·f + t),   f = x·θ;   a right +1 is given as −1 with probability ε₊, a right −1 as +1 with ε₋

s and t correct the score: few trusted rows know neither its size nor its intercept well, while the buggy rows know the
intercept if flips are symmetric. So one rate for all, two for all, one per agent and two per agent are fitted, and
Schwarz's criterion says which of them the rows ask for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from comt.problem import Array
from comt.queries import rank_middles

STEPS = 300
LEAST, MOST = 1e-4, 1.0 - 1e-4
#: log-likelihood that the model must gain on the trusted rows over a constant before agents can be reversed
LEAST_GAIN = 3.0
#: imagined flipped and kept labels behind each rate
PRIOR_FLIPPED, PRIOR_KEPT = 1.0, 4.0
#: precision of slope and shift before any row: 1 ± 0.5 and 0 ± 2.5
PRIOR_PRECISION = np.array([4.0, 0.16])


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """Slope and shift of the score, and every agent's flip rates of right +1 and right −1."""

    slope: float
    shift: float
    flips: Array  # (K, 2)
    gain: float = -np.inf


def fit_label_noise(counts: Array, trusted: Array, width: int = 0) -> LabelNoise:
    """Return the label noise that explains counts (agents × labels × bins) best; ``trusted`` are labels × bins.

    That an agent writes most labels the wrong way round is believed if the trusted rows know the model's sign. That all of
    them do is more easily the fault of a model fitted to a few trusted rows: they have to know it in spite of its ``width``.
    """
    scores = rank_middles()
    used = (counts.sum(axis=(0, 1)) + trusted.sum(axis=0)) > 0
    counts, trusted, scores = counts[:, :, used], trusted[:, used], scores[used]
    agents = len(counts)
    known = _gain_on_trusted(trusted, scores)
    some, everybody = (MOST if known > need else 0.5 for need in (LEAST_GAIN, LEAST_GAIN + width))
    price = 0.5 * np.log(counts.sum() + 1.0)
    found = [_fit(counts, trusted, scores, [list(range(agents))], both, everybody) for both in (True, False)]
    prices = [1.0, 2.0]
    if agents > 1:
        own = [[k] for k in range(agents)]
        for both, cost in ((True, 1.0), (False, 2.0)):
            noise = _fit(counts, trusted, scores, own, both, some)
            if some > everybody and bool((noise.flips.min(axis=1) > 0.5).all()):
                noise = _fit(counts, trusted, scores, own, both, everybody)
            found.append(noise)
            prices.append(cost * agents)
    best = int(np.argmax([noise.gain - price * cost for noise, cost in zip(found, prices, strict=True)]))
    return found[best]


def _gain_on_trusted(trusted: Array, scores: Array) -> float:
    """Return how much better than a constant the model explains the trusted labels: whether they know its sign."""
    rows, positive = float(trusted.sum()), float(trusted[1].sum())
    if rows == 0:
        return -np.inf
    share = np.clip(positive / rows, 1e-9, 1.0 - 1e-9)
    nothing = positive * np.log(share) + (rows - positive) * np.log1p(-share)
    model = -float(trusted[1] @ np.logaddexp(0.0, -scores) + trusted[0] @ np.logaddexp(0.0, scores))
    return float(model - nothing)


def _fit(
    counts: Array, trusted: Array, scores: Array, groups: list[list[int]], symmetric: bool, most: float
) -> LabelNoise:
    reversed_ones = np.zeros(len(counts), dtype=np.bool_)
    if len(groups) > 1 and most > 0.5:  # an agent starts as reversed if that explains its labels better
        reversed_ones = _explained(counts, scores, 0.85) > _explained(counts, scores, 0.15)
    starts = [np.where(reversed_ones[:, None], 0.85, 0.15) * np.ones((1, 2))]
    if not symmetric:
        starts += [np.tile(pair, (len(counts), 1)) for pair in ((0.05, 0.4), (0.4, 0.05))]
    runs = [_climb(start, counts, trusted, scores, groups, symmetric, most) for start in starts]
    return max(runs, key=lambda noise: noise.gain)


def _explained(counts: Array, scores: Array, rate: float) -> Array:
    """Return the log-likelihood of every agent's labels if all had one flip rate."""
    noise = LabelNoise(1.0, 0.0, np.full((len(counts), 2), rate))
    explained: Array = (counts * np.log(_chances(noise, scores)[1])).sum(axis=(1, 2))
    return explained


def _chances(noise: LabelNoise, scores: Array) -> tuple[Array, Array]:
    """Return P(right +1 | given) and P(given), for agents × given label × bins."""
    positive = expit(noise.slope * scores + noise.shift)
    kept = np.stack([noise.flips[:, 0], 1.0 - noise.flips[:, 0]], axis=1)[:, :, None]  # given −1, given +1 if right +1
    lost = np.stack([1.0 - noise.flips[:, 1], noise.flips[:, 1]], axis=1)[:, :, None]
    right, wrong = positive * kept, (1.0 - positive) * lost
    total = np.maximum(right + wrong, 1e-300)
    return right / total, total


def _climb(
    flips: Array, counts: Array, trusted: Array, scores: Array, groups: list[list[int]], symmetric: bool, most: float
) -> LabelNoise:
    noise = LabelNoise(1.0, 0.0, flips)
    columns = np.stack([scores, np.ones_like(scores)])
    rows = counts.sum(axis=(0, 1)) + trusted.sum(axis=0)
    for _ in range(STEPS):
        right, chance = _chances(noise, scores)
        away = np.array([noise.slope - 1.0, noise.shift])
        margin = noise.slope * scores + noise.shift
        gain = float((counts * np.log(chance)).sum()) - 0.5 * float(PRIOR_PRECISION @ away**2)
        gain -= float(trusted[1] @ np.logaddexp(0.0, -margin) + trusted[0] @ np.logaddexp(0.0, margin))
        rates = np.stack([noise.flips[group[0]] for group in groups])[:, : 1 if symmetric else 2]
        gain += float((PRIOR_FLIPPED * np.log(rates) + PRIOR_KEPT * np.log1p(-rates)).sum())
        if gain - noise.gain < 1e-5 and np.isfinite(noise.gain):
            break
        expected = counts * right
        positive = expected.sum(axis=(0, 1)) + trusted[1]
        chance_now = expit(margin)
        slope = columns @ (rows * chance_now - positive) + PRIOR_PRECISION * away
        bend = (columns * (rows * chance_now * (1.0 - chance_now))) @ columns.T + np.diag(PRIOR_PRECISION)
        step = np.linalg.solve(bend, slope)
        size = float(np.clip(noise.slope - step[0], 0.2, 5.0))
        noise = replace(noise, slope=size, shift=noise.shift - float(step[1]), gain=gain)
        noise = replace(noise, flips=np.clip(_rates(expected, counts, groups, symmetric), LEAST, most))
    return noise


def _rates(expected: Array, counts: Array, groups: list[list[int]], symmetric: bool) -> Array:
    """Return the flip rates that the expected right labels imply, pooled as the structure says."""
    flips = np.empty((len(counts), 2))
    other = counts - expected
    for group in groups:
        flipped = np.array([expected[group, 0].sum(), other[group, 1].sum()])
        total = np.array([expected[group].sum(), other[group].sum()])
        if symmetric:
            flipped, total = np.full(2, flipped.sum()), np.full(2, total.sum())
        flips[group] = (flipped + PRIOR_FLIPPED) / (total + PRIOR_FLIPPED + PRIOR_KEPT)
    return flips
