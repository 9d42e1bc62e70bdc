"""What the computations share: exact solutions with all rows at hand, scores, small data sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.stats import rankdata

from comt import rows
from comt.bench import literal_algorithm1 as literal
from comt.optimize import frozen, saddle
from comt.optimize.points import Points, Solution, drive
from comt.problem import Array, Sums, TeachingProblem

Numbers = dict[str, float]
Block = tuple[Array, Array]


def solve(problem: TeachingProblem, buggy: Block, trusted: Block | None = None) -> Solution:
    """Solve a teaching problem exactly, all rows being at hand."""
    width = buggy[0].shape[1]
    known = trusted if trusted is not None else (np.empty((0, width)), np.empty(0))

    def answer(points: Points) -> list[Sums]:
        asked = problem if points.lambda_alpha is None else replace(problem, lambda_alpha=points.lambda_alpha)
        return [
            rows.sums_at(asked, buggy, known, r, theta, points.curvature)
            for r, theta in zip(points.r, points.theta, strict=True)
        ]

    start = np.zeros(width)
    if problem.loss.piecewise_quadratic:
        return drive(frozen.solve(problem, start, tol=1e-10), answer)
    return drive(saddle.solve(problem, start, start, tol=1e-10), answer)


def norm(vector: Array) -> float:
    """Return the Euclidean norm of all entries."""
    return float(np.linalg.norm(vector))


def cosine(one: Array, other: Array) -> float:
    """Return the cosine of the angle between two arrays taken as vectors."""
    return float(np.vdot(one, other)) / (norm(one) * norm(other))


def auc(scores: Array, labels: Array) -> float:
    """Return the chance that a positive row scores above a negative one."""
    ranks, positive = rankdata(scores), labels > 0
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    return float(ranks[positive].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)


def r_squared(features: Array, targets: Array, model: Array) -> float:
    """Return the share of the targets' variance that the model explains."""
    error = targets - features @ model
    centred = targets - targets.mean()
    return 1.0 - float(error @ error) / float(centred @ centred)


def ridge(features: Array, targets: Array, penalty: float) -> Array:
    """Minimise ½‖Xw − y‖² + (penalty/2)‖w‖²."""
    gram, moment = features.T @ features, features.T @ targets
    gram[np.diag_indices_from(gram)] += penalty
    return np.asarray(np.linalg.solve(gram, moment), dtype=np.float64)


def pooled(agents: list[literal.Rows]) -> tuple[Block, Block]:
    """Return the buggy rows of all agents, and the trusted ones."""
    x, y, trusted_x, trusted_y = (np.concatenate(parts) for parts in zip(*agents, strict=True))
    return (x, y), (trusted_x, trusted_y)


def labelled(n_rows: int, rng: np.random.Generator, model: Array, flips: float = 0.0, slope: float = 4.0) -> Block:
    """Draw rows and labels ±1 of a logistic model, of which a share is flipped."""
    features = rng.standard_normal((n_rows, len(model)))
    chance = 1.0 / (1.0 + np.exp(-slope * features @ model / norm(model)))
    labels = np.where(rng.random(n_rows) < chance, 1.0, -1.0)
    return features, np.where(rng.random(n_rows) < flips, -labels, labels)
