"""Small dense linear algebra shared by the solvers."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from comt.problem import Array

EPS = float(np.finfo(np.float64).eps)


class SpdMatrix:
    """A symmetric positive definite matrix, factorised once; a last-bit failure of Cholesky falls back to eigenvalues."""

    def __init__(self, matrix: Array) -> None:
        self._symmetric = 0.5 * (matrix + matrix.T)
        # LAPACK itself: for matrices this small SciPy's checked wrappers take longer than the arithmetic
        self._factor, failed = dpotrf(self._symmetric, lower=True)
        self._eigen: tuple[Array, Array] | None = None
        if failed or not np.isfinite(self._factor[-1, -1]):
            values, vectors = np.linalg.eigh(self._symmetric)
            floor = max(float(values[-1]), np.finfo(np.float64).tiny) * EPS * len(values)
            self._eigen = (np.maximum(values, floor), vectors)

    def solve(self, right: Array) -> Array:
        """Return matrix⁻¹ right."""
        if self._eigen is None:
            solved, _ = dpotrs(self._factor, right, lower=True)
            return np.asarray(solved)
        values, vectors = self._eigen
        projected = vectors.T @ right
        scaled = projected / (values if right.ndim == 1 else values[:, None])
        return np.asarray(vectors @ scaled)

    def condition(self) -> float:
        """Return the ratio of the largest to the smallest eigenvalue."""
        values = np.linalg.eigvalsh(self._symmetric)
        return float(values[-1] / max(values[0], np.finfo(np.float64).tiny * max(values[-1], 1.0)))
