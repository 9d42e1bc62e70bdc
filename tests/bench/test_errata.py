"""Every erratum's claim as an assertion, and the errata page against a fresh run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from comt.bench import errata
from comt.bench.errata.__main__ import main

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "errata.md"
STORED = PAGE.with_name("errata_numbers.json")


@pytest.fixture(scope="module")
def numbers():
    return errata.run_all()


def test_e1_the_printed_loop_explodes_and_the_repaired_one_arrives(numbers):
    found = numbers["E1"]
    assert 1 < found["lambda_w_1_rounds_to_a_million"] < 100
    assert 1 < found["lambda_w_100_rounds_to_a_million"] < 100
    assert found["lambda_w_100_exact_norm"] < 10
    assert found["lambda_w_100_repaired_error_after_1000"] < 1e-9
    assert found["rho_1_printed_error_after_2000"] > 0.5  # does not explode, but is wrong


@pytest.mark.parametrize("n_agents", [2, 5, 10])
def test_e2_the_model_is_about_k_times_too_long(numbers, n_agents):
    assert numbers["E2"][f"norm_ratio_{n_agents}_agents"] == pytest.approx(n_agents, rel=0.1)


def test_e3_only_half_closes_the_duality_gap(numbers):
    found = numbers["E3"]
    assert found["gap_with_half"] == 0.0
    assert found["gap_as_printed"] > 1
    assert found["norm_ratio"] < 0.7


def test_e4_trust_weakens_as_agents_join(numbers):
    found = numbers["E4"]
    assert found["equal_rho_100_to_lambda_over_k"] == 0.0
    assert found["equal_rho_100_to_lambda"] > 0.1
    # with different trusted rows the fixed point only tends to that of λ/K as ρ grows
    assert found["different_rho_1000_to_lambda_over_k"] < 0.3 * found["different_rho_100_to_lambda_over_k"]
    assert found["different_rho_100_to_lambda"] >= found["different_from_lambda_over_k_to_lambda"]


def test_e5_printed_crafting_points_away_from_the_repair(numbers):
    found = numbers["E5"]
    assert found["cosine_printed"] < -0.1
    assert found["cosine_best_rank_one"] > 0.1
    assert abs(found["cosine_printed"]) <= found["cosine_best_rank_one"]


def test_e6_to_e9_are_what_the_tables_hold(numbers):
    assert numbers["E6"] == {"smallest_share": 0.0025, "largest_share": 0.025}
    assert [numbers["E7"][f"table_eta_{i}_percent"] for i in (1, 2, 3)] == [0.1, 0.5, 1.0]
    assert numbers["E8"]["features_cells_headed_rlr"] == numbers["E8"]["flips_cells_headed_rlor"] == 9
    assert numbers["E8"]["features_cells_headed_rlor"] == numbers["E8"]["flips_cells_headed_rlr"] == 0
    assert numbers["E9"]["comt"] == 0.71


def test_e10_our_messages_are_far_smaller_than_the_printed_order(numbers):
    found = numbers["E10"]
    assert found["vectors_only"] < found["step_of_algorithm_1"] < found["with_matrices"]
    assert 100 * found["with_matrices"] < found["printed_order"]


def test_e11_two_sums_give_one_row_away(numbers):
    assert numbers["E11"]["error_of_features"] == numbers["E11"]["error_of_target"] == 0.0
    assert numbers["E11"]["norm_of_features"] > 1


def test_e12_the_two_readings_differ_by_the_number_of_features(numbers):
    assert numbers["E12"]["ratio"] == pytest.approx(10)
    assert numbers["E12"]["r2_entry_0.3"] > 0.99
    assert numbers["E12"]["r2_row_norm_0.3"] < 0.4


def test_e13_the_largest_alpha_are_the_worst_rows(numbers):
    found = numbers["E13"]
    assert found["largest_kept_highest"] < 0.3
    assert found["all_rows_lowest"] > 0.85
    assert found["smallest_kept_refitted_lowest"] > 0.85
    assert found["flipped_among_dropped"] < 0.05  # of 40 % flipped rows, the rule drops almost none


def test_e14_logistic_alpha_is_never_zero(numbers):
    found = numbers["E14"]
    for value in ("0", "1", "5"):
        assert found[f"logistic_zeros_{value}"] == 0
        assert found[f"logistic_smallest_{value}"] > 0
        assert found[f"logit_shift_error_{value}"] == 0.0
    assert found["squared_zero_share_0"] == 0
    assert found["squared_zero_share_1"] > 0.5


def test_trusted_only_moves_with_a_noise_it_never_sees(numbers):
    found = numbers["trusted_only_and_noise"]
    assert found["table_features_auc_change_in_standard_errors"] > 10
    assert found["table_flips_auc_change_in_standard_errors"] > 10


def test_most_columns_of_the_flips_table_repeat(numbers):
    found = numbers["identical_columns"]
    assert found["table_flips_auc_methods_all_identical"] == 4
    assert found["table_regression_r2_methods_all_identical"] == found["table_features_auc_methods_all_identical"] == 0


@pytest.mark.parametrize("size", [50, 250, 500])
def test_trusted_only_has_a_penalty_near_100(numbers, size):
    found = numbers["implied_lambda"]
    assert 90 < found[f"m{size}_implied_lambda"] < 140
    assert found[f"m{size}_measured_r2_at_100"] == pytest.approx(found[f"m{size}_r2_at_100"], abs=0.04)
    assert found[f"m{size}_measured_r2_at_0"] > 0.999


def test_appended_rows_cannot_lift_rewlse(numbers):
    found = numbers["rewlse_and_eta"]
    assert found["printed_m500"] - found["printed_m50"] > 0.3
    assert abs(found["appended_m500"] - found["appended_m50"]) < 0.02


def test_stored_numbers_equal_a_fresh_run(numbers):
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    assert stored.keys() == numbers.keys()
    for name, found in numbers.items():
        assert stored[name] == pytest.approx(found, rel=1e-3, abs=1e-8), name


def test_main_writes_the_same_file_twice(numbers, tmp_path, monkeypatch):
    monkeypatch.setattr(errata, "run_all", lambda: numbers)
    for name in ("one.json", "two.json"):
        main(["--out", str(tmp_path / name)])
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_every_number_in_the_page_is_the_stored_one():
    """A table line of the page reads ``| what | `E2.norm_ratio_5_agents` | 4.81 |``."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    lines = re.findall(r"\| `(\w+)\.([\w.]+)` \| ([^|]+) \|", PAGE.read_text(encoding="utf-8"))
    assert {name for name, _, _ in lines} == set(stored)
    for name, key, text in lines:
        printed = float(text.replace(",", "").replace("−", "-"))
        digits = len(text.strip().partition(".")[2])
        assert printed == pytest.approx(stored[name][key], abs=0.5000001 * 10.0**-digits), f"{name}.{key}"
