"""The limit of choosing between two models: known answers, and that it bounds a chooser who goes by the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from comt.bench import limits, robustness
from comt.bench.render_few import render_few


@pytest.fixture
def worlds():
    """Right labels follow one score of slope 2.1 (an AUC of .87); unverified ones a score that has nothing to do with it."""
    rng = np.random.default_rng(0)
    found = limits._Worlds.__new__(limits._Worlds)
    found._right, found._unverified = 2.1 * rng.normal(size=(2, 20_000))
    found._labels = np.where(rng.random(20_000) < expit(found._right), 1.0, -1.0)
    found._rng = rng
    found._rows = rng.integers(20_000, size=(limits.DRAWS, limits.TRUSTED))
    return found


def test_nothing_is_lost_where_the_other_world_asks_for_nothing(worlds):
    assert worlds.limit(trusted=0.1, buggy=0.87) == pytest.approx(0.87)


def test_the_sign_costs_what_the_best_test_costs(worlds):
    # the better test errs as often in both worlds if it goes by the sign of the evidence: in 3.7 % of draws
    evidence = (worlds._labels * worlds._right)[worlds._rows].sum(axis=1)
    errs = float((evidence < 0).mean())
    assert errs == pytest.approx(0.037, abs=0.006)
    needed = (1.0 - errs) * 0.87 + errs * 0.13  # what going by the sign has in the other world
    limit = worlds.limit(trusted=needed + limits.MAY_LOSE, buggy=0.87)
    assert limit == pytest.approx(0.87 - errs * 0.74, abs=0.003)


def test_whoever_knows_less_of_the_model_knows_less_of_its_sign(worlds):
    known = worlds.limit(trusted=0.7, buggy=0.87)
    assert worlds.sign_by_unverified(trusted=0.7, buggy=0.87) == pytest.approx(
        0.5, abs=0.2
    )  # these rows tell nothing of it
    worlds._unverified = 0.3 * worlds._right  # vague labels of the right model
    assert worlds.sign_by_unverified(trusted=0.7, buggy=0.87) == pytest.approx(known)
    worlds._unverified = worlds._right + 2.1 * np.random.default_rng(1).normal(size=20_000)
    assert worlds.sign_by_unverified(trusted=0.7, buggy=0.87) < known - 0.005


def test_unverified_rows_are_left_only_as_often_as_clean_ones_allow(worlds):
    limit = worlds.limit(trusted=0.68, buggy=0.5)
    assert 0.5 < limit < 0.68
    always = worlds.limit(trusted=0.87, buggy=0.5)  # leaving them costs nothing even where they are right
    assert always > 0.8


def test_the_page_says_what_lies_below_the_limit(tmp_path):
    assert render_few(tmp_path) is None
    cell = {
        "experiment": "robustness",
        "protocol": "fair",
        "data": "classification",
        "corruption": "clean",
        "noise": 0.0,
        "trusted": 5,
    }
    scores = {"CoMT (auto)": (0.80, 0.82), "TI-only": (0.6, 0.7), "Buggy-only": (0.87, 0.87)}
    lines = [
        {**cell, "method": name, "seed": seed, "score": score, "version": "0"}
        for name, both in scores.items()
        for seed, score in enumerate(both)
    ]
    pd.DataFrame(lines).to_csv(tmp_path / "few.csv", index=False)
    pd.DataFrame([{**cell, "limit": 0.86, "unknown": 0.85}]).drop(columns="protocol").to_csv(
        tmp_path / "few_limits.csv", index=False
    )
    text = render_few(tmp_path)
    assert "Of 1 cells automatic choice loses 1 by more than 0.01" in text
    assert "1 lie more than 0.01 below what choosing can reach without knowing the right model (worst -0.040)" in text
    assert "1 below what it could if it knew both models (worst -0.050)" in text
    assert "| 0.810 | **-0.060**\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.010 | 0.860 | 0.850 | 0.650 | 0.870 |" in text


def test_the_cells_of_the_suites_have_labels_and_few_trusted_rows():
    found = limits.cells()
    suites = [cell for cell in found if cell["experiment"] in ("robustness", "choice")]
    assert {cell["trusted"] for cell in suites} == {limits.TRUSTED}
    again = [(cell["data"], cell["corruption"], cell["trusted"]) for cell in found if cell["experiment"] == "unseen"]
    assert sorted(again) == sorted(limits.LOST_WITH_FEW_SEEDS)
    assert {cell["data"] for cell in suites} <= robustness.CLASSIFIED


def test_vague_cells_are_what_their_names_say():
    cells = [cell for cell in limits.cells() if cell["experiment"] == "vague"]
    assert len(cells) == len(robustness.VAGUE) * len(robustness.VAGUE_WRONG) * len(robustness.VAGUE_TRUSTED)
    for cell in cells[:: len(robustness.VAGUE_TRUSTED)]:
        data = robustness.draw(cell)
        assert data.task == ("classification" if cell["data"] in robustness.CLASSIFIED else "regression")
        assert sum(len(agent.trusted_targets) for agent in data.agents) == cell["trusted"]
        rows, targets = (
            np.concatenate([getattr(agent, part) for agent in data.agents]) for part in ("features", "targets")
        )
        along = data.test_features @ np.linalg.lstsq(rows, targets, rcond=None)[0]
        agrees = np.corrcoef(along, data.test_targets)[0, 1]
        assert (agrees > 0.1) if cell["corruption"] == "clean" else (agrees < -0.1)


def test_the_page_leaves_cells_without_a_limit_open(tmp_path):
    cell = {"experiment": "vague", "protocol": "fair", "data": "targets of R² 0.1", "corruption": "clean"}
    lines = [
        {**cell, "noise": 0.0, "trusted": 5, "method": name, "seed": seed, "score": 0.1, "version": "0"}
        for name in ("CoMT (auto)", "TI-only", "Buggy-only")
        for seed in range(2)
    ]
    with_limit = [{**line, "experiment": "choice", "data": "classification", "score": 0.7} for line in lines]
    pd.DataFrame(lines + with_limit).to_csv(tmp_path / "few.csv", index=False)
    limit = {"experiment": "choice", "data": "classification", "corruption": "clean", "noise": 0.0, "trusted": 5}
    pd.DataFrame([{**limit, "limit": 0.7, "unknown": 0.69}]).to_csv(tmp_path / "few_limits.csv", index=False)
    text = render_few(tmp_path)
    assert "|  |  | 0.100 | 0.100 | vague |" in text
    assert "(worst +0.010)" in text


def test_there_is_no_page_before_automatic_choice_has_run(tmp_path):
    cell = {"experiment": "vague", "data": "labels of AUC 0.6", "corruption": "clean", "noise": 0.0, "trusted": 5}
    pd.DataFrame([{**cell, "method": "TI-only", "seed": 0, "score": 0.6}]).to_csv(tmp_path / "few.csv", index=False)
    pd.DataFrame([{**cell, "limit": 0.7, "unknown": 0.7}]).to_csv(tmp_path / "few_limits.csv", index=False)
    assert render_few(tmp_path) is None


def test_cells_that_few_seeds_called_lost_get_more_of_them():
    jobs = limits.jobs(2)
    seeds = [job["seed"] for job in jobs]
    assert seeds == sorted(seeds)
    assert {job["seed"] for job in jobs if job["experiment"] != "unseen"} == {0, 1}
    assert {job["seed"] for job in jobs if job["experiment"] == "unseen"} == set(range(2 * limits.MORE_SEEDS))
