"""Files as strangers have them: two spellings of everything, and names that nobody would choose."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import comt
from comt.cli import main
from teaching import is_one_sentence

NAMES = ["Größe", "Ort, Straße", "intercept", "target", "agent", "__index__", "leer", "note", "trusted", "Ergebnis"]


def patients(seed, rows=160, trusted=30):
    """Cells of one file: numbers, a category with commas and quotes, gaps, a column without any value."""
    rng = np.random.default_rng(seed)
    place = rng.choice(["Köln, Süd", 'the "old" one', "Zürich\nWest"], rows)
    table = pd.DataFrame({"Größe": rng.normal(170, 10, rows).round(1), "Ort, Straße": place})
    for name in ("intercept", "target", "agent", "__index__"):
        table[name] = rng.normal(size=rows).round(3)
    table["leer"] = ""
    table["note"] = "=1+1"
    score = 0.2 * (table["Größe"] - 170) + 2 * table["target"] + 3 * (place == "Köln, Süd")
    table["trusted"] = np.arange(rows) < trusted
    table["Ergebnis"] = np.where(score + 0.5 * rng.logistic(size=rows) > 1, "ja", "nein")
    table.loc[40:50, "Größe"] = np.nan
    return table[NAMES].sample(frac=1.0, random_state=seed)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """One file as a British, one as a German spreadsheet writes it."""
    monkeypatch.chdir(tmp_path)
    first, second = patients(1), patients(2)
    first["trusted"] = first["trusted"].map({True: "x", False: ""})
    first.to_csv("North ward.csv", index=False, quoting=csv.QUOTE_ALL)
    second["trusted"] = second["trusted"].map({True: "Yes", False: "NO"})
    second = second[NAMES[::-1]]
    second.to_csv("Süd (2024).csv", index=False, sep=";", decimal=",", encoding="utf-8-sig", lineterminator="\r\n")
    return tmp_path


def test_two_files_that_write_everything_differently(folder, capsys):
    files = ["North ward.csv", "Süd (2024).csv"]
    options = ["--target", "Ergebnis", "--trusted", "trusted", "--out", "my run"]
    assert main(["fit", *files, *options, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["task"] == "classification"
    assert [agent["trusted_rows"] for agent in summary["agents"]] == [30, 30]
    assert [agent["missing"] for agent in summary["agents"]] == [{"Größe": 11, "leer": 160}] * 2
    assert any("'leer' has no values" in note for note in summary["notes"])
    assert summary["categories"]["Ort, Straße"] == 3
    # the first file again, as plainly as possible: the same columns and the same model
    Path("plain").mkdir()
    for file, table in zip(("North ward", "Süd (2024)"), (patients(1), patients(2)), strict=True):
        table.to_csv(f"plain/{file}.csv", index=False)
    assert main(["fit", *(f"plain/{file}" for file in files), *options[:-1], "plain run"]) == 0
    odd, plain = (comt.load(f"{run}/model.json") for run in ("my run", "plain run"))
    assert odd.schema.features == plain.schema.features
    np.testing.assert_allclose(odd.coef, plain.coef, rtol=0, atol=1e-12)
    # an expert's review of a folder with a space, then rows with a place that nobody has seen
    capsys.readouterr()
    assert main(["review", "my run/Süd (2024)"]) == 0
    told = capsys.readouterr().out
    assert "--resume 'my run' --reviews 'my run/Süd (2024)/review.csv'" in told
    review = pd.read_csv("my run/Süd (2024)/review.csv", dtype=str, keep_default_na=False)
    assert set(review["value of note"]) == {"'=1+1"}
    assert not review["value of Größe"].str.contains(",").any()
    review.assign(decision=["accept", "reject"] * 20).to_csv("my run/Süd (2024)/review.csv", index=False)
    assert main(["fit", "--resume", "my run", "--reviews", "my run/Süd (2024)/review.csv", "--out", "better"]) == 0
    patients(3, rows=5).assign(**{"Ort, Straße": "Bern"}).drop(columns="Ergebnis").to_csv("new.csv", index=False)
    assert main(["predict", "better/model.json", "new.csv", "--out", "predictions.csv"]) == 0
    assert set(pd.read_csv("predictions.csv")["prediction"]) <= {"ja", "nein"}


def test_a_review_without_a_decision_and_a_run_instead_of_an_agent(folder, capsys):
    assert main(["fit", "North ward.csv", "--target", "Ergebnis", "--trusted", "trusted", "--out", "run"]) == 0
    assert main(["review", "run/North ward"]) == 0
    for words, message in (
        (["fit", "--resume", "run", "--reviews", "run/North ward/review.csv", "--out", "again"], "holds no decision"),
        (["review", "run"], "such as 'run/North ward'"),
        (["fit", "North ward.csv", "--target", "ergebnis", "--out", "again"], "the closest one is 'Ergebnis'."),
    ):
        capsys.readouterr()
        assert main(words) == 2
        error = capsys.readouterr().err
        assert message in error
        assert is_one_sentence(error.removeprefix(f"comt {words[0]}: ").strip())
    assert not Path("again").exists()


def test_a_libsvm_file_and_a_table_with_its_columns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2)).round(3)
    y = (x @ [1.0, -2.0] + 0.1 * rng.normal(size=80)).round(3)
    Path("A.libsvm").write_text("".join(f"{t} 1:{a} 2:{b}\n" for t, (a, b) in zip(y[:40], x[:40], strict=True)))
    pd.DataFrame({"x1": x[40:, 0], "x2": x[40:, 1], "y": y[40:]}).to_csv("B.csv", index=False)
    assert main(["fit", "A.libsvm", "B.csv", "--target", "y", "--out", "run"]) == 0
    assert np.allclose(comt.load("run/model.json").coef, [1.0, -2.0], atol=0.1)


def test_two_files_of_one_name_in_two_folders_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for place in ("one", "two"):
        Path(place).mkdir()
        Path(place, "data.csv").write_text("x,y\n1,2\n2,3\n3,5\n")
    assert main(["fit", "one/data.csv", "two/data.csv", "--target", "y", "--out", "run"]) == 2
    assert "two files are named 'data'" in capsys.readouterr().err
