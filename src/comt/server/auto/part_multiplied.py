"""Rows of which part have targets in another unit: what follows for the model, whichever part is the right one."""

from __future__ import annotations

from dataclasses import dataclass

from comt.preparation import Preparation
from comt.problem import Array
from comt.server.auto.mixtures import Mixtures

#: smallest factor that is no matter of taste
SMALLEST = 2.0


@dataclass(frozen=True)
class Multiplied:
    """One of the two parts is right: the model it follows, and what the unverified rows say about its errors."""

    name: str
    theta: Array
    #: squared error of a row
    error: float
    #: how many of the unverified rows are of this part
    share: float


def part_multiplied(preparation: Preparation, mixtures: Mixtures) -> list[Multiplied]:
    """Return both readings if the rows clearly speak for two units, none otherwise."""
    found = mixtures.multiplied
    if found.factor < SMALLEST or not mixtures.stands_out(found, mixtures.uneven):
        return []
    told = f"{found.factor:.3g}"
    return [
        Multiplied(f"unverified rows, part of the targets divided by {told}", found.theta, found.noise, found.share),
        Multiplied(
            f"unverified rows, part of the targets times {told}",
            preparation.multiplied(found.theta, found.factor),
            found.noise * found.factor**2,
            1.0 - found.share,
        ),
    ]
