"""The command line: exit codes, one sentence for wrong input, machine-readable output."""

from __future__ import annotations

import json

import pytest

from comt.cli import main


def test_demo_prints_one_object_for_machines(capsys, tmp_path):
    assert main(["demo", "--seeds", "2", "--json", "--out", str(tmp_path / "reports")]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["seeds"] == 2
    assert summary["scores"]["CoMT"]["mean"] > summary["scores"]["buggy-only"]["mean"]
    assert summary["scores"]["clean oracle"]["mean"] > 0.98
    assert summary["worst_certificate"] <= 1e-8
    assert summary["rounds"] <= 60
    assert summary["worst_and_wrong"] > 0.7 * summary["rows_wrong"]
    assert len(list((tmp_path / "reports").glob("*/report.html"))) == 5
    assert "diagnosis" in (tmp_path / "reports" / "report.html").read_text(encoding="utf-8")


def test_demo_tells_people_what_happened(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["demo", "--seeds", "2"]) == 0
    shown = capsys.readouterr().out
    for word in (
        "paper's objective",
        "TI-only",
        "rounds",
        "kB",
        "certificate",
        "What happened",
        "Reports",
        "What to try next",
    ):
        assert word in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--seeds", "0"], "--seeds 0 is not a positive number"),
        (["demo", "--out", "."], "not empty"),
        (["demo", "--out", "no/where"], "does not exist"),
        (["bench", "robustness", "--methods", "Oracle"], "'Oracle' is unknown"),
        (["bench", "render", "--out", "nowhere"], "holds no results"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(arguments, message, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err


def test_unknown_commands_exit_with_2(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["teach"])
    assert caught.value.code == 2
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert "comt 0" in capsys.readouterr().out


def test_an_interruption_is_said_and_exits_with_1(monkeypatch, capsys):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("comt.cli.demo.run", interrupted)
    assert main(["demo"]) == 1
    assert "stopped" in capsys.readouterr().err
