"""``comt fit`` and ``comt predict``: the estimators' model, private outputs, one sentence for wrong input."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import comt
from comt import Agent, CoMTClassifier, CoMTRegressor, FileRows
from comt.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "fit-from-the-command-line.md"
TUTORIAL = PAGE.parents[1] / "tutorial" / "two-files.md"
# features named like columns of our own tables
NAMES = ["row", "score", "prediction"]


def table_of(seed, n=90):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=NAMES)
    price = table["row"] - 2 * table["score"] + 0.1 * rng.normal(size=n)
    table["price"] = np.where(rng.random(n) < 0.1, -price, price)
    table["sick"] = np.where(price > 0, "=yes", "no")
    table["verified"] = rng.random(n) < 0.2
    return table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table_of(1).to_csv("A.csv", index=False)
    table_of(2).to_parquet("B.parquet")
    return tmp_path


def fit(*extra, files=("A.csv", "B.parquet"), target="price", out="run"):
    return main(["fit", *files, "--target", target, "--out", out, *extra])


# the paper's objective with fixed weights: folds of automatic choice depend on the order of columns
FIXED = {
    "teaching": "dual",
    "lambda_w": 1.0,
    "lambda_trusted": 1.0,
    "lambda_alpha": 0.0,
    "lambda_z": np.inf,
    "select": None,
}
FIXED_OPTIONS = shlex.split(
    "--teaching dual --lambda-w 1 --lambda-trusted 1 --lambda-alpha 0 --lambda-z inf --select all"
)
REGRESSION = ("--trusted", "verified", "--drop", "sick", "--lambda-trusted", "10")
CLASSIFICATION = ("--trusted", "verified", "--drop", "price", "--lambda-w", "2")


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_model_is_that_of_the_estimators(folder, capsys, task):
    target, extra = ("price", REGRESSION) if task == "regression" else ("sick", CLASSIFICATION)
    model = CoMTRegressor(lambda_trusted=10.0) if task == "regression" else CoMTClassifier(lambda_w=2.0)
    model.fit_agents(
        [
            Agent(Path(file).stem, FileRows(file, target=target, trusted="verified", columns=NAMES))
            for file in ("A.csv", "B.parquet")
        ]
    )
    assert fit(*extra, target=target) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    for words in (f"Task: {task} of '{target}' on 3 columns", "--task chooses otherwise", "Agent A: 90 rows", "kB"):
        assert words in captured.out
    for words in ("of them trusted", f"Trained in {model.n_rounds_} rounds", "certificate", "run/model.json"):
        assert words in captured.out
    loaded = comt.load("run/model.json")
    np.testing.assert_allclose(loaded.coef, np.ravel(model.coef_), rtol=0, atol=1e-12)
    np.testing.assert_allclose(loaded.intercept, np.ravel(model.intercept_)[0], rtol=0, atol=1e-12)
    assert loaded.columns == tuple(NAMES)
    # the trusted rows of a file stand anywhere, and rows are numbered as in the file
    expected = model.issues()
    for name, table in (("A", table_of(1)), ("B", table_of(2))):
        issues = pd.read_csv(f"run/{name}/issues.csv")
        assert list(issues.columns) == ["row", "score", "flagged", "given", "suggested", "kind", "column"]
        own = expected[expected["agent"] == name]
        np.testing.assert_array_equal(issues["row"], own["row"])
        np.testing.assert_array_equal(issues["score"], own["score"])
        assert (np.diff(issues["score"]) <= 0).all()
        assert set(issues["row"]) == set(np.flatnonzero(~table["verified"]))
        given = table[target].to_numpy()[issues["row"]]
        if task == "regression":
            np.testing.assert_allclose(issues["given"], given, rtol=1e-12)
        else:
            assert (issues["given"].str.removeprefix("'") == given).all()
        ledger = pd.read_csv(f"run/{name}/ledger.csv")
        assert {"round", "purpose", "array", "bytes", "rows"} <= set(ledger.columns)
        assert f"{ledger['bytes'].sum() / 1e3:,.1f} kB" in captured.out


def test_formulas_are_neutralised_and_numbers_are_not(folder):
    assert fit(*CLASSIFICATION, target="sick") == 0
    issues = pd.read_csv("run/A/issues.csv")
    assert set(issues["given"]) == {"'=yes", "no"}
    assert comt.load("run/model.json").classes == ("=yes", "no")
    assert fit(*REGRESSION, out="numbers") == 0
    assert (pd.read_csv("numbers/A/issues.csv")["given"] < 0).any()


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
def test_private_files_are_readable_by_their_owner_only(folder):
    before = os.umask(0o022)
    try:
        assert fit(*REGRESSION) == 0
    finally:
        os.umask(before)
    for name in ("A", "B"):
        assert stat.S_IMODE(os.stat(f"run/{name}").st_mode) == 0o700
        for file in ("issues.csv", "ledger.csv", "report.html"):
            assert stat.S_IMODE(os.stat(f"run/{name}/{file}").st_mode) == 0o600
    assert stat.S_IMODE(os.stat("run/model.json").st_mode) == 0o644


def test_one_object_for_machines_and_the_paper_rule_is_noted(folder, capsys):
    assert fit("--drop", "sick", "verified", "--select", "0.5", "--select-by", "alpha", "--json") == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out)
    assert captured.err == ""
    assert summary["task"] == "regression"
    assert [agent["name"] for agent in summary["agents"]] == ["A", "B"]
    assert summary["agents"][0]["rows"] == 90
    assert summary["agents"][0]["bytes_sent"] > 0
    assert summary["certificate"] <= summary["tol"]
    assert "buggy rows alone" in summary["notes"][0]
    assert any("erratum E13" in note for note in summary["notes"])


def test_a_fraction_is_of_the_rows_that_fit_best_where_parameters_are_chosen(folder, capsys):
    assert fit("--drop", "sick", "verified", "--select", "0.5", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert not any("erratum E13" in note for note in summary["notes"])
    assert summary["choice"].count("unverified rows are taken at their word") == 1


def test_csv_dialects_give_the_same_model(folder):
    table = table_of(3).rename(columns={"row": "row, no"}).drop(columns="sick")
    table.to_csv("plain.csv", index=False)
    text = table[table.columns[::-1]].to_csv(index=False, lineterminator="\r\n")
    Path("other.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert text.startswith("verified,price,")
    for name in ("plain", "other"):
        first = [f"{name}.csv", "more.csv"]
        table.to_csv("more.csv", index=False)
        assert fit("--trusted", "verified", *FIXED_OPTIONS, files=first, out=name) == 0
    plain, other = (comt.load(f"{name}/model.json") for name in ("plain", "other"))
    assert plain.columns == ("row, no", "score", "prediction")
    assert other.columns == plain.columns[::-1]
    np.testing.assert_allclose(other.coef[::-1], plain.coef, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("column", "extra", "task"),
    [
        ([0, 1, 1, 0], (), "classification"),
        ([True, False, True, False], (), "classification"),
        ([0, 1, 1, 0], ("--task", "regression"), "regression"),
        ([0, 1, 2, 0], (), "regression"),
    ],
)
def test_the_target_suggests_the_task(folder, capsys, column, extra, task):
    pd.DataFrame({"x": [1, 2, 3.5, 4], "y": column}).to_csv("T.csv", index=False)
    assert fit(*extra, files=["T.csv"], target="y") == 0
    assert f"Task: {task}" in capsys.readouterr().out
    assert comt.load("run/model.json").task == task


def csv(name, text):
    def write():
        Path(name).write_text(text)

    return write


def latin_1():
    Path("C.csv").write_bytes("größe,y\n1,2\n2,3\n".encode("latin-1"))


def other_files():
    Path("run").mkdir()
    Path("run/thesis.txt").write_text("years of work")


def run_with_other_files():
    CoMTRegressor(**FIXED).fit([[1.0], [2.0]], [1.0, 2.0]).save("model.json")
    other_files()
    Path("model.json").rename("run/model.json")


ONE = "x,y\n1,2\n2,3\n3,5\n"


@pytest.mark.parametrize(
    ("prepare", "arguments", "message"),
    [
        (csv("C.csv", ONE), "C.csv --target z", "no column 'z' (--target)"),
        (csv("C.csv", ONE), "C.csv --target y --trusted ok", "no column 'ok' (--trusted)"),
        (csv("C.csv", ONE), "C.csv --target y --trusted y", "name two different columns"),
        (csv("C.csv", ONE), "C.csv --target y --drop y", "--drop y is also the --target"),
        (csv("C.csv", ONE), "C.csv --target y --drop id", "no file has such a column"),
        (csv("C.csv", ONE), "C.csv --target y --drop x", "no feature column"),
        (csv("C.csv", ONE), "C.csv c.csv --target y", "two files are named 'c'"),
        (csv("C.csv", ONE), "C.csv C.csv --target y", "two files are named 'C'"),
        (csv("model.json.csv", ONE), "model.json.csv --target y", "rename the file"),
        (csv("...csv", ONE), "...csv --target y", "cannot name an agent"),
        (csv("a\nb.csv", ONE), "'a\nb.csv' --target y", "cannot name an agent"),
        (csv("C.csv", '"a\nb",y\n2024-01-01,1\n2024-01-02,2\n'), "C.csv --target y", "column 'a b' is of type date32"),
        (latin_1, "C.csv --target y", "header is not UTF-8"),
        (csv("C.parquet", "PAR1 and nothing else PAR1"), "C.parquet --target y", "C.parquet cannot be read"),
        (csv("C.csv", ONE), "C.csv A.csv --target y", "A.csv has no column 'y'"),
        (
            csv("C.csv", "x,price\n1,2\n2,3\n"),
            "A.csv C.csv --target price --drop sick verified",
            "prediction, row, score",
        ),
        (csv("C.csv", "x,y\n1,2\n2,2\n"), "C.csv --target y", "is 2.0 in every row"),
        (csv("C.csv", "x,y\n1,a\n2,a\n"), "C.csv --target y", "is 'a' in every row"),
        (csv("C.csv", "x,y\n1,a\n2,b\n3,c\n"), "C.csv --target y", "3 labels"),
        (csv("C.csv", "x,y\n1,a\n2,\n3,b\n"), "C.csv --target y", "row 1, column 'y'"),
        (csv("C.csv", "x,y\n1,a\n2,b\n"), "C.csv --target y --task regression", "holds no numbers"),
        (csv("C.csv", ONE), "C.csv --target y --task classification", "more than two different numbers"),
        (csv("C.csv", ONE), "C.csv --target y --task ranking", "--task ranking is unknown"),
        (csv("C.csv", "x,y\n1,2024-01-01\n2,2024-01-02\n"), "C.csv --target y", "of type date"),
        (
            csv("C.csv", "x,price\n1,a\n"),
            "A.csv C.csv --target price --drop x sick row score prediction verified",
            "no f",
        ),
        (csv("C.csv", "x,y\ninf,2\n2,3\n3,4\n"), "C.csv --target y", "infinite in row 0, column 'x'"),
        (csv("C.csv", "t,y\na,2\nb,3\n"), "C.csv --target y", "no column is left to learn from"),
        (csv("C.csv", ",x,y\n0,1,2\n1,2,3\n"), "C.csv --target y", "column without a name"),
        (csv("C.csv", "x,x,y\n0,1,2\n1,2,3\n"), "C.csv --target y", "occur twice"),
        (csv("C.csv", "x,y\n"), "C.csv --target y", "holds no rows"),
        (csv("C.csv", ""), "C.csv --target y", "cannot be read"),
        (csv("C.csv", "x,y\n1,2\n1\n"), "C.csv --target y", "cannot be read"),
        (csv("C.csv", "x,y,t\n1,2,maybe\n2,3,no\n"), "C.csv --target y --trusted t", "'maybe', neither yes nor no"),
        (csv("C.csv", "x,y,t\n1,2,1\n2,3,1\n"), "C.csv --target y --trusted t", "every row is trusted"),
        (csv("C.txt", ONE), "C.txt --target y", "unknown ending"),
        (csv("C.csv", ONE), "D.csv --target y", "is not a file"),
        (csv("C.csv", ONE), "C.csv --target y --lambda-w -1", "lambda_w=-1"),
        (csv("C.csv", ONE), "C.csv --target y --lambda-w much", "--lambda-w much is not a number"),
        (csv("C.csv", ONE), "C.csv --target y --select 2", "not a fraction"),
        (csv("C.csv", ONE), "C.csv --target y --solver magic", "solver='magic' is unknown"),
        (csv("C.csv", ONE), "C.csv --target y --out no/where", "does not exist"),
        (csv("run", ONE), "A.csv --target price", "is a file"),
        (other_files, "A.csv --target price", "is not empty"),
        (other_files, "A.csv --target price --force", "does not replace it"),
        (run_with_other_files, "A.csv --target price --force", "does not replace it"),
        (csv("C.csv", ONE), "C.csv --target y --out .", "holds one of the files"),
    ],
)
def test_wrong_input_is_one_sentence_and_leaves_nothing(folder, capsys, prepare, arguments, message):
    prepare()
    if "c.csv" in arguments:
        Path("c.csv").write_text(ONE)
    before = sorted(folder.rglob("*"))
    words = shlex.split(arguments)
    assert main(["fit", *words, *([] if "--out" in words else ["--out", "run"])]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("comt fit: ")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert sorted(folder.rglob("*")) == before


def test_labels_of_different_kinds_are_refused(folder, capsys):
    Path("C.csv").write_text("x,y\n1,a\n2,b\n")
    Path("D.csv").write_text("x,y\n1,0\n2,1\n")
    assert fit(files=["C.csv", "D.csv"], target="y") == 2
    assert "str in C.csv and float in D.csv" in capsys.readouterr().err
    assert not Path("run").exists()


def test_a_solver_that_fails_says_so_and_leaves_nothing(folder, capsys, monkeypatch):
    def fails(*args, **kwargs):
        raise comt.ConvergenceError("newton stopped early; raise tol.")

    monkeypatch.setattr(CoMTRegressor, "fit_agents", fails)
    before = sorted(folder.rglob("*"))
    assert fit(*REGRESSION) == 1
    assert capsys.readouterr().err == "comt fit: newton stopped early; raise tol.\n"
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    "where", ["comt.estimators.base.train", "comt.validation.clone", "comt.cli.write.write_private"]
)
@pytest.mark.parametrize("earlier", [False, True])
def test_an_interruption_leaves_nothing_half_written(folder, capsys, monkeypatch, where, earlier):
    if earlier:
        assert fit(*REGRESSION) == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def interrupted(*args, **kwargs):
        assert any(path.name.startswith(".run-") for path in folder.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupted)
    assert fit(*REGRESSION, "--force") == 1
    assert "nothing was written" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert not any(path.name.startswith(".") for path in folder.iterdir())


def test_force_replaces_an_earlier_run(folder):
    assert fit(*REGRESSION) == 0
    assert fit("--force", *REGRESSION, "--lambda-w", "7", files=["A.csv"]) == 0
    assert comt.load("run/model.json").parameters["lambda_w"] == 7.0
    assert sorted(path.name for path in Path("run").iterdir()) == ["A", "model.json", "report.html", "run.json"]
    assert not any(path.name.startswith(".") for path in folder.iterdir())
    Path("empty").mkdir()
    assert fit(*REGRESSION, out="empty") == 0


def test_rounds_are_shown_in_a_terminal(folder, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert fit(*REGRESSION) == 0
    captured = capsys.readouterr()
    assert "training" in captured.err
    assert "round 1" not in captured.out


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_predictions_are_those_of_the_model(folder, capsys, task, ending):
    target, extra = ("price", REGRESSION) if task == "regression" else ("sick", CLASSIFICATION)
    assert fit(*extra, target=target) == 0
    capsys.readouterr()
    new = table_of(5)[["sick", *NAMES[::-1]]]
    if ending == ".csv":
        new.to_csv("new.csv", index=False)
    else:
        new.to_parquet("new.parquet")
    assert main(["predict", "run/model.json", f"new{ending}"]) == 0
    printed = capsys.readouterr().out
    assert main(["predict", "run/model.json", f"new{ending}", "--out", "predictions.csv"]) == 0
    assert capsys.readouterr().out == ""
    assert Path("predictions.csv").read_text() == printed
    found = pd.read_csv(io.StringIO(printed))
    model = comt.load("run/model.json")
    if task == "regression":
        assert list(found.columns) == ["prediction"]
        np.testing.assert_allclose(found["prediction"], model.predict(new), rtol=1e-12)
    else:
        assert list(found.columns) == ["prediction", "probability"]
        assert (found["prediction"].str.removeprefix("'") == model.predict(new)).all()
        np.testing.assert_allclose(found["probability"], model.predict_proba(new)[:, 1], rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("row,score\n1,2\n", "run/model.json new.csv", "lacks the columns prediction"),
        ("row,score,prediction\n1,2,a\n", "run/model.json new.csv", "column 'prediction' is of type string"),
        ("row,score,prediction\n1,2,3\n1,inf,3\n", "run/model.json new.csv", "row 1, column 'score'"),
        ("row,row,score,prediction\n1,1,2,3\n", "run/model.json new.csv", "'row' twice"),
        ("row,score,prediction\n", "run/model.json new.csv", "holds no rows"),
        ("row,score,prediction\n1,2,3\n", "run/model.json none.csv", "is not a file"),
        ("row,score,prediction\n1,2,3\n", "A.csv new.csv", "is not JSON"),
        ("row,score,prediction\n1,2,3\n", "unnamed.json new.csv", "without column names"),
        ("row,score,prediction\n1,2,3\n", "run/model.json new.csv --out new.csv", "one of the files to read"),
        ("row,score,prediction\n1,2,3\n", "run/model.json new.csv --out no/where.csv", "existing folder"),
    ],
)
def test_predict_refuses_in_one_sentence(folder, capsys, text, arguments, message):
    assert fit(*REGRESSION) == 0
    CoMTRegressor(**FIXED).fit([[1.0], [2.0]], [1.0, 2.0]).save("unnamed.json")
    Path("new.csv").write_text(text)
    capsys.readouterr()
    before = sorted(folder.rglob("*"))
    words = shlex.split(arguments)
    assert main(["predict", *words, *([] if "--out" in words else ["--out", "predictions.csv"])]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert sorted(folder.rglob("*")) == before


def run_console(blocks, capsys):
    """Run every command of console blocks; what is shown after one is how its output begins."""
    for block in blocks:
        for part in block.split("$ comt ")[1:]:
            command, *shown = part.splitlines()
            capsys.readouterr()
            assert main(shlex.split(command)) == 0
            printed = capsys.readouterr().out.splitlines()
            assert printed[: len(shown)] == shown
            if command.startswith("review "):  # the expert's part
                file = Path(command.split()[1]) / "review.csv"
                pd.read_csv(file).assign(decision=["accept"] * 3 + [""] * 37).to_csv(file, index=False)


def test_the_tutorial_of_two_files_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = TUTORIAL.read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.S | re.M)
    assert len(blocks) == 5
    run_console(blocks, capsys)
    assert len(pd.read_csv("predictions.csv")) == 20
    assert len(pd.read_csv("run/south/review.csv")) == 40


def test_the_commands_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    exec(re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)[0], {})
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.S | re.M)
    assert len(blocks) == 5
    run_console(blocks, capsys)
    assert len(pd.read_csv("predictions.csv")) == 400
    # the prices with the wrong sign come first
    worst = pd.read_csv("run/north/issues.csv").head(20)
    assert (worst["row"] % 10 == 9).all()
