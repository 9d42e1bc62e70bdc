"""What agents are told so that each can judge its own rows: a few sums over the federation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from comt.federation.base import Federation
from comt.issue_context import IssueContext
from comt.losses import LossName
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import MomentsByAgent, RankCounts, ResidualScale, rank_middles
from comt.server.label_models import label_models
from comt.server.scaling import center_and_scale

#: wider rows get no moments: a d × d sum would be larger than what it is good for here
MAX_MOMENTS_WIDTH = 512


def gather_context(
    federation: Federation,
    preparation: Preparation,
    theta: Array,
    loss_name: LossName,
    classes: tuple[Any, Any] | None = None,
) -> IssueContext:
    """Ask for what is needed to judge rows under the model θ; ``federation`` must be open."""
    n_features = len(preparation.center)
    center, scale = preparation.center, preparation.scale
    if bool((scale == 1.0).all()):  # rows were not scaled for the training: the columns' own units are still unknown
        center, scale = center_and_scale(federation, n_features)
    agents = federation.agents
    common: dict[str, Any] = {"loss_name": loss_name, "preparation": preparation}
    errors = federation.sum(ResidualScale(**common, theta=theta))
    rows = float(errors["trusted_rows"])
    variance = columns = None
    if preparation.width <= MAX_MOMENTS_WIDTH:
        moments = federation.sum(MomentsByAgent(**common, agents=agents, n_folds=1))
        columns = moments["trusted_columns"][:n_features]
        variance = _variance(moments["trusted"][0], rows, columns)
    context = IssueContext(
        loss_name=loss_name,
        classes=classes,
        center=center,
        scale=scale,
        trusted_rows=rows,
        trusted_error_sq=float(errors["trusted"]),
        trusted_columns=columns,
        trusted_variance=variance,
    )
    if loss_name == "squared":
        return replace(context, trusted_counts=_trusted_errors(federation, common, theta))
    narrow = preparation.width <= MAX_MOMENTS_WIDTH
    return replace(context, label_models=label_models(federation, common, theta, refit=narrow))


def _trusted_errors(federation: Federation, common: dict[str, Any], theta: Array) -> Array:
    """Return how many trusted rows have an |e| in each bin of the grid of ranks."""
    agents = federation.agents
    ranks = federation.sum(
        RankCounts(
            **common,
            agents=agents,
            theta=theta[None],
            towards=np.zeros((1, len(theta))),
            weights=np.zeros((1, len(agents))),
            fold=np.array([-1]),
            n_folds=1,
        )
    )
    counts: Array = ranks["trusted"][0, 0]
    return counts


def _variance(joint: Array, rows: float, columns: Array) -> Array | None:
    """Return the variance of every column over the trusted rows; their means are read off the histograms."""
    if rows < 2:
        return None
    middle = rank_middles()
    mean = columns @ middle / rows
    variance: Array = np.maximum(np.diag(joint)[: len(columns)] - rows * mean**2, 0.0) / (rows - 1.0)
    return variance
