"""The one interface of all baselines.

Baselines are *simulations*: they run in one process and see the rows of every agent. What a real deployment of
the method would send is written in each class's ``sends``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Task = Literal["regression", "classification"]


@dataclass(frozen=True)
class AgentRows:
    """One agent's rows: buggy ones, and the few trusted ones. Labels are -1 and +1."""

    name: str
    features: Array  # n_k x d
    targets: Array  # n_k
    trusted_features: Array  # m_k x d, m_k may be 0
    trusted_targets: Array  # m_k
    #: what a raw target of zero is in these units: signs and units act about it
    target_zero: float = 0.0


@dataclass(frozen=True)
class LinearModel:
    """What every baseline ends with: scores are ``features @ coef + intercept``."""

    coef: Array
    intercept: float = 0.0
    # what a method found besides its model: ranks, repaired targets, weights per agent, ...
    found: dict[str, Any] = field(default_factory=dict)

    def predict(self, features: Array) -> Array:
        """Return the regression prediction, or the score whose sign is the class."""
        return features @ self.coef + self.intercept


class Baseline(ABC):
    """A competitor: dataclass-like parameters, ``fit`` on all agents' rows."""

    name: ClassVar[str]
    tasks: ClassVar[frozenset[Task]]
    sends: ClassVar[str]  # what would travel in a real federation, and how often

    @abstractmethod
    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Train on the agents' rows and return the joint model."""

    def fit_path(self, agents: Sequence[AgentRows], task: Task) -> list[LinearModel]:
        """Return the models of all settings that one training passes through: a single one, unless a method follows a path."""
        return [self.fit(agents, task)]


def pooled(agents: Sequence[AgentRows]) -> tuple[Array, Array, Array, Array]:
    """Return features, targets, trusted features and trusted targets of all agents together."""
    return (
        np.concatenate([a.features for a in agents]),
        np.concatenate([a.targets for a in agents]),
        np.concatenate([a.trusted_features for a in agents]),
        np.concatenate([a.trusted_targets for a in agents]),
    )
