"""Candidate models of regression: each a centre from the buggy rows, to which the trusted rows may add a correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comt.preparation import Preparation
from comt.problem import Array
from comt.server.auto.moments import Moments, folds_but

#: prior weight of a family of centres (shared by its members); "zero" with a correction is trusted-only
PRIORS = {
    "believed agents": 3.0,
    "noise": 1.5,
    "all rows": 1.0,
    "either sign": 3.0,
    "negated": 2.0,
    "rescaled": 1.0,
    "zero": 0.5,
    "trimmed": 0.5,
    "whole": 0.25,
}
#: what the priors of "zero" and "trimmed" gain together where the plain fit does not speak for the rows
INSTEAD = 2.5
#: least factor that a trimmed fit keeps of its prior, however badly it explains the rows it set aside
TRIMMED_FLOOR = 0.1
#: rows' worth of doubt that targets are rescaled
SCALE_ROWS = 1.0
#: shares of a column's variance that may be noise
NOISE_SHARES = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8)
#: rows in doubt when a noise share is estimated column by column: it is drawn to the common one
COLUMN_DOUBT = 20.0


@dataclass(frozen=True)
class Centre:
    """A model of the buggy rows; ``by_fold`` holds its refits without each fold where trusted rows went into it."""

    name: str
    family: str
    theta: Array
    by_fold: Array | None = None
    #: share of the family's prior, relative to its other members
    weight: float = 1.0


def rescaled_centre(preparation: Preparation, plain: Array, folds: Sequence[Moments], error_size: float) -> Centre:
    """All targets may be in another unit, or many of them too large: the plain fit times what trusted rows ask for."""
    from_zero = plain - preparation.origin

    def scaled(left_out: int | None) -> Array:
        used = folds_but(folds, left_out).less(preparation.origin)
        # a factor of one is as good as SCALE_ROWS rows that ask for it
        doubt = SCALE_ROWS * error_size
        factor = (from_zero @ used.cross + doubt) / (from_zero @ used.gram @ from_zero + doubt)
        return preparation.multiplied(plain, factor)

    by_fold = np.stack([scaled(index) for index in range(len(folds))]) if len(folds) > 1 else None
    return Centre("unverified rows, all targets rescaled", "rescaled", scaled(None), by_fold)


def noise_centres(preparation: Preparation, moments: Moments, trusted: Moments, family: str) -> list[Centre]:
    """Errors in variables: (Σ − s·diag Σ)⁻¹ c for several shares s of noise, also as estimated from trusted rows.

    A share is left out if the corrected matrix is not safely positive, or the model would explain more than there is.
    """
    d = len(preparation.center)
    rows = max(moments.rows, 1e-12)
    sigma, cross = moments.gram / rows, moments.cross / rows
    variance = _variances(preparation, moments)
    shares = {f"with {share:.0%} of the features' variance taken as noise": np.full(d, share) for share in NOISE_SHARES}
    if trusted.rows >= 5:
        common, single = (np.clip(share, 0.0, 0.9) for share in noise_shares(preparation, moments, trusted))
        trust = trusted.rows / (trusted.rows + COLUMN_DOUBT)
        shares["with the noise that trusted rows show"] = np.full(d, common)
        shares["with the noise that trusted rows show per column"] = trust * single + (1.0 - trust) * common
    centres = []
    for name, share in shares.items():
        corrected = sigma.copy()
        corrected[np.arange(d), np.arange(d)] -= share * variance
        values = np.linalg.eigvalsh(corrected)
        if values[0] <= 1e-3 * max(float(values[-1]), 1e-12):
            continue
        theta = np.asarray(np.linalg.solve(corrected, cross), dtype=np.float64)
        if cross @ theta <= 1.05 * moments.target_sq / rows:
            centres.append(Centre(f"unverified rows {name}", family, theta))
    return centres


def feature_spread(preparation: Preparation, moments: Moments) -> tuple[Array, Array]:
    """Return mean and covariance of the features (around zero without a constant column: the mean cannot be told)."""
    d, rows = len(preparation.center), max(moments.rows, 1e-12)
    mean = moments.gram[:d, -1] / (rows * preparation.constant) if preparation.constant else np.zeros(d)
    return mean, moments.gram[:d, :d] / rows - np.outer(mean, mean)


def noise_shares(preparation: Preparation, moments: Moments, trusted: Moments) -> tuple[float, Array]:
    """Return the share of all features' variance that trusted rows show to be noise, and of each one's (may be negative)."""
    variance = _variances(preparation, moments)
    right = _variances(preparation, trusted) * trusted.rows / (trusted.rows - 1.0)
    return float(1.0 - right.sum() / max(variance.sum(), 1e-12)), 1.0 - right / np.maximum(variance, 1e-12)


def _variances(preparation: Preparation, moments: Moments) -> Array:
    """Return the variance of every feature."""
    variance: Array = np.maximum(np.diag(feature_spread(preparation, moments)[1]), 0.0)
    return variance


def target_mean(preparation: Preparation, moments: Moments) -> float:
    """Return the mean target (0 without a constant column: it cannot be told)."""
    return float(moments.cross[-1]) / (max(moments.rows, 1e-12) * preparation.constant) if preparation.constant else 0.0


def target_variance(preparation: Preparation, moments: Moments) -> float:
    """Return the variance of the target (around zero without a constant column)."""
    rows = max(moments.rows, 1e-12)
    return max(moments.target_sq / rows - target_mean(preparation, moments) ** 2, 1e-12)
