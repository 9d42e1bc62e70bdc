from __future__ import annotations

import numpy as np
import pytest

from comt import ArrayRows, InputError
from comt.agent.data import BLOCK
from comt.agent.joining import cross_predicted, worth_joining
from comt.agent.sampling import FewerTrusted, rows_at, spread_sample

COEF = np.array([1.0, -2.0, 0.5])


def rows_of(task, n_rows=300, n_trusted=40, wrong=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows + n_trusted, 3))
    y = X @ COEF + 0.3 * rng.normal(size=len(X))
    if task == "classification":
        y = np.where(y > 0, 1.0, -1.0)
    y[:n_rows][rng.random(n_rows) < wrong] *= -1
    return ArrayRows(X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_good_joint_model_is_worth_joining_and_a_bad_one_is_not(task):
    rows = rows_of(task, n_rows=5, n_trusted=60, wrong=1.0)
    rng = np.random.default_rng(1)
    assert worth_joining(rows, rng.normal(size=60), task=task, held_out=True).verdict == "own"
    # what the agent's own columns cannot tell
    features, targets = rows.trusted()
    hidden = ArrayRows(features[:0], targets[:0], features, rng.permutation(targets))
    found = worth_joining(hidden, hidden.trusted()[1], task=task, held_out=False)
    assert found.joint == 1.0
    assert found.own < 0.8
    assert found.trusted_rows == 60
    assert not found.held_out
    assert found.verdict == "joint"


def test_the_own_model_takes_the_rows_that_serve_it_best():
    clean, spoilt = rows_of("regression"), rows_of("regression", wrong=0.5)
    for rows, kind in ((clean, "all your rows"), (spoilt, "your trusted rows alone")):
        found = worth_joining(rows, np.zeros(40), task="regression", held_out=True)
        assert found.own_kind == kind
        assert found.own > 0.9
        assert found.verdict == "own"


def test_no_row_is_predicted_by_a_model_that_saw_it():
    # targets are pure noise: a model that had seen them would score above 0
    rng = np.random.default_rng(0)
    features, targets = rng.normal(size=(40, 30)), rng.normal(size=40)
    predicted = cross_predicted(features, targets, None, "regression")
    assert np.corrcoef(predicted, targets)[0, 1] < 0.3


def test_equal_models_are_undecided_and_few_rows_say_nothing():
    rows = rows_of("classification", n_trusted=40)
    own = cross_predicted(*rows.trusted(), spread_sample(rows, 5000), "classification")
    assert worth_joining(rows, own, task="classification", held_out=True).verdict == "undecided"
    for n_trusted in (0, 1, 5):
        few = rows_of("classification", n_trusted=n_trusted)
        found = worth_joining(few, few.trusted()[1], task="classification", held_out=True)
        assert found.verdict == "too few"
    with pytest.raises(InputError, match="one per row"):
        worth_joining(rows, np.zeros(3), task="classification", held_out=True)


def test_one_class_and_constant_columns_are_no_error():
    rows = rows_of("classification", n_rows=0, n_trusted=20)
    features, targets = rows.trusted()
    rows = ArrayRows(features[:0], targets[:0], np.column_stack([features, np.ones(20)]), np.ones(20))
    assert worth_joining(rows, np.ones(20), task="classification", held_out=True).own == 1.0


def test_samples_are_spread_over_blocks_and_rows_are_found_by_place():
    n_rows = 2 * BLOCK + 7
    rows = ArrayRows(np.arange(n_rows, dtype=float)[:, None], -np.arange(n_rows, dtype=float))
    features, targets = spread_sample(rows, 100)
    assert len(targets) == 100
    np.testing.assert_array_equal(np.diff(features[:, 0]), 328)
    np.testing.assert_array_equal(features[:, 0], -targets)
    places = np.array([n_rows - 1, 3, BLOCK, 3])
    features, targets = rows_at(rows, places)
    np.testing.assert_array_equal(features[:, 0], places)
    np.testing.assert_array_equal(targets, -places)


def test_fewer_trusted_rows():
    rows = rows_of("regression", n_trusted=4)
    fewer = FewerTrusted(rows, np.array([True, False, False, True]))
    np.testing.assert_array_equal(fewer.trusted()[1], rows.trusted()[1][[0, 3]])
    assert fewer.n_rows == rows.n_rows
    assert next(iter(fewer.blocks()))[0].shape == (300, 3)
