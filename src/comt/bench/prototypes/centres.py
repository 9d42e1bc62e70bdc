"""Models of buggy targets that trusted rows may be pulled to: corrected for noise in the features, and trimmed."""

from __future__ import annotations

import numpy as np

from comt.baselines.base import Array
from comt.server.auto.centres import Centre
from comt.server.auto.moments import Moments
from comt.server.auto.trimming import BISQUARE, MEDIAN

#: shares of every feature's variance that may be noise
NOISE_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
#: a model that explains more than all of the target's variance was corrected too far
TOO_MUCH = 1.05
SINGULAR = 1e-3
CONCENTRATIONS, BISQUARE_STEPS = 10, 3


def moments_of(features: Array, targets: Array, weights: Array | None = None) -> Moments:
    """Return the second moments of rows, weighted if wanted."""
    rows = np.column_stack([features, targets])
    if weights is None:
        return Moments(rows.T @ rows, float(len(targets)))
    return Moments((rows.T * weights) @ rows, float(weights.sum()))


def noise_corrected(buggy: Moments, trusted: Moments) -> list[Centre]:
    """Return (Σ − s·diag Σ)⁻¹c for several s, and for those that trusted variances show; none where s is too much."""
    sigma, cross, mean, variance = _covariances(buggy)
    shares = {f"{share:.0%} noise": np.full(len(sigma), share) for share in NOISE_SHARES}
    if trusted.rows > 1:
        single = np.clip(1.0 - np.diag(_covariances(trusted)[0]) / np.maximum(np.diag(sigma), 1e-12), 0.0, 0.95)
        shares["noise of each column"] = single
        shares["noise of all columns"] = np.full(len(sigma), single.mean())
    centres = []
    for name, share in shares.items():
        corrected = sigma - np.diag(share * np.diag(sigma))
        if np.linalg.eigvalsh(corrected)[0] <= SINGULAR * float(np.diag(sigma).max()):
            continue
        slope = np.linalg.solve(corrected, cross)
        if cross @ slope <= TOO_MUCH * variance:
            centres.append(Centre(name, "noise", np.append(slope, mean[-1] - mean[:-1] @ slope)))
    return centres


def _covariances(moments: Moments) -> tuple[Array, Array, Array, float]:
    """Return the features' covariance, that with the target, all means (the target's last), and the target's variance."""
    inside = np.delete(np.arange(len(moments.joint)), -2)
    mean = moments.joint[-2, inside] / moments.rows
    joint = moments.joint[np.ix_(inside, inside)] / moments.rows - np.outer(mean, mean)
    return joint[:-1, :-1], joint[:-1, -1], mean, float(joint[-1, -1])


def trimmed(features: Array, targets: Array, starts: Array, kept: Array) -> Array:
    """Return one fit per start (B, p): of the share ``kept`` of rows with the smallest errors, then by bisquare weights."""
    theta = starts.copy()
    for step in range(CONCENTRATIONS + BISQUARE_STEPS):
        errors = np.abs(targets[:, None] - features @ theta.T)
        smooth = step >= CONCENTRATIONS
        # the rows kept are taken to be right: half of them lie below the median error of right rows
        at = np.maximum(((0.5 if smooth else 1.0) * kept * len(targets)).astype(int) - 1, 0)
        limits = np.array([np.partition(error, i)[i] for error, i in zip(errors.T, at, strict=True)])
        if smooth:
            weights = np.maximum(1.0 - (errors / np.maximum(limits * BISQUARE / MEDIAN, 1e-9)) ** 2, 0.0) ** 2
        else:
            weights = (errors <= limits).astype(np.float64)
        theta = np.stack([moments_of(features, targets, weight).ridge() for weight in weights.T])
    return theta
