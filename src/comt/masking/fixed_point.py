"""Numbers as pairs of 64-bit words, so that masks hide them completely and sums do not depend on their order.

A number x becomes the integer X = round(x · 2^s), split as X = H · 2^b + L with |L| ≤ 2^(b−1). L and H travel as words of 64
bits in two's complement, and words are added modulo 2^64, each by itself. s is public, one per array; b = 64 − (bits of K)
leaves room for K summands, so that no sum of low words carries into the high ones.

**Error bound.** For K summands the decoded sum differs from the sum of the x_k by at most

    (K/2) · 2^−s  +  2^−51 · |Σ x_k|

*Proof.* x · 2^s is exact in binary floating point (a product that underflows is below one half and rounds to 0), so
each X_k is off by at most 1/2: together K/2 steps of 2^−s. The split is exact: H is a rounded quotient by a power of two, and
X − H · 2^b is a multiple of the spacing of doubles at X, or X itself. |ΣL| ≤ K · 2^(b−1) < 2^63 because K < 2^(64−b); an
encoder refuses |X| ≥ 2^(62+b)/K, hence |ΣH| ≤ 2^62 + K/2 < 2^63. So addition modulo 2^64 is addition of integers: exact,
in any order, never wrapped around. Before decoding, what ΣL has beyond ±2^(b−1) moves to ΣH; then either ΣH = 0 or
|ΣH · 2^b| ≤ 2 |ΣX|, and rounding both words and their sum costs at most (1 + 2 + 1) · 2^−53 of |ΣX|.
With the default s = 64 the step is 5.4e−20 and numbers up to 2^(62 − bits of K)/K pass, 1.2e17 for five sites.
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

#: a vector of integers in two words each: row 0 the low words, row 1 the high ones
Words = NDArray[np.uint64]
Shapes = Mapping[str, tuple[int, ...]]

DEFAULT_SCALE = 64
#: how much coarser the step becomes when a number does not fit; never finer than the default, because with a fine scale
#: the refusal of what does not fit would measure ordinary numbers
COARSER = 16
SCALES = (-960, DEFAULT_SCALE)
#: matrices that are symmetric by what they mean: their lower half need not travel
SYMMETRIC = ("weight_xx", "trusted_bend")


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
        #: b, and from where on the sum of so many integers could wrap around
        self._low_bits = 64 - terms.bit_length()
        self._limit = 2.0 ** (62 + self._low_bits)
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
        if values.size and not max(values.max(), -values.min()) < self._limit / self.terms:  # also so with NaN
            for name, part in self._split(values):
                if not np.isfinite(arrays[name]).all():
                    raise ProtocolError(
                        f"'{name}' holds values that are not finite; check the rows for values too large to square."
                    )
                if not (np.abs(part) < self._limit / self.terms).all():
                    raise RangeError(
                        f"'{name}' holds numbers too large for its scale of 2^{self.scales[name]}; ask with a smaller one.",
                        array=name,
                    )
        return _words(values, self._low_bits)

    def decode(self, words: Words) -> dict[str, Array]:
        """Return the arrays; refuse sums that no honest encoders can have made."""
        values = _numbers(words, self._low_bits)
        arrays: dict[str, Array] = {}
        for name, part in self._split(values):
            if part.size and not max(part.max(), -part.min()) < self._limit:
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


def _words(scaled: Array, low_bits: int) -> Words:
    np.rint(scaled, out=scaled)
    high = scaled * 2.0**-low_bits
    np.rint(high, out=high)
    words = np.empty((2, len(scaled)), dtype=np.uint64)
    signed = words.view(np.int64)
    signed[1] = high
    high *= 2.0**low_bits
    np.subtract(scaled, high, out=scaled)  # exact, see above
    signed[0] = scaled
    return words


def _numbers(words: Words, low_bits: int) -> Array:
    low, high = words.view(np.int64)
    # what the low word has too much moves to the high one: then nothing cancels between the two
    excess = (low >> (low_bits - 1)) + 1 >> 1
    numbers: Array = (low - (excess << low_bits)) + (high + excess) * 2.0**low_bits
    return numbers


def accumulate(total: Words, terms: Iterable[tuple[Words, int]]) -> None:
    """Add (sign 1) and subtract (sign −1) many vectors in place, word by word modulo 2^64.

    A term is used up before the next one is asked for, so that all may come in the same buffer.
    """
    for words, sign in terms:
        (np.add if sign > 0 else np.subtract)(total, words, out=total)
