"""Why our numbers differ from the print's: every reason has its change, every change its line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from comt.baselines.duti import Duti
from comt.baselines.linear import fit_exact
from comt.bench import ablations, paper
from comt.bench.ablations import BY_BLOCK, CHANGES, DRAWS, DutiVariant
from comt.bench.render_ablations import ablations as table_of
from comt.bench.render_ablations import gaps, near, orderings, printed
from comt.bench.render_differences import NAMES, WHY
from comt.datasets import noisy_federation


def test_every_reason_has_a_change_that_tests_it():
    tested = {(change.table, change.method) for change in CHANGES}
    assert tested == {(table, method) for table, reasons in WHY.items() for method in reasons}
    assert {change.rows for change in CHANGES} == set(DRAWS)
    names = [(change.table, change.method, change.name) for change in CHANGES]
    assert len(set(names)) == len(names)
    assert all(change.name for change in CHANGES)


def test_closer_clusters_are_closer_and_nothing_else():
    usual = DRAWS[""]("features", 0.3, 0.5, 0)
    same, closer = (ablations._clusters(spread, "features", 0.3, 0.5, 0) for spread in (1.5, 0.5))
    np.testing.assert_array_equal(usual.agents[0].features, same.agents[0].features)

    def separation(data):
        positive = data.test_targets > 0
        return np.linalg.norm(data.test_features[positive].mean(axis=0) - data.test_features[~positive].mean(axis=0))

    assert separation(closer) < 0.7 * separation(usual)


def test_rows_are_spoiled_as_named():
    targets_only = DRAWS["noise on targets only"]("regression", 1.2, 0.5, 0)
    assert not np.concatenate(targets_only.wrong_cells).any()
    assert np.concatenate(targets_only.wrong_targets).all()
    block = DRAWS[BY_BLOCK]("flips", 0.6, 0.5, 0)
    assert np.concatenate(block.wrong_cells).all()
    assert np.concatenate(block.wrong_targets).mean() == pytest.approx(0.4, abs=0.001)


def test_duti_s_variants_take_the_price_they_name():
    data = noisy_federation("regression", corruption="negated_targets", n_rows=300, n_trusted=60, n_test=10, seed=0)
    fits = {price: DutiVariant(price=price).fit(data.agents, data.task) for price in ("held-out", "first", "last")}
    np.testing.assert_array_equal(fits["held-out"].coef, Duti().fit(data.agents, data.task).coef)
    assert fits["last"].found["point"] == [11] * 5
    assert fits["first"].found["point"] == [1] * 5
    without = DutiVariant(with_trusted=False).fit(data.agents, data.task)
    features = np.concatenate([a.features for a in data.agents])
    targets = np.concatenate(fits["held-out"].found["repaired"])
    np.testing.assert_allclose(without.coef, fit_exact(features, targets, "regression", 1.0))


def test_a_run_is_stored_and_resumed(tmp_path, monkeypatch):
    cheap = tuple(c for c in CHANGES if (c.table, c.method) == ("regression", "TI-only"))
    monkeypatch.setattr(ablations, "CHANGES", cheap)
    monkeypatch.setattr(ablations, "ETAS", (0.1,))
    monkeypatch.setattr(ablations, "TABLES", {"regression": (0.3,)})
    monkeypatch.setattr(ablations, "run_jobs", lambda store, jobs, work, **_: [store.add(work(job)) for job in jobs])
    ablations.run(tmp_path, 1, 1)
    stored = pd.read_csv(tmp_path / ablations.FILE)
    assert list(stored["corruption"]) == [change.name for change in cheap]
    # a larger penalty shrinks more
    assert stored["score"][1] < stored["score"][0] < 1.0
    ablations.run(tmp_path, 2, 1)
    assert list(pd.read_csv(tmp_path / ablations.FILE)["seed"]) == [0, 0, 0, 1, 1, 1]


def _scores(shift, name):
    return [
        {"data": "regression", "method": "TI-only", "corruption": name, "seed": 0, "version": "x"}
        | {"noise": noise, "trusted": eta, "score": printed("regression", noise, eta, "TI-only")[0] + shift}
        for noise in paper.NOISES
        for eta in paper.ETAS
    ]


def test_lines_say_how_near_the_print_they_come():
    unchanged = pd.DataFrame(_scores(0.05, "regression"))
    changed = pd.DataFrame(_scores(0.01, "λ_w = 115") + _scores(-0.03, "λ_w = 130"))
    text = table_of(changed, unchanged)
    assert "| regression | TI-only | nothing | 0 of 9 | 0.050 | +0.05 to +0.05 |" in text
    assert "|  |  | λ_w = 115 | 9 of 9 | 0.010 | +0.01 to +0.01 |" in text
    assert "|  |  | λ_w = 130 | 0 of 9 | 0.030 | -0.03 to -0.03 |" in text
    assert "Every printed number is reproduced for regression, TI-only (*λ_w = 115*)." in text
    far = table_of(changed[changed["corruption"] == "λ_w = 130"], unchanged)
    assert "Nothing tried comes near a single number for regression, TI-only (*λ_w = 130*: 0 of 9)." in far
    assert "not a reproduction" in far


def test_the_flip_table_s_blocks_are_one_experiment_unless_they_are_drawn():
    assert printed("flips", 0.4, 0.1, "TI-only") == [0.72, 0.74, 0.84]
    assert printed("flips", 0.6, 0.1, "TI-only") == [0.74]
    scores = pd.DataFrame([{"noise": 0.4, "trusted": 0.1, "score": 0.75}])
    assert gaps(scores, "flips", "TI-only") == pytest.approx([0.03, 0.01, -0.09])
    assert near([0.03, 0.01, -0.09]) == 1


def test_orderings_are_counted_where_the_print_tells_methods_apart():
    rows = [
        {"data": "regression", "noise": 0.3, "trusted": 0.1, "method": method, "score": score}
        for method, score in (("CoMT", 0.9), ("CoMT-subset", 0.8), ("TI-only", 0.5), ("DUTI", 0.7))
    ]
    # printed .98, .95, .56, .57: five of the six pairs differ by more than .02
    assert "same order in 5 of 5 (regression)." in orderings(pd.DataFrame(rows))
    rows[2]["score"] = 0.95
    assert "same order in 3 of 5 (regression)." in orderings(pd.DataFrame(rows))
    assert set(NAMES) == set(WHY)
