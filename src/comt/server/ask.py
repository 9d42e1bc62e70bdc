"""The question most solvers ask: the sums at one point."""

from __future__ import annotations

import numpy as np

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array, Sums, TeachingProblem
from comt.queries import Curvature, DualSums


def sums_at(
    federation: Federation,
    preparation: Preparation,
    problem: TeachingProblem,
    r: Array,
    theta: Array,
    curvature: Curvature = "none",
) -> Sums:
    """Return the sums over all agents' rows at (r, θ); one exchange."""
    query = DualSums(
        loss_name=problem.loss_name,
        preparation=preparation,
        r=r[None, :],
        theta=theta[None, :],
        lambda_alpha=np.array([problem.lambda_alpha]),
        lambda_z=np.array([problem.lambda_z]),
        curvature=curvature,
    )
    return query.unpack(federation.sum(query))[0]
