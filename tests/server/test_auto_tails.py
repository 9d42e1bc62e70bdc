"""Long tails: compressed where they bend or are wrong, straight where rows follow the line far out, too."""

from __future__ import annotations

import numpy as np
import pytest

from comt import CoMTRegressor
from comt.preparation import KNEE, compress
from comt.server.auto.tails import FAR
from teaching import moments

WEIGHTS = np.array([1.0, -0.6, 0.5, 0.3])


def long_tailed(rng, rows):
    return np.exp(rng.normal(size=(rows, 4)))


def straight(features, rng):
    return features @ WEIGHTS + rng.normal(size=len(features))


def bent(features, rng):
    return np.log(features) @ WEIGHTS + 0.3 * rng.normal(size=len(features))


def fitted(targets, wrong=None, trusted=8, seed=0):
    """Return the model and its score on rows without errors."""
    rng = np.random.default_rng(seed)
    features, test = long_tailed(rng, 1200), long_tailed(rng, 1200)
    y, right = targets(features, rng), targets(test, rng)
    verified = np.arange(1200) < trusted
    if wrong is not None:
        wrong(features, y, np.flatnonzero(~verified), rng)
    model = CoMTRegressor().fit(features, y, agents=np.arange(1200) % 4, trusted=verified)
    return model, model.score(test, right)


def test_tails_that_follow_the_line_count_as_they_are():
    model, score = fitted(straight)
    assert model._training.preparation.knee == FAR
    assert score > 0.87  # the true model has about .89, compressed columns .77
    assert "Long tails count as they are" in model.summary()


def test_tails_that_bend_are_compressed():
    model, _ = fitted(bent)
    assert model._training.preparation.knee == KNEE
    assert "Long tails" not in model.summary()


def test_codes_and_wrong_units_do_not_speak_for_straight_tails():
    def codes(features, y, rows, rng):
        features[rng.choice(rows, 150, replace=False), 0] = 99.0

    def unit(features, y, rows, rng):
        features[rows[rows % 4 == 1], 1] *= 100.0

    def absurd(features, y, rows, rng):
        y[rng.choice(rows, 100, replace=False)] *= 50.0

    for wrong in (codes, unit, absurd):
        model, _ = fitted(bent, wrong)
        assert model._training.preparation.knee == KNEE


def test_trusted_rows_speak_where_unverified_ones_cannot():
    """Half of the targets are negated: unverified rows explain nothing, sixty trusted ones follow the line."""

    def negated(features, y, rows, rng):
        y[rng.choice(rows, len(rows) // 2, replace=False)] *= -1.0

    model, score = fitted(straight, negated, trusted=60)
    assert model._training.preparation.knee == FAR
    assert score > 0.84


@pytest.mark.parametrize("knee", [KNEE, FAR])
def test_compression_is_continuous_monotonous_and_bounded(knee):
    values = np.linspace(-200.0, 200.0, 4001)
    found = compress(values, knee)
    inside = np.abs(values) <= knee
    np.testing.assert_array_equal(found[inside], values[inside])
    steps = np.diff(found)
    assert (steps >= 0.0).all()
    assert (steps <= 0.1 + 1e-9).all()
    assert np.abs(found).max() == max(12.0, knee)


def test_evidence_is_that_of_targets_with_a_normal_prior_of_coefficients():
    """Against a multivariate t density written out: errors N(0, σ²), coefficients N(0, σ²/penalty), p(σ²) ∝ 1/σ²."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(15, 3))
    y = X @ [1.0, 0.0, -0.5] + rng.normal(size=15)
    penalties = np.array([0.3, 3.0, 30.0])
    expected = []
    for penalty in penalties:
        covariance = np.eye(15) + X @ X.T / penalty
        size = y @ np.linalg.solve(covariance, y)
        expected.append(-0.5 * np.linalg.slogdet(covariance)[1] - 7.5 * np.log(size))
    np.testing.assert_allclose(moments(X, y).evidence(penalties), expected, rtol=1e-10)
