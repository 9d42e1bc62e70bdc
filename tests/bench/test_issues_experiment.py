"""``comt bench issues``: what it measures, that it goes on where it stopped, and the page made of it."""

import numpy as np
import pandas as pd
import pytest

from comt.bench import issues
from comt.bench import issues_unseen as unseen
from comt.bench.render_issues import render_issues
from comt.datasets import noisy_federation
from comt.datasets.corruptions import MissingCodes, NegatedTargets


def test_a_perfect_table_gets_perfect_marks_and_a_blind_one_does_not():
    data = noisy_federation("regression", corruption=MissingCodes(), n_rows=200, n_trusted=20, n_test=10, seed=0)
    wrong, cells = np.concatenate(data.wrong_rows), np.concatenate(data.wrong_cells)
    names = [f"x{j}" for j in range(cells.shape[1])]
    missing = np.concatenate(data.clean_features) - np.concatenate([a.features for a in data.agents])
    table = pd.DataFrame({"score": wrong.astype(float), "kind": "missing code"})
    table["column"] = [", ".join(np.array(names)[row]) for row in cells]
    perfect = issues.measure(data, table.join(pd.DataFrame(missing, columns=[f"change {n}" for n in names])))
    assert perfect["average_precision"] == perfect["precision_high"] == perfect["cells_named"] == 1
    assert perfect["error_left"] == pytest.approx(0, abs=1e-20)
    assert perfect["cells_misnamed"] == 0
    blind = table.assign(score=0.5, column="").join(pd.DataFrame(0.0 * missing, columns=[f"change {n}" for n in names]))
    found = issues.measure(data, blind)
    assert found["cells_named"] == 0
    assert found["error_left"] == 1
    assert found["average_precision"] == pytest.approx(wrong.mean())


def test_interrupted_runs_go_on_and_give_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(issues, "SUITE", {"regression": {"half of the targets negated": NegatedTargets(0.5)}})
    monkeypatch.setattr(issues, "UNSEEN", {})
    monkeypatch.setattr(issues, "TRUSTED", (40,))
    asked = []

    def work(job):
        asked.append(job)
        line = dict(zip(issues.KEYS, job, strict=True))
        return line | {"average_precision": 0.9, "duti": 0.8, "wrong": 0.5, "high": 0.4, "version": "1"}

    class InPlace:
        map = staticmethod(map)

        def __init__(self, max_workers):
            assert max_workers == 1

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(issues, "work", work)
    monkeypatch.setattr(issues, "ProcessPoolExecutor", InPlace)
    issues.run(tmp_path, 1, 1)
    issues.run(tmp_path, 2, 1)
    assert [job[-1] for job in asked] == [0, 1]
    page = render_issues(tmp_path)
    assert "| half of the targets negated | 40 | 0.900 | 0.800 | 2 of 2 |" in page
    assert render_issues(tmp_path / "nowhere") is None


@pytest.mark.filterwarnings("ignore")
def test_a_cell_is_measured_beside_its_competitors(monkeypatch):
    monkeypatch.setattr(issues, "N_ROWS", 300)
    line = issues.work(("regression", "half of the targets negated", 60, 0))
    assert line["average_precision"] > 0.6
    assert 0 < line["duti"] < 1
    assert set(line) <= set(issues.FIELDS)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_cells_not_designed_for_have_the_errors_they_name(task):
    for name in unseen.UNSEEN[task]:
        if not name.startswith(("correlated", "breast")):
            continue
        data = unseen.unseen_federation(task, name, 20, 0)
        wrong = np.concatenate(data.wrong_rows).mean()
        cells, targets = np.concatenate(data.wrong_cells), np.concatenate(data.wrong_targets)
        assert (wrong == 0) == ("nothing wrong" in name)
        assert wrong < 0.5
        assert cells.any() == any(word in name for word in ("column ×", "codes", "swapped"))
        assert targets.any() == any(word in name for word in ("shifted", "flip"))


def test_the_page_says_how_often_scores_are_right(tmp_path):
    rows, wrong = "10 0 0 0 0 0 0 0 0 40", "1 0 0 0 0 0 0 0 0 30"
    line = {"task": "regression", "corruption": "a", "trusted": 20, "wrong": 0.5, "high": 0.1, "precision_high": 0.5}
    lines = [
        line | {"seed": seed, "version": "1", "rows_by_score": rows, "wrong_by_score": wrong, "high": high}
        for seed, high in enumerate((0.1, 0.3))
    ]
    table = pd.DataFrame(lines).reindex(columns=issues.FIELDS)
    table.loc[1, "precision_high"] = 0.9
    table.to_csv(tmp_path / "issues.csv", index=False)
    page = render_issues(tmp_path)
    assert "| 0.9 to 1.0 | 80 | 0.750 |" in page
    assert "| 0.0 to 0.1 | 20 | 0.100 |" in page
    assert "| a | 20 | 0.500 | – | 0.200 | 0.800 |" in page  # (.1·.5 + .3·.9)/.4
    assert (tmp_path / "issues.png").stat().st_size > 1000
