"""The limit for whoever does not know the right model: its evidence is an integral, its limit that of a choice."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal

from comt.bench import unknown_model

CELL = {
    "experiment": "robustness",
    "data": "classification",
    "corruption": "rule_of_thumb",
    "noise": 0.0,
    "trusted": 5,
    "seed": 0,
}


def test_the_evidence_is_the_integral_over_all_models():
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(2, 4, 3)), np.array([[1.0, 1.0, -1.0, 1.0], [-1.0, 1.0, 1.0, -1.0]])
    covariance = 2.0 * np.einsum("bid,bjd->bij", rows, rows) + 1.0
    found, dual = unknown_model.log_evidence(covariance, labels)
    for b in range(2):
        odds = multivariate_normal.rvs(np.zeros(4), covariance[b] + 1e-9 * np.eye(4), size=400_000, random_state=b)
        # four rows: Laplace is off by up to a fifth of a unit
        assert found[b] == pytest.approx(np.log(expit(labels[b] * odds).prod(axis=1).mean()), abs=0.2)
        # at the mode the slope of the likelihood is what the prior pulls back with
        mode = covariance[b] @ dual[b]
        np.testing.assert_allclose(dual[b], 0.5 * (labels[b] + 1.0) - expit(mode), atol=1e-8)


def test_whoever_may_lose_nothing_keeps_the_unverified_rows_and_whoever_may_lose_all_leaves_them():
    scores = pd.DataFrame({"TI-only": [0.7, 0.6, 0.8], "Buggy-only": [0.5, 0.4, 0.6]}, index=[0, 1, 2])
    assert unknown_model.limit(CELL, scores, may_lose=1.0) == pytest.approx(0.7)
    kept = unknown_model.limit(CELL, scores, may_lose=0.0)
    some = unknown_model.limit(CELL, scores, may_lose=0.005)
    assert 0.5 <= kept <= some <= 0.7


def test_labels_that_contradict_unverified_ones_are_doubted():
    world = unknown_model._World(CELL, 0)
    doubts = world.compared(2.0).here
    world._labels = np.where(world._trusted_odds > 0, 1.0, -1.0)
    agreeing = world.compared(2.0).here
    world._labels = -world._labels
    contradicting = world.compared(2.0)
    # by any model, and by the opposite one
    assert (agreeing < doubts).all()
    assert (doubts < contradicting.here).all()
    assert (contradicting.here > np.quantile(contradicting.there, 0.99, axis=1)).all()
    assert 0.5 < contradicting.alone < world.plain


def test_the_opposite_model_may_be_chosen_where_trusted_rows_ask_for_it():
    """Trusted rows alone are of no use in these scores, the opposite of Buggy-only is."""
    scores = pd.DataFrame({"TI-only": 0.5, "Buggy-only": 0.2}, index=range(4))
    assert unknown_model.limit(CELL, scores, may_lose=1.0) == pytest.approx(0.8)
    assert 0.2 <= unknown_model.limit(CELL, scores, may_lose=0.005) < 0.8


def test_unverified_labels_are_believed_only_as_often_as_a_world_without_use_for_them_allows():
    scores = pd.DataFrame({"TI-only": [0.5, 0.4, 0.6], "Buggy-only": [0.7, 0.6, 0.8]}, index=[0, 1, 2])
    assert unknown_model.limit_of_belief(CELL, scores, may_lose=0.5) == pytest.approx(0.7)
    never, seldom, often = (unknown_model.limit_of_belief(CELL, scores, lost) for lost in (0.0, 0.02, 0.1))
    assert 0.5 <= never <= seldom <= often <= 0.7


def test_labels_that_have_nothing_to_do_with_unverified_ones_speak_for_a_model_of_their_own():
    world = unknown_model._World(CELL, 0)
    unrelated, alone = world.unrelated(2.0)
    right = world.compared(2.0)
    assert unrelated.mean() > right.there[0].mean() + 1.0
    assert 0.55 < alone < 0.75  # five rows of ten columns
    world._labels = np.where(world._trusted_odds > 0, 1.0, -1.0)
    assert world.for_another_model(2.0) < np.median(unrelated)
