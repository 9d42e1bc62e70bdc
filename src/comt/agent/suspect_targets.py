"""Which targets look wrong: a mixture of right rows, rows with targets of another rule, and rows that are just off.

    right    y = ŷ + ε,          ε of the size of the trusted rows' errors
    ruled    y = a + b·ŷ + bε    negated (b = −1), shifted (b = 1), in another unit (b = 10): a and b are estimated
    loose    y = ŷ + anything

The shares, a, b and the sizes are fitted to one agent's rows by expectation-maximisation. How often right rows are far
off is not left to the normal distribution: a row is never believed to be wrong more firmly than the trusted rows allow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from comt.agent.target_reading import TargetReading
from comt.issue_context import IssueContext
from comt.problem import Array
from comt.queries import rank_edges

STEPS = 80
#: rows that the mixture is fitted to; all rows are judged by it
SAMPLE = 5_000
#: (shift in units of the errors' median, factor) from which the rule of wrong targets is searched
RULES = ((0.0, -1.0), (1.0, 1.0), (0.0, 10.0), (0.0, 0.1))
#: imagined rows behind the shares of right, ruled and loose rows: errors are taken to be the exception
PRIOR_ROWS = np.array([4.0, 0.5, 0.5])


@dataclass(frozen=True)
class TargetVerdict:
    """What is thought of an agent's targets, in prepared units."""

    score: Array
    suggested: Array
    #: share of the agent's rows believed to follow another rule than the model
    ruled: float
    #: how likely every target is if it is right, and if it is wrong
    reading: TargetReading


@dataclass(frozen=True)
class _Mixture:
    shares: Array  # right, ruled, loose
    right_size: float
    loose_size: float
    shift: float
    factor: float
    gain: float  # log-likelihood

    def densities(self, predicted: Array, given: Array) -> Array:
        error = given - predicted
        sizes = (self.right_size, max(abs(self.factor), 1.0) * self.right_size, self.loose_size)
        away = (error, given - self.shift - self.factor * predicted, error)
        logs = [np.log(max(p, 1e-300)) + _normal(e, s) for p, e, s in zip(self.shares, away, sizes, strict=True)]
        return np.stack(logs)


def judge_targets(predicted: Array, given: Array, context: IssueContext, width: int) -> TargetVerdict:
    """Return the posterior probability that each target is wrong, and what it should be.

    ``width`` is the number of coefficients, of which the trusted errors may have been robbed by the fit.
    """
    if not len(given):
        none = np.empty(0)
        return TargetVerdict(none, none, 0.0, TargetReading(none, none, none, 1.0))
    low, high, inflation = _right_sizes(context, width)
    thin = max(1, -(-len(given) // SAMPLE))
    # without trusted rows nothing contradicts the majority
    most = 1.0 if context.trusted_rows >= 2 else 0.5
    mixture = _fitted(predicted[::thin], given[::thin], low, high, most)
    logs = mixture.densities(predicted, given)
    weights = np.exp(logs - logs.max(axis=0))
    weights /= weights.sum(axis=0)
    surplus, at_rows = _surplus(np.abs(given - predicted), context, inflation)
    score = weights[1] * surplus + weights[2] * at_rows
    undone = (given - mixture.shift) / mixture.factor if mixture.shares[1] > 0 else predicted
    suggested = np.where(weights[1] > weights[2], undone, predicted)
    wrong = np.logaddexp(logs[1], logs[2]) - np.log(mixture.shares[1:].sum())
    reading = TargetReading(logs[0] - np.log(mixture.shares[0]), wrong, given - predicted, mixture.right_size)
    return TargetVerdict(np.clip(score, 0.0, 1.0), suggested, float((weights[1] * surplus).mean()), reading)


def _normal(error: Array, size: float) -> Array:
    density: Array = -0.5 * (error / size) ** 2 - np.log(size)
    return density


def _right_sizes(context: IssueContext, width: int) -> tuple[float, float, float]:
    """Return the least and greatest believable size of a right row's error, and how much larger than seen it may be."""
    m = context.trusted_rows
    if m < 2:
        return 0.0, np.inf, 1.0
    left = max(m - width, min(m, 3.0) - 1.0)
    seen = np.sqrt(context.trusted_error_sq / m)
    inflation = float(np.sqrt(m / left))
    low = seen * np.sqrt(m / chi2.ppf(0.995, m))
    high = seen * np.sqrt(m / chi2.ppf(0.005, left))
    return float(low), float(high), inflation


def _fitted(predicted: Array, given: Array, low: float, high: float, most: float) -> _Mixture:
    """Return the best of several starts; a rule has to earn its parameters and to differ from the model's own."""
    error = given - predicted
    floor = 1e-9 * max(1.0, float(np.abs(given).max()))
    middle = float(np.median(np.abs(error))) / 0.6745
    size = max(float(np.clip(middle, low, high)), floor)
    wide = max(float(np.sqrt(np.mean(error**2))), 3.0 * size)
    plain = _climb(_Mixture(np.array([0.8, 0.0, 0.2]), size, wide, 0.0, -1.0, -np.inf), predicted, given, low, high)
    best, need = plain, 4.0 * np.log(len(given) + 1.0)
    for shift, factor in RULES:
        start = float(np.median(error)) if shift else 0.0
        for share in (0.3, 0.9):
            shares = np.array([0.95 - share, share, 0.05])
            found = _climb(_Mixture(shares, size, wide, start, factor, -np.inf), predicted, given, low, high)
            apart = np.sqrt(np.mean((found.shift + (found.factor - 1.0) * predicted) ** 2))
            differs = apart > 2.0 * found.right_size and found.shares[1] <= most
            if differs and found.gain > max(plain.gain + need, best.gain):
                best = found
    return best


def _climb(mixture: _Mixture, predicted: Array, given: Array, low: float, high: float) -> _Mixture:
    error = given - predicted
    floor = 1e-9 * max(1.0, float(np.abs(given).max()))
    ruled = mixture.shares[1] > 0
    prior = PRIOR_ROWS * np.array([1.0, ruled, 1.0])
    for _ in range(STEPS):
        logs = mixture.densities(predicted, given)
        top = logs.max(axis=0)
        weights = np.exp(logs - top)
        total = weights.sum(axis=0)
        gain = float((top + np.log(total)).sum())
        weights /= total
        if gain - mixture.gain < 1e-6 * abs(gain) and np.isfinite(mixture.gain):
            break
        count = weights.sum(axis=1)
        shares = (count + prior) / (len(given) + prior.sum())
        right = np.sqrt((weights[0] @ error**2) / max(count[0], 1e-9))
        size = max(float(np.clip(right, low, high)) if count[0] > 1e-6 else mixture.right_size, floor)
        loose = np.sqrt((weights[2] @ error**2) / max(count[2], 1e-9)) if count[2] > 1e-6 else mixture.loose_size
        shift, factor = _rule(weights[1], predicted, given, mixture) if ruled else (mixture.shift, mixture.factor)
        mixture = _Mixture(shares, size, max(float(loose), 2.0 * size), shift, factor, gain)
    return mixture


def _rule(weights: Array, predicted: Array, given: Array, old: _Mixture) -> tuple[float, float]:
    """Fit y = a + bŷ to the rows believed to follow it; too few of them leave the rule as it was."""
    total = weights.sum()
    if total < 3.0:
        return old.shift, old.factor
    x, y = float(weights @ predicted / total), float(weights @ given / total)
    spread = float(weights @ (predicted - x) ** 2)
    if spread < 1e-9 * total:
        return y - old.factor * x, old.factor
    factor = float(weights @ ((predicted - x) * (given - y))) / spread
    if abs(factor) < 1e-3:
        factor = 1e-3
    return y - factor * x, factor


def _surplus(size: Array, context: IssueContext, inflation: float) -> tuple[float, Array]:
    """Return which share of rows beyond some error must be wrong, at best and at every row, given the trusted rows.

    If right rows are like trusted ones, at most S₀(t) of them lie beyond t; of the rows seen beyond t, at least
    1 − S₀(t)/S(t) are wrong.
    """
    if context.trusted_rows < 2:
        return 1.0, np.ones(len(size))
    edges = rank_edges()
    allowed = context.trusted_share_beyond(edges)
    order = np.sort(size)
    reached = 1.0 - np.searchsorted(order, edges * inflation, side="left") / len(size)
    wrong = np.where(reached > 0, 1.0 - allowed / np.maximum(reached, 1e-12), 0.0)
    wrong = np.maximum.accumulate(np.maximum(wrong, 0.0))
    at = np.searchsorted(edges * inflation, size, side="right") - 1
    return float(wrong.max()), wrong[np.clip(at, 0, None)]
