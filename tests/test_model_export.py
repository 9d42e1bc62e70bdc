"""A model of tables as a plain scikit-learn pipeline: the same predictions, and no CoMT needed."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import comt
from comt import Agent, CoMTClassifier, CoMTRegressor, InputError, TableRows
from comt.declaration import Declare
from comt.federation import LocalFederation
from comt.preparation import CAP, KNEE
from comt.server.auto.tails import FAR
from comt.server.schema import agree_on_schema


def table_of(seed, n=200):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n).round(1),
            "dose": np.where(rng.random(n) < 0.4, np.nan, rng.gamma(2, 2, n).round(2)),
            "city": rng.choice(["Bern", "Zug, ZG", "Ürı"], n),
            "grade": rng.choice([1, 2, 3], n).astype(float),
            "smoker": rng.random(n) < 0.3,
        }
    )
    table["y"] = table["age"] / 10 + (table["city"] == "Bern") * 2 - table["grade"] + rng.normal(0, 0.2, n)
    table["ill"] = np.where(table["y"] > 2.5, "yes", "no")
    table.loc[rng.random(n) < 0.1, "city"] = None
    table.loc[rng.random(n) < 0.05, "grade"] = np.nan
    table["ok"] = np.arange(n) < 30
    return table


def taught(folder, kind):
    target, other = ("y", "ill") if kind is CoMTRegressor else ("ill", "y")
    agents = []
    for seed, name in enumerate("AB"):
        table_of(seed).to_csv(folder / f"{name}.csv", index=False)
        rows = TableRows(folder / f"{name}.csv", target=target, trusted="ok", drop=[other], categorical=["grade"])
        agents.append(Agent(name, rows))
    schema = agree_on_schema(LocalFederation(agents), Declare(), target=target, categorical=["grade"])
    for agent in agents:
        agent.rows.use_schema(schema)
    kind(lambda_trusted=5.0).fit_agents(agents).save(folder / "model.json")
    return comt.load(folder / "model.json")


def new_rows():
    """Rows with everything that may happen: gaps of all kinds, levels nobody knows, gaps where training had none."""
    new = table_of(9).drop(columns=["y", "ill", "ok"])
    new.loc[:4, "city"] = ["", None, np.nan, "Atlantis", "Bern"]
    new.loc[:2, "grade"] = [7.0, np.nan, 2.0]
    new.loc[5:9, "age"] = np.nan
    return new[new.columns[::-1]].assign(unused="text")


@pytest.mark.parametrize("text", ["str", object])
@pytest.mark.parametrize("kind", [CoMTRegressor, CoMTClassifier])
def test_the_pipeline_predicts_the_same(tmp_path, kind, text):
    model, new = taught(tmp_path, kind), new_rows()
    new["city"] = new["city"].astype(text)
    features = model.schema.features
    assert {"dose is missing", "city is missing", "city=Bern", "grade=3", "grade is missing"} <= set(features)
    plain = model.to_sklearn()
    assert all(type(step).__module__.startswith("sklearn.") for _, step in plain.steps)
    again = pickle.loads(pickle.dumps(plain))
    if kind is CoMTRegressor:
        np.testing.assert_allclose(plain.predict(new), model.predict(new), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(again.predict(new), plain.predict(new))
        assert np.std(model.predict(new)) > 0.5
    else:
        assert (plain.predict(new) == model.predict(new)).all()
        np.testing.assert_allclose(plain.decision_function(new), model.decision_function(new), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(again.predict_proba(new), model.predict_proba(new), rtol=0, atol=1e-12)


@pytest.mark.parametrize("knee", [KNEE, FAR])
@pytest.mark.parametrize("tables", [True, False])
@pytest.mark.parametrize("kind", [CoMTRegressor, CoMTClassifier])
def test_compressed_heavy_tails_are_part_of_the_pipeline(tmp_path, kind, tables, knee):
    model, new = taught(tmp_path, kind), new_rows()
    if not tables:
        new = pd.DataFrame(model.schema.encode(model.schema.cells(new)), columns=list(model.columns))
    squeezed = replace(
        model,
        preparation=replace(model.preparation, knee=knee),
        schema=model.schema if tables else None,
    )
    new.loc[20:29, "age"] = [1e9, -1e9, 80.0, 0.0, 120.0, 200.0, -100.0, 5e3, 50.0, 95.0]
    plain = pickle.loads(pickle.dumps(squeezed.to_sklearn()))
    expected = squeezed.decision_function(new)
    before = replace(squeezed, preparation=model.preparation).decision_function(new)
    found = plain.predict(new) if kind is CoMTRegressor else plain.decision_function(new)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    limit = 100 * squeezed.preparation.cap / CAP
    assert np.abs(expected[20:22]).max() < limit < np.abs(before[20:22]).max()


def test_a_pickled_pipeline_needs_no_comt(tmp_path):
    model, new = taught(tmp_path, CoMTRegressor), new_rows()
    (tmp_path / "plain.pickle").write_bytes(pickle.dumps(model.to_sklearn()))
    new.to_csv(tmp_path / "new.csv", index=False)
    code = (
        "import pickle, sys, pandas\n"
        "model = pickle.load(open('plain.pickle', 'rb'))\n"
        "print(*map(repr, model.predict(pandas.read_csv('new.csv')).tolist()))\n"
        "assert not any(name.split('.')[0] == 'comt' for name in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    found = [float(value) for value in done.stdout.split()]
    np.testing.assert_allclose(found, model.predict(new), rtol=1e-12, atol=1e-12)


def test_tables_are_wanted_where_columns_need_their_names(tmp_path):
    model = taught(tmp_path, CoMTRegressor)
    with pytest.raises(InputError, match="tables with named columns"):
        model.predict(np.zeros((2, 5)))
    with pytest.raises(InputError, match="no columns"):
        model.predict(new_rows().drop(columns="age"))
