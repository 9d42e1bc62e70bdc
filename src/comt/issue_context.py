"""What a data holder is told so that it can judge its own rows: public facts, every one a sum over the federation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from comt.losses import LossName
from comt.problem import Array


@dataclass(frozen=True, eq=False)
class LabelModel:
    """One model that labels are judged by, how its score is to be corrected, and how much its verdict counts."""

    theta: Array
    #: P(right label is +1) = σ(slope·x·θ + shift)
    slope: float
    shift: float
    #: every agent's flip rates of right +1 and right −1
    flips: Mapping[str, tuple[float, float]]
    weight: float = 1.0
    #: how uncertain θ is; None: as good as known
    covariance: Array | None = None

    def plain(self, features: Array) -> Array:
        """Return the log-odds of +1 of prepared rows as if the model were known."""
        logits: Array = self.slope * (features @ self.theta) + self.shift
        return logits

    def logits(self, features: Array) -> Array:
        """Return the log-odds of +1 of prepared rows; those of an uncertain model are averaged over what it may be."""
        logits = self.plain(features)
        if self.covariance is None:
            return logits
        variance = self.slope**2 * np.einsum("ij,ij->i", features @ self.covariance, features)
        softened: Array = logits / np.sqrt(1.0 + np.pi / 8.0 * variance)
        return softened


@dataclass(frozen=True, eq=False)
class IssueContext:
    """Facts about columns and trusted rows of the whole federation, in prepared units unless said otherwise."""

    loss_name: LossName
    #: the two labels, the positive one last; None for regression
    classes: tuple[Any, Any] | None
    #: median and spread of every column in raw units (a spread of infinity: the column is constant)
    center: Array
    scale: Array
    trusted_rows: float
    #: Σ e² over the trusted rows under the model (regression)
    trusted_error_sq: float
    #: how many trusted rows fall into each bin of the grid of ranks, per column; None where rows are too wide for it
    trusted_columns: Array | None
    #: variance of every column over the trusted rows; None where unknown
    trusted_variance: Array | None
    #: how many trusted rows have an |e| in each bin of the grid of ranks (regression)
    trusted_counts: Array = field(default_factory=lambda: np.zeros(0))
    #: what labels are judged by (classification)
    label_models: tuple[LabelModel, ...] = ()

    @property
    def main_label_model(self) -> LabelModel:
        """The label model that counts most."""
        return max(self.label_models, key=lambda model: model.weight)

    def trusted_share_beyond(self, edges: Array) -> Array:
        """Return, at every edge of the grid of ranks, an upper guess of the share of right rows beyond it.

        Half a row is added: that no trusted row lies beyond does not show that no right row does.
        """
        beyond = self.trusted_counts[::-1].cumsum()[::-1][1:]
        share: Array = np.minimum((beyond + 0.5) / (self.trusted_rows + 1.0), 1.0)
        return share[: len(edges)]
