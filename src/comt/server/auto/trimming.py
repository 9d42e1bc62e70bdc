"""Least squares on the rows that fit: iterated trimming from given starts, ended by one smooth (bisquare) step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import ErrorCounts, RobustMoments, rank_edges
from comt.server.auto.moments import Moments

STEPS = 6
#: Tukey's constant, and the median of |error| in standard deviations
BISQUARE, MEDIAN = 4.685, 0.6745


def trimmed_fits(federation: Federation, preparation: Preparation, starts: Array, kept: Array, thin: int) -> Array:
    """Return one fit per start (B, p), of the share ``kept`` of rows with the smallest errors; two exchanges a step.

    Every ``thin``-th row is looked at, all of them by the last step.
    """
    theta = starts
    for step in range(STEPS):
        smooth = step == STEPS - 1
        counts = federation.sum(ErrorCounts(loss_name="squared", preparation=preparation, theta=theta, thin=thin))[
            "counts"
        ]
        # the rows kept are the right ones: half of them lie below the median error of right rows
        limit = quantiles(counts, 0.5 * kept if smooth else kept)
        if smooth:
            limit = limit * BISQUARE / MEDIAN
        theta = _refit(federation, preparation, theta, limit, np.full(len(theta), smooth), 1 if smooth else thin)
    return theta


def _refit(
    federation: Federation,
    preparation: Preparation,
    theta: Array,
    limit: Array,
    smooth: NDArray[np.bool_],
    thin: int,
) -> Array:
    answer = federation.sum(
        RobustMoments(
            loss_name="squared",
            preparation=preparation,
            theta=theta,
            limit=np.maximum(limit, 1e-9),
            smooth=smooth,
            thin=thin,
        )
    )
    fits = [Moments(joint, float(rows)) for joint, rows in zip(answer["moments"], answer["rows"], strict=True)]
    return np.stack([fit.ridge() if fit.rows > 0 else old for fit, old in zip(fits, theta, strict=True)])


def quantiles(counts: Array, share: Array | float) -> Array:
    """Return a quantile per line of counts on the grid of ranks, rows spread evenly inside a bin."""
    edges = rank_edges()
    running = counts.cumsum(axis=1)
    wanted = np.broadcast_to(share, len(counts)) * running[:, -1]
    reached = np.argmax(running >= wanted[:, None], axis=1)
    at = np.clip(reached, 1, len(edges) - 1)
    line = np.arange(len(counts))
    inside = np.maximum(counts[line, reached], 1e-12)
    into = np.clip((wanted - running[line, reached] + inside) / inside, 0.0, 1.0)
    found: Array = edges[at - 1] + (edges[at] - edges[at - 1]) * into
    return found
