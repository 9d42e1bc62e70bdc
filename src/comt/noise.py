"""Differential privacy, what is public of it: how much noise sites have agreed on, and how far one row can move a sum.

One row more or less moves a sum by at most its *sensitivity*, which follows from the clipping bounds and from what is
broadcast, both public. A question with m arrays over the same rows, for B models, gets noise of standard deviation

    multiplier · sensitivity · √(m·B)

on each number: together one Gaussian mechanism with that multiplier. Buggy and trusted rows are different rows, so the two
groups of arrays share nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from math import hypot, log, sqrt
from typing import Protocol, runtime_checkable

import numpy as np

from comt.errors import FederationError, GateError
from comt.problem import Array
from comt.queries import DualSums, Histogram, Query


@dataclass(frozen=True)
class Noise:
    """How much noise, for rows of which size, up to which ε. All sites of a federation should have the same."""

    #: standard deviation of the noise, in sensitivities
    multiplier: float
    #: largest norm of a prepared row, its constant left out; longer ones are shortened
    clip_rows: float
    #: largest prepared target of a regression; larger ones are cut off
    clip_targets: float
    #: probability with which the bound ε may fail
    delta: float = 1e-6
    #: nothing more is answered beyond this ε
    max_epsilon: float = 10.0


@dataclass(frozen=True)
class NoiseInSums:
    """The noise that a federation's sums carry: agreed on by all sites, and how many times over its variance is in a sum."""

    noise: Noise
    copies: float


def agreed(told: Sequence[Noise | None], copies: float) -> NoiseInSums | None:
    """Return the noise that all sites add; refuse if they do not add the same."""
    bounds = {
        None if noise is None else (noise.multiplier, noise.clip_rows, noise.clip_targets, noise.delta)
        for noise in told
    }
    if len(bounds) > 1:
        raise FederationError(
            "the sites do not add the same noise to their sums; agree on one [policy.noise] and write it into all policies."
        )
    first = next(iter(told), None)
    return None if first is None else NoiseInSums(first, copies)


@runtime_checkable
class Noisy(Protocol):
    """A federation that knows whether its sites add noise."""

    @property
    def noise(self) -> NoiseInSums | None:
        """What the sites have agreed on, or None if sums are exact."""


@singledispatch
def sensitivities(query: Query, noise: Noise) -> dict[str, Array | float]:
    """Return how far one row can move each array (its 2-norm), per model of the batch."""
    raise GateError(
        f"'{query.purpose}' has no bound on what one row can do, so no noise can cover it; train with solver='newton', "
        "without selection, or without noise."
    )


@sensitivities.register(Histogram)
def _histogram(query: Histogram, noise: Noise) -> dict[str, Array | float]:
    """One bin per column."""
    return {"counts": sqrt(query.n_columns)}


@sensitivities.register(DualSums)
def _dual_sums(query: DualSums, noise: Noise) -> dict[str, Array | float]:
    if np.isfinite(query.lambda_z).any():
        raise GateError("changed features (lambda_z) have no bound that noise could cover; train with lambda_z=inf.")
    size, width = hypot(noise.clip_rows, query.preparation.constant), query.r.shape[0]
    score, trusted_score = (size * np.linalg.norm(model, axis=1) for model in (query.r, query.theta))
    if query.loss_name == "squared":
        error, trusted_error = noise.clip_targets + score, noise.clip_targets + trusted_score
        alpha, phi, bend = error, error**2 / 2.0, 1.0
        value, slope, trusted_bend = trusted_error**2, 2.0 * trusted_error, 2.0
    else:
        alpha, phi, bend = np.ones(width), log(2.0) + score, 0.25
        value, slope, trusted_bend = log(2.0) + trusted_score, np.ones(width), 0.25
    found: dict[str, Array | float] = {
        "phi": phi,
        "alpha_x": alpha * size,
        "alpha_sq": alpha**2,
        "active": 1.0,
        "rows": 1.0,
        "size_sq": size**2,
        "weight_xx": bend * size**2,
        "weight_alpha_x": bend * alpha * size,
        "weight_alpha_sq": bend * alpha**2,
        "trusted_value": value,
        "trusted_slope": slope * size,
        "trusted_bend": trusted_bend * size**2,
        "trusted_rows": 1.0,
        "trusted_size_sq": max(trusted_bend, 1.0) * size**2,  # weighted like the trusted loss
    }
    return {name: found[name] for name in query.shapes()}


def spreads(query: Query, noise: Noise, sharers: int) -> dict[str, Array]:
    """Return the standard deviation of one site's part of the noise on every array; ``sharers`` sites make up the whole."""
    bounds, names = sensitivities(query, noise), list(query.shapes())
    batch = len(query.r) if isinstance(query, DualSums) else 1
    sizes = Counter(name.startswith("trusted") for name in names)
    return {
        name: noise.multiplier * np.asarray(bounds[name]) * sqrt(sizes[name.startswith("trusted")] * batch / sharers)
        for name in names
    }
