"""E1 to E5: the algorithm and the formulas as printed, beside what they should be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from comt import rows
from comt.bench import literal_algorithm1 as literal
from comt.bench.errata.common import Numbers, cosine, labelled, norm, pooled, ridge, solve
from comt.problem import Array, TeachingProblem


def e1_own_contribution_only() -> Numbers:
    """Let the printed loop run: each agent tries to be the whole sum, and the norm of θ explodes."""
    agents = literal.example()
    buggy, trusted = pooled(agents)
    numbers: Numbers = {}
    for lambda_w in (1.0, 100.0):  # ρ = 100 as printed
        parameters = literal.Parameters(lambda_w=lambda_w)
        exact = solve(TeachingProblem("squared", lambda_w=lambda_w), buggy, trusted).theta
        sizes = [norm(theta) for theta in literal.run(agents, parameters, 100)]
        repaired = literal.run(agents, parameters, 1000, others_fixed=True, summed_trusted=True)
        label = f"lambda_w_{lambda_w:g}"
        numbers[f"{label}_exact_norm"] = norm(exact)
        numbers[f"{label}_rounds_to_a_million"] = float(np.argmax(np.array(sizes) > 1e6) + 1)
        for rounds in (30, 300, 1000):
            error = norm(repaired[rounds - 1] - exact) / norm(exact)
            numbers[f"{label}_repaired_error_after_{rounds}"] = error
    mild = literal.run(agents, literal.Parameters(rho=1.0), 2000)[-1]
    exact = solve(TeachingProblem("squared"), buggy, trusted).theta
    return numbers | {"rho_1_printed_error_after_2000": norm(mild - exact) / norm(exact)}


def e2_norm_of_the_sum() -> Numbers:
    """Minimise with Σ‖X_kα_k‖² (it gives the sum of K separate ridge fits) and with ‖ΣX_kα_k‖²."""
    rng = np.random.default_rng(2)
    model = rng.standard_normal(10)
    features = rng.standard_normal((10_000, 10))
    targets = features @ model
    numbers: Numbers = {}
    for n_agents in (2, 5, 10):
        parts = zip(np.array_split(features, n_agents), np.array_split(targets, n_agents), strict=True)
        printed = sum((ridge(x, y, 100.0) for x, y in parts), np.zeros(10))
        meant = ridge(features, targets, 100.0)
        numbers[f"norm_ratio_{n_agents}_agents"] = norm(printed) / norm(meant)
    return numbers


def e3_half_in_the_dual() -> Numbers:
    """Measure the duality gap of logistic regression with 1/(2λ_w) and with the printed 1/λ_w."""
    rng = np.random.default_rng(3)
    buggy = labelled(500, rng, rng.standard_normal(5))
    problem = TeachingProblem("logistic", lambda_w=10.0)
    nothing = (np.empty((0, 5)), np.empty(0))

    def primal(theta: Array) -> float:
        value = rows.losses(problem, *buggy, theta).sum()
        return float(value + 0.5 * problem.lambda_w * theta @ theta)

    best = solve(problem, buggy)
    alpha = rows.alphas(problem, *buggy, best.r)
    dual = rows.objective_terms(problem, buggy, nothing, alpha).total
    # 1/λ_w is 1/(2λ) for λ = λ_w/2: the printed dual belongs to half the penalty
    halved = replace(problem, lambda_w=0.5 * problem.lambda_w)
    printed_alpha = rows.alphas(halved, *buggy, solve(halved, buggy).r)
    printed_dual = rows.objective_terms(halved, buggy, nothing, printed_alpha).total
    printed_theta = (printed_alpha * buggy[1]) @ buggy[0] / problem.lambda_w
    return {
        "gap_with_half": primal(best.theta) + dual,
        "gap_as_printed": primal(best.theta) + printed_dual,
        "gap_as_printed_at_its_own_model": primal(printed_theta) + printed_dual,
        "norm_ratio": norm(printed_theta) / norm(best.theta),
    }


def e4_mean_of_minimisers() -> Numbers:
    """Compare the fixed point of the averaged θ̃-step, E1 and E2 repaired, with that of λ_trusted/K."""
    numbers: Numbers = {}
    full = TeachingProblem("squared", lambda_w=100.0, lambda_trusted=10.0)
    for label, rho in (("equal", 100.0), ("different", 100.0), ("different", 1000.0)):
        agents = literal.example(seed=4)
        if label == "equal":  # the same trusted features everywhere, each agent's targets its own
            rng = np.random.default_rng(4)
            shared = agents[0][2]
            agents = [(x, y, shared, shared @ rng.standard_normal(10)) for x, y, _, _ in agents]
        buggy, trusted = pooled(agents)
        parameters = literal.Parameters(lambda_w=100.0, lambda_trusted=10.0, rho=rho)
        reached = literal.run(agents, parameters, 6000, others_fixed=True)[-1]
        wanted = solve(full, buggy, trusted).theta
        weaker = solve(replace(full, lambda_trusted=10.0 / len(agents)), buggy, trusted).theta
        name = f"{label}_rho_{rho:g}"
        numbers[f"{name}_to_lambda_over_k"] = norm(reached - weaker) / norm(wanted)
        numbers[f"{name}_to_lambda"] = norm(reached - wanted) / norm(wanted)
        numbers[f"{label}_from_lambda_over_k_to_lambda"] = norm(weaker - wanted) / norm(wanted)
    return numbers


def e5_direction_of_crafting() -> Numbers:
    """Compare the printed β with what would repair the features: clean − buggy."""
    rng = np.random.default_rng(5)
    model = rng.standard_normal(10)
    clean = rng.standard_normal((10_000, 10))
    features = clean + 0.5 * rng.standard_normal(clean.shape)
    targets = clean @ model + 0.5 * rng.standard_normal(len(clean))
    known = rng.standard_normal((50, 10))
    problem = TeachingProblem("squared", lambda_z=50.0)
    r = solve(problem, (features, targets), (known, known @ model)).r
    alpha = rows.alphas(problem, features, targets, r)
    repair = clean - features
    best = np.outer(alpha, alpha @ repair)  # of all β_i = α_i q, the q that points most towards the repair
    return {
        "cosine_printed": cosine(rows.betas(problem, features, targets, r), repair),
        "cosine_best_rank_one": cosine(best, repair),
        "cosine_reversed": cosine(-rows.betas(problem, features, targets, r), repair),
    }
