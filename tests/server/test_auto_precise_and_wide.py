"""Where targets are precise, few trusted rows know much; where columns are many, a fit that meets its rows refutes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeCV

from comt import CoMTClassifier, CoMTRegressor
from comt.preparation import Preparation
from comt.server.auto.centres import target_variance
from comt.server.auto.correction import PRECISE, SMALLER, _log_likely
from comt.server.auto.evidence import Evidence
from teaching import moments

PENALTIES = np.logspace(-4, 3, 15)


def rows(seed, n, m, d, noise, negated=0.0, feature_noise=0.0):
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(n + m, d)), 2.0 * rng.normal(size=d)
    y = X @ weights + noise * rng.normal(size=n + m)
    trusted = np.arange(n + m) < m
    y = np.where(~trusted & (rng.random(n + m) < negated), -y, y)
    seen = X + feature_noise * (~trusted)[:, None] * rng.normal(size=X.shape)
    X_new = rng.normal(size=(2000, d))
    return seen, y, trusted, rng.integers(0, 5, n + m), X_new, X_new @ weights


@pytest.mark.parametrize("given", [(15, 5, 0.1, 0.0, 1.0), (30, 10, 0.5, 0.35, 0.5), (12, 10, 0.1, 0.0, 0.5)])
def test_few_rows_with_precise_targets_are_believed(given):
    m, d, *errors = given
    scores = []
    for seed in range(3):
        X, y, trusted, agents, X_new, y_new = rows(seed, 1500, m, d, *errors)
        model = CoMTRegressor().fit(X, y, agents=agents, trusted=trusted)
        alone = RidgeCV(PENALTIES).fit(X[trusted], y[trusted])
        scores.append((model.score(X_new, y_new), alone.score(X_new, y_new)))
    found, alone = np.mean(scores, axis=0)
    assert found > alone - 0.005


def test_errors_of_the_expected_size_are_as_likely_as_ever_and_small_ones_are_not_surprising():
    sizes = np.array([4.0, 40.0, 400.0])
    student = -0.5 * (2.0 + 20.0) * np.log(2.0 + sizes)
    np.testing.assert_allclose(_log_likely(sizes, 20.0, 1.0, 2.0), student, atol=0.5)
    # far below the expected size, ten times smaller errors of twenty rows are about 10²⁰ as likely
    small = _log_likely(np.array([2e-2, 2e-3]), 20.0, 1.0, 2.0)
    assert 10.0 < (small[1] - small[0]) / np.log(10.0) < 24.0
    assert SMALLER[0] == PRECISE[0] == 1.0


@pytest.mark.parametrize(("n", "m", "d"), [(60, 20, 100), (60, 10, 30)])
def test_right_rows_fewer_than_columns_are_learnt_from(n, m, d):
    scores = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, X_new, weights = rng.normal(size=(n + m, d)), rng.normal(size=(2000, d)), np.zeros(d)
        weights[:5] = 3.0
        y, trusted, agents = X @ weights + rng.normal(size=n + m), np.arange(n + m) < m, rng.integers(0, 3, n + m)
        model = CoMTRegressor().fit(X, y, agents=agents, trusted=trusted)
        assert (model.choice_.agent_weights == 1.0).all()  # their own fits meet all their rows
        unverified = RidgeCV(PENALTIES).fit(X[~trusted], y[~trusted])
        scores.append((model.score(X_new, X_new @ weights), unverified.score(X_new, X_new @ weights)))
    found, unverified = np.mean(scores, axis=0)
    assert found > unverified


@pytest.mark.parametrize("flipped", [0.1, 0.3])
def test_trusted_rows_of_one_label_do_not_move_the_balance(flipped):
    found, unverified = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, weights = rng.normal(size=(560, 5)), 2.0 * rng.normal(size=5)
        right = rng.random(560) < 1.0 / (1.0 + np.exp(-X @ weights))
        picked = np.flatnonzero(right)[:20]
        trusted = np.isin(np.arange(560), picked)
        y = np.where(~trusted & (rng.random(560) < flipped), ~right, right)
        model = CoMTClassifier().fit(X, y, agents=np.arange(560) % 4, trusted=trusted)
        assert "same label" in model.choice_.sentence
        X_new = rng.normal(size=(2000, 5))
        found.append(model.score(X_new, X_new @ weights > 0))
        unverified.append(LogisticRegression().fit(X[~trusted], y[~trusted]).score(X_new, X_new @ weights > 0))
    assert np.mean(found) > np.mean(unverified) - 0.02


def test_trusted_targets_that_vary_less_than_expected_do_not_look_precise():
    X, y, trusted, *_ = rows(0, 300, 20, 3, 0.1)
    preparation = Preparation.identity(3, 1.0)

    def evidence(targets):
        with_one = np.column_stack([X, np.ones(len(X))])
        believed, few = (moments(with_one[which], targets[which]) for which in (~trusted, trusted))
        return Evidence(preparation, believed, [few], target_variance(preparation, believed))

    y = y / y.std()
    usual, calm = evidence(y), evidence(np.where(trusted, 0.2 * y, y))
    assert usual.log_precise > -6.0
    assert calm.log_precise == pytest.approx(usual.log_precise - 20 * np.log(5.0), abs=6.0)
    # errors a third as large as these calm targets vary prove nothing; among usual ones they are small
    expected, precise = (_log_likely(np.array([0.3]), 20.0, 1.0, 2.0, log)[0] for log in (-np.inf, usual.log_precise))
    assert _log_likely(np.array([0.3]), 20.0, 1.0, 2.0, calm.log_precise)[0] == pytest.approx(expected, abs=0.1)
    assert precise > expected + 3.0
