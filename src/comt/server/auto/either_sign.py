"""Rows whose targets follow a model, or its negative: a mixture of two regressions that are each other's mirror image.

Where many targets are negated (a sign convention, a reversed scale), the plain fit cancels out, and few trusted rows cannot
find the model alone. The unverified rows can, up to its sign: expectation–maximisation from several starts, in sums that are
vectors. One trusted row or two then tell the sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import EitherSignSums, ErrorCounts, Totals, rank_edges
from comt.server.auto.centres import Centre
from comt.server.auto.moments import Moments

STEPS, SETTLED = 15, 1e-5
#: starts along the features' widest directions, none that is so much narrower than the widest
AXES, NARROW = 12, 1e-4
#: by how much the log likelihood of the rows must exceed that of the plain fit before the two models are believed
CLEARLY_BETTER = 20.0
#: most that the unverified rows may say against a model, in nats: no model of errors is that right
MOST = 15.0
#: smallest share of rows of the rarer sign, and smallest error variance relative to the target's
RARER, LEAST_NOISE = 0.05, 1e-3


def either_sign(
    federation: Federation,
    preparation: Preparation,
    moments: Moments,
    starts: Sequence[Array],
    rivals: Sequence[Centre],
    thin: int,
) -> list[Centre]:
    """Return the two models, the sign of most rows first, and ``rivals`` weighed against them.

    Nothing changes if the rows do not clearly speak for two models. A rival calls the rows it does not fit wrong in
    any way; if that explains the rows better than two signs do, the two models lose weight, otherwise the rival does.
    """
    rows = max(moments.rows, 1.0)
    origin = preparation.origin
    moments = moments.less(origin)
    theta = np.stack([*(start - origin for start in starts if start.any()), *_axes(moments)])
    noise = np.full(len(theta), moments.target_sq / rows)
    share = np.full(len(theta), 0.6)
    shrunk = moments.gram + 1e-6 * rows * np.eye(preparation.width)
    totals = _ask(federation, preparation, theta, noise, share, thin)
    for _ in range(STEPS):
        before = totals["value"]
        theta = np.asarray(np.linalg.solve(shrunk, thin * totals["cross"].T).T, dtype=np.float64)
        left = moments.target_sq - 2.0 * thin * (theta * totals["cross"]).sum(axis=1)
        left += np.einsum("bi,ij,bj->b", theta, moments.gram, theta)
        noise = np.maximum(left, LEAST_NOISE * moments.target_sq) / rows
        share = np.clip(thin * totals["kept"] / rows, 1e-3, 1.0 - 1e-3)
        totals = _ask(federation, preparation, theta, noise, share, thin)
        if (np.abs(totals["value"] - before) < SETTLED * rows / thin).all():
            break
    best = int(np.argmax(totals["value"]))
    plain = max(moments.squared_error(moments.ridge()), LEAST_NOISE * moments.target_sq) / rows
    alone = -0.5 * rows * (np.log(2.0 * np.pi * plain) + 1.0)
    kept = float(share[best])
    if thin * float(totals["value"][best]) < alone + CLEARLY_BETTER or not RARER < kept < 1.0 - RARER:
        return list(rivals)
    mostly = origin + (theta[best] if kept >= 0.5 else -theta[best])
    kept = max(kept, 1.0 - kept)
    ahead = np.zeros(0)
    if rivals:
        ahead = thin * (float(totals["value"][best]) - _explained(federation, preparation, rivals, thin))
    own = float(np.exp(np.clip(ahead.min(initial=0.0), -MOST, 0.0)))
    theirs = np.exp(-np.clip(ahead, 0.0, MOST)).tolist()
    return [
        *(replace(rival, weight=rival.weight * factor) for rival, factor in zip(rivals, theirs, strict=True)),
        Centre("unverified rows, targets of either sign", "either sign", mostly, weight=2.0 * own * kept),
        Centre(
            "unverified rows, targets of either sign, negated",
            "either sign",
            preparation.multiplied(mostly, -1.0),
            weight=2.0 * own * (1.0 - kept),
        ),
    ]


def _explained(federation: Federation, preparation: Preparation, centres: Sequence[Centre], thin: int) -> Array:
    """Return the log likelihood of the rows if part of their errors under a centre is narrow and the rest wide."""
    theta = np.stack([centre.theta for centre in centres])
    counts = federation.sum(ErrorCounts(loss_name="squared", preparation=preparation, theta=theta, thin=thin))["counts"]
    edges = np.append(rank_edges(), 2.0 * rank_edges()[-1])
    squares = (0.5 * (edges + np.insert(edges[:-1], 0, 2.0 * edges[0]))) ** 2
    wide = np.maximum(counts @ squares / counts.sum(axis=1), 1e-9)
    narrow, share = 0.1 * wide, np.full(len(counts), 0.5)
    for _ in range(50):
        inside, outside = _log_normal(squares, narrow), _log_normal(squares, wide)
        total = np.logaddexp(np.log(share)[:, None] + inside, np.log1p(-share)[:, None] + outside)
        fits = counts * np.exp(np.log(share)[:, None] + inside - total)
        rest = counts - fits
        share = np.clip(fits.sum(axis=1) / counts.sum(axis=1), 1e-3, 1.0 - 1e-3)
        narrow = np.maximum(fits @ squares / np.maximum(fits.sum(axis=1), 1e-9), 1e-6)
        wide = np.maximum(rest @ squares / np.maximum(rest.sum(axis=1), 1e-9), narrow)
    explained: Array = (counts * total).sum(axis=1)
    return explained


def _log_normal(squares: Array, variance: Array) -> Array:
    density: Array = -0.5 * (squares / variance[:, None] + np.log(2.0 * np.pi * variance)[:, None])
    return density


def _axes(moments: Moments) -> Array:
    """Return models along the widest directions of the features, each explaining half of the target's variance."""
    values, vectors = np.linalg.eigh(moments.gram)
    widest = np.argsort(-values)[:AXES]
    widest = widest[values[widest] > NARROW * values.max()]
    size = np.sqrt(0.5 * moments.target_sq / values[widest])
    axes: Array = vectors[:, widest].T * size[:, None]
    return axes


def _ask(
    federation: Federation, preparation: Preparation, theta: Array, noise: Array, share: Array, thin: int
) -> Totals:
    return federation.sum(
        EitherSignSums(loss_name="squared", preparation=preparation, theta=theta, noise=noise, share=share, thin=thin)
    )
