from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize
from scipy.special import expit
from simulated_agents import simulate
from sklearn.linear_model import LogisticRegression, Ridge

from comt.baselines import linear
from comt.baselines.base import AgentRows, pooled
from comt.baselines.buggy_only import BuggyOnly
from comt.baselines.linear import fit_exact, loss, loss_gradient
from comt.baselines.local_only import LocalOnly
from comt.baselines.logistic import chance, softplus
from comt.baselines.trusted_only import TrustedOnly
from comt.errors import ConvergenceError, InputError


def sklearn_fit(features, targets, task, lambda_w, weights=None):
    if task == "regression":
        model = Ridge(alpha=lambda_w, fit_intercept=False)
    else:
        model = LogisticRegression(C=1 / lambda_w, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
    return model.fit(features, targets, sample_weight=weights).coef_.ravel()


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("lambda_w", [1e-3, 1.0, 50.0])
def test_buggy_only_is_scikit_learn_without_intercept(task, lambda_w):
    agents, _ = simulate(task, flips=0.2)
    features, targets, trusted_features, trusted_targets = pooled(agents)
    ignoring = BuggyOnly(lambda_w=lambda_w, use_trusted="ignore").fit(agents, task)
    np.testing.assert_allclose(ignoring.coef, sklearn_fit(features, targets, task, lambda_w), atol=1e-7)
    appending = BuggyOnly(lambda_w=lambda_w).fit(agents, task)
    together = np.concatenate([features, trusted_features]), np.concatenate([targets, trusted_targets])
    np.testing.assert_allclose(appending.coef, sklearn_fit(*together, task, lambda_w), atol=1e-7)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_trusted_only_sees_the_trusted_rows_only(task):
    agents, _ = simulate(task)
    noisier, _ = simulate(task, bad_agents=(0, 1, 2))
    _, _, features, targets = pooled(agents)
    model = TrustedOnly(lambda_w=2.0).fit(agents, task)
    np.testing.assert_allclose(model.coef, sklearn_fit(features, targets, task, 2.0), atol=1e-7)
    np.testing.assert_array_equal(model.coef, TrustedOnly(lambda_w=2.0).fit(noisier, task).coef)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_local_only_keeps_one_model_per_agent_and_reports_their_weighted_mean(task):
    agents, _ = simulate(task)
    model = LocalOnly().fit(agents, task)
    for agent, local in zip(agents, model.found["models"], strict=True):
        np.testing.assert_array_equal(local.coef, BuggyOnly().fit([agent], task).coef)
    rows = np.array([66, 25, 49])
    coefs = np.array([local.coef for local in model.found["models"]])
    np.testing.assert_allclose(model.coef, rows @ coefs / rows.sum(), rtol=1e-12)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_weights_count_like_repeated_rows(task):
    agents, _ = simulate(task, flips=0.2)
    features, targets, _, _ = pooled(agents)
    counts = np.random.default_rng(1).integers(0, 4, len(targets))
    weighted = fit_exact(features, targets, task, 1.0, weights=counts.astype(float))
    repeated = fit_exact(np.repeat(features, counts, axis=0), np.repeat(targets, counts), task, 1.0)
    np.testing.assert_allclose(weighted, repeated, atol=1e-10)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_centre_moves_the_penalty(task):
    agents, _ = simulate(task)
    features, targets, _, _ = pooled(agents)
    centre = np.array([3.0, -1.0, 0.5, 20.0])

    def objective(w):
        return loss(features @ w, targets, task).sum() + 2.5 * np.sum((w - centre) ** 2)

    def gradient(w):
        return loss_gradient(features, targets, w, task) + 5.0 * (w - centre)

    expected = minimize(objective, np.zeros(4), jac=gradient, method="BFGS", options={"gtol": 1e-7}).x
    np.testing.assert_allclose(fit_exact(features, targets, task, 5.0, centre=centre), expected, atol=1e-6)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_gradient_against_finite_differences(task):
    agents, _ = simulate(task)
    features, targets, _, _ = pooled(agents)
    error = check_grad(
        lambda w: loss(features @ w, targets, task).sum(),
        lambda w: loss_gradient(features, targets, w, task),
        np.array([0.3, -1.0, 2.0, 0.1]),
    )
    assert error < 1e-4


def test_logistic_fit_survives_separable_rows_on_wild_scales():
    rng = np.random.default_rng(3)
    features = rng.normal(size=(50, 3)) * np.array([1e-3, 1.0, 1e3])
    targets = np.sign(features[:, 2])
    coef = fit_exact(features, targets, "classification", 1e-3)
    gradient = loss_gradient(features, targets, coef, "classification") + 1e-3 * coef
    assert np.linalg.norm(gradient) < 1e-6


def test_a_logistic_fit_that_stops_short_says_how_short(monkeypatch):
    monkeypatch.setattr(linear, "_MAX_STEPS", 1)
    agents, _ = simulate("classification")
    with pytest.raises(ConvergenceError, match="relative gradient") as caught:
        BuggyOnly().fit(agents, "classification")
    assert 0 < caught.value.certificate < 1


def test_input_is_refused_with_a_sentence():
    agents, _ = simulate("regression")
    with pytest.raises(InputError, match=r"lambda_w=0.*positive"):
        BuggyOnly(lambda_w=0)
    with pytest.raises(InputError, match="at least one"):
        BuggyOnly().fit([], "regression")
    with pytest.raises(InputError, match=r"-1 and \+1"):
        BuggyOnly().fit(agents, "classification")
    with pytest.raises(InputError, match="'append' or 'ignore'"):
        BuggyOnly(use_trusted="sometimes").fit(agents, "regression")
    narrow = AgentRows("narrow", np.ones((2, 3)), np.ones(2), np.ones((1, 3)), np.ones(1))
    with pytest.raises(InputError, match=r"\[3, 4\] columns"):
        BuggyOnly().fit([*agents, narrow], "regression")
    empty = AgentRows("empty", np.ones((0, 4)), np.ones(0), np.ones((0, 4)), np.ones(0))
    with pytest.raises(InputError, match="'empty' has no rows"):
        BuggyOnly().fit([*agents, empty], "regression")
    with pytest.raises(InputError, match="0 trusted rows"):
        TrustedOnly().fit([agents[1]], "regression")


def test_logistic_functions_are_scipy_s_to_rounding_at_all_scores():
    scores = np.concatenate([-np.logspace(2.8, -12, 200), [0.0], np.logspace(-12, 2.8, 200)])
    np.testing.assert_allclose(chance(scores), expit(scores), rtol=1e-14)
    np.testing.assert_allclose(softplus(scores), np.logaddexp(0.0, scores), rtol=1e-14)
