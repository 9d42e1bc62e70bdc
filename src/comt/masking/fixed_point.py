"""Numbers as integers of 128 bits, so that masks hide them completely and sums do not depend on their order.

A number x becomes the integer X = round(x · 2^s) modulo 2^128, kept in two 64-bit words; s is public, one per array.

**Error bound.** For K summands the decoded sum differs from the sum of the x_k by at most

    (K/2) · 2^−s  +  2^−51 · |Σ x_k|

*Proof.* x · 2^s is exact in binary floating point (a product that underflows is below one half and rounds to 0), so
each X_k is off by at most 1/2: together K/2 steps of 2^−s. An encoder refuses |x| · 2^s ≥ 2^126/K; hence |Σ X_k| < 2^126
and addition modulo 2^128 is addition of integers: exact, in any order, never wrapped around. Decoding
rounds three times, each by at most 2^−53 of the result.
With the default s = 64 the step is 5.4e−20 and numbers up to 2^62/K = 4.6e18/K pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comt.errors import ProtocolError, RangeError
from comt.problem import Array

#: a vector of 128-bit integers: row 0 the low words, row 1 the high ones
Words = NDArray[np.uint64]
Shapes = Mapping[str, tuple[int, ...]]

DEFAULT_SCALE = 64
#: how much coarser the step becomes when a number does not fit; never finer than the default, because with a fine scale
#: the refusal of what does not fit would measure ordinary numbers
COARSER = 16
SCALES = (-960, DEFAULT_SCALE)
#: matrices that are symmetric by what they mean: their lower half need not travel
SYMMETRIC = ("weight_xx", "trusted_bend")
_WORD, _HALF = 2.0**64, 2.0**63
_LIMIT = 2.0**126


class Layout:
    """How the arrays of an answer lie in one vector, and the scale of each; of symmetric matrices, one half lies there."""

    def __init__(self, shapes: Shapes, scales: Mapping[str, int], terms: int) -> None:
        self.shapes = dict(shapes)
        self.halves = {
            name: _half(shape[-1]) for name, shape in self.shapes.items() if name in SYMMETRIC and len(shape) == 3
        }
        self.sizes = {
            name: shape[0] * len(self.halves[name].there) if name in self.halves else prod(shape)
            for name, shape in shapes.items()
        }
        self.length = sum(self.sizes.values())
        self.scales = {name: scales.get(name, DEFAULT_SCALE) for name in self.shapes}
        #: by what to multiply, if it is the same for all arrays
        self.common = 2.0**DEFAULT_SCALE if not scales else None
        self.terms = terms
        wrong = [s for s in self.scales.values() if not SCALES[0] <= s <= SCALES[1]]
        if wrong or terms < 1 or not set(scales) <= set(self.shapes):
            raise ProtocolError(
                f"the scales {dict(scales)} for {terms} summands are out of range; update the coordinator."
            )

    def encode(self, arrays: Mapping[str, Array]) -> Words:
        """Return all arrays as one vector of integers; refuse a number that could wrap around."""
        values = np.empty(self.length)
        for name, part in self._split(values):
            if name in self.halves:
                matrices = arrays[name].reshape(self.shapes[name][0], -1)
                for matrix, half in zip(matrices, part.reshape(len(matrices), -1), strict=True):
                    matrix.take(self.halves[name].there, out=half, mode="clip")  # "raise" would copy once more
            else:
                part[:] = arrays[name].ravel()
        with np.errstate(over="ignore"):  # what overflows is refused below
            if self.common is not None:
                values *= self.common
            else:
                for name, part in self._split(values):
                    np.ldexp(part, self.scales[name], out=part)
        if values.size and not max(values.max(), -values.min()) < _LIMIT / self.terms:  # also so with NaN
            for name, part in self._split(values):
                if not np.isfinite(arrays[name]).all():
                    raise ProtocolError(
                        f"'{name}' holds values that are not finite; check the rows for values too large to square."
                    )
                if not (np.abs(part) < _LIMIT / self.terms).all():
                    raise RangeError(
                        f"'{name}' holds numbers too large for its scale of 2^{self.scales[name]}; ask with a smaller one.",
                        array=name,
                    )
        return _words(values)

    def decode(self, words: Words) -> dict[str, Array]:
        """Return the arrays; refuse sums that no honest encoders can have made."""
        values = _numbers(words)
        arrays: dict[str, Array] = {}
        for name, part in self._split(values):
            if part.size and not max(part.max(), -part.min()) < _LIMIT:
                raise ProtocolError(
                    f"the sum of '{name}' is out of range, so a site did not send what it should; train without that site."
                )
            np.ldexp(part, -self.scales[name], out=part)
            shape = self.shapes[name]
            if name in self.halves:
                part = part.reshape(shape[0], -1).take(self.halves[name].back, axis=1)
            arrays[name] = part.reshape(shape)
        return arrays

    def _split(self, values: Array) -> Iterator[tuple[str, Array]]:
        start = 0
        for name, size in self.sizes.items():
            yield name, values[start : start + size]
            start += size


def layout_of(shapes: Shapes, scales: Mapping[str, int], terms: int) -> Layout:
    """Return the layout of an answer; rounds of one training ask alike, so the last few are kept."""
    return _layout(tuple(shapes.items()), tuple(sorted(scales.items())), terms)


@lru_cache(maxsize=16)
def _layout(shapes: tuple[tuple[str, tuple[int, ...]], ...], scales: tuple[tuple[str, int], ...], terms: int) -> Layout:
    return Layout(dict(shapes), dict(scales), terms)


class Half(NamedTuple):
    """Where the upper half of a square matrix lies in its flat form, and where in the half each of its entries lies."""

    there: NDArray[np.intp]
    back: NDArray[np.intp]


@cache
def _half(width: int) -> Half:
    there = np.flatnonzero(np.triu(np.ones((width, width), dtype=bool)))
    back = np.empty((width, width), dtype=np.intp)
    back.flat[there] = back.T.flat[there] = np.arange(len(there))
    return Half(there, back.ravel())


def _words(scaled: Array) -> Words:
    np.rint(scaled, out=scaled)
    high = scaled * (1.0 / _WORD)
    np.rint(high, out=high)
    low = scaled
    # exact: below 2^63 nothing is taken away, from there on a double is a multiple of 2^11
    low -= high * _WORD
    edge = low == _HALF
    if edge.any():
        low[edge] -= _WORD
        high[edge] += 1.0
    words = np.empty((2, len(scaled)), dtype=np.uint64)
    signed = words.view(np.int64)
    signed[0] = low
    signed[1] = high
    signed[1] += signed[0] >> 63  # a negative low word has borrowed
    return words


def _numbers(words: Words) -> Array:
    low, high = words[0].view(np.int64), words[1].view(np.int64)
    # the low word counts as signed, with its carry in the high one: then nothing cancels between the two
    numbers: Array = low + (high - (low >> 63)) * _WORD
    return numbers


def accumulate(total: Words, terms: Iterable[tuple[Words, int]]) -> None:
    """Add (sign 1) and subtract (sign −1) many vectors in place, modulo 2^128.

    Carries from the low to the high words are counted and added once, at the end. A term is used up before the next one is
    asked for, so that all may come in the same buffer.
    """
    low = total[0]
    over = np.empty(low.shape, dtype=bool)
    carries = np.zeros(low.shape, dtype=np.int16)  # enough for 32,767 terms
    for words, sign in terms:
        if sign > 0:
            np.add(total, words, out=total)
            np.less(low, words[0], out=over)
            np.add(carries, over, out=carries)
        else:
            np.less(low, words[0], out=over)
            np.subtract(total, words, out=total)
            np.subtract(carries, over.view(np.int8), out=carries)
    high = total[1].view(np.int64)
    np.add(high, carries, out=high)
