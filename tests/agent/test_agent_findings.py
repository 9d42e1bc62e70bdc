from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from comt.agent.findings import column_findings

CENTER, SCALE = np.array([50.0]), np.array([5.0])


def values_of(n_rows=400, seed=0):
    return np.random.default_rng(seed).normal(50.0, 5.0, (n_rows, 1))


def spoil(what):
    values = values_of()
    part = np.arange(400) < 60
    if what == "unit":
        values *= 1000.0
    elif what == "unit of a part":
        values[part] /= -0.01  # the sign is wrong as well, so it is no unit
    elif what == "psi":
        values[part] *= 14.5
    elif what == "millimetres":
        values[part] /= 1000.0
    elif what == "missing code":
        values[part] = -999.0
    elif what == "noise":
        values = 50.0 + 5.0 * (values - 50.0)
    elif what == "shift":
        values += 40.0
    elif what == "outliers":
        values[part] += np.geomspace(100.0, 1e6, 60)[:, None]
    return values


@pytest.mark.parametrize(
    ("what", "kind", "rows", "said"),
    [
        ("unit", "unit", 400, "about 1000 times as large, as if in another unit"),
        ("psi", "unit", 60, "60 of 400 values would be ordinary if divided by about 14.5"),
        ("millimetres", "unit", 60, "60 of 400 values would be ordinary if multiplied by about 1000"),
        ("unit of a part", "outliers", 60, "more than 10 spreads"),
        ("missing code", "missing code", 60, "60 rows hold exactly -999"),
        ("noise", "noise", 400, "times as much as those of all agents"),
        ("shift", "shift", 400, "spreads apart"),
        ("outliers", "outliers", 60, "60 rows lie more than 10 spreads"),
    ],
)
def test_what_is_wrong_is_named(what, kind, rows, said):
    scale = SCALE if what != "millimetres" else SCALE / 1.25  # a column that is far from 0
    (found,) = column_findings(spoil(what), ["x"], CENTER, scale)
    assert (found.column, found.kind) == ("x", kind)
    assert found.rows == pytest.approx(rows, abs=3)
    assert said in found.sentence


def test_clean_constant_and_empty_columns_are_not_named():
    assert column_findings(values_of(), ["x"], CENTER, SCALE) == []
    assert column_findings(values_of(), ["x"], CENTER, np.array([np.inf])) == []
    assert column_findings(np.empty((0, 1)), ["x"], CENTER, SCALE) == []
    ones = np.ones((400, 1))
    assert column_findings(ones, ["x=north"], np.array([0.0]), np.array([0.1])) == []
    few = values_of()
    few[:3] = 1e6
    assert column_findings(few, ["x"], CENTER, SCALE) == []


def test_the_issue_table_comes_first():
    issues = pd.DataFrame(
        {
            "flagged": [True, True, True, False],
            "kind": ["feature", "feature", "unit", "unit"],
            "column": ["x", "x", "x", "y"],
        }
    )
    (found,) = column_findings(spoil("unit"), ["x"], CENTER, SCALE, issues)
    assert (found.kind, found.rows) == ("feature", 2)
    assert "2 of 4 rows (50%)" in found.sentence
    assert column_findings(values_of(), ["x"], CENTER, SCALE, issues.drop(columns="kind")) == []
    several = column_findings(
        values_of()[:, [0, 0]], ["x", "y"], np.r_[CENTER, CENTER], np.r_[SCALE, SCALE], issues.assign(column="x, y")
    )
    assert [(found.column, found.rows) for found in several] == [("x", 2), ("y", 2)]


def test_own_trusted_rows_tell_what_the_rows_of_all_agents_hide():
    # a third of all rows is in another unit, so that the spread over all agents is large
    values, trusted = values_of() * 14.5, values_of(20, seed=1)
    center, scale = np.array([55.0]), np.array([400.0])
    assert column_findings(values, ["x"], center, scale) == []
    (found,) = column_findings(values, ["x"], center, scale, trusted=trusted)
    assert found.kind == "unit"
    assert "that of your trusted rows is" in found.sentence
    assert "about 14.5 times as large" in found.sentence
    assert column_findings(values, ["x"], center, scale, trusted=trusted[:7]) == []
    for seed in range(50):  # few trusted rows raise no false alarm
        assert column_findings(values_of(seed=seed), ["x"], CENTER, SCALE, trusted=values_of(8, seed=100 + seed)) == []
