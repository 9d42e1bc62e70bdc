from __future__ import annotations

import json
import re
import stat

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from comt import Agent, CoMTClassifier, CoMTRegressor, FileRows, InputError, Policy
from comt.comparison import BUGGY, JOINT, TRUSTED, compare
from comt.report import Choice as Chosen
from comt.report.aggregate_page import page
from comt.reporting import Told, agent_report, aggregate_report, write_reports
from comt.server.auto.choice import Choice, Line
from comt.validation import held_out

COEF = [1.0, -2.0, 0.5]


def table_of(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=["a", "b", "c"])
    y = X.to_numpy() @ COEF + 0.2 * rng.normal(size=n_rows)
    trusted = rng.random(n_rows) < 0.2
    wrong = ~trusted & (rng.random(n_rows) < 0.3)
    agents = np.array(["north", "south"])[rng.integers(0, 2, n_rows)]
    return X, y, wrong, {"agents": agents, "trusted": trusted}


@pytest.fixture(scope="module")
def regression():
    X, y, wrong, where = table_of()
    given = np.where(wrong, -y, y)
    return X, given, wrong, where, CoMTRegressor(lambda_trusted=100.0).fit(X, given, **where)


@pytest.fixture(scope="module")
def classification():
    X, y, wrong, where = table_of(seed=1)
    labels = np.where((y > 0) != wrong, "yes", "no")
    return X, labels, wrong, where, CoMTClassifier(select=0.7, select_by="loss").fit(X, labels, **where)


def test_a_private_report_holds_its_agents_rows_only(regression):
    X, _, _, where, model = regression
    report = agent_report(model, model._agents[0], model.issues(), Told(target="y"))
    own = np.flatnonzero((where["agents"] == report.agent) & ~where["trusted"])
    assert sorted(report.issues["row"]) == own.tolist()
    assert report.trusted_rows == int((where["trusted"] & (where["agents"] == report.agent)).sum())
    shown = report.rows.index
    np.testing.assert_allclose(report.rows[list(X.columns)].to_numpy(), X.loc[shown].to_numpy())
    np.testing.assert_allclose(report.rows["y"], regression[1][shown])
    # what the columns add up to is what the model expects beyond the ordinary row
    assert report.effects is not None
    expected = model.predict(X.loc[shown]) - model.predict(X.median().to_frame().T)[0]
    np.testing.assert_allclose(report.effects.loc[shown].sum(axis=1), expected, atol=0.05)


def test_rows_are_asked_for_as_their_owner_knows_them(classification):
    X, _, _, _, model = classification
    asked = []

    def raw(agent, rows):
        asked.append((agent, len(rows)))
        return X.loc[rows].assign(name=[f"row {row}" for row in rows])

    report = agent_report(model, model._agents[1], model.issues(), Told(target="y", rows=raw))
    assert asked == [(report.agent, len(report.issues))]
    assert "name" in report.rows.columns
    assert report.features == ("a", "b", "c")
    # selection says which rows were set aside
    assert report.issues["used"].tolist() == model.selected_[report.issues["row"]].tolist()
    assert 0 < report.issues["used"].sum() < len(report.issues)


def test_the_aggregate_report_counts(classification):
    _, _, _, where, model = classification
    issues = model.issues()
    report = aggregate_report(model, issues, Told(target="y"))
    assert sum(agent.rows for agent in report.agents) == int((~where["trusted"]).sum())
    assert sum(agent.flagged for agent in report.agents) == int(issues["flagged"].sum())
    assert sum(agent.used or 0 for agent in report.agents) == int(model.selected_[~where["trusted"]].sum())
    for agent, summary in zip(model._agents, report.agents, strict=True):
        assert sum(summary.sent.values()) == agent.ledger.total_bytes
        assert summary.arrays == len(agent.ledger)
    assert report.comparison == {}


def test_what_auto_chose_is_told(regression):
    X, y, _, where, _ = regression
    model = CoMTRegressor().fit(X, y, **where)
    model.choice_ = Choice(
        theta=model.theta_,
        preparation=model.preparation_,
        lines=(Line("all rows alike", 0.9, 0.3),),
        trusted_rows=50,
        agents=("north", "south"),
        agent_weights=np.array([1.0, -0.5]),
        said="All rows alike fits.",
    )
    report = aggregate_report(model, model.issues(), Told())
    assert {agent.name: agent.weight for agent in report.agents} == {"north": 1.0, "south": -0.5}
    assert report.choices == [Chosen(choice="all rows alike", score=-0.3, weight=0.9)]
    text = page(report)
    assert "All rows alike fits." in text
    assert "reversed (50 %)" in text


def test_errors_that_all_agents_make_alike_accuse_none_of_them():
    """Three in ten targets are negated at both agents: rows of either sign are learnt from, whoever holds them."""
    X, y, wrong, where = table_of(500, seed=3)
    model = CoMTRegressor().fit(X, np.where(wrong, -y, y), **where)
    assert model.choice_.agent_weights.min() < 0.5  # as they are, the rows of one of them say less
    assert model.choice_.doubted_agents() == []
    assert model.selected_.all()
    report = aggregate_report(model, model.issues(), Told())
    for agent in report.agents:
        assert agent.used == agent.rows
        assert agent.weight > 0.9
        assert "either sign" in agent.reading
    assert "either sign" in page(report)
    private = agent_report(model, model._agents[0], model.issues(), Told(target="y"))
    assert private.issues["used"].all()


def test_the_aggregate_report_says_how_many_rows_were_learnt_from():
    """An agent whose targets are shuffled is set aside: in the headline, in the table, on its own page."""
    X, y, _, where = table_of(500, seed=4)
    wrong = (where["agents"] == "south") & ~where["trusted"]
    y = y.copy()
    y[wrong] = np.random.default_rng(0).permutation(y[wrong])
    model = CoMTRegressor(teaching="direct", lambda_w=1.0, lambda_trusted=1.0, lambda_z=np.inf, select=None)
    model.fit(X, y, **where)
    report = aggregate_report(model, model.issues(), Told())
    assert {agent.name: agent.used for agent in report.agents} == {
        "north": int((~wrong & ~where["trusted"]).sum()),
        "south": 0,
    }
    share = round(100 * float((~wrong)[~where["trusted"]].mean()))
    assert f"{share} %</p><p>of the rows learnt from" in page(report)
    assert not agent_report(model, model._agents[1], model.issues(), Told(target="y")).issues["used"].any()
    again = clone(model).fit_agents(model._agents)  # without selected_, the same is said
    assert [agent.used for agent in aggregate_report(again, again.issues(), Told()).agents] == [
        agent.used for agent in report.agents
    ]


def test_teaching_is_compared_on_rows_that_no_model_saw(regression):
    X, y, _, where, model = regression
    sent = model._agents[0].ledger.total_bytes
    held = held_out(model, model._agents)
    assert held is not None
    found = compare(model, model._agents, held)
    assert found.rows == int(where["trusted"].sum())
    assert found.scores[JOINT] > 0.9
    assert found.scores[BUGGY] < 0.9 < found.scores[TRUSTED]
    assert model._agents[0].ledger.total_bytes > sent  # what the comparison cost is entered
    # independently: refit without one agent's trusted rows of a fold, from the pooled arrays
    from comt.agent.folds import fold_of

    trusted = where["trusted"]
    fold = np.full(len(y), -1)
    fold[trusted] = fold_of(X[trusted].to_numpy(), y[trusted], 5)
    own = np.flatnonzero(trusted & (where["agents"] == model._agents[0].name))
    without = fold != 2
    again = clone(model).fit(X[without], y[without], agents=where["agents"][without], trusted=trusted[without])
    asked = own[fold[own] == 2]
    np.testing.assert_allclose(
        held.predicted[model._agents[0].name][fold[own] == 2], again.predict(X.loc[asked]), rtol=1e-6
    )


def test_too_few_trusted_rows_are_not_compared():
    X, y, _, where = table_of(60)
    where["trusted"][:] = np.arange(60) < 5
    model = CoMTRegressor().fit(X, y, **where)
    assert held_out(model, model._agents) is None


def test_folds_that_a_policy_would_not_let_out_are_not_summed():
    X, y, _, where = table_of()
    model = CoMTRegressor().fit(X, y, **where)
    strict = [Agent(agent.name, agent.rows, Policy(min_rows=15)) for agent in model._agents]
    assert held_out(model, strict) is None
    assert not any(len(agent.ledger) for agent in strict)


def test_reports_are_written_for_files_and_private_to_their_owner(tmp_path):
    X, y, wrong, where = table_of()
    labels = np.where((y > 0) != wrong, "yes", "no")
    agents = []
    for name in ("north", "south"):
        own = where["agents"] == name
        table = X[own].assign(y=labels[own], ok=where["trusted"][own])
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        agents.append(Agent(name, FileRows(tmp_path / f"{name}.csv", target="y", trusted="ok")))
    model = CoMTClassifier(select=0.8, select_by="loss").fit_agents(agents)
    out = tmp_path / "made" / "out"
    write_reports(model, out, Told(run="one", target="y"))
    for name in ("north", "south"):
        page = out / name / "report.html"
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
        data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.S)[1])
        given = pd.read_csv(tmp_path / f"{name}.csv")
        assert all(given["y"][line["row"]] == line["given"] for line in data["lines"])
        assert all(given["a"][line["row"]] == line["cells"][0] for line in data["lines"])
        assert any(not line["used"] for line in data["lines"])
    assert "Did teaching help?" in (out / "report.html").read_text(encoding="utf-8")


def test_a_file_in_the_place_of_the_folder_is_refused_before_work_starts(regression, tmp_path):
    taken = tmp_path / "out"
    taken.write_text("mine")
    with pytest.raises(InputError, match="is a file; give a folder"):
        write_reports(regression[-1], taken, say=pytest.fail)
    assert taken.read_text() == "mine"


@pytest.mark.parametrize("name", ["north/east", "..", "a\\b"])
def test_an_agent_whose_name_is_no_folder_is_refused_before_anything_is_written(name, tmp_path):
    features = np.random.default_rng(0).normal(size=(40, 2))
    agents = np.array([name, "south"])[np.arange(40) % 2]
    model = CoMTRegressor().fit(features, features.sum(axis=1), agents=agents, trusted=np.arange(40) < 10)
    with pytest.raises(InputError, match="is no name for a folder"):
        write_reports(model, tmp_path / "in" / "out")
    assert not list(tmp_path.iterdir())


def test_a_model_without_its_rows_is_refused(regression, tmp_path):
    import pickle

    stored = pickle.loads(pickle.dumps(regression[-1]))
    with pytest.raises(InputError, match="fit again in this process"):
        write_reports(stored, tmp_path)
    assert not list(tmp_path.iterdir())
