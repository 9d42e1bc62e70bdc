"""Automatic choice as a method of the experiments, and its page."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from comt.bench.automatic import Automatic
from comt.bench.render_choice import auto_against_everybody, render_choice
from comt.bench.robustness import CHOICE, CHOICE_TRUSTED, draw, jobs, prepared
from comt.bench.tuning import score


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_it_learns_from_the_same_prepared_rows_as_everybody(task):
    job = next(job for job in jobs("choice", 1, ()) if job["data"] == task and job["corruption"] == "wrong_agents")
    data = prepared(draw({**job, "trusted": 60}))
    model = Automatic().fit(data.agents, data.task)
    assert score(data.task, data.test_targets, model.predict(data.test_features)) > 0.88
    assert model.found["rounds"] <= 60


def test_it_does_without_a_constant_column():
    data = prepared(draw({**jobs("choice", 1, ())[0], "trusted": 30}))
    agents = [
        type(a)(a.name, a.features[:, :-1], a.targets, a.trusted_features[:, :-1], a.trusted_targets)
        for a in data.agents
    ]
    model = Automatic().fit(agents, data.task)
    assert score(data.task, data.test_targets, model.predict(data.test_features[:, :-1])) > 0.88


def results():
    lines = []
    for trusted in (5, 20):
        for seed in range(3):
            for method, value in (("CoMT (auto)", 0.9), ("TI-only", 0.5), ("Buggy-only", 0.95), ("clean oracle", 1.0)):
                better = 0.1 if method == "CoMT (auto)" and trusted == 20 else 0.0
                lines.append(
                    {
                        "experiment": "choice",
                        "data": "regression",
                        "corruption": "clean",
                        "noise": 0.0,
                        "trusted": trusted,
                        "seed": seed,
                        "method": method,
                        "score": value + better,
                        "version": "0",
                    }
                )
    return pd.DataFrame(lines)


def test_the_page_marks_what_is_lost(tmp_path):
    assert render_choice(tmp_path) is None
    results().to_csv(tmp_path / "choice.csv", index=False)
    page = render_choice(tmp_path)
    assert "Of 2 cells automatic choice loses 1" in page
    assert "**-0.050**" in page
    assert "+0.050" in page


def test_the_sentence_counts_cells_on_common_seeds():
    told = auto_against_everybody(results())
    assert "of 2 cells it loses 1" in told
    assert "with 5 trusted rows -0.050" in told
    assert auto_against_everybody(results()[results()["method"] != "CoMT (auto)"]) == ""


def test_the_suite_has_both_tasks_and_all_sizes():
    cells = {(job["data"], job["corruption"], job["noise"]) for job in jobs("choice", 1, ())}
    assert cells == set(CHOICE)
    assert np.isin([5, 400], CHOICE_TRUSTED).all()
