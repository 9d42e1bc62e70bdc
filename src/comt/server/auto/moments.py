"""Second moments of (x, y): all that a least-squares fit, its evidence and its error need to know of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comt.problem import Array

#: penalties tried for a ridge fit of buggy rows (prepared units; the evidence chooses)
PENALTIES = np.logspace(-2, 5, 22)
#: penalties tried for a ridge fit of trusted rows
TRUSTED_PENALTIES = np.logspace(-1, 3, 13)
#: most parameters per row that a fit is taken to have where errors of its rows are compared with those of others
MOST_PARAMETERS = 0.99
#: rows for each column from which a fit may be told to keep its parameters: fewer do not tell them
ROWS_PER_COLUMN = 5.0


@dataclass(frozen=True)
class Moments:
    """Σ (x, y)(x, y)ᵀ over some rows, and how many they are (a weighted count where rows are weighted)."""

    joint: Array
    rows: float

    @property
    def gram(self) -> Array:
        """Σ x xᵀ."""
        return self.joint[:-1, :-1]

    @property
    def cross(self) -> Array:
        """Σ x y."""
        return self.joint[:-1, -1]

    @property
    def target_sq(self) -> float:
        """Σ y²."""
        return max(float(self.joint[-1, -1]), 0.0)

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.joint + other.joint, self.rows + other.rows)

    def scaled(self, weight: float) -> Moments:
        """Return the moments with every row counted ``weight`` times."""
        return Moments(weight * self.joint, weight * self.rows)

    def less(self, theta: Array) -> Moments:
        """Return the moments of (x, y − x·θ)."""
        change = np.eye(len(self.joint))
        change[-1, :-1] = -theta
        return Moments(change @ self.joint @ change.T, self.rows)

    def multiplied(self, factor: float, origin: Array) -> Moments:
        """Return the moments of (x, x·origin + factor·(y − x·origin)): targets multiplied about what ``origin`` predicts."""
        change = np.eye(len(self.joint))
        change[-1, :-1], change[-1, -1] = (1.0 - factor) * origin, factor
        return Moments(change @ self.joint @ change.T, self.rows)

    def squared_error(self, theta: Array) -> float:
        """Σ (y − x·θ)²."""
        towards = np.append(theta, -1.0)
        return max(float(towards @ self.joint @ towards), 0.0)

    def squared_errors(self, thetas: Array) -> Array:
        """Σ (y − x·θ)² of every model (..., p)."""
        towards = np.concatenate([thetas, np.full((*thetas.shape[:-1], 1), -1.0)], axis=-1)
        errors: Array = np.maximum(np.einsum("...i,ij,...j->...", towards, self.joint, towards), 0.0)
        return errors

    def ridge(self, penalties: Array = PENALTIES, kept: float = 0.0) -> Array:
        """Return the ridge fit whose penalty has the largest evidence.

        ``kept`` is the least share of its effective parameters that a penalty has to leave, if rows are enough for that.
        """
        if self.rows <= 0:
            return np.zeros(len(self.joint) - 1)
        values, vectors, shrunk, evidence = self._fits(penalties)
        if kept > 0.0 and self.rows >= ROWS_PER_COLUMN * len(values):
            parameters = (values / (values + penalties[:, None])).sum(axis=1)
            evidence = np.where(parameters >= kept * parameters.max(), evidence, -np.inf)
        best: Array = vectors @ shrunk[int(np.argmax(evidence))]
        return best

    @property
    def optimism(self) -> float:
        """How many times larger the errors of other rows are than those of the rows that the ridge fit was fitted to.

        With p effective parameters of n rows n/(n − p), as generalised cross-validation has it.
        """
        if self.rows <= 0:
            return 1.0
        values, _, _, evidence = self._fits(PENALTIES)
        parameters = float((values / (values + PENALTIES[int(np.argmax(evidence))])).sum())
        return 1.0 / (1.0 - min(parameters / self.rows, MOST_PARAMETERS))

    def evidence(self, penalties: Array = PENALTIES) -> Array:
        """Return the log evidence of every penalty, up to a constant that depends on the number of rows."""
        return self._fits(penalties)[3]

    def _fits(self, penalties: Array) -> tuple[Array, Array, Array, Array]:
        """Return eigenvalues and eigenvectors of the Gram matrix, the ridge fits in their basis, and their log evidence."""
        values, vectors = np.linalg.eigh(self.gram)
        values = np.maximum(values, 0.0)
        seen = vectors.T @ self.cross
        shrunk = seen / (values + penalties[:, None])
        left = np.maximum(self.target_sq - shrunk @ seen, 1e-12 * max(self.target_sq, 1e-300))
        log_det = np.log1p(values / penalties[:, None]).sum(axis=1)
        return values, vectors, shrunk, -0.5 * self.rows * np.log(left) - 0.5 * log_det


def weighted(parts: Sequence[Moments], weights: Array) -> Moments:
    """Add moments up, each part counted as often as its weight says."""
    return total([part.scaled(weight) for part, weight in zip(parts, weights.tolist(), strict=True)])


def total(parts: Sequence[Moments]) -> Moments:
    """Add moments up."""
    return Moments(np.sum([part.joint for part in parts], axis=0), sum(part.rows for part in parts))


def folds_but(folds: Sequence[Moments], left_out: int | None) -> Moments:
    """Add up all folds but one."""
    return total([fold for index, fold in enumerate(folds) if index != left_out])
