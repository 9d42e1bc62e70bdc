"""How likely a row's target is: if it is right, if it is wrong, and if one cell of the row were another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from comt.problem import Array

Places = slice | NDArray[np.intp]


class Reading(Protocol):
    """What the targets of rows say; log-likelihoods."""

    @property
    def right(self) -> Array:
        """Of right targets."""

    @property
    def wrong(self) -> Array:
        """Of wrong targets."""

    def moved(self, shift: Array, variance: Array) -> Array:
        """Of right targets, were the predictions moved by ``shift`` (n × d) with that variance (d)."""

    def drawn(self, shift: Array, slope: Array, variance: Array) -> Array:
        """Return how many spreads the target draws a guess of that variance; a spread moves predictions by ``slope``."""

    def at(self, places: Places) -> Self:
        """Return the reading of some of the rows."""


@dataclass(frozen=True, eq=False)
class TargetReading:
    """Prepared targets that are ``error`` off their prediction; right ones are off by about ``size``."""

    right: Array
    wrong: Array
    error: Array
    size: float

    def moved(self, shift: Array, variance: Array) -> Array:
        """Return the log-likelihood of being right after a move."""
        total = self.size**2 + variance
        density: Array = -0.5 * ((self.error[:, None] - shift) ** 2 / total + np.log(total))
        return density

    def drawn(self, shift: Array, slope: Array, variance: Array) -> Array:
        """Return the best linear guess."""
        spreads: Array = slope * variance / (self.size**2 + slope**2 * variance) * (self.error - shift)
        return spreads

    def at(self, places: Places) -> Self:
        """Return the reading of some of the rows."""
        return type(self)(self.right[places], self.wrong[places], self.error[places], self.size)


@dataclass(frozen=True, eq=False)
class LabelReading:
    """Labels ±1 and the log-odds of +1."""

    given: Array
    logits: Array

    @property
    def right(self) -> Array:
        """Of right labels."""
        return np.asarray(log_expit(self.given * self.logits))

    @property
    def wrong(self) -> Array:
        """Of wrong labels."""
        return np.asarray(log_expit(-self.given * self.logits))

    def moved(self, shift: Array, variance: Array) -> Array:
        """Return the log-likelihood of being right after a move; an uncertain move softens the odds."""
        softened = (self.logits[:, None] + shift) / np.sqrt(1.0 + np.pi / 8.0 * variance)
        return np.asarray(log_expit(self.given[:, None] * softened))

    def drawn(self, shift: Array, slope: Array, variance: Array) -> Array:
        """A label says too little of a cell to draw it."""
        return np.zeros_like(shift)

    def at(self, places: Places) -> Self:
        """Return the reading of some of the rows."""
        return type(self)(self.given[places], self.logits[places])
