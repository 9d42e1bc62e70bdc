"""``comt fit`` on tables as people have them: categories, gaps, dialects, names like ours, several formats."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import comt
from comt.cli import main
from comt.datasets.flats import NAMES, flats


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--files", "."]) == 0
    return tmp_path


FLATS = ("north.csv", "south.csv", "--target", "price", "--trusted", "verified", "--lambda-trusted", "10")


def test_flats_of_two_agencies(folder, capsys):
    assert main(["fit", *FLATS, "--drop", "flat", "--out", "run"]) == 0
    printed = capsys.readouterr().out
    for words in (
        "'heating' (4)",
        "Agent north: 400 rows, 30 of them trusted",
        "in 'year'",
        "R² 0.9",
        "comt review run/north",
    ):
        assert words in printed
    model = comt.load("run/model.json")
    year = model.schema.columns[model.schema.names.index("year")]
    assert 1940 < year.fill < 1980
    assert "wood stove" not in Path("run/model.json").read_text()  # two rows at each agent
    assert model.schema.missing["year"] == sum(flats(name)[0]["year"].isna().sum() for name in NAMES)
    for name in NAMES:
        issues = pd.read_csv(f"run/{name}/issues.csv")
        truly = set(np.flatnonzero(flats(name)[1]))
        worst = issues["row"].head(len(truly))
        assert len(truly & set(worst)) > 0.85 * len(truly)
        ledger = pd.read_csv(f"run/{name}/ledger.csv")
        assert ledger["purpose"].iloc[0] == "declaration of columns"
        assert "missing cells of columns" in set(ledger["purpose"])
        told = ledger[(ledger["purpose"] == "declaration of columns") & (ledger["array"] == "heating")]
        assert told["rows"].item() >= 5
    assert main(["predict", "run/model.json", "new.csv", "--out", "predicted.csv"]) == 0
    new = pd.read_csv("new.csv")
    predicted = pd.read_csv("predicted.csv")["prediction"]
    np.testing.assert_allclose(predicted, model.predict(new), rtol=1e-12)
    np.testing.assert_allclose(predicted, model.to_sklearn().predict(new), rtol=1e-12)
    truth = flats("north", 1)[0].head(20)["price"]
    fair = truth < 1000  # prices without a digit too many
    assert np.corrcoef(predicted[fair], truth[fair])[0, 1] > 0.95


def test_identifiers_and_what_is_missing_are_said(folder, capsys):
    assert main(["fit", *FLATS, "--out", "run", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert any("'flat' looks like an identifier" in note and "--drop flat" in note for note in summary["notes"])
    assert summary["categories"] == {"flat": 0, "heating": 4}
    assert [agent["missing"]["year"] for agent in summary["agents"]] == [
        int(flats(name)[0]["year"].isna().sum()) for name in NAMES
    ]
    assert summary["held_out"]["rows"] == 60


def test_every_format_gives_the_same_model(folder):
    tables = {name: flats(name)[0].drop(columns=["flat", "heating"]) for name in NAMES}
    models = {}
    for kind in ("csv", "semicolon", "excel", "parquet", "trusted-file"):
        Path(kind).mkdir()
        files, extra = [], ["--trusted", "verified"]
        for name, table in tables.items():
            file = Path(kind, f"{name}.parquet" if kind == "parquet" else f"{name}.csv")
            if kind == "parquet":
                table.to_parquet(file)
            elif kind == "semicolon":  # what spreadsheets of many countries write
                table.to_csv(file, index=False, sep=";", decimal=",", encoding="utf-8-sig", lineterminator="\r\n")
            elif kind == "trusted-file":
                marked = table.pop("verified") if "verified" in table else None
                table[marked].to_csv(f"{kind}/{name}-trusted.csv", index=False)
                table[~marked].to_csv(file, index=False)
                extra = [*extra[:-2], "--trusted-file", f"{name}={kind}/{name}-trusted.csv"]
                extra = extra if name == "north" else ["--trusted-file", f"north={kind}/north-trusted.csv", *extra]
            else:
                table.to_csv(file, index=False, quoting=1 if kind == "excel" else 0)
            files.append(str(file))
        out = f"run-{kind}"
        assert main(["fit", *files, "--target", "price", *extra, "--out", out]) == 0
        models[kind] = comt.load(f"{out}/model.json")
    for kind, model in models.items():
        np.testing.assert_allclose(model.coef, models["csv"].coef, rtol=1e-9, err_msg=kind)
    assert models["trusted-file"].provenance["agents"] == models["csv"].provenance["agents"]


def test_trusted_files_in_the_order_of_the_files(folder, capsys):
    for name in NAMES:
        flats(name)[0].query("verified").to_csv(f"{name}-ok.csv", index=False)
    arguments = ["fit", "north.csv", "south.csv", "--target", "price", "--drop", "flat", "verified", "--json"]
    both = ["--trusted-file", "north-ok.csv", "--trusted-file", "south-ok.csv"]
    assert main([*arguments, *both, "--out", "run"]) == 0
    assert [agent["trusted_rows"] for agent in json.loads(capsys.readouterr().out)["agents"]] == [30, 30]
    for wrong in (both[:2], [*both, "--trusted-file", "north=north-ok.csv"]):
        assert main([*arguments, *wrong, "--out", "other"]) == 2
        assert "once per agent" in capsys.readouterr().err
    assert main([*arguments, "--trusted-file", "south=south-ok.csv", "--out", "one"]) == 0
    assert [agent["trusted_rows"] for agent in json.loads(capsys.readouterr().out)["agents"]] == [0, 30]


def test_libsvm_from_fit_to_prediction(folder, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4)).round(3)
    x[rng.random(x.shape) < 0.3] = 0.0
    y = np.where(x @ [1, -2, 0.5, 1] > 0, 1, -1)
    for name, part, width in (("A", slice(0, 60), 4), ("B", slice(60, 120), 3)):  # B never mentions the last column
        lines = [
            f"{label} " + " ".join(f"{j + 1}:{value}" for j, value in enumerate(row[:width]) if value)
            for row, label in zip(x[part], y[part], strict=True)
        ]
        Path(f"{name}.svm").write_text("\n".join(lines) + "\n")
    assert main(["fit", "A.svm", "B.svm", "--target", "label", "--out", "run"]) == 0
    assert "classification of 'label' on 4 columns" in capsys.readouterr().out
    assert main(["predict", "run/model.json", "B.svm", "--out", "predicted.csv"]) == 0
    predicted = pd.read_csv("predicted.csv")["prediction"]
    assert (predicted == y[60:]).mean() > 0.8
    table = pd.DataFrame(np.column_stack([x[60:, :3], np.zeros(60)]), columns=["x1", "x2", "x3", "x4"])
    assert (comt.load("run/model.json").predict(table) == predicted).all()


OURS = ["row", "agent", "score", "trusted", "change x", "flagged", "given", "suggested", "decision", "drawn", "x"]


def test_columns_named_like_ours(folder):
    rng = np.random.default_rng(1)
    for name in ("agent", "row"):  # and agents named like columns
        table = pd.DataFrame(rng.normal(size=(90, len(OURS))), columns=OURS)
        table["target"] = table["row"] - table["change x"] + 0.1 * rng.normal(size=90)
        table["verified"] = np.arange(90) < 20
        table.to_csv(f"{name}.csv", index=False)
    assert main(["fit", "agent.csv", "row.csv", "--target", "target", "--trusted", "verified", "--out", "run"]) == 0
    model = comt.load("run/model.json")
    assert model.columns == tuple(OURS)
    assert np.argmax(np.abs(model.coef)) in (0, 4)
    assert list(pd.read_csv("run/row/issues.csv").columns[:5]) == ["row", "score", "flagged", "given", "suggested"]
    assert main(["review", "run/row", "--budget", "8"]) == 0
    review = pd.read_csv("run/row/review.csv", dtype=str, keep_default_na=False)
    review.loc[0, ["decision", "value of row", "correct target"]] = ["correct", "7.5", "0.5"]
    review.to_csv("filled.csv", index=False)
    assert main(["fit", "--resume", "run", "--reviews", "filled.csv", "--out", "again"]) == 0
    kept = json.loads(Path("again/row/reviews.json").read_text())["decisions"]
    assert kept[0]["changes"]["row"] == "7.5"


def test_gaps_are_filled_at_prediction_even_if_training_had_none(folder):
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"a": rng.normal(5, 1, 200), "b": rng.normal(size=200)})
    table.assign(y=table["a"] + table["b"]).to_csv("A.csv", index=False)
    assert main(["fit", "A.csv", "--target", "y", "--out", "run"]) == 0
    model = comt.load("run/model.json")
    fill = model.schema.columns[0].fill
    assert abs(fill - table["a"].median()) < 0.05
    np.testing.assert_allclose(
        model.predict(pd.DataFrame({"a": [None, fill], "b": [1.0, 1.0]})), [model.predict([[fill, 1.0]])[0]] * 2
    )


def test_no_trusted_rows_is_said(folder, capsys):
    table = flats("north")[0].assign(verified=False)
    table.to_csv("N.csv", index=False)
    assert main(["fit", "N.csv", "--target", "price", "--trusted", "verified", "--drop", "flat", "--out", "run"]) == 0
    printed = capsys.readouterr().out
    assert "'verified' is nowhere true" in printed
    assert "left out of training" not in printed


def text(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("x,y\n1,2\n2,2\n", "--target y", "is 2.0 in every row"),
        ("x,y\n1,2\n2,3\n", "--target y --categorical z", "no file has such a column"),
        ("x,y\n1,2\n2,3\n", "--target y --categorical y", "is the --target column"),
        ("x,y\n1,2\n2,3\n", "--target y --min-count few", "positive whole number"),
        ("x,y\n1,2\n2,3\n", "--target y --trusted-file gone.csv", "gone.csv is not a file"),
        ("x,y\n1,2\n2,3\n", "", "--target is missing"),
        ("t,y\n" + "1,2\n" * 1_100_000 + "abc,3\n" * 9, "--target y", "invalid value 'abc'"),
        ("x,y\n" + "1,2\n2,3\n" * 9 + "ü,4\n", "--target y --drop x", "no feature column"),
        (b"x,y\n1,\xfc\n2,b\n", "--target y", "column 'y' is not UTF-8"),
        ("x;y\n1,5;2\n2,5;3\n", "--target z", "it has x, y"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(folder, capsys, content, arguments, message):
    text("rows.csv", content)
    before = sorted(folder.rglob("*"))
    capsys.readouterr()
    assert main(["fit", "rows.csv", *arguments.split(), "--out", "run"]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def test_demo_files_need_a_free_place(folder, capsys):
    for place, words in ((".", "not empty"), ("no/where", "does not exist"), ("north.csv", "not empty")):
        assert main(["demo", "--files", place]) == 2
        assert words in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize(
    "moment",
    [
        "comt.agent.tables.TableRows._scan",
        "comt.progress.RoundReporter.round_done",
        "comt.cli.write.write_private",
        "comt.reporting.write_agent_report",
    ],
)
def test_ctrl_c_leaves_nothing(folder, moment):
    """A real signal in a real process, in the middle of the reading, of the training and of the writing."""
    before = sorted(folder.rglob("*"))
    code = (
        "import signal, sys, unittest.mock, comt.agent.tables, comt.cli.write, comt.reporting\n"
        "from comt.cli import main\n"
        f"with unittest.mock.patch('{moment}', lambda *_: signal.raise_signal(signal.SIGINT)):\n"
        "    sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "fit", *FLATS, "--out", "run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr == "comt fit: stopped; nothing was written.\n"
    assert done.returncode == 1
    assert sorted(folder.rglob("*")) == before


@pytest.mark.slow
def test_a_million_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    coef = np.array([1.0, 2.0, -1.0, 0.5])
    for name in ("A", "B"):
        x = rng.normal(size=(500_000, 4)).round(4)
        table = pd.DataFrame(x, columns=list("abcd"))
        table["city"] = rng.choice(["Bern", "Basel", "Genf, GE"], len(table))
        table.loc[rng.random(len(table)) < 0.02, "b"] = np.nan
        y = x @ coef + 2 * (table["city"] == "Bern") + 0.3 * rng.normal(size=len(table))
        table["ok"] = np.arange(len(table)) < 500
        table["y"] = np.where(~table["ok"] & (rng.random(len(table)) < 0.1), -y, y).round(4)
        table.to_csv(f"{name}.csv", index=False)
    assert main(["fit", "A.csv", "B.csv", "--target", "y", "--trusted", "ok", "--out", "run", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert sum(agent["rows"] for agent in summary["agents"]) == 1_000_000
    assert summary["held_out"]["score"] > 0.95
    np.testing.assert_allclose(comt.load("run/model.json").coef[:4], coef, atol=0.25)
    assert len(pd.read_csv("run/A/issues.csv", usecols=["row"])) == 499_500
    assert any("a sample" in note for note in summary["notes"])
    assert all(path.stat().st_size < 2_000_000 for path in Path("run").rglob("report.html"))
