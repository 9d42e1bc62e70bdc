"""Models are searched for on a sample; what is found is then fitted to all rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from comt import CoMTClassifier, CoMTRegressor
from comt.preparation import Preparation
from comt.server.auto import classification, regression
from comt.server.auto.flips import Start, flipped
from comt.server.auto.labels import PENALTIES, BuggyLabels
from comt.server.auto.trimming import trimmed_fits
from teaching import Data, federate

N, D, AGENTS = 3000, 5, 3
PREPARATION = Preparation.identity(D)
WEIGHTS = np.array([1.5, -1.0, 0.5, 0.0, 0.0])


def labelled(rule=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    labels = np.where(rng.random(N) < expit(X @ WEIGHTS), 1.0, -1.0)
    return X, np.where(rule & (np.abs(X[:, 4]) > 0.7), np.sign(X[:, 4]), labels)


def asked(X, y, thin):
    return BuggyLabels(federate(Data(X, y, X[:3], y[:3]), AGENTS), PREPARATION, thin)


def left_of_gradient(theta, X, y):
    """The least gradient over penalties, relative to its size at zero: nothing is left at a fit of these rows."""
    slope = X.T @ (expit(X @ theta) - (y > 0))
    return min(np.linalg.norm(slope + penalty * theta) for penalty in PENALTIES) / np.linalg.norm(X.T @ (0.5 - (y > 0)))


@pytest.mark.parametrize("spread", [None, np.eye(D)])
def test_fits_are_those_of_all_rows(spread):
    X, y = labelled()
    for fit in asked(X, y, 10).fits(np.ones((1, AGENTS)), spread):
        assert left_of_gradient(fit.theta, X, y) < 1e-6
        assert fit.certificate < 1e-6
        assert fit.value == pytest.approx(np.logaddexp(0.0, -y * (X @ fit.theta)).sum())


def test_a_search_sees_a_sample_only():
    X, y = labelled()
    theta, everybody = np.zeros((1, D)), np.ones((1, AGENTS))
    sample, whole = (asked(X, y, 10).sums(theta, everybody, all_rows=every) for every in (False, True))
    assert whole["rows"][0] == N
    assert sample["rows"][0] == pytest.approx(N, rel=0.01)  # a sample is scaled up
    assert np.abs(sample["slope"] - whole["slope"]).max() > 1.0
    np.testing.assert_allclose(whole["slope"][0], X.T @ (0.5 - (y > 0)))


def test_flips_that_follow_the_features_are_told_by_all_rows():
    X, y = labelled(rule=True)
    tried = [Start(np.eye(D)[4], True)]

    def leaning(thin, rows=slice(None)):
        labels = asked(X[rows], y[rows], thin)
        _, (found,) = flipped(labels, np.zeros(D), np.full((AGENTS, 2), 0.2), np.zeros(D), 0.2, tried)
        return found.theta

    whole, sampled = leaning(1), leaning(10)
    a_tenth = leaning(1, np.arange(N) % 30 < AGENTS)  # the rows that a search with thin=10 sees
    assert np.linalg.norm(sampled - whole) < 0.5 * np.linalg.norm(a_tenth - whole)


def test_robust_fits_end_with_all_rows():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(N, D))
    y = X @ WEIGHTS + 0.5 * rng.normal(size=N)
    y[::3] += 20.0 * X[::3, 1]
    start, kept = np.zeros((1, D)), np.array([0.6])

    def fit(thin, rows=slice(None)):
        return trimmed_fits(federate(Data(X[rows], y[rows], X[:3], y[:3]), AGENTS), PREPARATION, start, kept, thin)

    a_tenth = np.arange(N) % 30 < AGENTS
    assert np.linalg.norm(fit(10) - fit(1)) < 0.5 * np.linalg.norm(fit(1, a_tenth) - fit(1))


def error(model, weights):
    """How far a model's direction is from the right one."""
    found = model.coef_.ravel()
    return 1.0 - found @ weights / np.linalg.norm(found) / np.linalg.norm(weights)


@pytest.mark.parametrize("kind", ["labels", "half of the targets negated"])
def test_many_rows_and_columns_lose_nothing_to_the_sample(kind, monkeypatch):
    """So many coefficients are told less well by a tenth of the rows."""
    rng = np.random.default_rng(1)
    n, d, m = 6000, 40, 30
    weights = rng.normal(size=d) / np.sqrt(d)
    X = rng.normal(size=(n, d))
    y = X @ weights + rng.normal(size=n)
    if kind == "labels":
        y = rng.random(n) < expit(X @ weights)
    else:
        y[m::2] *= -1.0
    estimator, module = (CoMTClassifier, classification) if kind == "labels" else (CoMTRegressor, regression)
    rows = {"agents": np.arange(n) % AGENTS, "trusted": np.arange(n) < m}
    by_all = error(estimator().fit(X, y, **rows), weights)
    monkeypatch.setattr(module, "SAMPLE", n // 10)
    assert error(estimator().fit(X, y, **rows), weights) < by_all + 0.03
