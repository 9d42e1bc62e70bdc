"""Whole agents that are wrong, by mistake or on purpose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comt.datasets.corruptions.base import Corruption, Draft, draw_agents, pick
from comt.datasets.corruptions.targets import centre


@dataclass(frozen=True)
class WrongAgents(Corruption):
    """Some agents have every label flipped, or every target negated about the mean."""

    agents: int | tuple[int, ...] = 3

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        which = f"{self.agents} agents" if isinstance(self.agents, int) else f"agents {self.agents}"
        return f"all labels or targets of {which} reversed"

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Reverse whole agents."""
        reverse(draft, draw_agents(self.agents, len(draft.targets), rng))


@dataclass(frozen=True)
class MaliciousAgent(Corruption):
    """One agent lies on purpose: its labels or targets are reversed, and it is marked.

    What it sends on top of that, such as a boosted update, belongs to the simulation of the aggregation.
    """

    agent: int | None = None

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        return "all labels or targets of one malicious agent reversed"

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Reverse the one agent and mark it."""
        draft.malicious = pick("agent", self.agent, len(draft.targets), rng)
        reverse(draft, [draft.malicious])


def reverse(draft: Draft, agents: list[int]) -> None:
    """Reverse all targets of the given agents about the common centre."""
    middle = centre(draft)
    for k in agents:
        draft.targets[k] = 2 * middle - draft.targets[k]
