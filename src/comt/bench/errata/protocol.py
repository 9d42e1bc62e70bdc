"""E10 to E14: what travels, how noise is measured, and what the selection of rows does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import logit

from comt import rows
from comt.bench.errata.common import Numbers, auc, labelled, norm, r_squared, ridge, solve
from comt.bench.published import N_AGENTS, N_BUGGY
from comt.preparation import Preparation
from comt.problem import TeachingProblem
from comt.queries import DualSums, ProximalStep, Query


def e10_bytes_per_round() -> Numbers:
    """Count the bytes of one round: the printed order, which grows with n, and what our messages hold."""
    width, vector, point, one = 10, np.zeros(10), np.zeros((1, 10)), np.ones(1)
    rows_as_given = Preparation.identity(width)
    step = ProximalStep(
        loss_name="squared",
        preparation=rows_as_given,
        training="any",
        round=0,
        lambda_w=1.0,
        lambda_alpha=0.0,
        lambda_z=np.inf,
        shift=vector,
        sigma=1.0,
        damping=1.0,
        theta=vector,
    )
    matrices = DualSums(
        loss_name="squared", preparation=rows_as_given, r=point, theta=point, lambda_alpha=one, lambda_z=one
    )

    def of(query: Query) -> float:
        return float(N_AGENTS * 8 * sum(int(np.prod(shape)) for shape in query.shapes().values()))

    return {
        "printed_order": float(8 * (N_AGENTS * width + N_BUGGY * width)),
        "printed_order_without_n": float(8 * N_AGENTS * width),
        "vectors_only": of(replace(matrices, curvature="none")),
        "with_matrices": of(matrices),
        "step_of_algorithm_1": of(step),
    }


def e11_nested_subset_sums() -> Numbers:
    """Subtract the sum over the 100 largest |α| from that over 101: one row comes out, target included."""
    rng = np.random.default_rng(11)
    # the last column is the constant that carries the intercept: it gives α away
    features = np.column_stack([rng.standard_normal((1000, 9)), np.full(1000, 10.0)])
    targets = features @ rng.standard_normal(10) + rng.standard_normal(1000)
    problem = TeachingProblem("squared", lambda_w=10.0, intercept=True)
    r = solve(problem, (features, targets)).r
    alpha = rows.alphas(problem, features, targets, r)
    order = np.argsort(-np.abs(alpha))
    sums = [alpha[order[:count]] @ features[order[:count]] for count in (100, 101)]
    difference = sums[1] - sums[0]
    weight = difference[-1] / 10.0
    guessed = difference / weight
    victim = order[100]
    return {
        "error_of_features": float(np.abs(guessed - features[victim]).max()),
        "error_of_target": abs(float(weight + guessed @ r - targets[victim])),
        "norm_of_features": norm(features[victim, :-1]),
        "size_of_target": abs(float(targets[victim])),
    }


def e12_averaged_magnitude() -> Numbers:
    """Read the noise scale as the mean of |x| and as the mean L1 norm of a row: a factor d apart."""
    rng = np.random.default_rng(12)
    model = rng.standard_normal(10)
    features, test = rng.standard_normal((2, 20_000, 10))
    targets = features @ model
    entries, row_norms = float(np.abs(features).mean()), float(np.abs(features).sum(axis=1).mean())
    numbers = {"mean_entry": entries, "mean_row_norm": row_norms, "ratio": row_norms / entries}
    for level in (0.3, 0.6, 1.2):
        noisy_targets = targets + level * np.abs(targets).mean() * rng.standard_normal(len(targets))
        for label, size in (("entry", entries), ("row_norm", row_norms)):
            noisy = features + level * size * rng.standard_normal(features.shape)
            numbers[f"r2_{label}_{level}"] = r_squared(test, test @ model, ridge(noisy, noisy_targets, 1.0))
    return numbers


def e13_largest_alpha_is_misfit(share: float = 0.9, repeats: int = 5) -> Numbers:
    """Flip 40 % of labels; use all rows, the 90 % of largest |α| as printed, the 90 % of smallest."""
    found: dict[str, list[float]] = {"all_rows": [], "largest_kept": [], "smallest_kept_refitted": []}
    flipped_among_dropped = []
    for seed in range(repeats):
        rng = np.random.default_rng([13, seed])
        model = rng.standard_normal(10)
        features, clean = labelled(8000, rng, model)
        labels = np.where(rng.random(8000) < 0.4, -clean, clean)
        test, truth = labelled(8000, rng, model)
        problem = TeachingProblem("logistic", lambda_w=1.0)
        solution = solve(problem, (features, labels), labelled(50, rng, model))
        alpha = rows.alphas(problem, features, labels, solution.r)
        order = np.argsort(-np.abs(alpha))
        kept, opposite = order[: int(share * 8000)], order[-int(share * 8000) :]
        truncated = (alpha[kept] * labels[kept]) @ features[kept]
        refitted = solve(problem, (features[opposite], labels[opposite])).theta
        found["all_rows"].append(auc(test @ solution.theta, truth))
        found["largest_kept"].append(auc(test @ truncated, truth))
        found["smallest_kept_refitted"].append(auc(test @ refitted, truth))
        dropped = order[int(share * 8000) :]
        flipped_among_dropped.append(float(np.mean(labels[dropped] != clean[dropped])))
    numbers = {f"{name}_lowest": min(values) for name, values in found.items()}
    numbers |= {f"{name}_highest": max(values) for name, values in found.items()}
    return numbers | {"flipped_among_dropped": float(np.mean(flipped_among_dropped))}


def e14_no_sparsity_for_logistic() -> Numbers:
    """Raise λ_α: the logit of a logistic α only shifts, while many squared α become exactly zero."""
    rng = np.random.default_rng(14)
    model = rng.standard_normal(10)
    buggy = labelled(2000, rng, model, flips=0.1)
    numbers: Numbers = {}
    for value in (0.0, 1.0, 5.0):
        problem = TeachingProblem("logistic", lambda_alpha=value)
        r = solve(problem, buggy).r
        alpha = rows.alphas(problem, *buggy, r)
        numbers[f"logistic_zeros_{value:g}"] = float(np.count_nonzero(alpha == 0.0))
        numbers[f"logistic_smallest_{value:g}"] = float(alpha.min())
        shift = logit(alpha) + buggy[1] * (buggy[0] @ r)
        numbers[f"logit_shift_error_{value:g}"] = float(np.abs(shift + value).max())
    targets = buggy[0] @ model + rng.standard_normal(2000)
    for value in (0.0, 1.0):
        problem = TeachingProblem("squared", lambda_alpha=value)
        alpha = rows.alphas(problem, buggy[0], targets, solve(problem, (buggy[0], targets)).r)
        numbers[f"squared_zero_share_{value:g}"] = float(np.mean(alpha == 0.0))
    return numbers
