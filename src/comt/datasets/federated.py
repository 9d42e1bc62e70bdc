"""A data set spread over agents, together with the truth behind its bugs.

The truth (clean rows, masks of what is wrong) is for oracles and for scoring repairs; no method trains on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# The one import of `baselines` here: a simulated agent looks the same to every competitor and benchmark.
from comt.baselines.base import AgentRows
from comt.datasets._types import Array, Mask, Task

__all__ = ["AgentRows", "FederatedData", "Pooled"]


class Pooled(NamedTuple):
    """All rows in one table, as ``fit(X, y, agents=..., trusted=...)`` takes them."""

    X: Array
    y: Array
    agents: NDArray[np.str_]
    trusted: Mask


@dataclass(frozen=True, eq=False)
class FederatedData:
    """Agents with buggy and trusted rows, test rows, and the truth behind every buggy row."""

    agents: tuple[AgentRows, ...]
    test_features: Array
    test_targets: Array
    task: Task
    feature_names: tuple[str, ...]
    # one entry per agent, aligned with its buggy rows
    clean_features: tuple[Array, ...]
    clean_targets: tuple[Array, ...]
    wrong_cells: tuple[Mask, ...]  # n_k x d
    wrong_targets: tuple[Mask, ...]  # n_k
    description: str
    seed: int
    malicious: int | None = None  # index of the agent that lies on purpose

    @property
    def wrong_rows(self) -> tuple[Mask, ...]:
        """Return, per agent, which buggy rows have a wrong cell or a wrong target."""
        return tuple(c.any(axis=1) | t for c, t in zip(self.wrong_cells, self.wrong_targets, strict=True))

    def pooled(self) -> Pooled:
        """Return every row, agent by agent, each agent's buggy rows before its trusted ones."""
        blocks = [
            block
            for a in self.agents
            for block in ((a, a.features, a.targets, False), (a, a.trusted_features, a.trusted_targets, True))
        ]
        sizes = [len(targets) for _, _, targets, _ in blocks]
        return Pooled(
            X=np.concatenate([features for _, features, _, _ in blocks]),
            y=np.concatenate([targets for _, _, targets, _ in blocks]),
            agents=np.repeat(np.array([agent.name for agent, _, _, _ in blocks]), sizes),
            trusted=np.repeat(np.array([trusted for _, _, _, trusted in blocks]), sizes),
        )

    def pooled_wrong(self) -> Mask:
        """Return which rows of ``pooled()`` are wrong; a trusted row never is."""
        return np.concatenate(
            [
                np.concatenate([wrong, np.zeros(len(agent.trusted_targets), dtype=np.bool_)])
                for agent, wrong in zip(self.agents, self.wrong_rows, strict=True)
            ]
        )

    def clean(self) -> FederatedData:
        """Return the same federation without its bugs: what an oracle trains on."""
        agents = tuple(
            replace(agent, features=features, targets=targets)
            for agent, features, targets in zip(self.agents, self.clean_features, self.clean_targets, strict=True)
        )
        return replace(
            self,
            agents=agents,
            wrong_cells=tuple(np.zeros_like(mask) for mask in self.wrong_cells),
            wrong_targets=tuple(np.zeros_like(mask) for mask in self.wrong_targets),
            description=f"{self.description}; bugs removed",
            malicious=None,
        )
