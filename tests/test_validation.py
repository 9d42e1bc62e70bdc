"""Scores on rows left out: nobody is judged by what it has seen, and no biased row enters."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from comt import Agent, ArrayRows, CoMTClassifier, CoMTRegressor, TableRows
from comt.agent.folds import fold_of
from comt.agent.joining import score
from comt.agent.tables import Verdict
from comt.preparation import Preparation
from comt.queries import MomentsByAgent, RankCounts, TrustedScore
from comt.schema import Column, Schema
from comt.validation import held_out, suspects
from teaching import random_data, split_agents


@pytest.mark.parametrize("loss_name", ["squared", "logistic"])
def test_every_row_is_predicted_by_a_model_without_it(loss_name):
    data = random_data(loss_name, n=200, d=3, m=40, seed=2)
    agents = split_agents(data, 3)
    kind = CoMTRegressor if loss_name == "squared" else CoMTClassifier
    model = kind(lambda_trusted=5.0).fit_agents(agents)
    before = model.theta_.copy()
    held = held_out(model, agents)
    np.testing.assert_array_equal(model.theta_, before)
    assert held.rows == 40
    assert held.metric == ("R²" if loss_name == "squared" else "share of right labels")
    # an independent way to the same numbers: pooled rows, one fold at a time
    agent = agents[0]
    features, targets = agent.rows.trusted()
    fold = fold_of(features, targets, held.folds)
    trusted_fold = fold_of(*data.trusted, held.folds)
    for left_out in np.unique(fold):
        kept = trusted_fold != left_out
        pooled = Agent("all", ArrayRows(*data.buggy, data.trusted_features[kept], data.trusted_targets[kept]))
        other = kind(lambda_trusted=5.0).fit_agents([pooled])
        asked = features[fold == left_out]
        expected = asked @ np.ravel(other.coef_) + np.ravel(other.intercept_)[0]
        np.testing.assert_allclose(held.predicted[agent.name][fold == left_out], expected, rtol=1e-5, atol=1e-6)
    everything = [np.concatenate([values[a.name] for a in agents]) for values in (held.predicted, held.targets)]
    assert held.score == score(*everything, held.task)


def test_too_few_rows_are_not_scored():
    data = random_data("squared", n=50, d=2, m=9)
    agents = split_agents(data, 2)
    assert held_out(CoMTRegressor().fit_agents(agents), agents) is None
    assert suspects(None, "A", np.empty(0, dtype=np.intp), ()).empty


def reviewed_table(folder, verdicts):
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    table = pd.DataFrame({"x": x, "y": 2 * x + 0.1 * rng.normal(size=200), "ok": np.arange(200) < 30})
    table.to_csv(folder / "A.csv", index=False)
    rows = TableRows(folder / "A.csv", target="y", trusted="ok", verdicts=verdicts)
    rows.use_schema(Schema((Column("x", "number"),)))
    return Agent("A", rows)


def test_rows_shown_because_they_looked_bad_are_learnt_from_and_never_scored(tmp_path):
    verdicts = {row: Verdict(50.0, random=row % 2 == 0) for row in range(100, 110)}
    agent = reviewed_table(tmp_path, verdicts)
    model = CoMTRegressor().fit_agents([agent])
    held = held_out(model, [agent])
    assert held.rows == 35
    assert np.isnan(held.predicted["A"]).sum() == 5
    query = TrustedScore(
        loss_name="squared",
        preparation=model._training.preparation,
        theta=np.tile(model.theta_, (5, 1)),
        fold=np.arange(5),
        n_folds=5,
    )
    assert agent.answer(query, 1).arrays["rows"].sum() == 35


def test_a_wrong_trusted_row_is_found_by_models_without_it(tmp_path):
    agent = reviewed_table(tmp_path, {3: Verdict(40.0)})
    fixed = {"lambda_w": 1.0, "lambda_alpha": 0.0, "lambda_z": np.inf, "select": None}
    model = CoMTRegressor(lambda_trusted=10.0, **fixed).fit_agents([agent])
    found = suspects(held_out(model, [agent]), "A", agent.rows.trusted_places, ())
    assert found["row"].iloc[0] == 3
    assert found["given"].iloc[0] == 40.0
    assert abs(found["suggested"].iloc[0]) < 10
    labels = np.where(np.arange(60) % 2, 1.0, -1.0)
    features = labels[:, None] * 2 + np.random.default_rng(1).normal(size=(60, 1))
    wrong = labels.copy()
    wrong[7] *= -1
    clinic = Agent("B", ArrayRows(features, labels, features, wrong))
    classifier = CoMTClassifier(lambda_trusted=5.0, **fixed).fit_agents([clinic])
    found = suspects(held_out(classifier, [clinic]), "B", np.arange(60), ("no", "yes"))
    assert found["row"].tolist() == [7]
    assert found[["given", "suggested"]].to_numpy().tolist() == [["no", "yes"]]


def test_of_large_data_the_folds_learn_from_a_sample_and_say_so(monkeypatch):
    data = random_data("squared", n=3000, d=3, m=40, seed=2)
    large, small = split_agents(data, 2)
    small = Agent(small.name, ArrayRows(*(part[:50] for part in data.buggy), *small.rows.trusted()))
    model = CoMTRegressor().fit_agents([large, small])
    assert held_out(model, [large, small]).note == ""
    monkeypatch.setattr("comt.validation.LARGE", 1000)
    monkeypatch.setattr("comt.validation.SAMPLE", 300)
    monkeypatch.setattr("comt.validation.SAMPLE_EACH", 60)
    held = held_out(model, [large, small])
    assert held.folds == 5
    assert held.rows == 40
    assert 300 < held.learnt_from <= 360  # what large's share is, and all 50 rows of small
    assert held.unverified == large.rows.n_rows + 50
    assert f"{held.learnt_from:,} of the {held.unverified:,}" in held.note
    assert not np.isnan(held.score)
    # each prediction is that of a model of the same sample without that fold
    agents = [large.with_sample(round(300 * large.rows.n_rows / held.unverified)), small]
    assert sum(agent.rows.n_rows for agent in agents) == held.learnt_from
    fold = {agent.name: fold_of(*agent.rows.trusted(), 5) for agent in agents}
    other = CoMTRegressor().fit_agents([agent.with_trusted(fold[agent.name] != 0) for agent in agents])
    features = pd.DataFrame(large.rows.trusted()[0][fold[large.name] == 0], columns=list(large.columns))
    np.testing.assert_allclose(held.predicted[large.name][fold[large.name] == 0], other.predict(features))


def test_automatic_choice_compares_only_a_fair_sample_with_the_unverified_rows(tmp_path):
    """Rows that were reviewed because they looked bad are learnt from; what trusted rows look like they do not tell."""
    verdicts = {row: Verdict(500.0, random=row % 2 == 0) for row in range(100, 110)}
    agent = reviewed_table(tmp_path, verdicts)
    preparation = Preparation.identity(1)
    common = {"loss_name": "squared", "preparation": preparation, "agents": ("A",)}
    moments = agent.answer(MomentsByAgent(**common, n_folds=1), 1).arrays
    assert moments["trusted_rows"].sum() == 40  # the fit
    assert moments["trusted_columns"].sum(axis=1).tolist() == [35.0] * 4
    one = np.zeros((1, 1))
    ranks = RankCounts(**common, theta=one, towards=one, weights=np.ones((1, 1)), fold=np.array([-1]), n_folds=1)
    counts = agent.answer(ranks, 1).arrays["trusted"][0]
    assert counts.sum(axis=1).tolist() == [35.0] * 5
    assert counts[0, -1] == 5  # of the ten rows with a target of 500, those drawn at random
