"""Wrong regression targets: reversed, shifted, or in another unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comt.datasets._types import Task
from comt.datasets.corruptions.base import (
    REGRESSION,
    Corruption,
    Draft,
    draw_agents,
    draw_rows,
    require_share,
)


def centre(draft: Draft) -> float:
    """Return the point about which targets are negated: 0 for labels, the mean over all agents otherwise.

    Negated about 0, targets that are all positive (CPUSMALL: mean 84) would betray themselves by their sign.
    """
    return 0.0 if draft.task == "classification" else float(np.concatenate(draft.targets).mean())


@dataclass(frozen=True)
class NegatedTargets(Corruption):
    """Some targets are reversed about the mean."""

    fraction: float = 0.5

    def __post_init__(self) -> None:
        require_share("fraction", self.fraction)

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        return f"{self.fraction:.0%} of the targets negated about their mean"

    @property
    def tasks(self) -> frozenset[Task]:
        """Return regression; for labels this is a flip."""
        return REGRESSION

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Reverse targets at every agent."""
        middle = centre(draft)
        for y in draft.targets:
            rows = draw_rows(len(y), self.fraction, rng)
            y[rows] = 2 * middle - y[rows]


@dataclass(frozen=True)
class ShiftedTargets(Corruption):
    """All targets of some agents are too large by the same amount."""

    shift: float = 2.0  # in standard deviations of the targets
    agents: int | tuple[int, ...] = 2

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        which = f"{self.agents} agents" if isinstance(self.agents, int) else f"agents {self.agents}"
        return f"all targets of {which} shifted by {self.shift:g} standard deviations"

    @property
    def tasks(self) -> frozenset[Task]:
        """Return regression."""
        return REGRESSION

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Shift whole agents."""
        amount = self.shift * float(np.concatenate(draft.targets).std())
        for k in draw_agents(self.agents, len(draft.targets), rng):
            draft.targets[k] += amount


@dataclass(frozen=True)
class ScaledTargets(Corruption):
    """Some targets are written in another unit, at every agent or at some."""

    fraction: float = 0.3
    factor: float = 10.0
    agents: int | tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        require_share("fraction", self.fraction)

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        where = "" if self.agents is None else " at some agents"
        return f"{self.fraction:.0%} of the targets multiplied by {self.factor:g}{where}"

    @property
    def tasks(self) -> frozenset[Task]:
        """Return regression."""
        return REGRESSION

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Multiply targets."""
        n_agents = len(draft.targets)
        for k in range(n_agents) if self.agents is None else draw_agents(self.agents, n_agents, rng):
            y = draft.targets[k]
            y[draw_rows(len(y), self.fraction, rng)] *= self.factor
