from __future__ import annotations

import pickle

import numpy as np
import pandas as pd

from comt import CoMTRegressor
from comt.issue_table import IssueTable


def test_issues_show_their_worst_lines_in_a_notebook():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, 2.0]
    y[30:35] = 100.0
    table = CoMTRegressor(lambda_trusted=10.0).fit(X, y, trusted=np.arange(60) < 20).issues()
    assert isinstance(table, IssueTable)
    shown = table._repr_html_()
    assert "of 40 rows look wrong" in shown
    assert "<del>100</del>" in shown
    part = table[table["flagged"]].head(3)
    assert isinstance(part, IssueTable)
    assert "of 3 rows look wrong" in part._repr_html_()


def test_parts_without_the_columns_show_as_any_table():
    table = IssueTable({"row": [1], "score": [0.5], "flagged": [False], "given": ["<b>"], "suggested": ["a"]})
    assert table[["row", "given"]]._repr_html_() == pd.DataFrame(table)[["row", "given"]]._repr_html_()
    assert "<b>" not in table._repr_html_().replace("<b>0 of 1 rows look wrong.</b>", "")
    twice = pd.concat([table, table], axis=1)
    assert "dataframe" in twice._repr_html_()
    assert pickle.loads(pickle.dumps(table)).equals(table)
