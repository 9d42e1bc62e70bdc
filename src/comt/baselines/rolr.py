"""RoLR: robust logistic regression against rows with arbitrary features."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comt.baselines.base import AgentRows, Array, Baseline, LinearModel, Task
from comt.baselines.checks import UseTrusted, check_agents, training_rows
from comt.baselines.rewlse import NORMAL_CONSISTENT
from comt.errors import ConvergenceError, InputError

TINY = 1e-300


def screened_rows(features: Array, outlier_fraction: float = 0.0) -> NDArray[np.bool_]:
    """Keep rows with max_j |x_ij - median_j| / (1.4826 mad_j) <= 4 sqrt(log p + log n).

    Of the rows that pass, the share ``outlier_fraction`` with the largest standardised norms goes too.
    """
    n, p = features.shape
    centred = features - np.median(features, axis=0)
    spread = NORMAL_CONSISTENT * np.median(np.abs(centred), axis=0)
    # a column that is constant for most rows has no scale to judge the others by
    standard = np.where(spread > 0, np.abs(centred) / np.where(spread > 0, spread, 1.0), 0.0)
    kept = standard.max(axis=1, initial=0.0) <= 4.0 * np.sqrt(np.log(p) + np.log(n))
    norms = np.where(kept, np.linalg.norm(standard, axis=1), -np.inf)
    largest = np.argsort(norms, kind="stable")[n - int(outlier_fraction * kept.sum()) :]
    kept[largest] = False
    return np.asarray(kept)


def trimmed_margin_direction(
    features: Array, labels: Array, counted: int, *, tolerance: float = 1e-9, max_rounds: int = 2000
) -> tuple[Array, float]:
    """Maximise the sum of the ``counted`` smallest y_i beta.x_i over |beta|_2 <= 1; return beta and the sum.

    Its dual is the shortest vector among the sums of ``counted`` rows y_i x_i and their averages,
    max_beta min_q q.Z beta = min_q |Z'q|, found by Wolfe's minimum-norm-point algorithm: beta is that vector
    at unit length, and zero if the hull holds zero. Stops at a relative duality gap below ``tolerance``.

    >>> direction, value = trimmed_margin_direction(np.array([[1.0], [2.0], [3.0], [-1.0]]), np.ones(4), 3)
    >>> direction.tolist(), value
    ([1.0], 2.0)
    """
    rows = labels[:, None] * features
    counted = min(counted, len(rows))
    largest = float(np.linalg.norm(rows, axis=1).sum())

    def smallest_sum(direction: Array) -> Array:
        if counted == len(rows):
            return np.asarray(rows.sum(axis=0))
        margins = rows @ direction
        return np.asarray(rows[np.argpartition(margins, counted - 1)[:counted]].sum(axis=0))

    corners = smallest_sum(rows.mean(axis=0))[None, :]
    weights, point, gap = np.ones(1), corners[0], np.inf
    for _ in range(max_rounds):
        length = float(np.linalg.norm(point))
        if length <= tolerance * largest:
            return np.zeros(rows.shape[1]), 0.0
        corner = smallest_sum(point)
        value = float(corner @ point) / length
        gap = (length - value) / length
        if gap <= tolerance:
            return point / length, value
        corners, weights = np.vstack([corners, corner]), np.append(weights, 0.0)
        corners, weights = _shortest_in_hull(corners, weights)
        point = weights @ corners
    # a tiny optimum is approached with a large relative gap: what counts is the gap against the data
    if gap * length <= 1e-6 * largest:
        return point / length, value
    raise ConvergenceError(
        f"RoLR's direction has a relative duality gap of {gap:.1e}, not {tolerance:.1e}, after {max_rounds} "
        "rounds: scale the features.",
        certificate=gap,
    )


def _shortest_in_hull(corners: Array, weights: Array) -> tuple[Array, Array]:
    """Move to the shortest vector of the corners' affine hull, without corners of negative weight."""
    while True:
        count = len(corners)
        unit = float(np.abs(corners).max())
        system = np.ones((count + 1, count + 1))
        system[0, 0] = 0.0
        system[1:, 1:] = (corners / unit) @ (corners / unit).T
        affine = np.linalg.lstsq(system, np.eye(count + 1)[0])[0][1:]
        if (affine > 1e-12).all():
            return corners, affine / affine.sum()
        falling = affine <= 1e-12
        reach = weights[falling] / np.maximum(weights[falling] - affine[falling], TINY)
        weights = weights + min(1.0, float(reach.min())) * (affine - weights)
        stay = weights > 1e-12
        if stay.all():
            stay[np.argmin(weights)] = False  # rounding must not stop the corner that bounds the move from leaving
        corners, weights = corners[stay], weights[stay] / weights[stay].sum()


def rolr_fit(
    features: Array, labels: Array, *, trimmed_fraction: float = 0.1, outlier_fraction: float = 0.0
) -> tuple[Array, NDArray[np.bool_]]:
    """Fit one data set; return the unit direction and which rows passed the screen."""
    kept = screened_rows(features, outlier_fraction)
    rows, signs = features[kept], labels[kept]
    counted = max(int(kept.sum()) - int(np.ceil(trimmed_fraction * labels.size)), 1)
    direction, value = trimmed_margin_direction(rows, signs, counted)
    if value <= 0.0:
        warnings.warn(
            f"trimming {trimmed_fraction:.0%} of the rows leaves RoLR no direction with a positive sum of "
            "margins, and the direction without trimming is used: lower trimmed_fraction.",
            UserWarning,
            stacklevel=2,
        )
        mean = signs @ rows
        direction = mean / max(float(np.linalg.norm(mean)), TINY)
    return direction, kept


@dataclass(frozen=True, kw_only=True)
class Rolr(Baseline):
    """beta = argmax_{|beta|_2 <= 1} of the sum of the n smallest y_i beta.x_i, over rows that pass a screen.

    Feng, Xu, Mannor and Yan, "Robust logistic regression and classification" (NIPS 2014). Rows with huge
    features are screened, and the largest margins do not count, so no row gains by being extreme.
    ``trimmed_fraction`` is the paper's bound on the share of outliers. Only a direction is found, so
    ``lambda_w`` has nothing to act on: the unit ball takes its place. Each agent fits alone; the server
    averages unit vectors by the rows trained on and restores length one. ``found["kept"]`` tells per agent
    which of its buggy rows passed the screen.
    """

    lambda_w: float = 1.0
    trimmed_fraction: float = 0.1
    outlier_fraction: float = 0.0
    use_trusted: UseTrusted = "append"

    name: ClassVar[str] = "RoLR"
    tasks: ClassVar[frozenset[Task]] = frozenset({"classification"})
    sends: ClassVar[str] = "each agent's direction and number of rows, once"

    def __post_init__(self) -> None:
        for name, value in (("trimmed", self.trimmed_fraction), ("outlier", self.outlier_fraction)):
            if not 0 <= value < 1:
                raise InputError(f"{name}_fraction={value!r} must be at least 0 and below 1; lower it.")

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Fit each agent's direction and average the directions."""
        check_agents(self, agents, task)
        rows = [training_rows(agent, self.use_trusted) for agent in agents]
        fits = [
            rolr_fit(
                features,
                labels,
                trimmed_fraction=self.trimmed_fraction,
                outlier_fraction=self.outlier_fraction,
            )
            for features, labels in rows
        ]
        mean = np.average([beta for beta, _ in fits], axis=0, weights=[len(labels) for _, labels in rows])
        kept = [kept[: agent.targets.size] for agent, (_, kept) in zip(agents, fits, strict=True)]
        return LinearModel(mean / max(float(np.linalg.norm(mean)), TINY), found={"kept": kept})
