"""The paper's errata E1 to E14, each as a small computation.

Every function returns a flat dictionary of numbers, is seeded and takes a second or so. What the numbers show
is said in words on the errata page of the documentation, and ``python -m comt.bench.errata`` writes the file
that page is checked against. Rows of all agents are in one place here: these are demonstrations.
"""

from __future__ import annotations

from collections.abc import Callable

from comt.bench.errata import formulas, protocol, tables
from comt.bench.errata.common import Numbers

#: smaller numbers are rounding errors: written as 0, so that the file does not depend on the processor
ROUNDING = 1e-9

ERRATA: dict[str, Callable[[], Numbers]] = {
    "E1": formulas.e1_own_contribution_only,
    "E2": formulas.e2_norm_of_the_sum,
    "E3": formulas.e3_half_in_the_dual,
    "E4": formulas.e4_mean_of_minimisers,
    "E5": formulas.e5_direction_of_crafting,
    "E6": tables.e6_limit_of_a_sum,
    "E7": tables.e7_trusted_shares,
    "E8": tables.e8_swapped_names,
    "E9": tables.e9_auc_of_a_regression,
    "E10": protocol.e10_bytes_per_round,
    "E11": protocol.e11_nested_subset_sums,
    "E12": protocol.e12_averaged_magnitude,
    "E13": protocol.e13_largest_alpha_is_misfit,
    "E14": protocol.e14_no_sparsity_for_logistic,
    "trusted_only_and_noise": tables.tables_trusted_only_and_noise,
    "identical_columns": tables.tables_identical_columns,
    "implied_lambda": tables.tables_implied_lambda,
    "rewlse_and_eta": tables.tables_rewlse_and_eta,
}


def tidy(value: float) -> float:
    """Round to five significant digits, rounding errors to 0."""
    return 0.0 if abs(value) < ROUNDING else float(f"{value:.5g}")


def run_all() -> dict[str, Numbers]:
    """Return the numbers of every erratum and of every remark about the tables, by name."""
    return {name: {key: tidy(value) for key, value in compute().items()} for name, compute in ERRATA.items()}
