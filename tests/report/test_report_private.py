from __future__ import annotations

import base64
import hashlib
import json
import re
import stat
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from report_samples import EVIL, classification, regression

from comt.errors import InputError
from comt.report import Joining, write_agent_report
from comt.report.page import LIMIT
from comt.report.private_page import SHOWN, page, rows_to_show


def data_of(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("make", [classification, regression])
def test_the_page_shows_what_it_was_given(make):
    report = make()
    text = page(report)
    data = data_of(text)
    lines = data["lines"]
    assert [line["row"] for line in lines] == report.issues["row"].tolist()
    assert [line["given"] for line in lines] == report.rows[report.target].tolist()
    assert [line["flagged"] for line in lines] == report.issues["flagged"].tolist()
    assert all(line["why"] and line["score"] < 1 for line in lines)
    assert data["agent"] == report.agent
    assert data["run"] == report.run
    assert f"What looks wrong at {report.agent}" in text


def test_everything_from_the_data_is_escaped():
    text = page(classification(agent=EVIL, notes=[EVIL], target=EVIL))
    assert EVIL not in text
    elements = Elements(text).found
    assert [attrs for tag, attrs in elements if tag == "script"] == [{"type": "application/json", "id": "data"}, {}]
    assert not any(tag == "img" or name.startswith("on") for tag, attrs in elements for name in attrs)
    # the value itself arrives whole, as text
    ward = data_of(text)["columns"].index("ward")
    assert data_of(text)["lines"][7]["cells"][ward] == EVIL


def test_the_page_can_load_and_run_nothing_else():
    text = page(classification())
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1].replace("&#39;", "'")
    script = re.findall(r"<script>(.*?)</script>", text, re.S)
    style = re.findall(r"<style>(.*?)</style>", text, re.S)
    assert len(script) == len(style) == 1
    for kind, found in (("script", script[0]), ("style", style[0])):
        digest = base64.b64encode(hashlib.sha256(found.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    outside = [
        attrs
        for _, attrs in Elements(text).found
        for name in ("src", "href")
        if not attrs.get(name, "#").startswith("#")
    ]
    assert not outside
    assert "http://" not in text
    assert "https://" not in text
    assert not any("style" in attrs for _, attrs in Elements(text).found)  # the policy would ignore it


def test_a_hundred_thousand_rows_show_the_worst_and_say_so():
    n_rows, rng = 100_000, np.random.default_rng(0)
    issues = pd.DataFrame(
        {
            "row": rng.permutation(n_rows),
            "agent": "big",
            "score": np.linspace(1, 0, n_rows),
            "flagged": np.arange(n_rows) < 2_000,
            "given": rng.normal(size=n_rows),
            "suggested": rng.normal(size=n_rows),
        }
    )
    inspect = issues.iloc[[0, 1, 2, 99_999]].assign(drawn=["worst", "worst", "worst", "random"])
    shown = rows_to_show(issues, inspect)
    rows = pd.DataFrame(rng.normal(size=(len(shown), 40)), index=shown).rename(columns=lambda i: f"x{i}")
    text = page(regression(issues=issues, rows=rows, inspect=inspect))
    assert len(text.encode()) < LIMIT
    assert "The table holds 1,000 of your 100,000 rows" in text
    lines = data_of(text)["lines"]
    assert len(lines) == SHOWN
    assert [line["row"] for line in lines[:3]] == issues["row"].tolist()[:3]
    assert lines[-1]["row"] == issues["row"].iloc[-1]
    assert lines[-1]["drawn"] == "random"


def test_wide_tables_of_long_texts_stay_small_and_say_what_is_left_out():
    n_rows = 1000
    rows = pd.DataFrame({f"text {i}": ["ä" * 500] * n_rows for i in range(100)})
    report = regression(n_rows)
    text = page(replace(report, rows=rows.assign(price=report.rows["price"])))
    assert len(text.encode()) < LIMIT
    data = data_of(text)
    left_out = 100 - len(data["columns"])
    assert f"{left_out} of the columns are left out" in text


def test_columns_with_suggestions_come_before_others():
    n_rows = 30
    report = regression(n_rows)
    rows = pd.DataFrame(np.ones((n_rows, 200))).rename(columns=lambda i: f"x{i}")
    issues = report.issues.assign(kind="feature", column="x150")
    data = data_of(page(replace(report, rows=rows, issues=issues)))
    assert "x150" in data["columns"]
    assert len(data["columns"]) == 60


def test_suggested_cells_are_marked_with_their_size():
    lines = data_of(page(classification()))["lines"]
    data = data_of(page(classification()))
    wrong_unit = lines[3]
    assert wrong_unit["kind"] == "unit"
    assert wrong_unit["changes"] == [[data["columns"].index("height"), 1.7]]
    assert wrong_unit["size"] == 1683.0
    assert (wrong_unit["given"], wrong_unit["suggested"]) == ("ill", "ill")  # of the target nothing is suggested
    assert "height is 170, as if measured in another unit. 1.7 would fit." in wrong_unit["why"]
    assert lines[4]["changes"] == []
    assert data_of(page(regression()))["lines"][0]["size"] == 45.0


def test_missing_cells_dates_and_large_numbers_are_shown():
    report = regression(20)
    report = replace(report, issues=report.issues.head(3))
    rows = pd.DataFrame(
        {"when": pd.to_datetime(["2026-01-02", None, "2026-01-03"]), "id": [2**60, 1, 2], "x": [np.nan, np.inf, 1.5]}
    )
    cells = [line["cells"] for line in data_of(page(replace(report, rows=rows)))["lines"]]
    assert cells == [["2026-01-02 00:00:00", str(2**60), None], [None, 1, "inf"], ["2026-01-03 00:00:00", 2, 1.5]]


def test_reasons_name_the_columns_that_the_opinion_rests_on():
    report = classification()
    effects = pd.DataFrame({"height": 3.0, "ward": -0.1}, index=report.rows.index)
    lines = data_of(page(replace(report, effects=effects)))["lines"]
    for line in lines[:3]:
        named = "height" in line["why"]
        assert named == (line["suggested"] == "well")  # classes[1]: what positive effects speak for
    numeric = regression()
    effects = pd.DataFrame({"size": 50.0}, index=numeric.rows.index)
    why = data_of(page(replace(numeric, effects=effects)))["lines"][0]["why"]
    assert "Look at size first" in why


def test_empty_tables_make_a_page():
    report = regression()
    text = page(replace(report, issues=report.issues.head(0), rows=report.rows.head(0)))
    assert "You have no unverified rows" in text
    assert data_of(text)["lines"] == []


@pytest.mark.parametrize(
    ("verdict", "rows", "said"),
    [
        ("joint", 30, "Yes"),
        ("own", 30, "Not this time"),
        ("undecided", 30, "No clear difference"),
        ("too few", 3, "Too early to tell"),
        ("too few", 0, "Cannot be told"),
    ],
)
@pytest.mark.parametrize("held_out", [True, False])
def test_the_answer_about_joining(verdict, rows, said, held_out):
    joining = Joining(
        metric="R²", own=0.5, joint=0.6, own_kind="all", trusted_rows=rows, held_out=held_out, verdict=verdict
    )
    text = page(regression(joining=joining))
    assert f">{said}</span>" in text
    assert ("has seen these rows" in text) == (not held_out and rows > 0)


def test_only_the_owner_can_read_the_file_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("earlier")
    write_agent_report(path, classification())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(InputError, match="cannot be written"):
        write_agent_report(tmp_path / "none" / "report.html", classification())


def test_tables_that_cannot_be_shown_are_refused():
    report = regression()
    with pytest.raises(InputError, match="lacks the columns score, flagged"):
        page(replace(report, issues=report.issues.drop(columns=["score", "flagged"])))
    with pytest.raises(InputError, match="index that repeats"):
        page(replace(report, rows=pd.concat([report.rows, report.rows])))


def test_features_of_a_category_count_as_their_column():
    report = classification()
    effects = pd.DataFrame({"height": 0.1, "ward=north": 2.0, "ward=south": 0.5}, index=report.rows.index)
    lines = data_of(page(replace(report, effects=effects)))["lines"]
    assert lines[0]["suggested"] == "ill"
    assert lines[1]["why"].endswith("sure of “well”, mostly because of ward (“north”).")


def test_each_kind_says_what_it_is_about():
    report = regression(40)
    issues = report.issues.assign(kind="target", column="", **{"change size": 0.0}).head(10)
    issues.loc[0, ["kind", "column", "given", "suggested"]] = ["missing code", "size", -999.0, 0.25]
    issues.loc[1, ["kind", "change size"]] = ["feature", -1.5]
    issues.loc[2, "kind"] = "duplicate"
    issues.loc[3, "kind"] = "agent"
    issues.loc[4, ["kind", "column", "given", "suggested"]] = ["unit", "size, price", 5.0, 0.005]
    issues.loc[5, ["kind", "flagged"]] = ["unit", False]
    issues.loc[7, ["kind", "column", "given", "suggested"]] = ["feature", "size", 9.0, 0.75]
    rows = report.rows.copy()
    rows.loc[[0, 1, 4, 7], "size"] = [-999.0, 2.0, 5.0, 9.0]
    changed = replace(report, issues=issues, rows=rows, spreads={"price": 2.0, "size": 1.0})
    text = page(changed)
    lines = data_of(text)["lines"]
    assert lines[0]["changes"] == [[0, 0.25]]
    assert "code for “missing”" in lines[0]["why"]
    assert lines[0]["given"] == lines[0]["suggested"] == rows.loc[0, "price"]
    assert lines[1]["changes"] == [[0, 0.5]]
    assert "does not fit the rest of the row. 0.5 would fit." in lines[1]["why"]
    assert "occurs many times" in lines[2]["why"]
    assert "do not follow the model" in lines[3]["why"]
    assert lines[4]["changes"] == [[0, 0.005]]
    assert lines[5]["changes"] == []
    assert lines[6]["given"] != lines[6]["suggested"]
    assert lines[7]["changes"] == [[0, 0.75]]
    assert lines[7]["given"] == lines[7]["suggested"] == rows.loc[7, "price"]
    # the figures leave out what is not about them, and show the columns that change
    assert "4 of 6 values change" in text  # the target: of 10 lines four are about cells, feature and copy stay
    assert "size: before and after" in text
    assert "4 of 40 values change" in text


def test_a_kind_that_is_not_known_is_shown_as_it_is():
    report = regression()
    lines = data_of(page(replace(report, issues=report.issues.assign(kind="odd"))))["lines"]
    assert {line["kind"] for line in lines} == {"odd"}
