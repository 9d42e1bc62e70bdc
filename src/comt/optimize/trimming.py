"""The curvature that comes from rows entering and leaving: what Newton's method needs to choose rows quickly.

The sum of the k smallest φ_i(θ) has the gradient Σ∇φ over the rows that are kept, but not their Hessian: where θ moves, rows
cross the threshold. With n rows spread smoothly that adds

    −(density of φ at the threshold) · Σ (∇φ − mean)(∇φ − mean)ᵀ / N       over the N rows near the threshold,

negative, because choosing rows again can only lower the sum. On the threshold α² and the rows' weights are the same for
all rows, so that sums over three nested sets of kept rows tell it.
"""

from __future__ import annotations

import numpy as np

from comt.problem import Array, Sums

#: rows on either side of the threshold that a density is estimated from
FEWEST = 10.0


def boundary_hessian(inner: Sums, middle: Sums, outer: Sums) -> Array:
    """Return the part of the Hessian that crossing rows add, from sums below, at and above the threshold; 0 if unknown."""
    assert inner.weight_xx is not None
    assert outer.weight_xx is not None
    nothing: Array = np.zeros_like(inner.weight_xx)
    below, above = middle.rows - inner.rows, outer.rows - middle.rows
    if min(below, above) < FEWEST:
        return nothing
    # half the width of the ring, in units of φ: the distance of the two halves' means
    half = (outer.phi - middle.phi) / above - (middle.phi - inner.phi) / below
    energy = outer.alpha_sq - inner.alpha_sq
    bent = outer.weight_alpha_sq - inner.weight_alpha_sq
    if not (half > 0 and energy > 0 and bent > 0):
        return nothing
    pull = outer.alpha_x - inner.alpha_x
    rows = below + above
    second = energy**2 / (rows * bent) * (outer.weight_xx - inner.weight_xx)
    return np.asarray(-(second - np.outer(pull, pull) / rows) / (2.0 * half))
