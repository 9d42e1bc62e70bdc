"""Dual teaching when sums carry noise (differential privacy): few rounds, known beforehand, and no more.

A solver that goes on until a certificate is small never ends on noisy sums, and every round costs privacy. Here a smooth
loss gets a fixed number of Newton steps and the mean of the later half of its points, which averages their noise; for the
squared loss one answer says everything. Matrices are *lifted*: noise of known size may have taken curvature away, so
no direction is believed to be flatter than that. Lifting leaves the solution of the exact problem where it is, and
each step contracts: with lifted blocks P and exact ones A, (P − A)v = μPv has |μ| < 1, because the coupling of r and θ is
skew and the blocks that are left over are positive semidefinite.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from comt.errors import InputError
from comt.federation.base import Federation
from comt.federation.watched import Watched
from comt.noise import NoiseInSums, spreads
from comt.optimize.frozen import FrozenModel, TrustedQuadratic
from comt.optimize.points import Solution
from comt.optimize.saddle import SaddleSystem
from comt.preparation import Preparation
from comt.problem import Array, Sums, TeachingProblem, certificate, residuals, saddle_value
from comt.queries import Histogram, Query, Spread, Totals
from comt.server.ask import question_at

if TYPE_CHECKING:
    from comt.server.dual import Watch
    from comt.server.training import Settings

#: rounds of a smooth loss
ROUNDS = 15
#: the spectrum of a symmetric matrix of noise reaches to about 2 √d times the deviation of its entries
CAUTION = 2.0
#: rows are not believed to be closer than this, in scales of the target
SMALLEST = 0.05
#: no model in scaled units is longer; noise alone could make one so
LONGEST = 10.0


def check(settings: Settings) -> None:
    """Refuse settings whose questions no noise can cover, before anything of the budget is spent."""
    problem = settings.problem
    wrong = [
        said
        for bad, said in (
            (settings.teaching != "dual", f"teaching={settings.teaching!r}"),
            (bool(settings.automatic), "automatic " + ", ".join(sorted(settings.automatic))),
            (problem.lambda_alpha > 0, f"lambda_alpha={problem.lambda_alpha:g}"),
            (np.isfinite(problem.lambda_z), f"lambda_z={problem.lambda_z:g}"),
            (settings.solver != "newton", f"solver={settings.solver!r}"),
            (settings.select is not None, f"select={settings.select!r}"),
        )
        if bad
    ]
    if wrong:
        raise InputError(
            f"the sites add noise to their sums (differential privacy), which does not cover {'; '.join(wrong)}: train with "
            "teaching='dual', numbers for lambda_w and lambda_trusted, lambda_alpha=0, lambda_z=inf, solver='newton' and "
            "select=None."
        )


class Thresholded(Watched):
    """A federation asked for the scales of columns: what noise would make of them is taken back.

    The coarse grid of a histogram has hundreds of bins, most of them empty, whose noise would add up to rows far out: bins
    that hold no more than noise count as empty. The spread of a column whose quartiles coincide has no bound that
    noise could cover: it is not asked for, and such a column (mostly one value) keeps its units.
    """

    def __init__(self, federation: Federation, told: NoiseInSums) -> None:
        super().__init__(federation)
        self._told = told

    def sum(self, query: Query) -> Totals:
        """Ask all agents what they can answer."""
        if isinstance(query, Spread):
            zero = np.zeros_like(query.center)
            return {"first": zero, "second": zero + 1.0, "rows": np.array(1.0)}
        totals = super().sum(query)
        if isinstance(query, Histogram) and query.low is None:
            least = 3.0 * float(spreads(query, self._told.noise, 1)["counts"]) * np.sqrt(self._told.copies)
            totals = {**totals, "counts": np.where(totals["counts"] < least, 0.0, totals["counts"])}
        return totals


def prepared(preparation: Preparation) -> Preparation:
    """Make the constant that carries the intercept as small as a feature: noise is as large as the largest row."""
    return replace(preparation, constant=min(preparation.constant, 1.0))


def solve(
    federation: Federation,
    preparation: Preparation,
    problem: TeachingProblem,
    told: NoiseInSums,
    *,
    rounds: int | None = None,
    watch: Watch | None = None,
) -> Solution:
    """Return where noisy sums lead; the certificate is what noise leaves of it, and no error if it is large."""
    asking = _Asking(federation, preparation, problem, told)
    if problem.loss.piecewise_quadratic:
        return _in_one_round(asking, problem, preparation.width)
    r = theta = np.zeros(preparation.width)
    history: list[dict[str, float]] = []
    trail: list[tuple[Array, Array]] = []
    rounds = ROUNDS if rounds is None else rounds
    for _ in range(rounds):
        sums = asking(r, theta)
        history.append(
            {
                "certificate": certificate(problem, r, theta, sums),
                "objective": -saddle_value(problem, r, theta, sums),
            }
        )
        if watch is not None:
            watch(history[-1])
        step_r, step_theta = SaddleSystem(problem, r, sums).correction(*residuals(problem, r, theta, sums))
        r, theta = _bounded(r + step_r), _bounded(theta + step_theta)
        trail.append((r, theta))
    late = trail[len(trail) // 2 :]
    r, theta = (np.mean([point[part] for point in late], axis=0) for part in range(2))
    return Solution(r, theta, sums, history[-1]["certificate"], history)


def residual_size(sums: Sums) -> float:
    """Return how far off rows are at a solution with squared loss: the trusted ones if noise leaves something of them."""
    for square in (sums.trusted_value / max(sums.trusted_rows, 1.0), 2.0 * sums.phi / max(sums.rows, 1.0)):
        if square > SMALLEST**2:
            return float(np.sqrt(square))
    return SMALLEST


class _Asking:
    """Asks for sums at a point and lifts their matrices."""

    def __init__(
        self, federation: Federation, preparation: Preparation, problem: TeachingProblem, told: NoiseInSums
    ) -> None:
        self._federation, self._preparation, self._problem, self._told = federation, preparation, problem, told

    def __call__(self, r: Array, theta: Array) -> Sums:
        query = question_at(self._preparation, self._problem, r, theta, "full")
        (sums,) = query.unpack(self._federation.sum(query))
        found = spreads(query, self._told.noise, 1)
        reach = CAUTION * np.sqrt(self._told.copies * len(r))
        assert sums.weight_xx is not None
        assert sums.trusted_bend is not None
        return replace(
            sums,
            rows=max(sums.rows, 1.0),
            trusted_rows=max(sums.trusted_rows, 0.0),
            size_sq=max(sums.size_sq, 1.0),
            trusted_size_sq=max(sums.trusted_size_sq, 1.0),
            alpha_sq=max(sums.alpha_sq, 1.0),
            weight_xx=_lifted(sums.weight_xx, reach * float(np.max(found["weight_xx"]))),
            trusted_bend=_lifted(sums.trusted_bend, reach * float(np.max(found["trusted_bend"]))),
        )


def _in_one_round(asking: _Asking, problem: TeachingProblem, width: int) -> Solution:
    """Squared loss: the moments at zero are all there is to know."""
    zero = np.zeros(width)
    moments = asking(zero, zero)
    assert moments.trusted_bend is not None
    outer = TrustedQuadratic(problem, zero, moments.trusted_slope, moments.trusted_bend)
    model = FrozenModel.at(problem, outer, zero, moments)
    r = _bounded(model.minimizer(zero))
    sums, theta = model.sums(r, moments), _bounded(outer.theta(r))
    gap = certificate(problem, r, theta, sums)
    return Solution(r, theta, sums, gap, [{"certificate": gap, "objective": -saddle_value(problem, r, theta, sums)}])


def _lifted(matrix: Array, floor: float) -> Array:
    """Return the matrix with no eigenvalue below the floor."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def _bounded(model: Array) -> Array:
    return model * min(1.0, LONGEST / max(float(np.linalg.norm(model)), 1e-300))
