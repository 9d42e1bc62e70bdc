"""What is left of a training: a private report at every site, one for everybody at the coordinator, no row in the latter."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sites_in_process import FIXED, SitesInProcess, open_sites
from test_federation_tables import table, write

from comt import CoMTClassifier, CoMTRegressor
from comt.cli.train import finish
from comt.server.coordinator import RESULT, Request, coordinate

TRAINING = "ef" * 8
FAR_OUT = (70123.25, 70456.75, 70789.125)


def trained(folder, task="regression", faults=(), **parameters):
    """Train over three protective sites under masks; return the sites' tables, the training's folder, and where it went."""
    tables = {f"site-{k}": table(k, n=250, task=task) for k in (1, 2, 3)}
    for k, content in enumerate(tables.values()):
        content.loc[5, "weight"] = FAR_OUT[k]  # far out, and nobody else has it
    paths = write(folder, tables)
    sites = open_sites(folder, paths, protective=True, allow_leavers=True, categorical=("code",))
    if faults:
        sites["site-4"] = open_sites(
            folder, write(folder, {"site-4": tables["site-1"].rename(columns={"age": "years"})})
        )["site-4"]
    estimator = (CoMTRegressor if task == "regression" else CoMTClassifier)(**parameters)
    home = folder / "trainings" / TRAINING
    home.mkdir(parents=True)
    request = Request(TRAINING, task, estimator.get_params(), min_sites=3, seconds=20.0, join_seconds=20.0)
    coordinate(SitesInProcess(sites), request, home)
    return tables, home, folder / "out"


@pytest.mark.parametrize(("task", "parameters"), [("regression", {}), ("classification", {}), ("regression", FIXED)])
def test_reports(tmp_path, task, parameters, capsys):
    tables, home, out = trained(tmp_path, task, ["other columns"], **parameters)
    result = json.loads((home / RESULT).read_text())
    assert finish(result, home, out, as_json=False) == 0
    said = capsys.readouterr().out
    page = (out / "report.html").read_text()
    for expected in (
        "site-1",
        "site-2",
        "site-3",
        "site-4",
        "has other columns",
        "missing cells of columns",
        "city",
        "Bern",
    ):
        assert expected in page
    assert "the coordinator saw sums over all sites only" in page
    assert f"{result['rounds']} rounds" in page
    if parameters:
        assert result["choice"] is None
    else:
        assert result["choice"]["said"] in said
        assert result["choice"]["lines"][0]["candidate"] in page
    assert str(out / "report.html") in said
    # no row, in any form, is on the coordinator's side
    values = [str(float(value)) for content in tables.values() for value in content["weight"]]
    assert any(value in (tmp_path / "site-1.csv").read_text() for value in values)  # the search finds what is there
    for path in (*out.iterdir(), *(home / name for name in ("result.json", "progress.jsonl", "model.json"))):
        text = path.read_text()
        assert not [value for value in values if value in text], path
    for k, name in enumerate(tables):
        own = tmp_path / "results" / name / TRAINING / "report.html"
        assert own.stat().st_mode & 0o077 == 0
        text = own.read_text()
        assert str(FAR_OUT[k]) in text  # a row that is shown, as the file has it
        assert not [other for other in range(3) if other != k and str(FAR_OUT[other]) in text]
        assert "mark the rows as verified" in text


def test_the_private_report_shows_the_rows_that_the_table_calls_wrong(tmp_path):
    tables, _, _ = trained(tmp_path, "classification")
    folder = tmp_path / "results" / "site-2" / TRAINING
    issues = pd.read_csv(folder / "issues.csv")
    text = (folder / "report.html").read_text()
    data = json.loads(text[text.index('{"', text.index("application/json")) :].split("</script>")[0])
    rows = [line["row"] for line in data["lines"]]
    worst = issues["row"].to_numpy()
    flagged = worst[: int(issues["flagged"].sum())]
    assert len(flagged)
    assert set(flagged[:20]) <= set(rows)
    assert not set(rows) & set(np.flatnonzero(tables["site-2"]["ok"]))  # verified rows are nobody's issue
