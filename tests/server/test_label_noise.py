"""Flip rates from counts of scores: known rates are found, and no more rates are fitted than the rows ask for."""

import numpy as np
import pytest

from comt.queries import RANK_BINS, rank_edges
from comt.server.label_noise import fit_label_noise


def counts_of(flips, n=4000, slope=1.0, shift=0.0, seed=0):
    """Draw scores and labels for agents with the given flip rates; return what the server sees."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((len(flips), 2, RANK_BINS))
    for agent, pair in enumerate(flips):
        scores = 2.0 * rng.normal(size=n)
        right = rng.random(n) < 1.0 / (1.0 + np.exp(-slope * scores - shift))
        given = right ^ (rng.random(n) < np.where(right, pair[0], pair[1]))
        bins = np.searchsorted(rank_edges(), scores, side="right")
        for label in (0, 1):
            counts[agent, label] = np.bincount(bins[given == label], minlength=RANK_BINS)
    return counts


NOBODY = np.zeros((2, RANK_BINS))


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.4])
def test_symmetric_flips_are_one_rate(rate):
    noise = fit_label_noise(counts_of([(rate, rate)] * 4), NOBODY)
    np.testing.assert_allclose(noise.flips, rate, atol=0.04)
    assert np.ptp(noise.flips) == 0
    assert noise.shift == pytest.approx(0.0, abs=0.1)


def test_flips_of_one_class_are_two_rates():
    noise = fit_label_noise(counts_of([(0.5, 0.02)] * 4), NOBODY)
    np.testing.assert_allclose(noise.flips, [[0.5, 0.02]] * 4, atol=0.05)


def test_agents_that_reverse_their_labels_are_found():
    counts = counts_of([(0.1, 0.1), (0.95, 0.95), (0.1, 0.1)])
    noise = fit_label_noise(counts, counts_of([(0.0, 0.0)], n=50, seed=9)[0])
    np.testing.assert_allclose(noise.flips[:, 0], [0.1, 0.95, 0.1], atol=0.04)
    assert fit_label_noise(counts, NOBODY).flips.max() <= 0.5  # who would say which side is the reversed one?


def test_an_intercept_that_the_model_lacks_is_added():
    trusted = counts_of([(0.0, 0.0)], n=200, shift=1.0, seed=9)[0]
    noise = fit_label_noise(counts_of([(0.2, 0.2)] * 3, shift=1.0), trusted)
    assert noise.shift == pytest.approx(1.0, abs=0.15)
    np.testing.assert_allclose(noise.flips, 0.2, atol=0.03)


def test_that_everybody_is_reversed_takes_more_than_a_fit_to_a_few_trusted_rows():
    counts = counts_of([(0.8, 0.8)] * 3)
    few, many = counts_of([(0.0, 0.0)], n=40)[0], counts_of([(0.0, 0.0)], n=300)[0]
    assert fit_label_noise(counts, few).flips.min() > 0.7
    assert fit_label_noise(counts, few, width=11).flips.max() <= 0.5
    assert fit_label_noise(counts, many, width=11).flips.min() > 0.7
    # one agent that agrees with the trusted rows is enough to call the others reversed
    some = fit_label_noise(counts_of([(0.1, 0.1), (0.9, 0.9), (0.9, 0.9)]), few, width=11).flips
    np.testing.assert_allclose(some[:, 0], [0.1, 0.9, 0.9], atol=0.05)
