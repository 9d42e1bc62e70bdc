"""How noisy features should be changed: the best linear guess of the clean row, given the noisy row and its target.

With noise of covariance N, independent of the rest, and S the covariance of the agent's rows (x̃, y),

    E[x | x̃, y] − x̃ = −(N, 0) S⁻¹ ((x̃, y) − mean)

which contains the rank-one repair e·Nθ/(σ² + θᵀNθ) along the model, and draws noisy rows to the mean besides. N is what
the agent's columns vary more than those of the trusted rows: a diagonal, shrunk to a common share where those are few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comt.issue_context import IssueContext
from comt.problem import Array

#: no change is larger than this many spreads of its feature
LARGEST_CHANGE = 3.0
#: trusted rows that a column needs before its own share of noise outweighs the common one
ROWS_PER_COLUMN = 50.0
#: standard errors from which on noise is believed to be there
EVIDENT = 2.0
#: share of the variance in any direction that may be noise; beyond 1 only the sample's own error allows it
ALMOST_ALL, SAMPLING_ERROR = 0.98, 1.2


@dataclass(frozen=True, eq=False)
class FeatureRepair:
    """The noise in an agent's features and the linear map that undoes it, in prepared units."""

    noise: Array  # variance per column
    gain: Array  # (d + 1) × d
    mean: Array  # of (x̃, y)
    #: whether the columns vary more than chance and long tails explain
    evident: bool = False

    @classmethod
    def fitted(cls, features: Array, targets: Array, context: IssueContext) -> FeatureRepair:
        """Estimate from a sample of prepared rows (without the constant column)."""
        width = features.shape[1]
        nothing = cls(np.zeros(width), np.zeros((width + 1, width)), np.zeros(width + 1))
        if context.trusted_variance is None or len(features) < width + 3:
            return nothing
        joint = np.column_stack([features, targets])
        covariance = np.cov(joint.T)
        noise = _noise(np.diag(covariance)[:width], context.trusted_variance, context.trusted_rows)
        noise = _bounded(noise, covariance[:width, :width], ALMOST_ALL)
        # columns that predict the target sharply are not noisy, whatever few trusted rows say of their spread
        noise = _bounded(np.append(noise, 0.0), covariance, SAMPLING_ERROR)[:width]
        if not noise.any():
            return nothing
        steady = covariance + 1e-9 * (np.trace(covariance) / len(covariance) + 1e-12) * np.eye(len(covariance))
        gain = -np.linalg.solve(steady, np.vstack([np.diag(noise), np.zeros(width)]))
        evident = _evident(features, context.trusted_variance, context.trusted_rows)
        return cls(noise, gain, joint.mean(axis=0), evident)

    def changes(self, features: Array, targets: Array) -> Array:
        """Return the change of every prepared cell."""
        moved: Array = (np.column_stack([features, targets]) - self.mean) @ self.gain
        return np.clip(moved, -LARGEST_CHANGE, LARGEST_CHANGE)


def _noise(own: Array, trusted: Array, rows: float) -> Array:
    """Return the noise variance per column: what the trusted rows do not account for, as far as it is significant."""
    varying = (own > 1e-9) & (trusted > 1e-9)
    if not varying.any():
        return np.zeros(len(own))
    share = np.where(varying, 1.0 - trusted / np.maximum(own, 1e-300), 0.0)
    common = float(share[varying].mean())
    if common <= 0:
        return np.zeros(len(own))
    uncertainty = 2.0 / (max(rows - 1.0, 1.0) * np.count_nonzero(varying))
    weight = rows / (rows + ROWS_PER_COLUMN)
    mixed = np.clip(weight * share + (1.0 - weight) * common, 0.0, 0.95)
    return np.where(varying, mixed * own * common**2 / (common**2 + uncertainty), 0.0)


def _evident(features: Array, trusted: Array, rows: float) -> bool:
    """Tell whether columns vary so much more than trusted rows that the trusted rows' number cannot be the reason."""
    away = features - features.mean(axis=0)
    own = (away**2).mean(axis=0)
    varying = (own > 1e-9) & (trusted > 1e-9)
    share = 1.0 - trusted[varying] / own[varying]
    kurtosis = (away[:, varying] ** 4).mean(axis=0) / own[varying] ** 2
    error = np.sqrt((kurtosis - 1.0).mean() / (max(rows - 1.0, 1.0) * len(share)))
    return bool(share.mean() > EVIDENT * error)


def _bounded(noise: Array, covariance: Array, most: float) -> Array:
    """Scale the noise down until the clean covariance it leaves is one, but for what ``most`` above 1 allows."""
    root = np.sqrt(np.maximum(noise, 0.0))
    steady = covariance + 1e-9 * (np.trace(covariance) / len(covariance) + 1e-12) * np.eye(len(covariance))
    largest = float(np.linalg.eigvalsh(root[:, None] * np.linalg.solve(steady, np.diag(root)))[-1])
    return noise if largest <= most else noise * (most / largest)
