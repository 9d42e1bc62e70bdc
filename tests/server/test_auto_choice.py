"""The automatic choice as users meet it: what it must get right, and what it must say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from comt import CoMTClassifier, CoMTRegressor
from comt.datasets import CORRUPTIONS, noisy_federation
from comt.errors import NoTrustedRowsWarning
from teaching import stacked


def fit(task, corruption, *, n_trusted=60, seed=0, n_rows=1500, **options):
    data = noisy_federation(task, corruption=corruption, n_rows=n_rows, n_trusted=n_trusted, n_test=4000, seed=seed)
    X, y, agents, trusted = stacked(data)
    kind = CoMTRegressor if task == "regression" else CoMTClassifier
    model = kind(**options).fit(X, y, agents=agents, trusted=trusted)
    return model, model.score(data.test_features, data.test_targets), data


@pytest.mark.parametrize("corruption", ["clean", "wrong_agents", "negated_targets", "unit_error", "missing_codes"])
def test_regression_comes_near_the_model_of_clean_rows(corruption):
    _, score, _ = fit("regression", corruption)
    assert score > 0.9  # the true model has .92


@pytest.mark.parametrize("corruption", ["clean", "wrong_agents", "label_flips"])
def test_classification_comes_near_the_model_of_clean_rows(corruption):
    _, clean, _ = fit("classification", "clean", n_trusted=100)
    _, score, _ = fit("classification", corruption, n_trusted=100)
    assert score > clean - (0.04 if corruption == "label_flips" else 0.02)


def test_it_names_the_agents_that_contradict_the_trusted_rows():
    for task in ("regression", "classification"):
        model, _, data = fit(task, "wrong_agents")
        wrong = {a.name for a, bad in zip(data.agents, data.wrong_targets, strict=True) if bad.mean() > 0.5}
        assert {name for name, _ in model.choice_.doubted_agents()} == wrong
        assert all(name in model.choice_.sentence for name in wrong)
        assert all(name in model.summary() for name in wrong)
        # they are learnt from all the same: with their labels, or targets, negated
        assert model.selected_.all()
        assert len(model.alpha_) == len(stacked(data)[0])


def test_clean_rows_lose_next_to_nothing():
    from sklearn.linear_model import Ridge

    model, score, data = fit("regression", "clean", n_trusted=20)
    X, y, _, trusted = stacked(data)
    assert score > Ridge().fit(X[~trusted], y[~trusted]).score(data.test_features, data.test_targets) - 0.005
    assert model.choice_.plain > 0.5


def test_few_trusted_rows_are_called_undecided_and_many_exchanges_are_not_needed():
    for task in ("regression", "classification"):
        model, _, _ = fit(task, "clean", n_trusted=5)
        assert "not certain" in model.choice_.sentence
        assert model.n_rounds_ <= 60
        assert np.isclose(sum(line.share for line in model.choice_.lines), 1.0, atol=1e-2)


def test_without_trusted_rows_it_is_plain_training_and_warns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X @ [1.0, -1.0, 0.5] + 0.1 * rng.normal(size=300)
    with pytest.warns(NoTrustedRowsWarning):
        model = CoMTRegressor().fit(X, y)
    assert model.score(X, y) > 0.98
    with pytest.warns(NoTrustedRowsWarning):
        assert CoMTClassifier(fit_intercept=False).fit(X, y > 0).score(X, y > 0) > 0.9


def test_heavy_tails_cannot_produce_a_catastrophe():
    rng = np.random.default_rng(1)
    X = rng.standard_t(1.2, size=(1500, 6))
    y = np.clip(X, -3, 3) @ rng.normal(size=6) + 0.3 * rng.normal(size=1500)
    test = rng.standard_t(1.2, size=(3000, 6)) * 10
    trusted = np.arange(1500) < 12
    y[200:400] *= -50
    model = CoMTRegressor().fit(X, y, agents=np.arange(1500) % 5, trusted=trusted)
    assert (
        np.abs(model.predict(test)).max() < 12 * 6 * np.abs(model.theta_).max() * model.preparation_.target_scale + 100
    )


def test_a_number_for_a_lambda_means_the_papers_objective():
    X, y, agents, trusted = stacked(
        noisy_federation("regression", corruption="clean", n_rows=200, n_trusted=20, seed=0)
    )
    model = CoMTRegressor(lambda_w=1.0, lambda_trusted=1.0, lambda_alpha=0.0, lambda_z=np.inf, select=None)
    assert model.fit(X, y, agents=agents, trusted=trusted).teaching_ == "dual"
    assert np.isfinite(model.r_).all()
    assert CoMTRegressor().fit(X, y, agents=agents, trusted=trusted).teaching_ == "auto"


def test_agents_in_another_order_give_the_same_model():
    data = noisy_federation("regression", corruption="negated_targets", n_rows=900, n_trusted=30, seed=2)
    X, y, agents, trusted = stacked(data)
    order = np.random.default_rng(0).permutation(len(y))
    first = CoMTRegressor().fit(X, y, agents=agents, trusted=trusted)
    second = CoMTRegressor().fit(X[order], y[order], agents=agents[order], trusted=trusted[order])
    np.testing.assert_allclose(first.theta_, second.theta_, atol=1e-8)


def test_scales_come_from_the_trusted_rows_where_noise_has_widened_the_columns():
    noise = replace(CORRUPTIONS["feature_noise"], theta_features=4.0)
    model, score, data = fit("regression", noise, n_trusted=100)
    spread = np.vstack([a.features for a in data.agents]).std(axis=0)
    assert (model.preparation_.scale < 0.6 * spread).mean() > 0.8
    assert score > 0.89


def test_a_column_with_one_common_value_keeps_its_scale_where_noise_has_hidden_it():
    """Quartiles of right cells coincide there; by such a scale noisy cells would all end at the cap (like dark pixels)."""
    rng = np.random.default_rng(6)
    n, d = 2500, 12
    right = np.where(rng.random((n, d)) < 0.85, 0.0, rng.normal(size=(n, d)))
    coefficients = rng.normal(size=d)
    y = right @ coefficients + 0.3 * rng.normal(size=n)
    trusted = np.arange(n) < 80
    X = np.where(trusted[:, None], right, right + 0.4 * rng.normal(size=right.shape))
    model = CoMTRegressor().fit(X, y, agents=np.arange(n) % 5, trusted=trusted)
    assert (model.preparation_.scale > 0.2 * X.std(axis=0)).all()
    test = np.where(rng.random((n, d)) < 0.85, 0.0, rng.normal(size=(n, d)))
    assert model.score(test, test @ coefficients) > 0.9


def test_other_scales_are_no_intercept_in_disguise():
    """Without an intercept, trusted rows free of noise determine the model exactly; shifted columns would not fit them."""
    rng = np.random.default_rng(5)
    right = rng.normal(size=(2500, 6))
    y = right @ np.array([1.0, -2.0, 0.5, 0.0, 1.5, -1.0])
    trusted = np.arange(len(y)) < 250
    X = np.where(trusted[:, None], right, right + 1.5 * rng.normal(size=right.shape))
    model = CoMTRegressor(fit_intercept=False).fit(X, y, agents=np.arange(len(y)) % 5, trusted=trusted)
    test = rng.normal(size=(2000, 6))
    assert (model.preparation_.scale < 0.7 * X.std(axis=0)).all()
    assert (model.preparation_.center == 0).all()
    assert model.score(test, test @ np.array([1.0, -2.0, 0.5, 0.0, 1.5, -1.0])) > 0.999


def test_direct_teaching_finds_the_right_half_of_the_rows():
    data = noisy_federation("regression", corruption="negated_targets", n_rows=900, n_trusted=40, n_test=4000, seed=2)
    X, y, agents, trusted = stacked(data)
    fixed = {"lambda_w": 1.0, "lambda_trusted": 1.0, "lambda_alpha": 0.0, "lambda_z": np.inf}
    model = CoMTRegressor(teaching="direct", select=0.5, **fixed).fit(X, y, agents=agents, trusted=trusted)
    assert model.score(data.test_features, data.test_targets) > 0.9
    assert abs(model.selected_[~trusted].mean() - 0.5) < 0.02
    assert model.certificate_ <= 1e-8
    assert "lowest objective" in model.summary()
    assert np.isnan(model.r_).all()


def test_weights_of_the_papers_objective_are_chosen_by_cross_validation():
    data = noisy_federation("regression", corruption="negated_targets", n_rows=300, n_trusted=40, n_test=2000, seed=2)
    X, y, agents, trusted = stacked(data)
    model = CoMTRegressor(teaching="dual", lambda_alpha=0.0, lambda_z=np.inf, select=None)
    model.fit(X, y, agents=agents, trusted=trusted)
    assert model.score(data.test_features, data.test_targets) > 0.85
    assert "held-out loss" in model.summary()


@pytest.mark.parametrize("error", ["shuffled", "constant"])
def test_labels_that_say_nothing_are_named(error):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1250, 4))
    y = np.where(X @ [2.0, -2.0, 1.0, 1.0] + 0.3 * rng.logistic(size=1250) > 0, 1, 0)
    agents, trusted = rng.integers(0, 5, 1250), np.arange(1250) < 50
    wrong = (agents == 2) & ~trusted
    assert CoMTClassifier().fit(X, y, agents=agents, trusted=trusted).choice_.at_random() == []
    y[wrong] = rng.permutation(y[wrong]) if error == "shuffled" else 1
    model = CoMTClassifier().fit(X, y, agents=agents, trusted=trusted)
    assert model.choice_.at_random() == ["2"]
    assert "hardly better than chance: 2." in model.summary()
    assert "random" in model.choice_.reading("2")
    assert model.choice_.reading("1") == ""
