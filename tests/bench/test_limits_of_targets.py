"""The limit of choosing between plain training and a simple choice: Neyman and Pearson's known answers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from comt.bench import limits_of_targets
from comt.bench.limits_of_targets import _normal, _Shape, best_choice

CELL = {
    "experiment": "unseen",
    "protocol": "fair",
    "data": "ratings",
    "corruption": "30 % of the targets × 5",
    "noise": 0.0,
    "trusted": 6,
}


def test_the_power_of_the_best_test_between_two_normal_means():
    """Evidence N(2, 1) here and N(0, 1) there; leaving plain training gains .5 here and costs .2 there."""
    rng = np.random.default_rng(0)
    here, there = 2.0 + rng.normal(size=40_000), rng.normal(size=4_000)
    often = 0.005 / 0.2
    power = norm.sf(norm.isf(often) - 2.0)
    found = best_choice(here, there, np.full(40_000, 0.5), np.full(4_000, 0.2), 0.005)
    assert found == pytest.approx(0.5 * power, abs=0.02)


def test_what_costs_nothing_is_always_done_and_what_may_not_cost_never():
    rng = np.random.default_rng(1)
    here, there = rng.normal(size=(2, 500))
    gain, price = np.full(500, 0.3), np.full(500, 0.1)
    assert best_choice(here, there, gain, 0.0 * price, 0.0) == pytest.approx(0.3, abs=0.01)
    assert best_choice(here, there, gain, price, 0.0) < 0.01
    assert best_choice(here, there, -gain, price, 0.1) == 0.0  # nobody has to leave plain training


def test_a_draw_in_the_middle_may_be_left_to_chance():
    """All draws look alike: whoever may lose a tenth of the price leaves plain training once in ten times."""
    alike = np.zeros(100)
    gain, price = np.full(100, 0.3), np.full(100, 0.2)
    found = best_choice(alike, alike, gain, price, 0.02)
    assert found == pytest.approx(0.1 * 0.3)


def test_shapes_and_spreads_are_densities():
    rng = np.random.default_rng(2)
    errors, rows = rng.normal(size=50_000), rng.normal(size=(50_000, 2)) @ np.array([[1.0, 0.3], [0.0, 2.0]])
    at = np.linspace(-1.0, 1.0, 7)
    np.testing.assert_allclose(_Shape(errors).log_density(at), norm.logpdf(at), atol=0.1)
    first, second = _normal(rows).logpdf(np.array([[0.0, 0.0], [1.0, 2.0]]))
    covariance = np.array([[1.0, 0.3], [0.0, 2.0]]).T @ np.array([[1.0, 0.3], [0.0, 2.0]])
    assert first - second == pytest.approx(
        0.5 * np.array([1.0, 2.0]) @ np.linalg.solve(covariance, [1.0, 2.0]), rel=0.05
    )


@pytest.mark.parametrize(("trusted", "buggy"), [(-0.2, 0.5), (0.5, -0.2)])
def test_a_limit_lies_between_plain_training_and_always_choosing_the_other(monkeypatch, trusted, buggy):
    monkeypatch.setattr(limits_of_targets, "FITTED", 3)
    scores = pd.DataFrame({"TI-only": [trusted], "Buggy-only": [buggy]}, index=[0])
    never, some, always = (limits_of_targets.limit(CELL, scores, may_lose) for may_lose in (0.0, 0.01, 10.0))
    assert never <= some <= always
    assert never < always
