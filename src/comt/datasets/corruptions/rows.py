"""Wrong rows in number: one wrong row many times, and several kinds of error at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comt.datasets.corruptions.agents import WrongAgents
from comt.datasets.corruptions.base import Corruption, Draft, draw_rows, require_share
from comt.datasets.corruptions.labels import LabelFlips
from comt.datasets.corruptions.noise import GaussianNoise
from comt.datasets.corruptions.targets import centre


@dataclass(frozen=True)
class DuplicatedRows(Corruption):
    """One row with a wrong target fills a share of every agent's rows.

    The copies overwrite other rows instead of being appended: each keeps the clean row it should have been.
    """

    fraction: float = 0.2
    distance: float = 3.0  # of a wrong regression target from the mean, in standard deviations

    def __post_init__(self) -> None:
        require_share("fraction", self.fraction)

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        return f"one row with a wrong target fills {self.fraction:.0%} of the rows of each agent"

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Make one row wrong and copy it, at every agent."""
        middle, spread = centre(draft), float(np.concatenate(draft.targets).std())
        for x, y in zip(draft.features, draft.targets, strict=True):
            rows = draw_rows(len(y), self.fraction, rng)
            if len(rows) == 0:
                continue
            source = rows[0]
            if draft.task == "classification":
                wrong = -y[source]
            else:
                # on the other side of the mean, far enough to be wrong wherever the row was
                side = -1.0 if y[source] > middle else 1.0
                wrong = middle + side * self.distance * spread
            x[rows], y[rows] = x[source], wrong


@dataclass(frozen=True)
class Mixed(Corruption):
    """Noisy features everywhere, noisy targets or flipped labels everywhere, and one agent wholly wrong."""

    theta: float = 0.6
    flips: float = 0.2
    agents: int | tuple[int, ...] = 1

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        which = f"{self.agents}" if isinstance(self.agents, int) else f"{len(self.agents)}"
        return (
            f"feature noise {self.theta:g}, target noise {self.theta:g} or {self.flips:.0%} flips, "
            f"and {which} wholly wrong agent(s)"
        )

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Apply the three in turn."""
        if draft.task == "classification":
            GaussianNoise(self.theta, 0.0).change(draft, rng)
            LabelFlips(self.flips).change(draft, rng)
        else:
            GaussianNoise(self.theta, self.theta).change(draft, rng)
        WrongAgents(self.agents).change(draft, rng)
