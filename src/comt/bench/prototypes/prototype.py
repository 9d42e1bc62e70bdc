"""Both recipes as one method of the experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from comt.baselines.base import AgentRows, Array, Baseline, LinearModel, Task
from comt.bench.prototypes import classification, regression


@dataclass(frozen=True)
class TamedModel(LinearModel):
    """A linear model of features whose far-out values were drawn in; it draws in those of the rows it predicts."""

    tame: Callable[[Array], Array] = np.asarray

    def predict(self, features: Array) -> Array:
        """Return the prediction, or the score."""
        return np.asarray(self.tame(features[:, : len(self.coef)]) @ self.coef + self.intercept)


@dataclass(frozen=True)
class Prototype(Baseline):
    """Nothing to set. Rows come scaled by median and IQR/1.349, the recipes' own scaling, with a constant column or none.

    The constant column is replaced by an intercept, which both recipes treat apart from the features.
    """

    name: ClassVar[str] = "Prototype recipes"
    tasks: ClassVar[frozenset[Task]] = frozenset({"regression", "classification"})
    sends: ClassVar[str] = "all rows to one place: a reference, not a federated method"

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Follow the recipe of the task on the rows of all agents."""
        recipe = regression if task == "regression" else classification
        last = agents[0].features[:, -1]
        width = agents[0].features.shape[1] - int(np.ptp(last) == 0)

        def ready(features: Array) -> Array:
            return np.column_stack([recipe.tame(features[:, :width]), np.ones(len(features))])

        rows = [
            replace(agent, features=ready(agent.features), trusted_features=ready(agent.trusted_features))
            for agent in agents
        ]
        theta, found = recipe.choose(rows)
        return TamedModel(theta[:-1], float(theta[-1]), found=found, tame=recipe.tame)
