"""A convex quadratic over a box whose rows meet in d numbers only: the model that each step of DUTI minimises."""

from __future__ import annotations

import numpy as np

from comt.baselines.base import Array
from comt.baselines.logistic import chance

_FIRST_SMOOTHING = 0.03  # of the mean price of a row
_SHRINK = 0.03
_MAX_NEWTON_STEPS = 30


def minimise_in_box(rows: Array, start: Array, slope: Array, curvature: Array, price: float, smoothing: float) -> Array:
    """Minimise slope.s + s'M s/2 + price sum(w) over 0 <= w <= 1, where s = A'(w - start), by Newton steps in d numbers.

    An entropy of weight mu makes the minimiser explicit, w_i = 1/(1 + exp(z_i/mu)) with z = price + A (slope + M s), and
    leaves the d equations s = A'(w - start). They are the optimality conditions of a convex function of s, which is
    minimised for a falling mu; at the last, ``smoothing``, the entropy costs at most n mu log 2. A row far from its
    threshold is at a bound to rounding: only the few near it enter the d x d matrices. M must be positive semidefinite.

    >>> minimise_in_box(np.eye(2), np.zeros(2), np.array([-3.0, 1.0]), 4.0 * np.eye(2), 1.0, 1e-9).round(6)
    array([0.5, 0. ])
    """
    moved = rows.T @ start
    prices, effect = price + rows @ slope, rows @ curvature
    shift, mu = np.zeros_like(slope), max(_FIRST_SMOOTHING * float(np.abs(prices).mean()), smoothing)

    def dual(shift: Array, z: Array) -> float:
        near = np.abs(z[np.abs(z) < 40.0 * mu])
        hinge = np.maximum(-z, 0.0).sum() + mu * np.log1p(np.exp(-near / mu)).sum()
        pulled = curvature @ shift
        return float(0.5 * shift @ pulled + (slope + pulled) @ moved + hinge)

    while True:
        z = prices + effect @ shift
        value = dual(shift, z)
        for _ in range(_MAX_NEWTON_STEPS):
            w = chance(-z / mu)
            missing = rows.T @ w - moved - shift
            spread = w * (1.0 - w)
            near = spread > 1e-10
            matrix = (rows[near] * spread[near, None]).T @ rows[near] @ curvature / mu
            matrix.flat[:: matrix.shape[0] + 1] += 1.0
            step = np.linalg.solve(matrix, missing)
            gain = float(step @ curvature @ missing)
            if gain <= 0.1 * mu:
                break
            length, along = 1.0, effect @ step
            while (trial := dual(shift + length * step, z + length * along)) > value - 1e-4 * length * gain:
                length *= 0.5
                if length < 1e-8:
                    break
            shift, z, value = shift + length * step, z + length * along, trial
        if mu <= smoothing:
            # to first order, the rows near their threshold take the Newton step that was too short to be worth a round
            return np.clip(w - spread * (effect @ step) / mu, 0.0, 1.0)
        mu = max(_SHRINK * mu, smoothing)


def positive_part(matrix: Array) -> Array:
    """Return the nearest positive semidefinite matrix to a symmetric one."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T, dtype=np.float64)
