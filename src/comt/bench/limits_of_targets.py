"""The limit of choosing between plain training and the better simple choice, for targets and few trusted rows.

Two worlds have the same unverified rows. Here, some of them are wrong: trusted rows follow the right model. There, they are
right: trusted rows are a sample of them, and whoever chooses may lose little to plain training. Only the trusted rows tell
the worlds apart. By Neyman and Pearson the best test goes by the ratio of their likelihoods; this one knows the models, the
shapes of errors and the spread of features of both worlds, which nobody does who has to learn them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from comt.baselines.base import AgentRows, Baseline, pooled
from comt.bench import robustness
from comt.bench.methods import fair_candidates
from comt.bench.store import Line
from comt.bench.tuning import fit_tuned, score
from comt.problem import Array
from comt.server.auto.moments import Moments

#: sets of trusted rows drawn in either world of one data set, and those of the other world that are fitted alone
DRAWS, FITTED = 4_000, 20
#: parts of the unverified rows: each is predicted by models of the others
PARTS = 5
#: bins that a shape of errors has, and rows' worth of doubt that are spread over them
BINS, DOUBT = 30, 10.0
#: largest ratio of two spreads of features, as a logarithm per row: no normal distribution is that exact
LOUDEST = 5.0


def limit(cell: Line, scores: pd.DataFrame, may_lose: float) -> float:
    """Return the best mean score of a choice between plain training and the better of TI-only and Buggy-only.

    ``scores`` has a line per seed.
    """
    alone = bool(scores["TI-only"].mean() > scores["Buggy-only"].mean())
    return float(np.mean([_limit(cell, int(seed), alone, may_lose) for seed in scores.index]))


def best_choice(here: Array, there: Array, gain: Array, price: Array, may_lose: float) -> float:
    """Return the mean gain of leaving plain training wherever the evidence is beyond a limit, as low as it may be.

    ``here`` and ``there`` are the evidence against plain training in draws of both worlds, ``gain`` and ``price`` what
    leaving it gains in each draw of this world and costs in each of the other one. A draw in the middle may be left to
    chance, so that all that may be lost is.
    """
    tried = np.unique(np.concatenate([here, there]))[::-1]

    def so_far(evidence: Array, each: Array) -> Array:
        """Add up what all draws with as much evidence as is tried, or more, bring."""
        order = np.argsort(-evidence, kind="stable")
        sums = np.append(0.0, np.cumsum(each[order])) / len(each)
        found: Array = np.append(0.0, sums[np.searchsorted(-evidence[order], -tried, side="right")])
        return found

    gains, costs = so_far(here, gain), so_far(there, price)
    allowed = costs <= may_lose
    best = float(gains[allowed].max())
    for inside in np.flatnonzero(allowed[:-1] & ~allowed[1:]):
        chance = (may_lose - costs[inside]) / (costs[inside + 1] - costs[inside])
        best = max(best, float(gains[inside] + chance * (gains[inside + 1] - gains[inside])))
    return best


def _limit(cell: Line, seed: int, alone: bool, may_lose: float) -> float:
    """Return the best mean score here, in one data set of a cell, of a choice that loses no more there."""
    raw = robustness.draw({**cell, "seed": seed})
    data, clean = robustness.prepared(raw), robustness.prepared(raw.clean())
    rng = np.random.default_rng(seed)
    trusted = int(cell["trusted"])
    rows, targets, *_ = pooled(data.agents)
    right_rows, right_targets, *_ = pooled(clean.agents)
    right = _ridge(right_rows, right_targets)
    (simple,) = fair_candidates("regression", len(targets), trusted, ["Buggy-only"])
    # there, rows are predicted out of sample
    part = rng.permutation(len(targets)) % PARTS
    predicted = np.empty((len(simple.settings) + 1, len(targets)))
    for held in range(PARTS):
        fitted = part != held
        predicted[:, ~fitted] = _predicted(rows[fitted], targets[fitted], simple.settings, rows[~fitted])
    at_test = _predicted(rows, targets, simple.settings, data.test_features)
    worlds = [
        _World(x, y, models, rng.integers(len(x), size=(DRAWS, trusted)))
        for x, y, models in ((data.test_features, data.test_targets, at_test), (rows, targets, predicted))
    ]
    given, wanted = _Shape(targets - predicted[0]), _Shape(right_targets - right_rows @ right)
    noisy, clear = (_normal(x[:, :-1]) for x in (rows, right_rows))
    evidence = []
    for world in worlds:
        x, y = world.rows, world.targets
        told = wanted.log_density(y - x @ right) - given.log_density(y - world.predicted[0])
        told += np.clip(clear.logpdf(x[:, :-1]) - noisy.logpdf(x[:, :-1]), -LOUDEST, LOUDEST)
        evidence.append(told[world.drawn].sum(axis=1))
    plain = [score("regression", world.targets, world.predicted[0]) for world in worlds]
    better = [world.trusted_only(seed) if alone else world.buggy_only() for world in worlds]
    here, there = evidence
    return plain[0] + best_choice(here, there, better[0] - plain[0], plain[1] - better[1], may_lose)


@dataclass(frozen=True)
class _World:
    """Rows of one world, what plain training and every setting of Buggy-only predict of them, and trusted sets of them."""

    rows: Array
    targets: Array
    predicted: Array  # (settings + 1, n)
    drawn: NDArray[np.int64]  # (DRAWS, m)

    def buggy_only(self) -> Array:
        """Return the score of the setting that each trusted set asks for."""
        scores = np.array([score("regression", self.targets, each) for each in self.predicted[1:]])
        errors = np.stack([((self.targets - each)[self.drawn] ** 2).sum(axis=1) for each in self.predicted[1:]])
        found: Array = scores[errors.argmin(axis=0)]
        return found

    def trusted_only(self, seed: int) -> Array:
        """Return the mean score of trusted rows alone, of some of the sets, for every set."""
        (candidate,) = fair_candidates("regression", len(self.targets), self.drawn.shape[1], ["TI-only"])
        scores = []
        for sets in self.drawn[:FITTED]:
            agent = AgentRows("all", self.rows[:1], self.targets[:1], self.rows[sets], self.targets[sets])
            model = fit_tuned(candidate, [agent], "regression", seed)
            scores.append(score("regression", self.targets, model.predict(self.rows)))
        return np.full(len(self.drawn), np.mean(scores))


class _Shape:
    """The density of errors, a histogram over their quantiles."""

    def __init__(self, errors: Array) -> None:
        inner = np.unique(np.quantile(errors, np.linspace(0.0, 1.0, BINS + 1)))
        reach = 0.5 * max(float(np.ptp(inner)), 1e-9)
        self._edges = np.concatenate([[inner[0] - reach], inner, [inner[-1] + reach]])
        counts = np.histogram(errors, self._edges)[0] + DOUBT / (len(self._edges) - 1)
        self._log = np.log(counts / counts.sum() / np.diff(self._edges))

    def log_density(self, errors: Array) -> Array:
        inside = np.clip(np.searchsorted(self._edges, errors, side="right") - 1, 0, len(self._log) - 1)
        found: Array = self._log[inside]
        return found


def _normal(rows: Array) -> Any:
    """Return the distribution of features as if they were normal."""
    covariance = np.cov(rows, rowvar=False) + 1e-6 * np.eye(rows.shape[1])
    return multivariate_normal(rows.mean(axis=0), covariance)


def _ridge(rows: Array, targets: Array) -> Array:
    """Return plain training: the ridge fit of largest evidence."""
    joint = np.column_stack([rows, targets])
    return Moments(joint.T @ joint, float(len(targets))).ridge()


def _predicted(rows: Array, targets: Array, settings: Sequence[Baseline], asked: Array) -> Array:
    """Return what plain training and every setting of Buggy-only predict of other rows, a line each."""
    agent = AgentRows("all", rows, targets, rows[:0], targets[:0])
    simple = [setting.fit([agent], "regression").predict(asked) for setting in settings]
    return np.stack([asked @ _ridge(rows, targets), *simple])
