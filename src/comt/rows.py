"""What rows contribute, as a function of r (or θ): α, β, φ and the sums a solver needs of them.

The whole of CoMT rests on this: given the d-vector r, everything about a row follows from the row itself,

    β_i = α_i s_i q,   q = −r/(2λ_Z)                                           (rank one: never stored as n × d)
    squared loss    α_i = S(y_i − x_i·r, λ_α) / (1 − c),       c = ‖r‖²/(2λ_Z)
    logistic loss   logit α_i = −λ_α − y_i x_i·r + c α_i

so rows can be streamed, and an agent need not remember anything. Arguments are whole blocks of rows.
"""

from __future__ import annotations

import numpy as np

from comt.losses import Array
from comt.problem import ObjectiveTerms, Sums, TeachingProblem

#: which curvature sums to compute: none, diagonals only, or whole matrices
Curvature = str


def alphas(problem: TeachingProblem, features: Array, targets: Array, r: Array) -> Array:
    """α of every row: its dual variable, i.e. the (shrunk, rescaled) residual under r."""
    return problem.loss.dual(features @ r, targets, problem.lambda_alpha, problem.coupling(r))[0]


def betas(problem: TeachingProblem, features: Array, targets: Array, r: Array) -> Array:
    """β of every row (n × p): the feature change the paper's objective suggests. For inspection of a few rows."""
    pull = alphas(problem, features, targets, r) * problem.loss.signs(targets)
    return np.outer(pull, problem.crafting_direction(r))


def losses(problem: TeachingProblem, features: Array, targets: Array, theta: Array) -> Array:
    """ℓ of every row under the model θ."""
    return problem.loss.value(features @ theta, targets)


def buggy_sums(
    problem: TeachingProblem,
    features: Array,
    targets: Array,
    r: Array,
    curvature: Curvature = "full",
    gram: Array | None = None,
) -> dict[str, Array | float]:
    """Sum what a block of buggy rows contributes at r; the keys are fields of :class:`comt.problem.Sums`.

    ``gram`` is XᵀX of the block where it is known already: it does not change from round to round.
    """
    loss = problem.loss
    alpha, phi, weight = loss.dual(features @ r, targets, problem.lambda_alpha, problem.coupling(r))
    signs = loss.signs(targets)
    signed = alpha if isinstance(signs, float) else alpha * signs
    alpha_x = signed @ features
    alpha_sq = float(alpha @ alpha)
    # with λ_α = 0 a row that happens to be fitted exactly (α = 0) is as curved as any other
    active = int(np.count_nonzero(alpha)) if loss.piecewise_quadratic and problem.lambda_alpha > 0 else alpha.size
    sums: dict[str, Array | float] = {
        "phi": float(phi.sum()),
        "alpha_x": alpha_x,
        "alpha_sq": alpha_sq,
        "active": float(active),
        "rows": float(alpha.size),
    }
    if curvature == "none":
        return sums
    if isinstance(weight, float):
        sums["weight_alpha_sq"] = weight * alpha_sq
        sums["weight_alpha_x"] = weight * alpha_x
        sums["weight_xx"] = weight * _gram(features, alpha, active, curvature, gram)
    else:
        sums["weight_alpha_sq"] = float((weight * alpha) @ alpha)
        sums["weight_alpha_x"] = (weight * signed) @ features
        sums["weight_xx"] = weighted_gram(features, weight, curvature)
    return sums


def weighted_gram(features: Array, weight: Array, curvature: Curvature = "full") -> Array:
    """Σ w x xᵀ, or its diagonal."""
    if curvature == "diagonal":
        return weight @ (features * features)
    return (features * weight[:, None]).T @ features


def _gram(features: Array, alpha: Array, active: int, curvature: Curvature, known: Array | None) -> Array:
    """Σ x xᵀ over the active rows (α ≠ 0, or all): it is far cheaper to gather the few rows on the smaller side."""
    if curvature == "diagonal":
        taking_part = np.ones(alpha.size) if active == alpha.size else (alpha != 0).astype(np.float64)
        return taking_part @ (features * features)
    if 2 * active <= alpha.size:
        few = features[np.flatnonzero(alpha)]
        return few.T @ few
    gram = features.T @ features if known is None else known
    if active < alpha.size:
        few = features[np.flatnonzero(alpha == 0)]
        gram = gram - few.T @ few
    return gram


def trusted_sums(
    problem: TeachingProblem, features: Array, targets: Array, theta: Array, curvature: Curvature = "full"
) -> dict[str, Array | float]:
    """Sum what a block of trusted rows contributes at θ; the keys are fields of :class:`comt.problem.Sums`."""
    loss = problem.loss
    scores = features @ theta
    sums: dict[str, Array | float] = {
        "trusted_value": loss.trusted_factor * float(loss.value(scores, targets).sum()),
        "trusted_slope": loss.trusted_factor * (loss.slope(scores, targets) @ features),
        "trusted_rows": float(targets.size),
        "trusted_size_sq": loss.trusted_factor * float(np.vdot(features, features)),
    }
    if curvature != "none":
        bend = loss.trusted_factor * loss.bend(scores, targets)
        sums["trusted_bend"] = weighted_gram(features, bend, curvature)
    return sums


def sums_at(
    problem: TeachingProblem,
    buggy: tuple[Array, Array],
    trusted: tuple[Array, Array],
    r: Array,
    theta: Array,
    curvature: Curvature = "full",
) -> Sums:
    """Return all sums at (r, θ) from rows that are in one place: what tests and local solvers compare with."""
    found = buggy_sums(problem, *buggy, r, curvature) | trusted_sums(problem, *trusted, theta, curvature)
    return Sums(size_sq=float(np.vdot(buggy[0], buggy[0])), **found)  # type: ignore[arg-type]


def objective_terms(
    problem: TeachingProblem,
    buggy: tuple[Array, Array],
    trusted: tuple[Array, Array],
    alpha: Array,
    beta: Array | None = None,
) -> ObjectiveTerms:
    """Return every term of D(α, β) for arbitrary α (n) and β (n × p): the definition itself, for tests and figures."""
    features, targets = buggy
    loss = problem.loss
    changed = features if beta is None else features + beta
    theta = ((alpha * loss.signs(targets)) @ changed) / problem.lambda_w
    trusted_value = loss.trusted_factor * float(loss.value(trusted[0] @ theta, trusted[1]).sum())
    return ObjectiveTerms(
        conjugate=float(loss.conjugate(alpha, targets).sum()),
        ridge=0.5 * problem.lambda_w * float(theta @ theta),
        sparsity=problem.lambda_alpha * float(np.abs(alpha).sum()),
        trusted=problem.lambda_trusted * trusted_value,
        crafting=0.0 if beta is None else problem.lambda_z * float((beta * beta).sum()),
    )
