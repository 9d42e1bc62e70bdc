"""Shamir's secret sharing of bytes over GF(256): any ``threshold`` shares give the secret, fewer say nothing about it.

Every byte is shared by a polynomial of its own, p(0) the secret byte, all other coefficients random; holder i gets p(i). At
most 255 holders. Whole tables of secrets are shared at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
MAX_HOLDERS = 255


def _tables() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return powers of the generator 3 modulo x⁸ + x⁴ + x³ + x + 1, and logarithms."""
    powers, logs = np.zeros(510, dtype=np.uint8), np.zeros(256, dtype=np.int64)
    value = 1
    for exponent in range(255):
        powers[exponent] = powers[exponent + 255] = value
        logs[value] = exponent
        value ^= value << 1
        if value & 0x100:
            value ^= 0x11B
    return powers, logs


_POWERS, _LOGS = _tables()


def _times(values: Bytes, factor: int) -> Bytes:
    if factor == 0:
        return np.zeros_like(values)
    product: Bytes = _POWERS[_LOGS[values] + _LOGS[factor]]
    product[values == 0] = 0
    return product


def _inverse(value: int) -> int:
    return int(_POWERS[255 - _LOGS[value]])


def share(secret: Bytes, threshold: int, holders: int) -> list[Bytes]:
    """Return one share per holder; holder number i (from 1) gets the polynomial's value at i."""
    if not 1 <= threshold <= holders <= MAX_HOLDERS:
        raise ValueError(f"{threshold} of {holders} holders is not possible; at most {MAX_HOLDERS} can hold shares")
    random = np.frombuffer(secrets.token_bytes(secret.size * (threshold - 1)), dtype=np.uint8)
    coefficients = random.reshape(threshold - 1, *secret.shape)
    shares = []
    for point in range(1, holders + 1):
        value = np.zeros_like(secret)
        for coefficient in coefficients:
            value = _times(value ^ coefficient, point)
        shares.append(value ^ secret)
    return shares


def recover(shares: Mapping[int, Bytes]) -> Bytes:
    """Return the secret from shares by holder number; exactly ``threshold`` of them suffice."""
    points = sorted(shares)
    total = np.zeros_like(shares[points[0]])
    for point in points:
        weight = 1
        for other in points:
            if other != point:
                ratio = _LOGS[other] + _LOGS[_inverse(other ^ point)]
                weight = int(_POWERS[(_LOGS[weight] + ratio) % 255])
        total ^= _times(shares[point], weight)
    return total
