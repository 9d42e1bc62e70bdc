"""Do labels bend where a linear score does not? Then they are vague because the matter is no straight one, not for flips.

Errors of the least-squares fit are held against products of features: Σ e z zᵀ for whitened z is the direction in which
labels bend most, and how much it explains is told without what every row adds by itself. Directions of the score, and of
what the score interacts with, are left out: mistakes that depend on a column bend labels there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import BendingSums
from comt.server.ask import sum_if_allowed
from comt.server.auto.centres import feature_spread, target_variance
from comt.server.auto.moments import Moments

#: most axes that are looked along, the widest ones
AXES = 64
#: share of the mean variance that is added to each, lest narrow axes are blown up
SHRUNK = 0.05
#: nats that chance may well bring
BY_CHANCE = 3.0


@dataclass(frozen=True)
class Bending:
    """What products of features explain of the labels beyond a linear score."""

    #: share of the labels' variance
    explained: float
    #: log likelihood gained, beyond what chance may bring
    nats: float
    #: the direction of the features (d,) along which labels follow the score less and less; None: not asked
    turns: Array | None = None


STRAIGHT = Bending(0.0, 0.0)


def bends(
    federation: Federation, preparation: Preparation, moments: Moments, thin: int, *, whole: bool = False
) -> Bending:
    """Return how far labels bend across their linear score; two exchanges. None of it if owners refuse such sums."""
    rows = max(moments.rows, 1.0)
    gram = moments.gram + 1e-6 * rows * np.eye(preparation.width)
    theta = np.asarray(np.linalg.solve(gram, moments.cross), dtype=np.float64)
    axes, along = _whitened(preparation, moments, theta)
    if len(axes) < 3 or not theta.any():
        return STRAIGHT
    asked = BendingSums(
        loss_name="logistic", preparation=preparation, theta=theta[None], axes=axes, whole=whole, thin=thin
    )
    answer = sum_if_allowed(federation, asked)
    if answer is None:
        return STRAIGHT
    turns = -axes[:, : len(preparation.center)].T @ (answer["bent"] @ along)
    straight = replace(STRAIGHT, turns=turns)
    # an orthonormal basis of what is neither along the score nor along what the score interacts with
    across = np.linalg.svd(np.column_stack([along, answer["bent"] @ along]))[0][:, 2:]
    bent = across.T @ answer["bent"] @ across
    size = float(np.linalg.norm(bent))
    if size <= 0.0:
        return straight
    found = sum_if_allowed(federation, replace(asked, axes=across.T @ axes, bend=bent / size))
    if found is None:
        return straight
    # what is left of Σ e q, and of Σ q² beside a linear fit
    gained = size - float(found["own"]) / size
    square = float(found["square"] - thin * found["along"] @ np.linalg.solve(gram, found["along"]))
    if gained <= 0.0 or square <= 0.0:
        return straight
    explained = thin * gained**2 / square
    nats = 0.5 * rows * explained / max(moments.squared_error(theta), 1e-12)
    return Bending(explained / (rows * target_variance(preparation, moments)), max(0.0, nats - BY_CHANCE), turns)


def _whitened(preparation: Preparation, moments: Moments, theta: Array) -> tuple[Array, Array]:
    """Return axes along which features have about unit variance (r, p), and the direction of the score in them (r,)."""
    mean, covariance = feature_spread(preparation, moments)
    d = len(mean)
    values, vectors = np.linalg.eigh(covariance)
    kept = np.argsort(-values)[:AXES]
    widths = np.sqrt(np.maximum(values[kept], 0.0) + SHRUNK * max(float(values.mean()), 1e-12))
    axes = np.zeros((len(kept), preparation.width))
    axes[:, :d] = (vectors[:, kept] / widths).T
    if preparation.constant:
        axes[:, -1] = -axes[:, :d] @ mean / preparation.constant
    return axes, widths * (vectors[:, kept].T @ theta[:d])
