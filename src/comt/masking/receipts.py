"""Receipts: how sites check that the sums a coordinator shows are the sums they have opened, without seeing any site's own.

With every masked answer x_k a site tells the others, sealed from the coordinator, a few numbers C·x_k (and how large x_k is),
under pair masks of their own: only the sum over sites, C·Σx_k, can be read. The random matrix C follows from a secret that
the sites share and the coordinator does not know, another one in every round. Shown sums s pass if C·s is C·Σx_k up to
rounding: a wrong entry passes one row of C with a probability of about 2^−16, all of them with 2^−128.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from comt.masking import seeds
from comt.masking.fixed_point import Layout, Words, accumulate, layout_of
from comt.problem import Array

ROWS = 8
#: rounding of sums in floating point, relative to the sum of magnitudes
ROUNDING = 2.0**-40


@dataclass(frozen=True)
class Receipt:
    """The receipt of one round: C by its key, and C·Σx_k, for arrays in the order of their names."""

    training: str
    round: int
    key: bytes
    totals: Array  # (arrays, ROWS + 1)
    step: float  # of its numbers, for all sites together


def combine(arrays: Mapping[str, Array], names: Sequence[str], key: bytes) -> Array:
    """Return C·x and Σ|x| of every array."""
    found = np.empty((len(names), ROWS + 1))
    for line, name in zip(found, names, strict=True):
        values = arrays[name].ravel()
        drawn = seeds.stream(seeds.derive(key, name.encode()), 2 * ROWS * values.size)
        line[:ROWS] = np.frombuffer(drawn, dtype="<i2").reshape(ROWS, -1) @ values / 2.0**15
        line[ROWS] = np.abs(values).sum()
    return found


def _form(names: Sequence[str], arrays: Layout) -> Layout:
    # a sum of that many entries, none of which is beyond its own range, is not beyond the receipt's
    room = max(prod(arrays.shapes[name]) for name in names).bit_length()
    scale = min(arrays.scales[name] for name in names) - room
    return layout_of({"receipt": (len(names), ROWS + 1)}, {"receipt": scale}, arrays.terms)


def write(arrays: Mapping[str, Array], names: Sequence[str], key: bytes, layout: Layout) -> Words:
    """Return the receipt of an answer that travels in a layout; before it leaves, pair masks are added."""
    return _form(names, layout).encode({"receipt": combine(arrays, names, key)})


def total(
    parts: Sequence[Words], names: Sequence[str], layout: Layout, training: str, round_number: int, key: bytes
) -> Receipt:
    """Return the receipt of a sum from those of all sites, in which pair masks cancel."""
    form, words = _form(names, layout), np.zeros_like(parts[0])
    accumulate(words, ((part, 1) for part in parts))
    step = layout.terms * 2.0 ** -form.scales["receipt"]
    return Receipt(training, round_number, key, form.decode(words)["receipt"], step)


def fits(receipt: Receipt, shown: Mapping[str, Array], names: Sequence[str]) -> bool:
    """Whether shown sums are those of the receipt."""
    found = combine(shown, names, receipt.key)
    allowed = ROUNDING * receipt.totals[:, ROWS:] + receipt.step
    return bool((np.abs(found - receipt.totals)[:, :ROWS] <= allowed).all())
