"""Categories and missing values across sites: agreed on when joining, rare ones named by nobody."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sites_in_process import FIXED, PLAIN, SitesInProcess, open_sites

from comt import CoMTClassifier, CoMTRegressor, load, messages, wire
from comt.agent import Agent, Policy, TableRows
from comt.agent.ledger import read_lines
from comt.cli import main
from comt.declaration import Declare
from comt.federation import LocalFederation
from comt.federation.journal import Journal
from comt.model_file import TaughtModel
from comt.preparation import Preparation
from comt.queries import DualSums
from comt.server.coordinator import Progress, Request, run
from comt.server.schema import agree_on_schema

TRAINING = "cd" * 8
CITIES = ["Bern", "Zug", "Chur"]


def table(seed, n=150, *, task="regression", rare=()):
    """Return a table of numbers with gaps, a category, codes, and some rows with levels that hardly any row has."""
    rng = np.random.default_rng(seed)
    age = rng.normal(50.0, 10.0, n)
    city = rng.choice(CITIES, n).astype(object)
    code = rng.choice([1, 2, 7], n)
    y = 0.1 * age + (city == "Bern") * 2.0 - (code == 7) * 1.5 + 0.3 * rng.normal(size=n)
    for place, name in enumerate(rare):
        city[place] = name
    age[rng.random(n) < 0.15] = np.nan
    city[rng.random(n) < 0.1] = None
    found = pd.DataFrame({"age": age, "city": city, "code": code, "weight": rng.normal(70.0, 5.0, n)})
    found["y"] = np.where(y > np.median(y), "ill", "well") if task == "classification" else y
    found["ok"] = (np.arange(n) >= n - 40).astype(int)
    return found


def write(folder, tables):
    paths = {}
    for name, content in tables.items():
        paths[name] = folder / f"{name}.csv"
        content.to_csv(paths[name], index=False)
    return paths


def sites_of(folder, paths, **policy):
    return open_sites(folder, paths, categorical=("code",), **policy)


def train(transport, task="regression", journal=None, **options):
    estimator = (CoMTRegressor if task == "regression" else CoMTClassifier)(**FIXED)
    request = Request(TRAINING, task, estimator.get_params(), min_sites=2, seconds=9.0, join_seconds=9.0, **options)
    return run(transport, request, journal or Journal(None), Progress(None))


def as_in_one_process(paths, task="regression", policy=None):
    """Return the model that `comt fit` comes to: the same agents agree, then learn, in one process."""
    agents = [
        Agent(name, TableRows(path, target="y", trusted="ok", categorical=("code",)), policy)
        for name, path in paths.items()
    ]
    schema = agree_on_schema(LocalFederation(agents), Declare(), target="y", categorical=("code",))
    for agent in agents:
        agent.use_schema(schema)
    estimator = (CoMTRegressor if task == "regression" else CoMTClassifier)(**FIXED).fit_agents(agents)
    return TaughtModel.of(estimator, estimator._training, agents)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_model_is_that_of_one_process_and_predicts_raw_files(tmp_path, task, capsys):
    paths = write(tmp_path, {f"site-{k}": table(k, task=task) for k in (1, 2)})
    outcome = train(SitesInProcess(sites_of(tmp_path, paths)), task, masked=False)
    expected = as_in_one_process(paths, task)
    assert outcome.model.columns == expected.schema.features
    assert outcome.model.schema == expected.schema
    assert {"city=Bern", "city is missing", "code=7", "age is missing"} <= set(outcome.model.columns) | {
        "age is missing"
    }
    np.testing.assert_allclose(outcome.model.coef, expected.coef, rtol=0, atol=1e-10)
    outcome.model.save(tmp_path / "model.json")
    new = table(9, task=task).drop(columns=["y", "ok"])
    new.to_csv(tmp_path / "new.csv", index=False)
    assert (
        main(["predict", str(tmp_path / "model.json"), str(tmp_path / "new.csv"), "--out", str(tmp_path / "p.csv")])
        == 0
    )
    given = pd.read_csv(tmp_path / "p.csv")
    wanted = load(tmp_path / "model.json").predict(new)
    assert len(given) == len(new)
    column = next(name for name in given.columns if name.startswith("predict"))
    if task == "regression":
        np.testing.assert_allclose(given[column], wanted)
    else:
        assert (given[column] == wanted).all()
    capsys.readouterr()


def test_under_masks_rare_levels_are_named_by_nobody_and_the_model_is_the_same(tmp_path):
    rare = ["Hinterfultigen"] * 4
    paths = write(tmp_path, {f"site-{k}": table(k, n=200, rare=rare if k == 2 else ()) for k in (1, 2, 3)})
    transport = SitesInProcess(sites_of(tmp_path, paths, protective=True))
    outcome = train(transport)
    assert outcome.federation.masked
    assert b"Hinterfultigen" not in b"".join(transport.messages)
    assert "Hinterfultigen" not in outcome.model.to_json()
    expected = as_in_one_process(paths, policy=Policy(min_rows=10))
    assert outcome.model.schema.features == expected.schema.features
    np.testing.assert_allclose(outcome.model.coef, expected.coef, rtol=0, atol=1e-7)
    lines = read_lines(tmp_path / "results" / "site-2" / "ledger.jsonl")
    told = {line["array"]: line["rows"] for line in lines if line.get("purpose") == Declare.purpose}
    assert set(told) == {"age", "city", "code", "weight"}
    assert min(told.values()) >= 10
    assert wire.pack(200) not in b"".join(m for m in transport.messages if b"Joined" in m)  # no number of rows


def test_a_coordinator_that_names_a_rare_level_learns_nothing_of_its_rows(tmp_path):
    """It guesses a name; a sum over the four rows that have it would be theirs."""
    paths = write(tmp_path, {"site-1": table(1, rare=["Hinterfultigen"] * 4)})
    site = sites_of(tmp_path, paths, **PLAIN | {"min_rows": 10, "min_trusted_rows": 0})["site-1"]
    content = pd.read_csv(paths["site-1"])
    columns = [
        {"name": "city", "kind": "category", "levels": ["Bern", "Hinterfultigen"], "missing_feature": True},
        {"name": "weight", "kind": "number", "missing_becomes": None, "missing_feature": True},
    ]
    schema = json.dumps({"target": "y", "columns": columns})
    query = DualSums(
        loss_name="squared", preparation=Preparation.identity(5), r=np.zeros((1, 5)), theta=np.zeros((1, 5)),
        lambda_alpha=np.zeros(1), lambda_z=np.full(1, np.inf),
    )  # fmt: skip
    for message in (
        messages.Join(training=TRAINING, task="regression", min_count=1),
        messages.Begin(training=TRAINING, participants=("site-1",)),
        messages.Agreed(training=TRAINING, schema=schema),
    ):
        reply = messages.parse(site.handle(wire.pack(message)), messages.Joined)
        assert reply.refusal == ""
        assert b"Hinterfultigen" not in wire.pack(reply)  # however low the minimum that is asked for
    envelope = messages.Envelope(training=TRAINING, round=1, purpose="", participants=("site-1",), query=query)
    reply = messages.parse(site.handle(wire.pack(envelope)), messages.Reply)
    assert reply.refusal == ""
    moved = reply.arrays["alpha_x"][0]
    buggy = content[content["ok"] == 0]
    assert moved[0] == pytest.approx(buggy.loc[buggy["city"] == "Bern", "y"].sum())
    assert moved[1] == 0.0  # the four rows count as "other"
    assert moved[2] == pytest.approx(buggy.loc[buggy["city"].isna(), "y"].sum())
    assert moved[4] == 0.0  # no weight is missing


def test_a_site_that_holds_text_where_others_hold_numbers_never_joins(tmp_path):
    tables = {f"site-{k}": table(k) for k in (1, 2, 3)}
    tables["site-3"]["weight"] = "heavy"
    outcome = train(SitesInProcess(sites_of(tmp_path, write(tmp_path, tables))), masked=False)
    assert outcome.federation.left == {"site-3": "holds categories in column 'weight' where the others hold numbers"}
    assert outcome.federation.agents == ("site-1", "site-2")


def test_another_order_of_columns_is_the_same_federation(tmp_path):
    tables = {f"site-{k}": table(k) for k in (1, 2)}
    expected = train(SitesInProcess(sites_of(tmp_path / "a", write(tmp_path, tables))), masked=False)
    tables["site-2"] = tables["site-2"][["ok", "weight", "y", "code", "city", "age"]]
    other = train(SitesInProcess(sites_of(tmp_path / "b", write(tmp_path, tables))), masked=False)
    np.testing.assert_array_equal(other.model.coef, expected.model.coef)
    chosen = ("weight", "age", "code", "city")
    ordered = train(SitesInProcess(sites_of(tmp_path / "c", write(tmp_path, tables))), masked=False, columns=chosen)
    assert ordered.model.schema.names == chosen


def test_a_schema_that_changes_because_a_site_left_changes_the_rows_that_are_summed(tmp_path):
    """Without the site that left, its city has no feature any more; nothing of the first attempt stays."""
    tables = {f"site-{k}": table(k, rare=["Thun"] * 30 if k == 3 else ()) for k in (1, 2, 3)}
    paths = write(tmp_path, tables)
    transport = SitesInProcess(sites_of(tmp_path, paths), {"site-3": ("silent", 5)})
    outcome = train(transport, masked=False)
    assert "city=Thun" not in outcome.model.columns
    expected = as_in_one_process({name: paths[name] for name in ("site-1", "site-2")})
    np.testing.assert_allclose(outcome.model.coef, expected.coef, rtol=0, atol=1e-10)


@pytest.mark.parametrize("schema", ["", "[]", "{}", '{"target": "y", "columns": [{"name": "age", "kind": "odd"}]}'])
def test_a_schema_that_cannot_be_read_is_refused(tmp_path, schema):
    paths = write(tmp_path, {"site-1": table(1)})
    site = sites_of(tmp_path, paths)["site-1"]
    site.handle(wire.pack(messages.Join(training=TRAINING, task="regression")))
    reply = messages.parse(site.handle(wire.pack(messages.Agreed(training=TRAINING, schema=schema))), messages.Joined)
    assert reply.refusal == "protocol"
