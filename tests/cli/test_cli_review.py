"""The expert loop: review files, the browser's export, resuming, and what is said to have changed."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import comt
from comt.cli import main
from comt.datasets.flats import SQUARE_FEET, flats


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """One training that tests copy: its files, and a folder named run."""
    folder = tmp_path_factory.mktemp("first")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["demo", "--files", "data"]) == 0
        files = ["data/north.csv", "data/south.csv"]
        assert (
            main(["fit", *files, "--target", "price", "--trusted", "verified", "--drop", "flat", "--out", "run"]) == 0
        )
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def folder(first_run, monkeypatch):
    """The folder of the first run, in which nothing may be changed but what a test names itself."""
    monkeypatch.chdir(first_run)
    for path in first_run.iterdir():
        if path.name not in ("data", "run"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in first_run.glob("run/*/review.*"):
        path.unlink()
    return first_run


def filled(agent="south", budget=24):
    """Decide as somebody who knows the truth."""
    assert main(["review", f"run/{agent}", "--budget", str(budget)]) == 0
    table = pd.read_csv(f"run/{agent}/review.csv", dtype=str, keep_default_na=False)
    wrong = flats(agent)[1]
    for line, row in enumerate(table["row"].astype(int)):
        table.loc[line, "decision"] = "correct" if wrong[row] else "reject"
        if wrong[row] and agent == "south":
            area = float(table.loc[line, "value of area"]) / SQUARE_FEET
            table.loc[line, "value of area"] = f"{area:.1f}"
        elif wrong[row]:
            table.loc[line, "correct target"] = f"{float(table.loc[line, 'given']) / 10:.2f}"
    table.to_csv("filled.csv", index=False)
    return table


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
def test_a_review_file_to_fill_in(folder, capsys):
    assert main(["review", "run/south", "--budget", "12"]) == 0
    assert "9 rows that look worst and 3 drawn at random" in capsys.readouterr().out
    path = Path("run/south/review.csv")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    table, source = pd.read_csv(path), flats("south")[0]
    assert table["decision"].isna().all()
    assert (table["value of flat"].to_numpy() == source["flat"].to_numpy()[table["row"]]).all()
    np.testing.assert_allclose(table["value of area"], source["area"].to_numpy()[table["row"]])
    issues = pd.read_csv("run/south/issues.csv")
    worst = table.loc[table["drawn"] == "worst", "row"]
    assert set(worst) <= set(issues["row"].head(12))
    assert main(["review", "run/south"]) == 2  # decisions are not overwritten
    assert "may hold decisions" in capsys.readouterr().err


def test_reviewed_rows_are_trusted_and_changes_are_reported(folder, capsys):
    table = filled()
    capsys.readouterr()
    assert main(["review", "run/south", "filled.csv"]) == 0
    assert "18 corrected" in capsys.readouterr().out or (table["decision"] == "correct").sum() != 18
    assert main(["fit", "--resume", "run", "--reviews", "filled.csv", "--out", "again", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    north, south = summary["agents"]
    assert (north["trusted_rows"], south["trusted_rows"]) == (30, 54)
    assert south["changes"]["reviewed"] == 24
    assert summary["changes"]["reviewed"] == {"south": 24}
    # rows that were shown because they looked bad are no fair sample: 60 trusted before, 6 drawn at random
    assert summary["held_out"]["rows"] == 66
    before, after = (comt.load(f"{name}/model.json") for name in ("run", "again"))
    assert after.columns == before.columns
    assert after.provenance["resumed_from"] == before.provenance["run"]
    assert after.provenance["held_out_trusted_rows"]["rows"] == 66
    coefficients = pd.read_csv("again/changes.csv")
    np.testing.assert_allclose(coefficients["before"].iloc[:-1], before.coef)
    np.testing.assert_allclose(coefficients["after"].iloc[:-1], after.coef)
    assert not np.allclose(coefficients["after"], coefficients["before"], rtol=0.01)
    changes = pd.read_csv("again/south/changes.csv")
    assert (changes["change"] == "reviewed").sum() == 24
    assert not set(table["row"].astype(int)) & set(pd.read_csv("again/south/issues.csv")["row"])
    assert not Path("again/north/reviews.json").exists()
    # what was decided is kept, and a resumed run can be resumed
    assert main(["fit", "--resume", "again", "--json"]) == 0
    same = json.loads(capsys.readouterr().out)
    assert same["agents"][1]["trusted_rows"] == 54
    np.testing.assert_allclose(comt.load("again/model.json").coef, after.coef, rtol=1e-6)


def test_the_browsers_export(folder, capsys):
    issues = pd.read_csv("run/north/issues.csv")
    export = {
        "format": "comt-review/1",
        "agent": "north",
        "run": comt.load("run/model.json").provenance["run"],
        "decisions": [
            {"row": int(issues["row"][0]), "decision": "accept", "target": None, "changes": {}, "drawn": "worst"},
            {
                "row": int(issues["row"][1]),
                "decision": "correct",
                "target": 300,
                "changes": {"rooms": 2},
                "drawn": "random",
            },
        ],
    }
    Path("export.json").write_text(json.dumps(export))
    assert main(["review", "run/north", "export.json"]) == 0
    assert "1 accepted, 0 rejected, 1 corrected" in capsys.readouterr().out
    assert main(["fit", "--resume", "run", "--reviews", "run/north/review.json", "--out", "again"]) == 0
    kept = {entry["row"]: entry for entry in json.loads(Path("again/north/reviews.json").read_text())["decisions"]}
    first = kept[int(issues["row"][0])]
    assert first["target"] == issues["suggested"][0]
    for change, words in (
        ({"agent": "south"}, "about agent 'south'"),
        ({"run": "0000"}, "about another run"),
        ({"decisions": [export["decisions"][0] | {"row": 4000}]}, "row 4000"),
    ):
        Path("wrong.json").write_text(json.dumps(export | change))
        assert main(["review", "run/north", "wrong.json", "--out", "taken.json"]) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1
    assert not Path("taken.json").exists()


def test_trusted_rows_that_look_wrong_are_listed(folder, capsys):
    table = flats("north")[0]
    row = int(np.flatnonzero(table["verified"])[4])
    table.loc[row, "price"] *= 3
    table.to_csv("north.csv", index=False)
    flats("south")[0].to_csv("south.csv", index=False)
    arguments = ["--target", "price", "--trusted", "verified", "--drop", "flat", "--lambda-trusted", "10"]
    arguments += ["--lambda-w", "1", "--lambda-alpha", "0", "--lambda-z", "inf", "--select", "all"]
    assert main(["fit", "north.csv", "south.csv", *arguments, "--out", "suspect"]) == 0
    assert "look wrong: see trusted.csv" in capsys.readouterr().out
    listed = pd.read_csv("suspect/north/trusted.csv")
    assert listed["row"][0] == row
    assert set(listed["row"]) <= set(np.flatnonzero(table["verified"]))
    # and it can be corrected like any other
    export = {"format": "comt-review/1", "agent": "north", "run": ""}
    decision = {"row": row, "decision": "accept", "target": None, "changes": {}, "drawn": "worst"}
    Path("export.json").write_text(json.dumps(export | {"decisions": [decision]}))
    assert main(["fit", "--resume", "suspect", "--reviews", "export.json"]) == 0
    left = Path("suspect/north/trusted.csv")
    assert not left.exists() or row not in set(pd.read_csv(left)["row"])
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "--resume", "nowhere"], "cannot be read"),
        (["fit", "--resume", "run", "data/north.csv"], "knows its files"),
        (["fit", "data/north.csv", "--target", "price", "--out", "x", "--reviews", "y.csv"], "--resume FOLDER"),
        (["fit", "--resume", "run", "--reviews", "data/north.csv"], "no review of CoMT"),
        (["fit", "--resume", "run", "--out", "data"], "holds one of the files"),
        (["review", "run/west"], "no agent of that run"),
        (["review", "data/north"], "cannot be read"),
        (["review", "run/north", "--budget", "many"], "not a whole number"),
        (["review", "run/north", "--budget", "0"], "not positive"),
    ],
)
def test_wrong_requests_are_one_sentence(folder, capsys, arguments, message):
    before = sorted(folder.rglob("*"))
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def test_files_that_changed_are_refused(folder, capsys):
    shutil.copytree("run", "moved")
    for name in ("north", "south"):
        flats(name)[0].to_csv(f"{name}.csv", index=False)
    options = ["--target", "price", "--trusted", "verified", "--drop", "flat"]
    assert main(["fit", "north.csv", "south.csv", *options, "--out", "other"]) == 0
    flats("south", 5)[0].to_csv("south.csv", index=False)
    capsys.readouterr()
    for arguments in (["fit", "--resume", "other"], ["review", "other/south"]):
        assert main(arguments) == 2
        assert "south.csv has changed since" in capsys.readouterr().err


def test_an_interruption_keeps_the_earlier_run(folder, capsys, monkeypatch):
    filled(budget=8)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("comt.cli.write.write_private", interrupted)
    assert main(["fit", "--resume", "run", "--reviews", "filled.csv"]) == 1
    assert "nothing was written" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
