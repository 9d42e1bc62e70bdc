"""The paper's noise: Gaussian, in units of the averaged magnitude of what it is added to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from comt.datasets._types import Array, Task
from comt.datasets.corruptions.base import BOTH, REGRESSION, Corruption, Draft
from comt.errors import InputError

# The paper calls epsilon an average and writes a sum (erratum E12): on d columns they differ by the factor d.
Reading = Literal["mean", "sum"]


def magnitude(parts: Sequence[Array], reading: Reading = "mean") -> float:
    """Return epsilon of all agents' values: the mean of |entry|, or the mean over rows of the L1 norm."""
    total = sum(float(np.abs(part).sum()) for part in parts)
    count = sum(part.size if reading == "mean" else len(part) for part in parts)
    return total / count if count else 0.0


@dataclass(frozen=True)
class GaussianNoise(Corruption):
    """x + zeta * epsilon * theta with standard normal zeta, for features, targets or both."""

    theta_features: float = 0.6
    theta_targets: float = 0.6
    reading: Reading = "mean"

    def __post_init__(self) -> None:
        if min(self.theta_features, self.theta_targets) < 0:
            raise InputError(
                f"theta is {self.theta_features} for features and {self.theta_targets} for targets; give 0 or more."
            )
        if self.reading not in ("mean", "sum"):
            raise InputError(f"reading is {self.reading!r}; choose 'mean' or 'sum'.")

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        parts = [
            f"{theta:g} on all {what}"
            for what, theta in (("features", self.theta_features), ("targets", self.theta_targets))
            if theta
        ]
        return f"Gaussian noise of theta {' and '.join(parts) or '0'} (epsilon: {self.reading})"

    @property
    def tasks(self) -> frozenset[Task]:
        """Return both tasks, unless targets are noisy: a noisy label is no label."""
        return REGRESSION if self.theta_targets else BOTH

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Add the noise."""
        add_noise(draft.features, self.theta_features, self.reading, rng)
        add_noise(draft.targets, self.theta_targets, self.reading, rng)


def add_noise(parts: list[Array], theta: float, reading: Reading, rng: np.random.Generator) -> None:
    """Add noise to every entry of every part, at one scale for all agents."""
    if theta == 0:
        return
    scale = magnitude(parts, reading) * theta
    for part in parts:
        part += scale * rng.standard_normal(part.shape)
