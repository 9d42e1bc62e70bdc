"""Files give the same sums as arrays; bad files are refused in one sentence that names what is wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from comt.agent import Agent, ArrayRows, FileRows, formats
from comt.agent import data as data_module
from comt.agent.data import PreparedRows
from comt.errors import InputError
from comt.preparation import Preparation
from comt.queries import DualSums, Histogram
from teaching import is_one_sentence, random_data


def frame_of(data, rng):
    """Buggy and trusted rows mixed, in one table."""
    names = [f"f{i}" for i in range(data.features.shape[1])]
    table = pd.DataFrame(np.vstack([data.features, data.trusted_features]), columns=names)
    table["y"] = np.concatenate([data.targets, data.trusted_targets])
    table["checked"] = np.arange(len(table)) >= len(data.targets)
    return table.iloc[rng.permutation(len(table))]


def write(table, folder, ending, name="rows"):
    path = folder / f"{name}{ending}"
    if ending == ".parquet":
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False)
    return path


def text(folder, content, name="rows.csv"):
    path = folder / name
    path.write_text(content)
    return path


def all_sums(agent, loss_name="squared"):
    r = np.array([[0.1, -0.2, 0.3]])
    prepared = Preparation(np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 3.0]))
    query = DualSums(
        loss_name=loss_name, preparation=prepared, r=r, theta=-r, lambda_alpha=np.array([0.1]), lambda_z=np.array([5.0])
    )
    sums = agent.answer(query, 1).arrays
    return sums | agent.answer(Histogram(n_columns=4), 2).arrays


@pytest.mark.parametrize("mark", ["boolean", "0/1"])
@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_files_give_the_sums_of_arrays(tmp_path, monkeypatch, ending, mark):
    monkeypatch.setattr(formats, "BATCH", 64)  # several batches
    data = random_data("squared", n=300, d=3, m=20, seed=1)
    table = frame_of(data, np.random.default_rng(0))
    if mark == "0/1":
        table["checked"] = table["checked"].astype(int)
    rows = FileRows(write(table, tmp_path, ending), target="y", trusted="checked")
    assert rows.names == ("f0", "f1", "f2")
    assert rows.n_rows == 300
    found = all_sums(Agent("file", rows))
    wanted = all_sums(Agent("array", ArrayRows(*data.buggy, *data.trusted)))
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-10, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("labels", [("no", "yes"), (0, 1), (False, True), (-1.5, 2.5)])
@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_labels(tmp_path, ending, labels):
    data = random_data("logistic", n=100, d=3, m=10, seed=1)
    table = frame_of(data, np.random.default_rng(0))
    table["y"] = [labels[int(y > 0)] for y in table["y"]]
    rows = FileRows(write(table, tmp_path, ending), target="y", trusted="checked")
    assert rows.labels == set(labels)
    rows.use_classes(labels)
    found = all_sums(Agent("file", rows), "logistic")
    wanted = all_sums(Agent("array", ArrayRows(*data.buggy, *data.trusted)), "logistic")
    for name in set(wanted) - {"counts"}:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-10, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_chosen_columns_in_the_order_given(tmp_path, ending):
    table = pd.DataFrame({"a": [1.0, 2.0], "b": ["text", "more"], "y": [0.0, 1.0], "c": [5, 6]})
    rows = FileRows(write(table, tmp_path, ending), target="y", columns=["c", "a"])
    features, targets = next(rows.blocks())
    np.testing.assert_array_equal(features, [[5.0, 1.0], [6.0, 2.0]])
    np.testing.assert_array_equal(targets, [0.0, 1.0])
    assert rows.trusted()[0].shape == (0, 2)


def test_a_third_label_is_seen_wherever_it_stands(tmp_path):
    table = pd.DataFrame({"a": np.zeros(5000), "y": np.zeros(5000)})
    table.loc[3000:, "y"] = 1.0
    table.loc[4999, "y"] = 7.0
    assert FileRows(write(table, tmp_path, ".parquet"), target="y").labels == {0.0, 1.0, 7.0}


def test_csv_columns_that_look_like_integers_at_first(tmp_path):
    """The types of a CSV file are guessed from its first megabyte."""
    n = 300_000
    lines = ["a,y", *["1,2"] * n, "0.5,0.25"]
    rows = FileRows(text(tmp_path, "\n".join(lines) + "\n"), target="y")
    assert rows.n_rows == n + 1
    *_, (features, targets) = rows.blocks()
    assert features[-1] == 0.5
    assert targets[-1] == 0.25


def test_blocks_can_be_read_any_number_of_times(tmp_path):
    table = pd.DataFrame({"a": [1.0, 2.0], "y": [0.0, 1.0]})
    rows = FileRows(write(table, tmp_path, ".csv"), target="y")
    first, second = ([f.tolist() for f, _ in rows.blocks()] for _ in range(2))
    assert first == second == [[[1.0], [2.0]]]


GOOD = "a,b,y,t\n1,2,3,0\n4,5,6,1\n"


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (GOOD, {"target": "z"}, ["rows.csv", "'z'", "a, b, y, t"]),
        (GOOD, {"trusted": "mark"}, ["'mark'"]),
        (GOOD, {"columns": ["a", "c"]}, ["'c'"]),
        (GOOD, {"columns": ["a", "y"]}, ["'y'", "twice"]),
        (GOOD, {"columns": ["a", "a"]}, ["'a'", "twice"]),
        (GOOD, {"columns": []}, ["no feature column"]),
        ("", {}, ["rows.csv"]),
        ("a,b,y,t\n", {}, ["rows.csv", "no rows"]),
        ("a,a,y,t\n1,2,3,0\n", {}, ["'a'", "twice"]),
        ("a,b,y,t\n1,2,3,0\n1,NaN,3,0\n1,,3,0\n", {}, ["2 rows", "row 1", "'b'"]),
        ("a,b,y,t\n1,inf,3,0\n", {}, ["1 rows", "row 0", "'b'"]),
        ("a,b,y,t\n1,2,3,0\n1,2,,0\n", {}, ["1 rows", "row 1", "'y'"]),
        ("a,b,y,t\n1,2,,0\n1,2,,0\n", {}, ["2 rows", "row 0", "'y'"]),
        ("a,b,y,t\n1,2,3,0\nfive,2,3,0\n", {}, ["'a'", "string", "numbers"]),
        ("a,b,y,t\n1,2,3,maybe\n1,2,3,no\n", {}, ["'t'", "'maybe'", "true or false"]),
        ("a,b,y,t\n1,2,3,2\n1,2,3,0\n", {}, ["'t'", "true or false"]),
        ("a,b,y,t\n1,2,3,0.5\n1,2,3,0\n", {}, ["'t'", "true or false"]),
        ("a,b,y,t\n1,2,3,0\n1,2\n", {}, ["rows.csv", "cannot be read"]),
    ],
)
def test_bad_csv_files(tmp_path, content, options, words):
    with pytest.raises(InputError) as caught:
        FileRows(text(tmp_path, content), **{"target": "y", "trusted": "t", **options})
    assert isinstance(caught.value, ValueError)
    assert is_one_sentence(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": [1.0, np.nan], "y": [1.0, 2.0]}, ["row 1", "'a'"]),
        ({"a": [1.0, np.inf], "y": [1.0, 2.0]}, ["row 1", "'a'"]),
        ({"a": [1.0, 2.0], "y": [np.nan, 2.0]}, ["row 0", "'y'"]),
        ({"a": [1.0, 2.0], "y": ["u", None]}, ["row 1", "'y'"]),
        ({"a": [1.0, 2.0], "y": [True, None]}, ["row 1", "'y'"]),
        ({"a": ["u", "v"], "y": [1.0, 2.0]}, ["'a'", "numbers"]),
        ({"a": [True, False], "y": [1.0, 2.0]}, ["'a'", "bool"]),
        ({"b": [], "y": []}, ["no rows"]),
    ],
)
def test_bad_parquet_files(tmp_path, columns, words):
    path = write(pd.DataFrame(columns), tmp_path, ".parquet")
    with pytest.raises(InputError) as caught:
        FileRows(path, target="y")
    assert is_one_sentence(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_unknown_ending_missing_file_and_garbage(tmp_path):
    with pytest.raises(InputError, match=r"rows\.xlsx has an unknown ending"):
        FileRows(text(tmp_path, GOOD, "rows.xlsx"), target="y")
    with pytest.raises(InputError, match=r"nowhere\.csv is not a file"):
        FileRows(tmp_path / "nowhere.csv", target="y")
    with pytest.raises(InputError, match=r"bad\.parquet cannot be read"):
        FileRows(text(tmp_path, "no parquet at all, whatever it says", "bad.parquet"), target="y")


def test_labels_are_no_numbers(tmp_path):
    rows = FileRows(text(tmp_path, "a,y\n1,up\n2,down\n"), target="y")
    with pytest.raises(InputError, match="'y' is not numeric") as caught:
        next(rows.blocks())
    assert is_one_sentence(caught.value)


@pytest.mark.parametrize("kept", [True, False])
def test_targets_that_are_far_out_are_believed_as_far_as_those_of_arrays(tmp_path, monkeypatch, kept):
    monkeypatch.setattr(data_module, "KEEP_BYTES", 2**20 if kept else 0)
    data = random_data("squared", n=80, d=2, m=10)
    data.targets[::9] = 1e6
    path = write(frame_of(data, np.random.default_rng(0)), tmp_path, ".csv")
    preparation = Preparation.identity(2).tamed()
    file = PreparedRows(FileRows(path, target="y", trusted="checked"), preparation)
    arrays = PreparedRows(ArrayRows(*data.buggy), preparation)
    found, expected = (np.sort(np.concatenate([y for _, y in rows.blocks()])) for rows in (file, arrays))
    assert expected.max() < 1e6
    np.testing.assert_allclose(found, expected)
