"""Sums of fixed-point numbers: exact to the stated bound, the same in any order, never wrapped around."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comt.errors import ProtocolError, RangeError
from comt.masking.fixed_point import DEFAULT_SCALE, Layout, accumulate


def limit(terms):
    """The smallest number that is refused, at the default scale."""
    return 2.0 ** (62 - terms.bit_length()) / terms


def total_of(parts, scale=DEFAULT_SCALE, order=None):
    layout = Layout({"x": parts[0].shape}, {"x": scale} if scale != DEFAULT_SCALE else {}, len(parts))
    words = [layout.encode({"x": part}) for part in parts]
    total = np.zeros_like(words[0])
    accumulate(total, ((words[index], 1) for index in order or range(len(parts))))
    return layout.decode(total)["x"]


magnitudes = st.one_of(
    st.floats(-limit(9), limit(9), allow_nan=False),
    st.sampled_from(
        [0.0, 0.5, -0.5, 1.0, -1.0, 2e11, -2e11, 2.0**-64, -(2.0**-65), 5e-324, 0.49999999999999994, -1e-18]
    ),
)


@given(st.lists(st.lists(magnitudes, min_size=4, max_size=4), min_size=1, max_size=8))
def test_the_error_bound_holds_for_adversarial_magnitudes(values):
    parts = [np.array(value) for value in values]
    found = total_of(parts)
    for column in range(4):
        exact = sum((Fraction(float(part[column])) for part in parts), Fraction(0))
        bound = Fraction(len(parts), 2) / 2**DEFAULT_SCALE + abs(exact) / 2**51
        assert abs(Fraction(float(found[column])) - exact) <= bound


@given(st.lists(magnitudes, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_bits_do_not_depend_on_the_order(values, random):
    parts = [np.array([value, -value, 1.0]) for value in values]
    order = list(range(len(parts)))
    reference = total_of(parts)
    random.shuffle(order)
    np.testing.assert_array_equal(total_of(parts, order=order), reference)


@pytest.mark.parametrize("terms", [1, 2, 3, 4, 5, 7, 8, 100])
@pytest.mark.parametrize("exponent", range(58, 68))
@pytest.mark.parametrize("sign", [1, -1])
def test_every_split_between_the_words(terms, exponent, sign):
    """At scale 0 the integer is the value itself, so both words can be read; the worst values are those about a half."""
    layout = Layout({"x": (1,)}, {"x": 0}, terms)
    low_bits = 64 - terms.bit_length()
    middle = 2.0**exponent
    for value in (0.0, 3.0, middle, 1.5 * middle, np.nextafter(middle, 0.0), np.nextafter(middle, np.inf)):
        words = layout.encode({"x": np.array([sign * value])}).view(np.int64)
        low, high = int(words[0, 0]), int(words[1, 0])
        assert low + (high << low_bits) == int(sign * value)
        assert abs(low) <= 2 ** (low_bits - 1)
        found = total_of([np.array([sign * value])] * terms, scale=0)[0]
        assert found == pytest.approx(terms * sign * value, rel=2.0**-51)


@pytest.mark.parametrize("terms", [2, 3, 5, 100])
def test_low_words_that_add_up_move_to_the_high_ones(terms):
    """Half of a low word from everybody, taken back by one: rounding before the move would lose the small number."""
    half = 2.0 ** (63 - terms.bit_length() - 64)  # at the default scale
    parts = [np.array([half])] * (terms - 1) + [np.array([1e-18 - (terms - 1) * half])]
    exact = float(sum(Fraction(float(part[0])) for part in parts))
    assert total_of(parts)[0] == pytest.approx(exact, rel=2.0**-51, abs=terms / 2 * 2.0**-64)


def test_small_terms_survive_large_ones():
    """A column × 1000 beside others: 2e11 and 1e-3 in one sum."""
    parts = [np.array([2e11]), np.array([1e-3]), np.array([-2e11])]
    assert total_of(parts)[0] == pytest.approx(1e-3, rel=1e-15)


@pytest.mark.parametrize("signs", [(1,), (-1,), (1, 1, -1, 1, -1, -1, -1), (1,) * 300, (-1,) * 300], ids=len)
def test_many_terms_are_added_and_subtracted_as_whole_numbers(signs):
    """Against Python's integers, word by word; random words overflow in every second place."""
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 2**64, size=(2, 50), dtype=np.uint64) for _ in range(len(signs) + 1)]
    for part in parts:
        part[:, :10] = rng.choice(np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64), size=(2, 10))
    total = parts[0].copy()
    accumulate(total, zip(parts[1:], signs, strict=True))
    expected = [
        (start + sum(sign * term for sign, term in zip(signs, terms, strict=True))) % 2**64
        for start, *terms in zip(*(part.ravel().tolist() for part in parts), strict=True)
    ]
    assert total.ravel().tolist() == expected
    accumulate(total, zip(parts[1:], [-sign for sign in signs], strict=True))
    np.testing.assert_array_equal(total, parts[0])


@pytest.mark.parametrize("terms", [1, 3, 100])
def test_what_could_wrap_around_is_refused(terms):
    layout = Layout({"fine": (1,), "large": (2,)}, {}, terms)
    just = limit(terms)
    layout.encode({"fine": np.ones(1), "large": np.array([0.0, -np.nextafter(just, 0.0)])})
    for value in (just, -just, 1e300, -1e308):
        with pytest.raises(RangeError, match="'large'") as caught:
            layout.encode({"fine": np.ones(1), "large": np.array([0.0, value])})
        assert caught.value.array == "large"


def test_the_largest_that_passes_does_not_wrap():
    value = np.nextafter(limit(4), 0.0)
    assert total_of([np.array([value])] * 4)[0] == pytest.approx(4 * value, rel=1e-15)


def test_a_coarser_scale_takes_larger_numbers():
    assert total_of([np.array([3e30, 1.0])] * 2, scale=0)[0] == pytest.approx(6e30, rel=1e-15)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(value):
    with pytest.raises(ProtocolError, match="not finite"):
        Layout({"x": (2,)}, {}, 2).encode({"x": np.array([1.0, value])})


def test_a_sum_out_of_range_is_refused():
    """A site that encodes more than it may is noticed, not believed."""
    words = np.zeros((2, 1), dtype=np.uint64)
    words[1] = 2**62
    with pytest.raises(ProtocolError, match="out of range"):
        Layout({"x": (1,)}, {}, 2).decode(words)


@pytest.mark.parametrize(("scales", "terms"), [({"x": 10_000}, 2), ({"x": -10_000}, 2), ({"y": 1}, 2), ({}, 0)])
def test_absurd_scales_are_refused(scales, terms):
    with pytest.raises(ProtocolError):
        Layout({"x": (1,)}, scales, terms)


def test_one_half_of_a_symmetric_matrix_travels():
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(2, 5, 5))
    matrix = matrix + matrix.transpose(0, 2, 1)
    layout = Layout({"weight_xx": (2, 5, 5), "x": (3,)}, {}, 2)
    assert layout.length == 2 * 15 + 3
    found = layout.decode(layout.encode({"weight_xx": matrix, "x": np.arange(3.0)}))
    np.testing.assert_allclose(found["weight_xx"], matrix, rtol=1e-15, atol=1e-19)
    np.testing.assert_array_equal(found["x"], np.arange(3.0))
