"""The teaching problem: its parameters, every term of its objective, and the certificate of a solution.

    D(α, β) = Σ ℓ*(−α_i) + (λ_w/2)‖θ‖² + λ_α‖α‖₁ + λ_trusted L̃(θ) + λ_Z‖β‖²,   θ = (1/λ_w) Σ α_i s_i (x_i + β_i)

Eliminating α and β leaves d unknowns r (see :mod:`comt.rows`); r and θ solve

    λ_w θ = Σ α_i s_i x_i − (‖α‖²/2λ_Z) r          r = θ + (λ_trusted/λ_w) ∇L̃(θ)

Nothing here knows about agents: arguments are numbers and sums over rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from comt.errors import InputError
from comt.losses import Loss, LossName, get_loss

Array = NDArray[np.float64]
#: share of ‖X‖²‖r‖ in the certificate's scale: at the default tolerance of 1e-8 it allows 45 units of rounding
ROUNDING = 1e-6


@dataclass(frozen=True)
class TeachingProblem:
    """The parameters of the objective. ``lambda_z = inf`` is CoMT-subset: no row is changed."""

    loss_name: LossName
    lambda_w: float = 1.0
    lambda_trusted: float = 1.0
    lambda_alpha: float = 0.0
    lambda_z: float = np.inf
    #: the last column is the constant that carries the intercept; it is never crafted
    intercept: bool = False
    #: direct teaching: features move towards the model (r is then θ itself), not away from it as in the paper
    repair: bool = False

    def __post_init__(self) -> None:
        for parameter in fields(self):
            if parameter.name.startswith("lambda"):
                _check_lambda(parameter.name, getattr(self, parameter.name))

    @property
    def loss(self) -> Loss:
        """The loss object."""
        return get_loss(self.loss_name)

    def crafted(self, vectors: Array) -> Array:
        """Return the vectors (..., p) with the intercept's entry set to zero: what crafting can see of them."""
        if not self.intercept:
            return vectors
        seen = vectors.copy()
        seen[..., -1] = 0.0
        return seen

    @property
    def price(self) -> float:
        """Return λ_Z as the row formulas take it; repairing is the paper's crafting with its sign reversed."""
        return -self.lambda_z if self.repair else self.lambda_z

    def coupling(self, r: Array) -> float:
        """c = ‖r‖²/(2λ_Z); the problem has a unique solution only below ``loss.max_coupling``; negative for repairs."""
        if not np.isfinite(self.lambda_z):
            return 0.0
        seen = self.crafted(r)
        return float(seen @ seen) / (2.0 * self.price)

    def crafting_direction(self, r: Array) -> Array:
        """q = −r/(2λ_Z), or +θ/(2λ_Z) for repairs: every row moves along this one direction, β_i = α_i s_i q."""
        return -self.crafted(r) / (2.0 * self.price)


def _check_lambda(name: str, value: float) -> None:
    positive = name in ("lambda_w", "lambda_z")
    finite = name != "lambda_z"
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    good = number and (value > 0 if positive else value >= 0) and (np.isfinite(value) or not finite)
    if not good:
        wanted = ("a positive number" if positive else "a number ≥ 0") + ("" if finite else " or numpy.inf")
        raise InputError(f"{name}={value!r} is not {wanted}; choose such a value, for example {name}=1.0.")


@dataclass(frozen=True)
class Sums:
    """What the rows say about one pair (r, θ): the answer every solver works with.

    The curvature parts are None where they were not asked for; ``diagonal`` replaces the matrices by their diagonals.
    """

    phi: float  # Σ φ_i(r)
    alpha_x: Array  # Σ α s x
    alpha_sq: float  # Σ α²
    active: float  # number of rows with α ≠ 0
    rows: float  # number of buggy rows summed
    size_sq: float  # Σ ‖x‖² over the buggy rows, for the certificate's scale
    trusted_value: float  # L̃(θ)
    trusted_slope: Array  # ∇L̃(θ)
    trusted_rows: float
    trusted_size_sq: float  # Σ ‖x̃‖² over the trusted rows, for the certificate's scale
    weight_xx: Array | None = None  # Σ w x xᵀ
    weight_alpha_x: Array | None = None  # Σ w α s x
    weight_alpha_sq: float = 0.0  # Σ w α²
    trusted_bend: Array | None = None  # ∇²L̃(θ)


def row_gradient(problem: TeachingProblem, r: Array, sums: Sums) -> Array:
    """∇Σφ(r) = −Σ α s x + (‖α‖²/2λ_Z) r."""
    return -sums.alpha_x + (sums.alpha_sq / (2.0 * problem.price)) * problem.crafted(r)


def row_hessian(problem: TeachingProblem, r: Array, sums: Sums) -> Array:
    """∇²Σφ(r) = Σ w (s x − α r/λ_Z)(s x − α r/λ_Z)ᵀ + (‖α‖²/2λ_Z) I, from its sums."""
    assert sums.weight_xx is not None
    assert sums.weight_alpha_x is not None
    hessian = sums.weight_xx.copy()
    if np.isfinite(problem.lambda_z):
        seen = problem.crafted(r) / problem.price
        cross = np.outer(sums.weight_alpha_x, seen)
        hessian -= cross + cross.T
        hessian += sums.weight_alpha_sq * np.outer(seen, seen)
        hessian += np.diag(problem.crafted(np.full(r.shape, sums.alpha_sq / (2.0 * problem.price))))
    return hessian


def residuals(problem: TeachingProblem, r: Array, theta: Array, sums: Sums) -> tuple[Array, Array]:
    """Return the two residuals of the stationarity system at (r, θ); both vanish exactly at the solution.

    The first is ∇P(r) when θ is the trusted fit around r; the second says how far θ is from being that fit.
    """
    g_r = row_gradient(problem, r, sums) + problem.lambda_w * theta
    g_theta = problem.lambda_w * (r - theta) - problem.lambda_trusted * sums.trusted_slope
    return g_r, g_theta


def certificate(problem: TeachingProblem, r: Array, theta: Array, sums: Sums) -> float:
    """‖∇P‖ relative to its scale, with the trusted residual counted in.

    The scale is what the terms would add up to if none cancelled: ‖α‖‖X‖ + λ_w‖θ‖ + … . It makes the number
    comparable between data sets. The small part of ‖X‖²‖r‖ in it (and the like of the trusted rows) stands for the
    rounding of x·r, so that the certificate stays attainable where the rows are fitted without error.
    """
    g_r, g_theta = residuals(problem, r, theta, sums)
    scale_r = (
        np.sqrt(max(sums.alpha_sq, 0.0) * sums.size_sq)
        + ROUNDING * sums.size_sq * float(np.linalg.norm(r))
        + sums.alpha_sq / (2.0 * problem.lambda_z) * float(np.linalg.norm(problem.crafted(r)))
        + problem.lambda_w * float(np.linalg.norm(theta))
    )
    scale_theta = problem.lambda_w * float(np.linalg.norm(r) + np.linalg.norm(theta))
    scale_theta += problem.lambda_trusted * (
        float(np.linalg.norm(sums.trusted_slope)) + ROUNDING * sums.trusted_size_sq * float(np.linalg.norm(theta))
    )
    return max(_ratio(g_r, scale_r), _ratio(g_theta, scale_theta))


def _ratio(residual: Array, scale: float) -> float:
    norm = float(np.linalg.norm(residual))
    return norm / scale if norm > 0 else 0.0


@dataclass(frozen=True)
class ObjectiveTerms:
    """Every term of D separately; ``total`` is D."""

    conjugate: float  # Σ ℓ*(−α)
    ridge: float  # (λ_w/2)‖θ‖²
    sparsity: float  # λ_α‖α‖₁
    trusted: float  # λ_trusted L̃(θ)
    crafting: float  # λ_Z‖β‖²

    @property
    def total(self) -> float:
        """D(α, β)."""
        return self.conjugate + self.ridge + self.sparsity + self.trusted + self.crafting


def saddle_value(problem: TeachingProblem, r: Array, theta: Array, sums: Sums) -> float:
    """Σφ(r) + λ_w r·θ − (λ_w/2)‖θ‖² − λ_trusted L̃(θ): at the solution this is P(r) = −D(α, β)."""
    return float(
        sums.phi + problem.lambda_w * (r @ theta - 0.5 * theta @ theta) - problem.lambda_trusted * sums.trusted_value
    )


def direct_value(problem: TeachingProblem, theta: Array, sums: Sums) -> float:
    """Σ b (ℓ + λ_Z‖β‖²) + λ_trusted L̃(θ) + (λ_w/2)‖θ‖² with the best β: the objective of direct teaching."""
    ridge = 0.5 * problem.lambda_w * float(theta @ theta)
    return float(sums.phi + problem.lambda_trusted * sums.trusted_value + ridge)


def direct_gradient(problem: TeachingProblem, theta: Array, sums: Sums) -> Array:
    """Return the gradient of the direct objective in θ, at fixed rows."""
    return row_gradient(problem, theta, sums) + problem.lambda_trusted * sums.trusted_slope + problem.lambda_w * theta


def direct_hessian(problem: TeachingProblem, theta: Array, sums: Sums) -> Array:
    """Return the Hessian of the direct objective in θ, at fixed rows; it need not be positive."""
    assert sums.trusted_bend is not None
    hessian = row_hessian(problem, theta, sums) + problem.lambda_trusted * sums.trusted_bend
    hessian.flat[:: len(theta) + 1] += problem.lambda_w
    return hessian


def direct_certificate(problem: TeachingProblem, theta: Array, sums: Sums) -> float:
    """Return the norm of the direct gradient relative to what its terms would add up to if none cancelled."""
    norm = float(np.linalg.norm(theta))
    scale = (
        np.sqrt(max(sums.alpha_sq, 0.0) * sums.size_sq)
        + ROUNDING * (sums.size_sq + problem.lambda_trusted * sums.trusted_size_sq) * norm
        + sums.alpha_sq / (2.0 * problem.lambda_z) * float(np.linalg.norm(problem.crafted(theta)))
        + problem.lambda_w * norm
        + problem.lambda_trusted * float(np.linalg.norm(sums.trusted_slope))
    )
    return _ratio(direct_gradient(problem, theta, sums), scale)
