"""The limit of choosing between models for whoever does not know the right one beforehand.

The test of :mod:`comt.bench.limits` between "unverified labels are right" and "they are not" knows which model right labels
follow. Nobody does: right labels may follow any linear model, and a test can only be good on the average over them. By
Neyman and Pearson the best one then compares the evidence of the trusted labels, averaged over all models θ ~ N(0, size²),
with their likelihood under the model of the unverified rows. Or unverified labels are right but for their sign: then the
likelihood under the opposite model is compared with it, and the opposite model may be chosen.

The same test bounds whoever believes unverified labels (:func:`limit_of_belief`): the same labels may follow a rule that has
nothing to do with the matter, while right ones follow some other linear model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from comt.baselines.base import AgentRows, pooled
from comt.bench import robustness
from comt.bench.store import Line
from comt.problem import Array

#: standard deviations of the log-odds of a row that the average may be over; the one that is best in hindsight counts
SIZES = (0.5, 1.0, 2.0, 4.0, 8.0)
INTERCEPT_SD = 1.0
#: shares of what may be lost that go to the opposite model; the one that is best in hindsight counts
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
#: per data set: sets of trusted rows drawn in the other world, those of them that a model is fitted to, rows it is scored on
DRAWS, FITTED, SCORED = 300, 10, 2_000
NEWTON_STEPS, AT_THE_MODE = 30, 1e-9
#: standard deviation of the log-odds of right labels where unverified ones have nothing to do with them: an AUC of about .87,
#: as in ``robustness``
CLEAR = 2.0


def fitted(agents: Sequence[AgentRows]) -> LogisticRegression:
    """Return the plain model of the agents' labels."""
    rows, labels, *_ = pooled(agents)
    return LogisticRegression(max_iter=1000).fit(rows, labels)


def log_evidence(covariance: Array, labels: Array) -> tuple[Array, Array]:
    """Return the log evidence of labels (B, m) whose log-odds have a covariance (B, m, m), by Laplace's approximation.

    Also returns covariance⁻¹·(log-odds at the mode), from which the mode follows for any other row.
    """
    one = np.eye(labels.shape[1])
    odds = np.zeros_like(labels)
    for _ in range(NEWTON_STEPS):
        positive = expit(odds)
        root = np.sqrt(positive * (1.0 - positive))
        bent = one + root[:, :, None] * covariance * root[:, None, :]
        right = root**2 * odds + 0.5 * (labels + 1.0) - positive
        carried = root * np.einsum("bij,bj->bi", covariance, right)
        dual = right - root * np.linalg.solve(bent, carried[..., None])[..., 0]
        before, odds = odds, np.einsum("bij,bj->bi", covariance, dual)
        if np.abs(odds - before).max() < AT_THE_MODE:
            break
    evidence = (
        log_likelihood(labels, odds).sum(axis=1) - 0.5 * (dual * odds).sum(axis=1) - 0.5 * np.linalg.slogdet(bent)[1]
    )
    return evidence, dual


def limit(cell: Line, scores: pd.DataFrame, may_lose: float) -> float:
    """Return the best mean score of a choice between TI-only, Buggy-only and its opposite (``scores``, a line per seed).

    In the other world unverified labels are right, and the choice may lose ``may_lose`` there.
    """
    worlds = [_World(cell, int(seed)) for seed in scores.index]
    plain = float(np.mean([world.plain for world in worlds]))
    trusted, buggy = scores["TI-only"].to_numpy(), scores["Buggy-only"].to_numpy()
    best = -np.inf
    for size in SIZES:
        compared = [world.compared(size) for world in worlds]
        here, there = (np.array([getattr(each, name) for each in compared]) for name in ("here", "there"))
        there = np.concatenate(there, axis=1)
        price = np.array([plain - np.mean([each.alone for each in compared]), 2.0 * plain - 1.0])
        for share in SHARES:
            # how often trusted rows alone, and the opposite model, may be chosen there
            allowed = np.clip(may_lose * np.array([1.0 - share, share]) / np.maximum(price, 1e-9), 0.0, 1.0)
            limits = [np.quantile(line, 1.0 - often) for line, often in zip(there, allowed, strict=True)]
            beyond = here - limits
            chosen = np.where(beyond[:, 0] >= beyond[:, 1], trusted, 1.0 - buggy)
            best = max(best, float(np.where((beyond > 0.0).any(axis=1), chosen, buggy).mean()))
    return best


def limit_of_belief(cell: Line, scores: pd.DataFrame, may_lose: float) -> float:
    """Return the best mean score of a choice between TI-only and Buggy-only (``scores``, a line per seed).

    In the other world unverified labels have nothing to do with right ones, and the choice may lose ``may_lose`` to TI-only
    there. Trusted rows speak for the right labels' own model as loudly as their evidence does.
    """
    worlds = [_World(cell, int(seed)) for seed in scores.index]
    here = np.array([world.for_another_model(CLEAR) for world in worlds])
    there, alone = (np.array(each) for each in zip(*(world.unrelated(CLEAR) for world in worlds), strict=True))
    # an unrelated model has an AUC of a half on the average
    believed = min(1.0, may_lose / max(float(alone.mean()) - 0.5, 1e-9))
    doubted = here > np.quantile(there, believed)
    return float(np.where(doubted, scores["TI-only"], scores["Buggy-only"]).mean())


@dataclass(frozen=True)
class _Compared:
    """Log of evidence over likelihood, for any model and for the opposite one."""

    here: Array  # (2,)
    there: Array  # (2, DRAWS)
    #: how trusted rows alone do there
    alone: float


class _World:
    """One data set of a cell: its trusted rows, and what they would be if unverified labels were right."""

    def __init__(self, cell: Line, seed: int) -> None:
        data = robustness.prepared(robustness.draw({**cell, "seed": seed}))
        self._rng = rng = np.random.default_rng(seed)
        tested = rng.choice(len(data.test_features), min(SCORED, len(data.test_features)), replace=False)
        rows = data.test_features[tested]
        *_, trusted, self._labels = pooled(data.agents)
        model = fitted(data.agents)
        self._odds, self._trusted_odds = model.decision_function(rows), model.decision_function(trusted)
        # without the constant column: the intercept has a variance of its own
        self._rows, self._trusted = rows[:, :-1], trusted[:, :-1]
        self._there = np.where(rng.random(len(self._rows)) < expit(self._odds), 1.0, -1.0)
        self._drawn = rng.integers(len(self._rows), size=(DRAWS, len(self._labels)))
        self._usual = float((self._rows**2).sum(axis=1).mean())
        #: what plain training scores in the other world
        self.plain = float(roc_auc_score(self._there, self._odds))

    def compared(self, size: float) -> _Compared:
        """Compare what may be right with "unverified labels are right", here and in draws of the other world."""
        rows, labels, odds = self._rows[self._drawn], self._there[self._drawn], self._odds[self._drawn]
        evidence, dual = log_evidence(self._covariance(rows, size), labels)
        models = np.einsum("bi,bid->bd", dual[:FITTED], rows[:FITTED])
        alone = np.mean([roc_auc_score(self._there, self._rows @ model) for model in models])
        steeper = -size / max(float(self._odds.std()), 1e-12)
        opposite = log_likelihood(self._labels, steeper * self._trusted_odds).sum() - self._as_unverified()
        return _Compared(
            np.array([self.for_another_model(size), opposite]),
            np.stack([evidence, log_likelihood(labels, steeper * odds).sum(axis=1)])
            - log_likelihood(labels, odds).sum(axis=1),
            float(alone),
        )

    def for_another_model(self, size: float) -> float:
        """Return how loudly the trusted labels speak for a model of their own, against that of the unverified ones."""
        (evidence,), _ = log_evidence(self._covariance(self._trusted[None], size), self._labels[None])
        return float(evidence) - self._as_unverified()

    def _as_unverified(self) -> float:
        return float(log_likelihood(self._labels, self._trusted_odds).sum())

    def unrelated(self, size: float) -> tuple[Array, float]:
        """Return the same in draws of a world where right labels follow any model, and how trusted rows alone do there."""
        rows, odds = self._rows[self._drawn], self._odds[self._drawn]
        models = self._rng.normal(size=(DRAWS, rows.shape[2])) * size / np.sqrt(self._usual)
        intercepts = self._rng.normal(size=(DRAWS, 1)) * INTERCEPT_SD
        positive = expit(np.einsum("bid,bd->bi", rows, models) + intercepts)
        labels = np.where(self._rng.random(positive.shape) < positive, 1.0, -1.0)
        evidence, dual = log_evidence(self._covariance(rows, size), labels)
        taught = np.einsum("bi,bid->bd", dual[:FITTED], rows[:FITTED])
        alone = []
        for model, intercept, wanted in zip(taught, intercepts, models, strict=False):
            right = self._rng.random(len(self._rows)) < expit(self._rows @ wanted + intercept)
            if 0 < np.count_nonzero(right) < len(right):
                alone.append(roc_auc_score(right, self._rows @ model))
        return evidence - log_likelihood(labels, odds).sum(axis=1), float(np.mean(alone))

    def _covariance(self, rows: Array, size: float) -> Array:
        covariance: Array = size**2 / self._usual * np.einsum("bid,bjd->bij", rows, rows) + INTERCEPT_SD**2
        return covariance


def log_likelihood(labels: Array, odds: Array) -> Array:
    """Return the log likelihood of every label."""
    likelihood: Array = -np.logaddexp(0.0, -labels * odds)
    return likelihood
