"""Logistic models with a normal prior: their modes, and their evidence by Laplace's approximation.

θ = μ + L u,  u ~ N(0, I);   log evidence ≈ −Σ log(1 + exp(−y x·θ̂)) − ½|û|² − ½ log det(I + L' X'WX L)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comt.baselines.base import Array
from comt.baselines.logistic import chance, softplus

MAX_STEPS = 60
#: Newton ends when the objective can fall by no more than this: far below what matters to a log evidence
DECREMENT = 1e-6


@dataclass(frozen=True)
class Mode:
    """The most likely model, its log evidence, and the curvature X'WX of the loss there."""

    theta: Array
    log_evidence: float
    curvature: Array
    u: Array


def laplace(signed: Array, mean: Array, spread: Array, start: Array | None = None) -> Mode:
    """Fit one model to the rows y·x (``signed``); ``spread`` is L (p × q), ``start`` a first guess of u."""
    along = np.asfortranarray(signed @ spread)
    offset = signed @ mean
    u = np.zeros(spread.shape[1]) if start is None else start
    margins = offset + along @ u
    value = _objective(margins, u)
    for _ in range(MAX_STEPS):
        against = chance(-margins)
        weight = against * (1.0 - against)
        hessian = (along.T * weight) @ along + np.eye(len(u))
        gradient = u - along.T @ against
        step = -np.linalg.solve(hessian, gradient)
        decrement = -float(gradient @ step)
        if decrement < DECREMENT:
            break
        moved, length = along @ step, 1.0
        while length > 1e-8:
            trial = _objective(margins + length * moved, u + length * step)
            if trial <= value - 1e-4 * length * decrement + 1e-12 * abs(value):
                break
            length /= 2.0
        u, margins, value = u + length * step, margins + length * moved, trial
    log_evidence = -value - 0.5 * float(np.linalg.slogdet(hessian)[1])
    curvature = (signed.T * weight) @ signed
    return Mode(mean + spread @ u, log_evidence, curvature, u)


def _objective(margins: Array, u: Array) -> float:
    return float(softplus(-margins).sum() + 0.5 * u @ u)
