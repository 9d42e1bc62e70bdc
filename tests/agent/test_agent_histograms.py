"""Counts against numpy's, and the grid read off the bits of floats against its published edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comt.agent.histograms import coarse_bins, count_columns
from comt.agent.rank_bins import counted
from comt.queries import COARSE_BINS, RANK_BINS, Histogram, coarse_edges, rank_edges


def test_the_grid():
    edges = coarse_edges()
    assert len(edges) == COARSE_BINS + 1
    assert (np.diff(edges) > 0).all()
    np.testing.assert_array_equal(edges, -edges[::-1])
    assert edges[0] == -np.inf
    assert {1.0, 2.0, 2.0**-128, 2.0**127} <= set(edges.tolist())


def expected_bin(value):
    """Bins hold their inner edge: [a, b) right of zero, (a, b] left of it, and the middle one is open."""
    edges = coarse_edges()
    side = "right" if value >= 0 else "left"
    return np.searchsorted(edges, value, side=side) - 1


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_bits_agree_with_edges(value):
    assert coarse_bins(np.array([value]))[0] == expected_bin(value)


def test_bits_agree_with_edges_next_to_every_edge():
    edges = coarse_edges()[1:-1]
    values = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
    values = np.concatenate([values, [0.0, -0.0, 5e-324, -5e-324, 1.7e308, -1.7e308]])
    np.testing.assert_array_equal(coarse_bins(values), [expected_bin(value) for value in values])


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("with_target", [False, True])
def test_coarse_counts(layout, with_target):
    rng = np.random.default_rng(0)
    features = np.array(rng.standard_cauchy((500, 3)) * [1e-6, 1.0, 1e6], order=layout)
    targets = rng.normal(size=500)
    counts = count_columns(Histogram(n_columns=3 + with_target), features, targets)
    columns = [*features.T, targets][: 3 + with_target]
    for found, values in zip(counts, columns, strict=True):
        np.testing.assert_array_equal(found, np.histogram(values, coarse_edges())[0])


@pytest.mark.parametrize("with_target", [False, True])
def test_uniform_counts(with_target):
    rng = np.random.default_rng(1)
    features, targets = rng.normal(size=(400, 2)), rng.normal(size=400)
    n = 2 + with_target
    low, high = np.array([-1.0, -0.5, 0.0])[:n], np.array([1.0, 2.0, 0.25])[:n]
    counts = count_columns(Histogram(n_columns=n, low=low, high=high, bins=16), features, targets)
    assert counts.shape == (n, 18)
    for column, values in enumerate([*features.T, targets][:n]):
        edges = np.concatenate([[-np.inf], np.linspace(low[column], high[column], 17), [np.inf]])
        np.testing.assert_array_equal(counts[column], np.histogram(values, edges)[0])


def test_bins_without_width():
    """A column whose limits coincide is counted below or from that value on."""
    features = np.array([[-1e9], [4.9], [5.0], [1e9]])
    query = Histogram(n_columns=1, low=np.array([5.0]), high=np.array([5.0]), bins=4)
    counts = count_columns(query, features, np.zeros(4))
    assert counts.sum() == 4
    assert counts[0, 0] >= 1
    assert counts[0, -1] == 1


def test_counting_leaves_the_rows_alone():
    features = np.asfortranarray(np.random.default_rng(0).normal(size=(20, 2)))
    before = features.copy()
    count_columns(Histogram(n_columns=2), features, np.zeros(20))
    count_columns(Histogram(n_columns=2, low=np.zeros(2), high=np.ones(2), bins=3), features, np.zeros(20))
    np.testing.assert_array_equal(features, before)


def test_no_rows():
    assert count_columns(Histogram(n_columns=3), np.empty((0, 2)), np.empty(0)).sum() == 0


def ranked(values):
    """The definition: a binary search on the public edges."""
    bins = np.searchsorted(rank_edges(), values, side="right")
    return np.bincount(bins, minlength=RANK_BINS)


@given(values=st.lists(st.floats(allow_nan=False), min_size=1, max_size=50))
def test_counts_on_the_grid_of_ranks_are_those_of_a_binary_search(values):
    np.testing.assert_array_equal(counted(np.array(values)[:, None])[0], ranked(values))


def test_counts_on_the_grid_of_ranks_next_to_every_edge():
    edges = rank_edges()
    near = [edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf), edges[::-1] * 0.97]
    values = np.column_stack([*near, np.random.default_rng(0).standard_cauchy(len(edges))])
    for column, found in zip(values.T, counted(values), strict=True):
        np.testing.assert_array_equal(found, ranked(column))


def test_counts_on_the_grid_of_ranks_of_many_columns():
    values = np.random.default_rng(1).standard_cauchy((7, 300))  # more bins in all than a short integer counts
    for column, found in zip(values.T, counted(values), strict=True):
        np.testing.assert_array_equal(found, ranked(column))
