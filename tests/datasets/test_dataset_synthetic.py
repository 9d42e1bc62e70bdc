from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score

from comt.datasets import cluster_table, noisy_federation, noisy_table, paper_federation
from comt.datasets.synthetic import logistic_slope
from comt.errors import InputError

TASKS = ("regression", "classification")


def oracle_score(data):
    """The score of scikit-learn's model, trained on the clean rows."""
    clean = data.clean().pooled()
    if data.task == "regression":
        model = LinearRegression().fit(clean.X, clean.y)
        return r2_score(data.test_targets, model.predict(data.test_features))
    model = LogisticRegression().fit(clean.X, clean.y)
    return roc_auc_score(data.test_targets, model.decision_function(data.test_features))


@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_balanced_and_standardised(seed):
    table = cluster_table("classification", seed=seed)
    assert table.features.shape == (50_000, 10)
    assert table.targets.sum() == 0
    assert set(table.targets) == {-1.0, 1.0}
    np.testing.assert_allclose(table.features.mean(axis=0), 0, atol=0.03)
    np.testing.assert_allclose(table.features.var(axis=0), 1, atol=0.04)


def test_cluster_regression_is_an_exact_linear_function():
    table = cluster_table("regression", n_rows=2_000, seed=1)
    model = LinearRegression(fit_intercept=False).fit(table.features, table.targets)
    np.testing.assert_allclose(model.predict(table.features), table.targets, atol=1e-10)


def test_cluster_auc_is_about_point_nine_on_average():
    scores = []
    for seed in range(8):
        table = cluster_table("classification", n_rows=8_000, seed=seed)
        model = LogisticRegression().fit(table.features[:4000], table.targets[:4000])
        scores.append(roc_auc_score(table.targets[4000:], model.decision_function(table.features[4000:])))
    assert 0.85 < np.mean(scores) < 0.97


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("task", "low", "high"), [("regression", 0.90, 0.94), ("classification", 0.84, 0.90)])
def test_oracle_scores_are_what_was_asked(task, low, high, seed):
    data = noisy_federation(task, corruption="mixed", seed=seed)
    assert low < oracle_score(data) < high


@pytest.mark.parametrize(("task", "wanted"), [("regression", 0.6), ("classification", 0.7)])
def test_another_oracle_score_and_dimension(task, wanted):
    data = noisy_federation(task, corruption="clean", oracle=wanted, n_features=4, n_rows=20_000, seed=3)
    assert data.test_features.shape == (10_000, 4)
    assert oracle_score(data) == pytest.approx(wanted, abs=0.02)


def test_noisy_classes_are_about_balanced():
    table = noisy_table("classification", n_rows=40_000, seed=2)
    assert abs((table.targets > 0).mean() - 0.5) < 0.01


@given(st.floats(0.52, 0.98))
@settings(max_examples=15, deadline=None)
def test_slope_gives_the_auc_it_was_asked_for(auc):
    rng = np.random.default_rng(0)
    z = rng.standard_normal(40_000)
    label = rng.random(len(z)) < 1 / (1 + np.exp(-logistic_slope(auc) * z))
    assert roc_auc_score(label, z) == pytest.approx(auc, abs=0.012)


def test_heterogeneous_agents_have_means_of_their_own_and_one_relation():
    data = noisy_federation("regression", corruption="clean", heterogeneity=2.0, n_rows=10_000, seed=4)
    means = np.array([agent.features.mean(axis=0) for agent in data.agents])
    assert 1.4 < means.std(axis=0).mean() < 2.6
    coefs = np.array([LinearRegression().fit(a.features, a.targets).coef_ for a in data.agents])
    np.testing.assert_allclose(coefs, np.broadcast_to(coefs.mean(axis=0), coefs.shape), atol=0.05)
    same = noisy_federation("regression", corruption="clean", n_rows=10_000, seed=4)
    assert np.array([a.features.mean(axis=0) for a in same.agents]).std(axis=0).max() < 0.1


@pytest.mark.parametrize("task", TASKS)
def test_the_papers_proportions(task):
    data = paper_federation(task, corruption="feature_noise", eta=0.5, seed=0)
    assert [len(a.targets) for a in data.agents] == [4000] * 5
    assert [len(a.trusted_targets) for a in data.agents] == [50] * 5
    assert len(data.test_targets) == 50_000 - 20_000 - 250
    assert all(mask.all() for mask in data.wrong_cells)


def test_a_fixed_data_seed_keeps_the_clusters():
    first, second = (
        paper_federation("regression", corruption="clean", n_rows=1_000, seed=s, data_seed=9) for s in (1, 2)
    )
    assert not np.array_equal(first.agents[0].features, second.agents[0].features)
    rows = [np.sort(np.concatenate([d.pooled().y, d.test_targets])) for d in (first, second)]
    np.testing.assert_array_equal(*rows)


@pytest.mark.parametrize("make", [cluster_table, noisy_table])
@pytest.mark.parametrize("task", TASKS)
def test_a_seed_fixes_the_table(make, task):
    one, again, other = (make(task, n_rows=100, seed=s) for s in (5, 5, 6))
    np.testing.assert_array_equal(one.features, again.features)
    np.testing.assert_array_equal(one.targets, again.targets)
    assert not np.array_equal(one.features, other.features)


def test_unusable_parameters_are_refused():
    with pytest.raises(InputError, match="n_clusters is 3"):
        cluster_table("classification", n_clusters=3)
    with pytest.raises(InputError, match=r"oracle is 0\.4"):
        noisy_table("classification", oracle=0.4)
