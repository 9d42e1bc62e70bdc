"""Units and signs act about the zero of raw targets, wherever the prepared ones are centred and however they are scaled."""

from __future__ import annotations

import numpy as np
import pytest

from comt import CoMTRegressor
from comt.preparation import Preparation
from comt.server.auto.asking import ask_for_choice
from comt.server.auto.centres import rescaled_centre
from comt.server.auto.evidence import SELDOM, Evidence
from comt.server.scaling import agree_on_preparation
from teaching import Data, federate, moments

RIGHT = np.array([2.0, -1.0, 0.5, 0.0, 1.0])
#: targets far from zero: a price, a weight, a blood pressure
MEAN = 20.0
CENTRED = Preparation(np.array([1.0, -2.0]), np.array([2.0, 0.5]), target_center=7.0, target_scale=3.0, constant=10.0)


def raw(preparation, theta, features):
    return preparation.features(features) @ theta * preparation.target_scale + preparation.target_center


@pytest.mark.parametrize("preparation", [CENTRED, Preparation.identity(2), Preparation.identity(2, 10.0)])
def test_a_multiplied_model_predicts_multiples(preparation):
    rng = np.random.default_rng(0)
    features, theta = rng.normal(size=(6, 2)), rng.normal(size=preparation.width)
    factors = np.array([1.0, -1.0, 3.0, 0.001])
    models = preparation.multiplied(theta, factors)
    expected = factors[:, None] * raw(preparation, theta, features)
    np.testing.assert_allclose([raw(preparation, model, features) for model in models], expected, atol=1e-12)
    np.testing.assert_allclose(preparation.multiplied(theta, -1.0), models[1])
    np.testing.assert_allclose(raw(preparation, preparation.origin, features), 0.0, atol=1e-12)


def test_moments_less_a_model_are_those_of_its_errors():
    rng = np.random.default_rng(1)
    features, targets, theta = rng.normal(size=(9, 3)), rng.normal(size=9), rng.normal(size=3)
    left = moments(features, targets).less(theta)
    np.testing.assert_allclose(left.joint, moments(features, targets - features @ theta).joint, atol=1e-12)
    assert left.rows == 9


def test_the_factor_that_trusted_rows_ask_for_counts_from_raw_zero():
    rng = np.random.default_rng(2)
    plain = np.array([0.4, -0.3, 0.05])
    features = CENTRED.features(rng.normal(size=(40, 2)))
    targets = features @ CENTRED.multiplied(plain, 0.25)
    centre = rescaled_centre(CENTRED, plain, [moments(features[k::4], targets[k::4]) for k in range(4)], 1e-9)
    np.testing.assert_allclose(centre.theta, CENTRED.multiplied(plain, 0.25), atol=1e-8)


def known(trusted_targets):
    folds = [moments(np.ones((len(trusted_targets[k::2]), 1)), trusted_targets[k::2]) for k in range(2)]
    return Evidence(Preparation.identity(0, 1.0), moments(np.ones((3, 1)), np.arange(3.0)), folds, 1.0)


def test_errors_are_not_expected_larger_than_right_targets_vary():
    rng = np.random.default_rng(3)
    sigma = 0.01
    too_small = [known(sigma * rng.normal(size=8)).error_size < sigma**2 for _ in range(4000)]
    assert np.mean(too_small) == pytest.approx(SELDOM, abs=0.005)
    # noise alone widens unverified targets: that is no reason to expect small errors
    assert known(0.5 * rng.normal(size=8)).error_size == pytest.approx(1.0)
    # equal values, as counts often are, say nothing of a spread; one value has none
    assert known(np.zeros(8)).error_size == pytest.approx(1.0)
    assert known(np.array([0.3])).error_size == pytest.approx(1.0)


def trained(wrong, n_trusted, seed, n=1500, mean=MEAN):
    """Return R² where ``wrong`` makes what is written down of what is right."""
    rng = np.random.default_rng(seed)
    features, test = rng.normal(size=(2, n, 5))
    y, right = (mean + rows @ RIGHT + 0.8 * rng.normal(size=n) for rows in (features, test))
    trusted = np.arange(n) < n_trusted
    model = CoMTRegressor().fit(features, np.where(trusted, y, wrong(y, rng)), agents=np.arange(n) % 3, trusted=trusted)
    return model.score(test, right)


@pytest.mark.parametrize("factor", [1000.0, 100.0, 10.0, 3.0, 0.1, 0.001, -1.0])
def test_all_targets_in_another_unit_far_from_zero(factor):
    scores = [trained(lambda y, rng: factor * y, 20, seed) for seed in range(3)]
    assert min(scores) > 0.88  # clean rows: .90; trusted rows alone: about .86


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_a_part_of_the_targets_negated_far_from_zero(share):
    scores = [trained(lambda y, rng: np.where(rng.random(len(y)) < share, -y, y), 12, seed) for seed in range(3)]
    assert min(scores) > 0.84  # trusted rows alone: about .7


@pytest.mark.parametrize("share", [0.3, 0.6])
@pytest.mark.parametrize("factor", [-1.0, 10.0, 0.0])
def test_right_targets_that_differ_by_a_millionth_are_told_apart(factor, share):
    """1,000,000 ± 3, and a sign or a digit too many in part of them; before, R² was minus a million."""

    def wrong(y, rng):
        return np.where(rng.random(len(y)) < share, factor * y, y)

    scores = [trained(wrong, 40, seed, mean=1e6) for seed in range(2)]
    assert min(scores) > 0.88  # trusted rows alone: about .88


def test_targets_by_trusted_rows_are_kept_only_where_unverified_ones_lie_there():
    rng = np.random.default_rng(4)
    X, T = rng.normal(size=(300, 2)), rng.normal(size=(12, 2))
    y, t = X[:, 0], T[:, 0]

    def asked(unverified, trusted):
        agents = federate(Data(X, unverified, T, trusted))
        preparation = agree_on_preparation(agents, 2, standardize=True, fit_intercept=True, scale_target=True)
        with agents.open():
            return preparation, ask_for_choice(agents, preparation.tamed(), 3)[0]

    for unverified, trusted in (
        (y, t),  # nothing wrong
        (1e6 * y, t),  # all in another unit: none would lie within ten spreads of the trusted ones
        (y, np.zeros(12)),  # trusted targets of one value, as counts often are
    ):
        before, after = asked(unverified, trusted)
        assert (after.target_center, after.target_scale) == (before.target_center, before.target_scale)
    half = np.where(np.arange(300) % 2 == 0, 1.0, -1.0)
    _, after = asked(half * (1e6 + y), 1e6 + t)
    assert after.target_center == pytest.approx(1e6 + t.mean(), abs=0.01)
    assert after.target_scale == pytest.approx(t.std(ddof=1), rel=0.01)
