"""CoMT as it comes, every parameter chosen by the trusted rows, as one more method of the experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from comt.baselines.base import AgentRows, Array, Baseline, LinearModel, Task
from comt.bench.methods import BOTH, local_federation
from comt.preparation import Preparation
from comt.server.auto import choose


@dataclass(frozen=True)
class PreparedModel(LinearModel):
    """A model that compresses heavy tails before it multiplies."""

    preparation: Preparation | None = None
    #: what a raw target of zero is in the units of the rows
    target_zero: float = 0.0

    def predict(self, features: Array) -> Array:
        """Return the prediction, or the score."""
        assert self.preparation is not None
        inside = features[:, : len(self.preparation.center)]
        return self.preparation.predict(inside, self.coef, self.coef, 0.0) + self.target_zero


@dataclass(frozen=True)
class Automatic(Baseline):
    """Nothing to set: see :mod:`comt.server.auto`. Rows come scaled, with a constant column at the end or none.

    Raw targets have their own zero, which signs and units act about; as in an estimator's training it is known.
    """

    name: ClassVar[str] = "CoMT (auto)"
    tasks: ClassVar[frozenset[Task]] = BOTH
    sends: ClassVar[str] = "sums over rows, some agent by agent, in 20 to 60 rounds; no row"

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Choose a model over a local federation of the agents."""
        last = agents[0].features[:, -1]
        constant = float(last[0]) if np.ptp(last) == 0 else 0.0
        width = agents[0].features.shape[1] - (constant != 0)
        zero = agents[0].target_zero
        rows = [
            replace(
                a,
                features=a.features[:, :width],
                targets=a.targets - zero,
                trusted_features=a.trusted_features[:, :width],
                trusted_targets=a.trusted_targets - zero,
            )
            for a in agents
        ]
        preparation = replace(Preparation.identity(width, constant), target_center=-zero).tamed()
        federation = local_federation(rows)
        with federation.open():
            choice = choose(federation, preparation, "squared" if task == "regression" else "logistic")
        return PreparedModel(
            choice.theta, found={"rounds": federation.rounds}, preparation=choice.preparation, target_zero=zero
        )
