"""The question most solvers ask, the sums at one point; and how to ask what data holders may refuse."""

from __future__ import annotations

import numpy as np

from comt.errors import GateError
from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array, Sums, TeachingProblem
from comt.queries import Curvature, DualSums, Query, Totals


def question_at(
    preparation: Preparation, problem: TeachingProblem, r: Array, theta: Array, curvature: Curvature = "none"
) -> DualSums:
    """Return the question for the sums over all rows at (r, θ)."""
    return DualSums(
        loss_name=problem.loss_name,
        preparation=preparation,
        r=r[None, :],
        theta=theta[None, :],
        lambda_alpha=np.array([problem.lambda_alpha]),
        lambda_z=np.array([problem.lambda_z]),
        curvature=curvature,
    )


def sums_at(
    federation: Federation,
    preparation: Preparation,
    problem: TeachingProblem,
    r: Array,
    theta: Array,
    curvature: Curvature = "none",
) -> Sums:
    """Return the sums over all agents' rows at (r, θ); one exchange."""
    query = question_at(preparation, problem, r, theta, curvature)
    return query.unpack(federation.sum(query))[0]


def sum_if_allowed(federation: Federation, query: Query) -> Totals | None:
    """Ask something that the training can do without; None if a data holder's policy refuses it."""
    try:
        return federation.sum(query)
    except GateError:
        return None
