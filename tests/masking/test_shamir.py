"""Shares of secrets: any threshold of them suffices, fewer say nothing."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from comt.masking import shamir
from comt.masking.seeds import threshold


def slow_times(a, b):
    """Multiplication in GF(256) from its definition."""
    total = 0
    while b:
        if b & 1:
            total ^= a
        a <<= 1
        if a & 0x100:
            a ^= 0x11B
        b >>= 1
    return total


def test_multiplication_is_that_of_the_field():
    values = np.arange(256, dtype=np.uint8)
    for factor in range(256):
        np.testing.assert_array_equal(shamir._times(values, factor), [slow_times(int(v), factor) for v in values])


@pytest.mark.parametrize(("needed", "holders"), [(1, 1), (2, 2), (2, 3), (3, 5), (4, 5), (5, 5)])
def test_any_threshold_of_shares_suffices(needed, holders):
    secret = np.random.default_rng(0).integers(0, 256, size=(3, 32), dtype=np.uint8)
    shares = dict(enumerate(shamir.share(secret, needed, holders), start=1))
    for chosen in combinations(shares, needed):
        np.testing.assert_array_equal(shamir.recover({i: shares[i] for i in chosen}), secret)


def test_one_share_too_few_fits_every_secret():
    """For any other secret there is a last share that gives it: t − 1 shares rule nothing out."""
    secret = np.array([7], dtype=np.uint8)
    shares = shamir.share(secret, 3, 3)
    reached = {
        int(shamir.recover({1: shares[0], 2: shares[1], 3: np.array([last], dtype=np.uint8)})[0]) for last in range(256)
    }
    assert reached == set(range(256))


def test_shares_are_uniform_whatever_the_secret():
    secret = np.zeros(200_000, dtype=np.uint8)
    for share in shamir.share(secret, 2, 3):
        counts = np.bincount(share, minlength=256)
        expected = len(secret) / 256
        assert ((counts - expected) ** 2 / expected).sum() < 400  # chi-square with 255 degrees of freedom: 1e-8


@pytest.mark.parametrize(("needed", "holders"), [(0, 3), (4, 3), (2, 256)])
def test_impossible_numbers_are_refused(needed, holders):
    with pytest.raises(ValueError):
        shamir.share(np.zeros(1, dtype=np.uint8), needed, holders)


@pytest.mark.parametrize("n", range(2, 60))
def test_two_lists_of_survivors_never_both_get_enough_votes(n):
    """With fewer than 2t − n sites on the coordinator's side; and it is never more than all."""
    t = threshold(n)
    assert n >= t
    colluding = 2 * t - n - 1
    assert colluding >= 0
    assert 2 * (t - colluding) > n - colluding
