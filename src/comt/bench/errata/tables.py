"""E6 to E9, and what the printed tables cannot be."""

from __future__ import annotations

import numpy as np

from comt.bench.errata.common import Numbers, r_squared, ridge
from comt.bench.published import N_BUGGY, N_ROWS, REPEATS, TABLES, TableName, real_and_scaling, table


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
