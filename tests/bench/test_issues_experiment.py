"""``comt bench issues``: what it measures, that it goes on where it stopped, and the page made of it."""

import numpy as np
import pandas as pd
import pytest

from comt.bench import issues
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
