from __future__ import annotations

import pandas as pd
from report_samples import EVIL, classification

from comt.report import issues_html, model_html


def test_the_ten_worst_lines_worst_first():
    table = classification().issues.sample(frac=1.0, random_state=0)
    text = issues_html(table)
    assert text.count("<tr>") == 11
    assert "of 60 rows look wrong" in text
    worst = table.sort_values("score", ascending=False)["row"].head(10)
    places = [text.index(f">{row}<") for row in worst]
    assert places == sorted(places)


def test_data_is_escaped_and_an_empty_table_is_no_error():
    table = classification().issues.head(3).assign(given=EVIL, agent=EVIL)
    assert EVIL not in issues_html(table)
    assert "&lt;script&gt;" in issues_html(table)
    assert "0 of 0 rows" in issues_html(pd.DataFrame(columns=table.columns))


def test_a_model_shows_its_largest_coefficients():
    text = model_html("<Model>", {"rounds": 5, "task": "<b>"}, {f"x{i}": float(i) for i in range(25)})
    assert "<Model>" not in text
    assert "&lt;b&gt;" in text
    assert text.index(">x24<") < text.index(">x23<")
    assert "and 15 smaller coefficients" in text
    assert ">x14<" not in text
    assert "coefficient" not in model_html("Model", {"rounds": 5})
