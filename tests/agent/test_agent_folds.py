"""Folds are decided by a row's content, so they are the same whoever holds the row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comt.agent.folds import fold_of


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.normal(size=n)


@given(seed=st.integers(0, 1000), cut=st.integers(0, 30), n_folds=st.integers(2, 10))
def test_order_partition_and_layout_do_not_matter(seed, cut, n_folds):
    features, targets = rows(30, seed)
    folds = fold_of(features, targets, n_folds)
    order = np.random.default_rng(seed).permutation(30)
    np.testing.assert_array_equal(fold_of(features[order], targets[order], n_folds), folds[order])
    parts = [fold_of(features[part], targets[part], n_folds) for part in (slice(cut), slice(cut, None))]
    np.testing.assert_array_equal(np.concatenate(parts), folds)
    np.testing.assert_array_equal(fold_of(np.asfortranarray(features), targets, n_folds), folds)
    assert folds.min() >= 0
    assert folds.max() < n_folds


@pytest.mark.parametrize("n_folds", [2, 3, 5, 10])
@pytest.mark.parametrize("kind", ["normal", "integers"])
def test_folds_are_of_about_equal_size(n_folds, kind):
    features, targets = rows(20_000)
    if kind == "integers":  # few bits differ between such rows
        features, targets = np.round(1000 * features), np.sign(targets)
    sizes = np.bincount(fold_of(features, targets, n_folds), minlength=n_folds)
    expected = 20_000 / n_folds
    assert (np.abs(sizes - expected) < 5 * np.sqrt(expected)).all()


def test_equal_rows_share_a_fold_and_zeros_have_no_sign():
    features, targets = rows(50)
    features[:, 1] = 0.0
    other = features.copy()
    other[:, 1] = -0.0
    np.testing.assert_array_equal(fold_of(features, targets, 5), fold_of(other, targets, 5))


def test_the_target_counts():
    features, targets = rows(200)
    assert (fold_of(features, targets, 5) != fold_of(features, -targets, 5)).mean() > 0.6


def test_no_rows():
    assert fold_of(np.empty((0, 3)), np.empty(0), 5).shape == (0,)
