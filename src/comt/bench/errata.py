"""The paper's errata E1 to E14, each as a small computation.

Every function returns a flat dictionary of numbers, is seeded and takes a second or so. What the numbers show
is said in words on the errata page of the documentation, and ``python -m comt.bench.errata`` writes the file
that page is checked against. Rows of all agents are in one place here: these are demonstrations.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.special import logit
from scipy.stats import rankdata

from comt import rows
from comt.bench import literal_algorithm1 as literal
from comt.bench.published import (
    N_AGENTS,
    N_BUGGY,
    N_ROWS,
    REPEATS,
    TABLES,
    TableName,
    real_and_scaling,
    table,
)
from comt.optimize import frozen, saddle
from comt.optimize.points import Points, Solution, drive
from comt.preparation import Preparation
from comt.problem import Array, Sums, TeachingProblem
from comt.queries import DualSums, ProximalStep, Query

Numbers = dict[str, float]
Block = tuple[Array, Array]
#: smaller numbers are rounding errors: written as 0, so that the file does not depend on the processor
ROUNDING = 1e-9


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


def e6_limit_of_a_sum() -> Numbers:
    """Take the printed limit m_k of Σ|α_i| at its word: this share of the n_k entries would be penalised."""
    shares = sorted({cell.n_trusted / N_BUGGY for cell in table("table_regression_r2")})
    return {"smallest_share": shares[0], "largest_share": shares[-1]}


def e7_trusted_shares() -> Numbers:
    """Compare the shares of trusted rows in the tables with those in the text (0.25, 0.5, 1 %)."""
    printed = sorted({cell.eta_percent for name in TABLES for cell in table(name)})
    numbers = {f"table_eta_{i + 1}_percent": eta for i, eta in enumerate(printed)}
    return numbers | {
        "rows_at_smallest_table_eta": N_ROWS * printed[0] / 100,
        "rows_at_smallest_text_eta": N_ROWS * 0.25 / 100,
    }


def e8_swapped_names() -> Numbers:
    """Count which robust logistic regression each classification table is headed with."""

    def cells(name: TableName, heading: str) -> float:
        return float(sum(heading in cell.method for cell in table(name)))

    return {
        "features_cells_headed_rlr": cells("table_features_auc", "printed rLR"),
        "features_cells_headed_rlor": cells("table_features_auc", "printed RloR"),
        "flips_cells_headed_rlr": cells("table_flips_auc", "printed rLR"),
        "flips_cells_headed_rlor": cells("table_flips_auc", "printed RloR"),
    }


def e9_auc_of_a_regression() -> Numbers:
    """Read the CPUSMALL line: every other method of the sentence is given as R²."""
    lines = [line for line in real_and_scaling() if line["setting"].startswith("CPUSMALL noise")]
    scores = {line["method"]: float(line["value"]) for line in lines}
    others = [value for method, value in scores.items() if method != "CoMT"]
    return {"comt": scores["CoMT"], "best_other": max(others), "worst_other": min(others)}


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


def tables_trusted_only_and_noise() -> Numbers:
    """Follow TI-only, which sees clean rows only, over the noise levels at the smallest eta."""
    numbers: Numbers = {}
    for name in TABLES:
        cells = [c for c in table(name) if c.method == "TI-only" and c.eta_percent == 0.1]
        first, last = cells[0], cells[-1]
        error = np.sqrt((first.variance + last.variance) / REPEATS)
        for cell in cells:
            numbers[f"{name}_{cell.noise}"] = cell.mean
        numbers[f"{name}_change_in_standard_errors"] = (last.mean - first.mean) / float(error)
    return numbers


def tables_identical_columns() -> Numbers:
    """Count the methods whose variances and seconds are the same in all three noise blocks."""
    numbers: Numbers = {}
    for name in TABLES:
        cells = table(name)
        methods = {cell.method for cell in cells}
        blocks = {
            method: {
                tuple((c.variance, c.seconds) for c in cells if (c.method, c.noise) == (method, noise))
                for noise in (0.3, 0.6, 1.2)
            }
            for method in methods
        }
        numbers[f"{name}_methods_all_identical"] = float(sum(len(block) == 1 for block in blocks.values()))
        numbers[f"{name}_methods"] = float(len(methods))
    return numbers


def tables_implied_lambda() -> Numbers:
    """Find the λ_w at which ridge on m noise-free rows is as bad as TI-only: R² = 1 − (λ/(m+λ))²."""
    numbers: Numbers = {}
    rng = np.random.default_rng(100)
    for eta in (0.1, 0.5, 1.0):
        cells = [c for c in table("table_regression_r2") if (c.method, c.eta_percent) == ("TI-only", eta)]
        size = cells[0].n_trusted
        mean = float(np.mean([c.mean for c in cells]))
        unexplained = np.sqrt(1.0 - mean)
        numbers[f"m{size}_printed_r2"] = mean
        numbers[f"m{size}_implied_lambda"] = float(size * unexplained / (1.0 - unexplained))
        numbers[f"m{size}_r2_at_100"] = 1.0 - (100.0 / (size + 100.0)) ** 2
        scores, tuned = [], []
        for _ in range(200):
            model = rng.standard_normal(10)
            features, test = rng.standard_normal((size, 10)), rng.standard_normal((1000, 10))
            scores.append(r_squared(test, test @ model, ridge(features, features @ model, 100.0)))
            tuned.append(r_squared(test, test @ model, ridge(features, features @ model, 1e-6)))
        numbers[f"m{size}_measured_r2_at_100"] = float(np.mean(scores))
        numbers[f"m{size}_measured_r2_at_0"] = float(np.mean(tuned))
    return numbers


def tables_rewlse_and_eta() -> Numbers:
    """Append as many clean rows to least squares as REWLSE could have had; in print it rises steeply."""
    rng = np.random.default_rng(101)
    model = rng.standard_normal(10)
    clean, test = rng.standard_normal((2, N_BUGGY, 10))
    size = float(np.abs(clean).mean())
    targets = clean @ model
    noisy = clean + 1.2 * size * rng.standard_normal(clean.shape)
    noisy_targets = targets + 1.2 * np.abs(targets).mean() * rng.standard_normal(N_BUGGY)
    numbers: Numbers = {}
    for cell in table("table_regression_r2"):
        if (cell.method, cell.noise) == ("REWLSE", 1.2):
            extra = rng.standard_normal((cell.n_trusted, 10))
            fit = ridge(np.concatenate([noisy, extra]), np.concatenate([noisy_targets, extra @ model]), 1.0)
            numbers[f"printed_m{cell.n_trusted}"] = cell.mean
            numbers[f"appended_m{cell.n_trusted}"] = r_squared(test, test @ model, fit)
            numbers[f"appended_share_m{cell.n_trusted}"] = cell.n_trusted / (N_BUGGY + cell.n_trusted)
    return numbers


ERRATA: dict[str, Callable[[], Numbers]] = {
    "E1": e1_own_contribution_only,
    "E2": e2_norm_of_the_sum,
    "E3": e3_half_in_the_dual,
    "E4": e4_mean_of_minimisers,
    "E5": e5_direction_of_crafting,
    "E6": e6_limit_of_a_sum,
    "E7": e7_trusted_shares,
    "E8": e8_swapped_names,
    "E9": e9_auc_of_a_regression,
    "E10": e10_bytes_per_round,
    "E11": e11_nested_subset_sums,
    "E12": e12_averaged_magnitude,
    "E13": e13_largest_alpha_is_misfit,
    "E14": e14_no_sparsity_for_logistic,
    "trusted_only_and_noise": tables_trusted_only_and_noise,
    "identical_columns": tables_identical_columns,
    "implied_lambda": tables_implied_lambda,
    "rewlse_and_eta": tables_rewlse_and_eta,
}


def tidy(value: float) -> float:
    """Round to five significant digits, rounding errors to 0."""
    return 0.0 if abs(value) < ROUNDING else float(f"{value:.5g}")


def run_all() -> dict[str, Numbers]:
    """Return the numbers of every erratum and of every remark about the tables, by name."""
    return {name: {key: tidy(value) for key, value in compute().items()} for name, compute in ERRATA.items()}


def main(arguments: list[str] | None = None) -> None:
    """Write all numbers as JSON."""
    parser = argparse.ArgumentParser(description="Compute the numbers of the errata page.")
    parser.add_argument("--out", type=Path, default=Path("docs/explanation/errata_numbers.json"))
    out: Path = parser.parse_args(arguments).out
    out.write_text(json.dumps(run_all(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
