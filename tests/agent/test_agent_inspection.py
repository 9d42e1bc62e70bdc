from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from comt import InputError
from comt.agent.inspection import inspect_first


def table_of(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"row": rng.permutation(n_rows) + 1000, "score": rng.random(n_rows), "given": "x"})


def test_three_quarters_are_the_worst_and_every_fourth_line_is_random():
    table = table_of(500)
    found = inspect_first(table, budget=40, seed=3)
    assert list(found["drawn"]) == ["worst", "worst", "worst", "random"] * 10
    assert found["row"].is_unique
    random = set(found["row"][found["drawn"] == "random"])
    rest = table[~table["row"].isin(random)].sort_values("score", ascending=False)
    assert found["row"][found["drawn"] == "worst"].tolist() == rest["row"].head(30).tolist()
    assert found.drop(columns="drawn").merge(table).shape[0] == 40


def test_random_lines_are_a_fair_sample_of_all_lines():
    table = table_of(40)
    drawn = np.zeros(40)
    for seed in range(1000):
        found = inspect_first(table, budget=20, seed=seed)
        drawn[table["row"].isin(found["row"][found["drawn"] == "random"])] += 1
    # each line is drawn with probability 5/40: 125 times, give or take
    assert np.abs(drawn - 125).max() < 5 * np.sqrt(125 * 35 / 40)


def test_small_tables_and_wrong_budgets():
    assert len(inspect_first(table_of(3))) == 3
    assert len(inspect_first(table_of(0))) == 0
    assert inspect_first(table_of(30)).equals(inspect_first(table_of(30)))
    with pytest.raises(InputError, match="budget of 0 rows"):
        inspect_first(table_of(3), budget=0)
