"""Scales taken from the trusted rows where they show another spread than all rows do.

Noise widens a column. Scaled (and compressed) by its noisy spread, the right rows would crowd together near zero, and
heavy tails of the right values would look like ordinary ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from comt.preparation import KNEE, Preparation
from comt.problem import Array
from comt.queries import Totals, rank_middles
from comt.server.auto.agents import moments_of
from comt.server.auto.centres import target_mean
from comt.server.auto.evidence import largest_variance
from comt.server.auto.moments import total
from comt.server.auto.trimming import quantiles
from comt.server.scaling import NORMAL_IQR

#: trusted rows from which their quartiles are worth using
FROM_ROWS = 50
#: standard errors by which the share of trusted rows between all rows' quartiles must differ from one half
SURE = 4.0
#: ratio of spreads below which a change is not worth an exchange
RATIO = 1.25
#: quartiles of trusted rows that are closer lie in three bins at most: most cells have one value, which tells no scale
NARROWEST = 0.01
#: right targets spread so many times less than all targets do: nothing is left of them in the latters' scale
NARROWER = 1e-3
#: relative variance that rounding leaves of targets that are one value
ROUNDING = 2e-15
#: share of unverified targets that must be worth believing in a scale by trusted ones
ENOUGH = 0.1


def rescaled(preparation: Preparation, answer: Totals) -> Preparation | None:
    """Return a preparation by the trusted rows' quartiles; None if they agree with everybody's, or are too few."""
    d = len(preparation.center)
    trusted, everyone = answer["trusted_columns"][: d + 1], answer["columns"].sum(axis=0)[: d + 1]
    rows = float(trusted[0].sum())
    if rows < FROM_ROWS:
        return None
    low, middle, high = (quantiles(trusted, share) for share in (0.25, 0.5, 0.75))
    all_low, all_high = quantiles(everyone, 0.25), quantiles(everyone, 0.75)
    spread, all_spread = high - low, all_high - all_low
    usable = (spread > NARROWEST) & (all_spread > 1e-3) & (np.maximum(np.abs(low), np.abs(high)) < KNEE)
    surely = np.abs(_share_between(trusted, all_low, all_high) - 0.5) * 2.0 * np.sqrt(rows) > SURE
    ratio = np.where(usable, spread / np.maximum(all_spread, 1e-12), 1.0)
    differs = usable & surely & (np.abs(np.log(ratio)) > np.log(RATIO))
    if not differs.any():
        return None
    scale = np.append(preparation.scale, preparation.target_scale)
    center = np.append(preparation.center, preparation.target_center)
    if preparation.constant:  # without an intercept a shift of the columns would be one in disguise
        center[differs] += middle[differs] * scale[differs]
    scale[differs] *= spread[differs] / NORMAL_IQR
    return replace(
        preparation,
        center=center[:d],
        scale=scale[:d],
        target_center=float(center[d]),
        target_scale=float(scale[d]),
    )


def by_trusted_targets(preparation: Preparation, answer: Totals) -> Preparation | None:
    """Return a preparation by mean and spread of the trusted targets, where all targets spread over a thousand times as wide.

    Wrong targets far away (a sign or a digit too many in 1,000,000 ± 1) would otherwise leave no difference between right
    ones. A preparation is worth keeping only if some unverified targets :func:`lie_within` its reach.
    """
    trusted = total(moments_of(answer["trusted"], answer["trusted_rows"]))
    if trusted.rows < 2 or not preparation.constant:
        return None
    mean = target_mean(preparation, trusted)
    variance = trusted.target_sq / trusted.rows - mean**2  # as small as it may be: target_variance has a floor
    if variance <= ROUNDING * mean**2 or largest_variance(variance, trusted.rows) > NARROWER**2:
        return None
    return replace(
        preparation,
        target_center=preparation.target_center + mean * preparation.target_scale,
        target_scale=float(np.sqrt(variance * trusted.rows / (trusted.rows - 1.0))) * preparation.target_scale,
    )


def lie_within(preparation: Preparation, answer: Totals) -> bool:
    """Tell whether unverified targets are there that are not cut off at the limit of what is believed."""
    targets = answer["columns"].sum(axis=0)[len(preparation.center)]
    beyond = np.abs(rank_middles()) > 0.9 * preparation.target_limit
    return float(targets[~beyond].sum()) > ENOUGH * float(targets.sum())


def _share_between(counts: Array, low: Array, high: Array) -> Array:
    middles = rank_middles()
    inside = (middles >= low[:, None]) & (middles <= high[:, None])
    share: Array = (counts * inside).sum(axis=1) / np.maximum(counts.sum(axis=1), 1e-12)
    return share
