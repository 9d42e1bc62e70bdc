"""Receipts: sums pass, anything else does not, whatever the sizes of the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from comt.masking import receipts
from comt.masking.fixed_point import layout_of

NAMES = ("small", "large")
SHAPES = {"small": (5,), "large": (4, 4), "other": (2,)}
KEY = b"k" * 32


def parts(n_sites, sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [{name: sizes[name] * rng.normal(size=shape) for name, shape in SHAPES.items()} for _ in range(n_sites)]


def receipt_of(answers):
    layout = layout_of(SHAPES, {}, len(answers))
    words = [receipts.write(answer, NAMES, KEY, layout) for answer in answers]
    return receipts.total(words, NAMES, layout, "t", 3, KEY)


SIZES = [{"small": 1.0, "large": 1.0, "other": 1.0}, {"small": 1e-3, "large": 2e11, "other": 1.0}]


@pytest.mark.parametrize("sizes", SIZES, ids=["alike", "a column × 1000"])
@pytest.mark.parametrize("n_sites", [2, 5, 20])
def test_sums_pass_and_nothing_else_does(n_sites, sizes):
    answers = parts(n_sites, sizes)
    honest = {name: sum(answer[name] for answer in answers) for name in NAMES}
    receipt = receipt_of(answers)
    assert receipts.fits(receipt, honest, NAMES)
    for name in NAMES:
        for place in range(honest[name].size):
            lied = {key: total.copy() for key, total in honest.items()}
            lied[name].flat[place] += 1e-6 * sizes[name]
            assert not receipts.fits(receipt, lied, NAMES)


def test_sums_that_cancel():
    """Large parts with a tiny sum: rounding is allowed for, no more."""
    answers = parts(2, SIZES[0])
    for name in NAMES:
        answers[1][name] = 1e-9 - answers[0][name]
    honest = {name: sum(answer[name] for answer in answers) for name in NAMES}
    receipt = receipt_of(answers)
    assert receipts.fits(receipt, honest, NAMES)
    assert not receipts.fits(receipt, honest | {"small": honest["small"] + 1e-7}, NAMES)


def test_another_key_another_receipt():
    (answer,) = parts(1, SIZES[0])
    one, two = (receipts.combine(answer, NAMES, key) for key in (b"a" * 32, b"b" * 32))
    assert (np.abs(one - two)[:, : receipts.ROWS] > 1e-3).all()
