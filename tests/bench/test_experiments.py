"""The experiments: same tuning for all, resumable results, pages made from results only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from comt.baselines import BASELINES
from comt.baselines.rounds import BoostedUpdate
from comt.bench import paper, real_as_printed, robustness
from comt.bench.methods import Candidate, CoMT, fair_candidates, other_candidates, paper_candidates
from comt.bench.render import render
from comt.bench.render_choice import auto_against_everybody
from comt.bench.render_comparison import comparison, notes
from comt.bench.render_differences import WHY, printed_cells, real_differences
from comt.bench.render_times import times
from comt.bench.render_verdicts import against_everybody, where_the_simple_choice_wins
from comt.bench.store import Store, score_methods
from comt.bench.tuning import fit_tuned, score
from comt.datasets import noisy_federation
from comt.errors import InputError


def small(task="regression", corruption="negated_targets", n_trusted=20, seed=0):
    return noisy_federation(task, corruption=corruption, n_rows=400, n_trusted=n_trusted, n_test=500, seed=seed)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_every_method_gets_at_most_the_same_budget(task):
    names = (*robustness.METHODS, *robustness.ON_REQUEST)
    candidates = fair_candidates(task, 400, 20, names)
    assert max(len(c.settings) for c in candidates) == 9
    assert len(next(c for c in candidates if c.name == "CoMT").settings) == 9
    assert {c.name for c in candidates} == {n for n in names if n not in BASELINES or task in BASELINES[n].tasks}


@pytest.mark.parametrize(("task", "table"), [("regression", "regression"), ("classification", "flips")])
def test_every_competitor_is_in_one_of_the_paper_s_tables(task, table):
    names = [c.name for c in (*paper_candidates(table), *other_candidates(task, table))]
    assert {name for name, kind in BASELINES.items() if task in kind.tasks} <= set(names)
    assert len(names) == len(set(names))


def test_comt_has_the_same_settings_in_all_cells_of_a_table():
    for table in ("regression", "features", "flips"):
        first, second = (paper_candidates(table) for _ in range(2))
        assert [c.settings for c in first] == [c.settings for c in second]
        assert all(len(c.settings) == 1 for c in first)
        assert all(getattr(c.settings[0], "lambda_w", 100.0) == 100.0 for c in first)


def test_tuning_picks_what_predicts_trusted_rows():
    data = small()
    useless, useful = CoMT(lambda_trusted=0.0), CoMT(lambda_trusted=1e3)
    model = fit_tuned(Candidate("CoMT", (useless, useful)), data.agents, data.task, 0)
    np.testing.assert_array_equal(model.coef, useful.fit(data.agents, data.task).coef)
    ignoring = Candidate("CoMT", (useless, useful), uses_trusted=False)
    np.testing.assert_array_equal(fit_tuned(ignoring, data.agents, data.task, 0).coef, model.coef)


def test_held_out_rows_take_no_part_in_the_fit():
    seen = []

    class Spy(CoMT):
        def fit(self, agents, task):
            seen.append(sum(len(a.trusted_targets) for a in agents))
            return super().fit(agents, task)

    data = small()
    fit_tuned(Candidate("spy", (Spy(), Spy(lambda_w=2.0))), data.agents, data.task, 0)
    assert seen == [16] * 10 + [20]


def test_the_path_s_point_is_chosen_with_the_setting():
    data = small("classification", "wrong_agents", n_trusted=40)
    (candidate,) = fair_candidates("classification", 400, 40, ["DUTI"])
    model = fit_tuned(candidate, data.agents, data.task, 0)
    assert 0 <= model.found["point"] < 12
    along = [m.coef for s in candidate.settings for m in s.fit_path(data.agents, data.task)]
    assert any(np.array_equal(model.coef, coef) for coef in along)


def test_a_boosted_update_reaches_the_methods_that_combine_updates_only():
    data = small("classification", "malicious_agent")
    names = ["FedAvg", "Krum", "Buggy-only", "CoMT"]
    attack = BoostedUpdate(data.malicious, 5.0)
    attacked, untouched = (fair_candidates("classification", 400, 20, names, a) for a in (attack, None))
    changed = {}
    for with_attack, without in zip(attacked, untouched, strict=True):
        models = [c.settings[0].fit(data.agents, data.task).coef for c in (with_attack, without)]
        changed[with_attack.name] = not np.allclose(*models, atol=1e-6)
    assert changed == {"FedAvg": True, "Krum": False, "Buggy-only": False, "CoMT": False}


def test_trusted_rows_can_all_be_at_one_agent():
    job = {"experiment": "robustness", "data": "regression", "corruption": "trusted_at_one_agent"}
    data = robustness.draw({**job, "noise": 0.0, "trusted": 20, "seed": 0})
    assert [len(a.trusted_targets) for a in data.agents] == [20, 0, 0, 0, 0]


def test_scores():
    assert score("classification", np.ones(3), np.arange(3.0)) == 0.5
    assert np.isnan(score("regression", np.ones(3), np.full(3, np.nan)))
    assert score("regression", np.arange(3.0), np.arange(3.0)) == 1.0


def test_results_are_stored_once_and_found_again(tmp_path):
    job = {"experiment": "robustness", "protocol": "fair", "data": "regression", "corruption": "clean"}
    job |= {"noise": 0.0, "trusted": 20, "seed": 0}
    store = Store(tmp_path / "new" / "r.csv")
    lines = score_methods(job, small(), fair_candidates("regression", 400, 20, ["TI-only", "CoMT"]))
    store.add(lines)
    again = Store(tmp_path / "new" / "r.csv")
    assert again.has({**job, "method": "CoMT"})
    assert not again.has({**job, "method": "Krum"})
    assert not again.has({**job, "method": "CoMT", "seed": 1})
    table = pd.read_csv(again.path)
    assert table["score"].between(-1, 1).all()
    assert (table["version"] != "").all()


def test_a_method_that_fails_is_a_line_that_says_so():
    class Failing(CoMT):
        def fit(self, agents, task):
            raise InputError("it cannot.")

    (line,) = score_methods({"seed": 0}, small(), [Candidate("failing", (Failing(),))])
    assert line["note"] == "it cannot."
    assert "score" not in line


def test_a_small_run_is_resumed_and_rendered(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(robustness, "REGRESSION", ("clean", "negated_targets"))
    monkeypatch.setattr(robustness, "CLASSIFICATION", ("label_flips",))
    monkeypatch.setattr(robustness, "TRUSTED", (20,))
    monkeypatch.setattr(robustness, "N_ROWS", 300)
    names = ("CoMT", "TI-only", "Buggy-only", "Krum")
    robustness.run("robustness", tmp_path, 2, 1, names[1:2])
    render(tmp_path)  # one method alone has a page, too
    robustness.run("robustness", tmp_path, 2, 1, names[:3])
    before = len(pd.read_csv(tmp_path / "robustness.csv"))
    robustness.run("robustness", tmp_path, 2, 1, names)
    after = pd.read_csv(tmp_path / "robustness.csv")
    assert len(after) == before + 6  # the new method only
    assert not after.duplicated(["data", "corruption", "trusted", "method", "seed"]).any()
    (page,) = render(tmp_path)
    text = page.read_text(encoding="utf-8")
    mean = after[(after["corruption"] == "clean") & (after["method"] == "TI-only")]["score"].mean()
    assert f"{mean:.3f}" in text
    assert "Of 3 cells" in text
    assert "Seeds per cell: 2 to 2" in text
    assert "Fewest seeds" not in text


def test_the_paper_s_cells_are_drawn_as_described():
    data = paper.cell("flips", 0.4, 0.5, seed=0, n_rows=5_000)
    wrong = np.concatenate(data.wrong_targets)
    assert wrong.mean() == pytest.approx(0.4, abs=0.01)
    assert len(wrong) == 2_000
    assert sum(len(a.trusted_targets) for a in data.agents) == 25
    noisy = paper.cell("regression", 1.2, 1.0, seed=0, n_rows=5_000)
    assert np.concatenate(noisy.wrong_cells).all()
    assert len(paper.jobs("paper", 20)) == (9 + 9 + 3) * 20
    assert len(paper.jobs("sum", 20)) == (9 + 9) * 20
    mean, total = (
        paper.cell("features", 0.6, 1.0, seed=0, n_rows=2_000, reading=reading) for reading in ("mean", "sum")
    )
    added = [
        np.concatenate([a.features - c for a, c in zip(d.agents, d.clean_features, strict=True)]) for d in (mean, total)
    ]
    assert added[1].std() == pytest.approx(10 * added[0].std(), rel=0.01)


def test_paper_page_has_the_printed_number_beside_ours(tmp_path):
    job = {
        "experiment": "paper",
        "protocol": "paper",
        "data": "flips",
        "corruption": "flips",
        "noise": 0.4,
        "trusted": 0.5,
    }
    lines = []
    for seed in range(3):
        data = paper.cell("flips", 0.4, 0.5, seed, n_rows=2_000)
        chosen = [c for c in paper_candidates("flips") if c.name in ("CoMT", "TI-only", "Buggy-only")]
        lines += score_methods({**job, "seed": seed}, data, chosen)
    Store(tmp_path / "paper_paper.csv").add(lines)
    (page,) = render(tmp_path)
    text = page.read_text(encoding="utf-8")
    assert "0.82 / 0.86 / 0.89" in text  # the three printed blocks
    assert "Who wins, paired over seeds" in text
    assert "Times of every method" in text
    assert (
        "| flips | TI-only | " in text.partition("Where we differ")[2]
    )  # further than .02 from the print, and explained


def test_every_printed_method_that_differs_has_a_reason():
    for table in ("regression", "features", "flips"):
        for _, _, method in printed_cells(table):
            assert WHY[table][method]


def _lines(shift, seeds):
    rng = np.random.default_rng(0)
    noise = rng.normal(scale=0.01, size=(seeds, 2))
    base = {"data": "d", "corruption": "c", "noise": 1.0}
    return pd.DataFrame(
        {**base, "trusted": cell, "seed": seed, "method": method, "score": 0.5 + extra + noise[seed, cell]}
        for seed in range(seeds)
        for cell in (0, 1)
        for method, extra in (("CoMT", 0.0), ("TI-only", shift), ("Buggy-only", -0.2))
    )


def test_words_rest_on_paired_tests():
    better = against_everybody(_lines(0.03, 12))
    assert "| d | TI-only | -0.030 | 0 / 2 of 2 | 0 of 12 | 0.001 | worse |" in better
    assert "| d | Buggy-only | +0.200 | 2 / 0 of 2 | 12 of 12 | 0.001 | better |" in better
    assert against_everybody(_lines(0.03, 5)).count("not told apart") == 2  # too few seeds for any word
    said = where_the_simple_choice_wins(_lines(0.03, 12))
    assert "TI-only beats CoMT in 2 cells: d at noise 1 with 0 % trusted (+0.030)" in said
    assert "Buggy-only beats CoMT in 0 cells." in said


def test_a_method_that_was_not_run_is_no_failure():
    cell = {"data": "d", "noise": 0.0, "trusted": 5, "seed": 0}
    lines = [{**cell, "corruption": c, "method": m, "score": 0.5} for c in ("a", "boosted_update") for m in ("A", "B")]
    lines[1]["score"] = np.nan
    results = pd.DataFrame(lines[:3])
    assert "| a | 5 | – | **0.500** | failed |" in comparison(results)
    assert "| boosted update | 5 | – | **0.500** | – |" in comparison(results)
    assert "Bhagoji" in notes(results)
    assert notes(results[:2]) == ""


def test_the_paper_s_real_data_stand_beside_ours():
    cell = {"data": "CPUSMALL", "corruption": "gaussian_noise", "noise": 1.5, "trusted": 400, "seed": 0}
    fair = pd.DataFrame([{**cell, "method": m, "score": v} for m, v in (("CoMT", 0.688), ("REWLSE", 0.2))])
    text = real_differences(fair, None)
    assert "| CPUSMALL noise 1.5 eta 5% | CoMT | 0.71 | 0.688 |" in text
    assert "| CPUSMALL noise 1.5 eta 5% | REWLSE | 0.58 | 0.200 |" in text
    rewlse = {**cell, "method": "REWLSE"}
    scaled = [("paper", 0.3), ("standardised", 0.4)]
    both = real_differences(fair, pd.DataFrame([{**rewlse, "protocol": p, "score": v} for p, v in scaled]))
    assert "| ours, in its setting | ours, standardised | ours, tuned alike |" in both
    assert "| CPUSMALL noise 1.5 eta 5% | REWLSE | 0.58 | 0.300 | 0.400 | 0.200 |" in both
    assert "| CPUSMALL noise 1.5 eta 5% | Buggy-only | not shown | – | – | – |" in both


def test_the_paper_s_real_data_are_run_in_its_setting(tmp_path, monkeypatch):
    def draw(job, *, standardised=True):
        data = small("classification" if job["data"] == "IJCNN" else "regression", "clean")
        agents = tuple(replace(a, targets=a.targets + 5.0) if data.task == "regression" else a for a in data.agents)
        return replace(data, agents=agents)

    monkeypatch.setattr(real_as_printed, "candidates", lambda table, protocol: paper_candidates(table)[:2])
    monkeypatch.setattr(robustness, "draw", draw)
    monkeypatch.setattr(
        real_as_printed, "run_jobs", lambda store, jobs, work, **_: [store.add(work(job)) for job in jobs]
    )
    real_as_printed.run(tmp_path, 1, 1)
    table = pd.read_csv(tmp_path / real_as_printed.FILE)
    assert len(table) == 4 * 3 * 2
    assert set(table["protocol"]) == set(real_as_printed.PREPARATIONS)
    real_as_printed.run(tmp_path, 1, 1)  # nothing is missing, nothing is run again
    assert len(pd.read_csv(tmp_path / real_as_printed.FILE)) == 24
    job = {"data": "CPUSMALL", "seed": 0}
    centred, raw = (real_as_printed.PREPARATIONS[name](job) for name in ("standardised", "as they come"))
    assert np.concatenate([a.targets for a in centred.agents]).mean() == pytest.approx(0.0, abs=1e-12)
    assert np.concatenate([a.targets for a in raw.agents]).mean() == pytest.approx(5.0, abs=0.2)
    assert centred.test_features.shape[1] == raw.test_features.shape[1] + 1


def test_means_of_one_cell_are_over_the_same_seeds():
    cell = {"data": "d", "corruption": "a", "noise": 0.0, "trusted": 5}
    scores = {"A": [0.5, 0.5], "B": [0.4, 0.4], "TI-only": [0.3, 0.3, 0.9, 0.9], "DUTI": [0.8]}
    lines = [{**cell, "method": m, "seed": i, "score": v} for m, values in scores.items() for i, v in enumerate(values)]
    text = comparison(pd.DataFrame(lines))
    # TI-only's further seeds do not count, DUTI's single one is said to be single
    assert "| a | 5 | – | **0.500** | 0.400 | 0.300 | 0.800 (1) |" in text


def test_automatic_choice_is_compared_on_seeds_that_both_have():
    cell = {"data": "d", "corruption": "a", "noise": 0.0, "trusted": 5}
    scores = {"CoMT (auto)": [0.5, 0.9], "TI-only": [0.495, 0.3], "Buggy-only": [0.1, 0.1], "DUTI": [0.505]}
    lines = [{**cell, "method": m, "seed": i, "score": v} for m, values in scores.items() for i, v in enumerate(values)]
    said = auto_against_everybody(pd.DataFrame(lines))
    assert "(2 seeds): of 1 cells it loses 0" in said
    assert "and wins 1." in said
    # on the one seed that DUTI has it is .005 better
    assert "in 1 cells and above it in 0." in said


def test_gaps_to_the_oracle_that_are_chance_are_told_apart():
    many = {"data": "d", "noise": 0.0, "trusted": 100, "seed": 0}
    cells = {
        "wrong_agents": {"CoMT (auto)": 0.89, "TI-only": 0.80, "Buggy-only": 0.1, "clean oracle": 0.90},
        "malicious_agent": {"CoMT (auto)": 0.899, "TI-only": 0.8995, "Buggy-only": 0.1, "clean oracle": 0.90},
    }
    lines = [{**many, "corruption": c, "method": m, "score": v} for c, row in cells.items() for m, v in row.items()]
    said = auto_against_everybody(pd.DataFrame(lines))
    assert "(2 of these), it closes at least 90% of the gap" in said
    assert "but for 1 in which that gap is less than 0.002 (there it is -0.0005 from the best of them)" in said


def test_lines_without_processor_time_are_left_out_of_the_times():
    cell = {"data": "flips", "corruption": "flips", "noise": 0.4, "trusted": 0.5}
    lines = [{**cell, "method": "A", "seed": s, "seconds": t} for s, t in enumerate((np.nan, 60.0, 30.0))]
    text = times({"paper": pd.DataFrame(lines)})
    assert "| paper | A | – | – | 30.00 |" in text
    assert "add up to 5 minutes (paper)" in text
    untimed = {**cell, "method": "B", "seed": 0, "seconds": np.nan}
    assert "minutes" not in times({"paper": pd.DataFrame([*lines, untimed])})
