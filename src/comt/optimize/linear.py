"""Small dense linear algebra shared by the solvers."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from comt.problem import Array

EPS = float(np.finfo(np.float64).eps)


class SpdMatrix:
    """A symmetric positive definite matrix, factorised once; a last-bit failure of Cholesky falls back to eigenvalues."""

    def __init__(self, matrix: Array) -> None:
        self._symmetric = 0.5 * (matrix + matrix.T)
        try:
            self._factor = cho_factor(self._symmetric, lower=True)
            self._eigen = None
        except LinAlgError:
            values, vectors = np.linalg.eigh(self._symmetric)
            floor = max(float(values[-1]), np.finfo(np.float64).tiny) * EPS * len(values)
            self._eigen = (np.maximum(values, floor), vectors)

    def solve(self, right: Array) -> Array:
        """Return matrix⁻¹ right."""
        if self._eigen is None:
            solved: Array = cho_solve(self._factor, right)
            return solved
        values, vectors = self._eigen
        projected = vectors.T @ right
        scaled = projected / (values if right.ndim == 1 else values[:, None])
        return np.asarray(vectors @ scaled)

    def condition(self) -> float:
        """Return the ratio of the largest to the smallest eigenvalue."""
        values = np.linalg.eigvalsh(self._symmetric)
        return float(values[-1] / max(values[0], np.finfo(np.float64).tiny))
