"""Reviews: decisions become right values, files come back as they were written, nonsense is refused in one sentence."""

from __future__ import annotations

import json
import os
import stat

import numpy as np
import pandas as pd
import pytest

from comt import CoMTClassifier, InputError, Reviews
from comt.agent.inspection import inspect_first
from comt.reviews import Decision, of_agents, review_table
from comt.spreadsheets import neutral
from teaching import is_one_sentence

ISSUES = pd.DataFrame(
    {"row": [4, 7, 9, 2], "score": [0.9, 0.8, 0.3, 0.1], "given": 1.0, "suggested": [2.0, 3.0, 4.0, 5.0]}
)
DECISIONS = (
    Decision(4, "accept"),
    Decision(7, "reject", changes={"x": 1.0}, drawn="random"),
    Decision(9, "correct", target=8.5, changes={"x": -1.0, "city": "=Bern"}),
    Decision(2, "correct", changes={"x": None}),
)


def test_decisions_become_values():
    verdicts = Reviews("A", "", DECISIONS).verdicts(ISSUES)
    assert {row: verdict.target for row, verdict in verdicts.items()} == {4: 2.0, 7: None, 9: 8.5, 2: None}
    assert verdicts[7].changes == {}  # rejected: the row is right as it is
    assert verdicts[9].changes == {"x": -1.0, "city": "=Bern"}
    assert [verdicts[row].random for row in (4, 7, 9)] == [False, True, False]


def test_suggestions_about_cells_leave_the_target_alone():
    issues = ISSUES.assign(kind=["unit", "missing code", "target", "duplicate"], column=["area, rooms", "year", "", ""])
    verdicts = Reviews("A", "", tuple(Decision(row, "accept") for row in ISSUES["row"])).verdicts(issues)
    assert (verdicts[4].target, verdicts[4].changes) == (None, {"area": 2.0})
    assert (verdicts[7].target, verdicts[7].changes) == (None, {"year": 3.0})
    assert (verdicts[9].target, verdicts[9].changes) == (4.0, {})
    said = Reviews("A", "", (Decision(4, "accept", changes={"area": 1.5}),)).verdicts(issues)
    assert (said[4].target, said[4].changes) == (None, {"area": 1.5})
    rejected = Reviews("A", "", (Decision(4, "reject", target=7.0),)).verdicts(issues)
    assert rejected[4].target is None


def test_a_wrong_value_is_about_its_column_and_noise_all_over_a_row_about_the_target():
    issues = ISSUES.assign(kind="feature", column=["area", "", "", ""])
    verdicts = Reviews("A", "", (Decision(4, "accept"), Decision(9, "accept"))).verdicts(issues)
    assert (verdicts[4].target, verdicts[4].changes) == (None, {"area": 2.0})
    assert (verdicts[9].target, verdicts[9].changes) == (4.0, {})


def test_labels_are_read_in_their_own_kind():
    issues = ISSUES.assign(given="no", suggested="yes")
    found = Reviews("A", "", (Decision(4, "accept"), Decision(7, "correct", target="no"))).verdicts(
        issues, ("no", "yes")
    )
    assert [found[row].target for row in (4, 7)] == ["yes", "no"]
    for classes, text, label in (((False, True), "True", True), ((0.0, 1.0), "1", 1.0), ((-1.0, 1.0), -1, -1.0)):
        found = Reviews("A", "", (Decision(4, "correct", target=text),)).verdicts(issues, classes)
        assert found[4].target is label or found[4].target == label
    with pytest.raises(InputError, match="the label 'maybe'") as caught:
        Reviews("A", "", (Decision(4, "correct", target="maybe"),)).verdicts(issues, ("no", "yes"))
    assert is_one_sentence(caught.value)


def test_rows_that_were_not_shown_have_no_suggestion():
    with pytest.raises(InputError, match="row 99") as caught:
        Reviews("A", "", (Decision(99, "accept"),)).verdicts(ISSUES)
    assert is_one_sentence(caught.value)
    assert Reviews("A", "", (Decision(99, "correct", target=1.0),)).verdicts(ISSUES)[99].target == 1.0
    with pytest.raises(InputError, match="finite number"):
        Reviews("A", "", (Decision(4, "correct", target="much"),)).verdicts(ISSUES)


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
def test_reviews_come_back_from_json_and_are_private(tmp_path):
    reviews = Reviews("A", "run-1", DECISIONS)
    reviews.save(tmp_path / "review.json")
    assert Reviews.read(tmp_path / "review.json") == reviews
    assert stat.S_IMODE(os.stat(tmp_path / "review.json").st_mode) == 0o600
    resolved = reviews.resolved(reviews.verdicts(ISSUES))
    assert {decision.decision for decision in resolved.decisions} == {"correct"}
    assert resolved.verdicts(ISSUES.head(0)) == reviews.verdicts(ISSUES)


def test_a_filled_in_table_is_read_back(tmp_path):
    rows = pd.DataFrame({"row": [1.5, 2.5], "=sum": ["a, b", "-5"], "score": [np.nan, 1.0]}, index=[7, 9])
    inspected = inspect_first(ISSUES[ISSUES["row"].isin([7, 9])], budget=2)
    inspected = inspected.assign(kind="unit", column="x")
    table = review_table(inspected, rows, agent="A", run="r")
    assert list(table.columns[:6]) == ["run", "agent", "row", "drawn", "decision", "score"]
    assert {"kind", "column"} <= set(table.columns)
    table["decision"] = ["accept", "Correct "]
    table["correct target"] = ["", "6.5"]
    neutral(table).to_csv(tmp_path / "review.csv", index=False, lineterminator="\r\n", encoding="utf-8-sig")
    assert "'-5" in (tmp_path / "review.csv").read_text(encoding="utf-8-sig")
    reviews = Reviews.read(tmp_path / "review.csv")
    assert (reviews.agent, reviews.run) == ("A", "r")
    first, second = reviews.decisions
    assert (first.row, first.decision, first.target, first.changes) == (7, "accept", None, {})
    assert (second.row, second.target) == (9, "6.5")
    assert second.changes == {"row": "2.5", "=sum": "-5", "score": "1"}
    table["decision"] = ""
    table.to_csv(tmp_path / "empty.csv", index=False)
    assert Reviews.read(tmp_path / "empty.csv").decisions == ()


GOOD = {"format": "comt-review/1", "agent": "A", "run": "", "decisions": []}
ENTRY = {"row": 1, "decision": "accept", "target": None, "changes": {}, "drawn": "worst"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "no review"),
        (json.dumps([]), "format"),
        (json.dumps(GOOD | {"format": "comt-review/9"}), "format"),
        (json.dumps(GOOD | {"decisions": {}}), "no list"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "agent"}), "'agent' is missing"),
        (json.dumps(GOOD | {"decisions": [ENTRY | {"row": "1"}]}), "row number"),
        (json.dumps(GOOD | {"decisions": [ENTRY | {"decision": "maybe"}]}), "'maybe'"),
        (json.dumps(GOOD | {"decisions": [ENTRY | {"drawn": "well"}]}), "'well'"),
        (json.dumps(GOOD | {"decisions": [ENTRY | {"changes": {"x": []}}]}), "not cells"),
        (json.dumps(GOOD | {"decisions": [ENTRY | {"target": {}}]}), "no cell"),
    ],
)
def test_what_is_no_review_is_refused(tmp_path, content, words):
    (tmp_path / "review.json").write_text(content)
    with pytest.raises(InputError, match=words) as caught:
        Reviews.read(tmp_path / "review.json")
    assert is_one_sentence(caught.value)
    with pytest.raises(InputError):
        Reviews.read(tmp_path / "nothing.json")
    (tmp_path / "review.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="'decision' is missing"):
        Reviews.read(tmp_path / "review.csv")


def test_later_decisions_hold():
    later = Reviews("A", "", (Decision(4, "reject"),))
    together = of_agents([Reviews("A", "", DECISIONS), later, Reviews("B", "", DECISIONS[:1])])
    assert set(together) == {"A", "B"}
    assert len(together["A"].decisions) == 4
    assert together["A"].verdicts(ISSUES)[4].target is None


def test_the_loop_in_python():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    truth = np.where(X["a"] + X["b"] > 0, "ill", "well")
    flipped = (rng.random(300) < 0.3) & (np.arange(300) >= 15)
    given = np.where(flipped, np.where(truth == "ill", "well", "ill"), truth)
    trusted = np.arange(300) < 15
    model = CoMTClassifier(warm_start=True).fit(X, given, trusted=trusted)
    shown = inspect_first(model.issues(), budget=40)
    decisions = tuple(
        Decision(int(row), "accept" if flipped[row] else "reject", drawn=drawn)
        if (suggested == truth[row]) == flipped[row]
        else Decision(int(row), "correct", target=str(truth[row]), drawn=drawn)
        for row, drawn, suggested in shown[["row", "drawn", "suggested"]].itertuples(index=False)
    )
    X2, y2, trusted2 = Reviews("all", "", decisions).apply(X, given, trusted, model.issues())
    assert trusted2.sum() == 55
    assert (y2[trusted2] == truth[trusted2]).all()
    assert (given != y2).sum() == flipped[shown["row"]].sum() > 20
    issues = model.fit(X2, y2, trusted=trusted2).issues()
    row = int(issues["row"].iloc[0])
    changed, *_ = Reviews("all", "", (Decision(row, "correct", changes={"b": 9.0}),)).apply(X, given, None, issues)
    assert changed.loc[row, "b"] == 9.0
    assert X.loc[row, "b"] != 9.0
    same = Reviews("all", "", (Decision(row, "correct", changes={"1": 9.0}),))
    array, *_ = same.apply(X.to_numpy(), given, None, issues)
    np.testing.assert_array_equal(array, changed)
