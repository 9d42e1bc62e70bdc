"""The limit of choosing between plain training and the better simple choice, for targets and few trusted rows.

Two worlds have the same unverified rows. Here, some of them are wrong: trusted rows follow the right model. There, they are
right: trusted rows are a sample of them, and whoever chooses may lose little to plain training. Only the trusted rows tell
the worlds apart. By Neyman and Pearson the best test goes by the ratio of their likelihoods; this one knows the models, the
shapes of errors and the spread of features of both worlds, which nobody does who has to learn them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from comt.baselines.base import AgentRows, Baseline
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
    return float(np.mean([_World(cell, int(seed), alone).limit(may_lose) for seed in scores.index]))


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


class _World:
    """One data set of a cell, with the models of both worlds."""

    def __init__(self, cell: Line, seed: int, alone: bool) -> None:
        raw = robustness.draw({**cell, "seed": seed})
        data, clean = robustness.prepared(raw), robustness.prepared(raw.clean())
        rng = np.random.default_rng(seed)
        rows, targets = _unverified(data.agents)
        right_rows, right_targets = _unverified(clean.agents)
        trusted = int(cell["trusted"])
        (simple,) = fair_candidates("regression", len(targets), trusted, ["Buggy-only"])
        #: plain training, and every setting of Buggy-only, out of sample where unverified rows are right
        part = rng.permutation(len(targets)) % PARTS
        self._there = np.empty((len(simple.settings) + 1, len(targets)))
        for held in range(PARTS):
            fitted = part != held
            self._there[:, ~fitted] = _predicted(rows[fitted], targets[fitted], simple.settings, rows[~fitted])
        self._there_targets = targets
        self._here = _predicted(rows, targets, simple.settings, data.test_features)
        self._here_targets = data.test_targets
        drawn = [rng.integers(len(x), size=(DRAWS, trusted)) for x in (data.test_features, rows)]
        self._evidence = []
        right = _ridge(right_rows, right_targets)
        errors = targets - self._there[0], right_targets - right_rows @ right
        shapes = [_Shape(each) for each in errors]
        spreads = [_Spread(each[:, :-1]) for each in (rows, right_rows)]
        for x, y, sets, predicted in (
            (data.test_features, data.test_targets, drawn[0], self._here[0]),
            (rows, targets, drawn[1], self._there[0]),
        ):
            told = shapes[1].log_density(y - x @ right) - shapes[0].log_density(y - predicted)
            told += np.clip(spreads[1].log_density(x[:, :-1]) - spreads[0].log_density(x[:, :-1]), -LOUDEST, LOUDEST)
            self._evidence.append(told[sets].sum(axis=1))
        self._drawn = drawn
        self._alone = None
        if alone:
            self._alone = (
                self._trusted_only(data.test_features, data.test_targets, drawn[0], trusted, seed),
                self._trusted_only(rows, targets, drawn[1], trusted, seed),
            )

    def limit(self, may_lose: float) -> float:
        """Return the best mean score of a choice here that loses no more there."""
        worlds = ((self._here, self._here_targets), (self._there, self._there_targets))
        plain, better = [], []
        for index, (predicted, targets) in enumerate(worlds):
            scores = np.array([score("regression", targets, each) for each in predicted])
            plain.append(scores[0])
            if self._alone is not None:
                better.append(np.full(DRAWS, self._alone[index]))
            else:
                sets = self._drawn[index]
                errors = np.stack([((targets - each)[sets] ** 2).sum(axis=1) for each in predicted[1:]])
                better.append(scores[1:][errors.argmin(axis=0)])
        here, there = self._evidence
        return float(plain[0]) + best_choice(here, there, better[0] - plain[0], plain[1] - better[1], may_lose)

    def _trusted_only(self, rows: Array, targets: Array, drawn: NDArray[np.int64], trusted: int, seed: int) -> float:
        """Return the mean score of the trusted rows alone, in some of the draws."""
        (candidate,) = fair_candidates("regression", len(targets), trusted, ["TI-only"])
        scores = []
        for sets in drawn[:FITTED]:
            agent = AgentRows("all", rows[:1], targets[:1], rows[sets], targets[sets])
            model = fit_tuned(candidate, [agent], "regression", seed)
            scores.append(score("regression", targets, model.predict(rows)))
        return float(np.mean(scores))


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


class _Spread:
    """Features as if they were normal."""

    def __init__(self, rows: Array) -> None:
        self._mean = rows.mean(axis=0)
        covariance = np.cov(rows, rowvar=False) + 1e-6 * np.eye(rows.shape[1])
        self._inverse, self._log_det = np.linalg.inv(covariance), float(np.linalg.slogdet(covariance)[1])

    def log_density(self, rows: Array) -> Array:
        away = rows - self._mean
        found: Array = -0.5 * np.einsum("ni,ij,nj->n", away, self._inverse, away) - 0.5 * self._log_det
        return found


def _unverified(agents: Sequence[AgentRows]) -> tuple[Array, Array]:
    return np.vstack([agent.features for agent in agents]), np.concatenate([agent.targets for agent in agents])


def _ridge(rows: Array, targets: Array) -> Array:
    """Return plain training: the ridge fit of largest evidence."""
    joint = np.column_stack([rows, targets])
    return Moments(joint.T @ joint, float(len(targets))).ridge()


def _predicted(rows: Array, targets: Array, settings: Sequence[Baseline], asked: Array) -> Array:
    """Return what plain training and every setting of Buggy-only predict of other rows, a line each."""
    agent = AgentRows("all", rows, targets, rows[:0], targets[:0])
    simple = [setting.fit([agent], "regression").predict(asked) for setting in settings]
    return np.stack([asked @ _ridge(rows, targets), *simple])
