"""The prototype recipes as a reference method of the experiments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression, Ridge

from comt.bench.methods import fair_candidates
from comt.bench.prototypes import Prototype
from comt.bench.prototypes.centres import moments_of, noise_corrected, trimmed
from comt.bench.prototypes.laplace import laplace
from comt.bench.prototypes.ranks import mean_rank_p, ranks
from comt.bench.robustness import prepared
from comt.bench.tuning import score
from comt.datasets import noisy_federation

TASKS = ("regression", "classification")


def federation(task, corruption, n_trusted):
    data = noisy_federation(task, corruption=corruption, n_rows=1_500, n_trusted=n_trusted, n_test=2_000, seed=3)
    return prepared(data)


def reached(data, model):
    return score(data.task, data.test_targets, model.predict(data.test_features))


@pytest.mark.parametrize("task", TASKS)
def test_clean_rows_are_used_as_well_as_by_plain_training(task):
    data = federation(task, "clean", 20)
    features = np.concatenate([a.features[:, :-1] for a in data.agents])
    targets = np.concatenate([a.targets for a in data.agents])
    plain = (Ridge(1.0) if task == "regression" else LogisticRegression()).fit(features, targets)
    predict = plain.predict if task == "regression" else plain.decision_function
    usual = score(task, data.test_targets, predict(data.test_features[:, :-1]))
    assert reached(data, Prototype().fit(data.agents, task)) > usual - 0.02


@pytest.mark.parametrize("task", TASKS)
def test_three_of_five_reversed_agents_are_turned_round(task):
    data = federation(task, "wrong_agents", 20)
    assert reached(data, Prototype().fit(data.agents, task)) > 0.85


@pytest.mark.parametrize("task", TASKS)
def test_far_out_values_and_few_trusted_rows_leave_it_finite(task):
    rng = np.random.default_rng(0)
    data = federation(task, "clean", 5)

    def absurd(features):
        wild = features.copy()
        wild[:, :-1] *= np.exp(3.0 * rng.standard_normal((len(features), features.shape[1] - 1)))
        return wild

    agents = [replace(a, features=absurd(a.features)) for a in data.agents]
    for kept in (None, 1, 0):  # trusted rows at each agent
        some = [
            replace(a, trusted_features=a.trusted_features[:kept], trusted_targets=a.trusted_targets[:kept])
            for a in agents
        ]
        predicted = Prototype().fit(some, task).predict(1e6 * absurd(data.test_features))
        assert np.isfinite(predicted).all()


def test_the_constant_column_is_the_intercept():
    data = federation("regression", "clean", 20)
    without = [
        replace(a, features=a.features[:, :-1], trusted_features=a.trusted_features[:, :-1]) for a in data.agents
    ]
    with_it = Prototype().fit(data.agents, "regression").predict(data.test_features)
    np.testing.assert_allclose(Prototype().fit(without, "regression").predict(data.test_features[:, :-1]), with_it)


def test_the_benchmark_knows_it_by_name():
    for task in TASKS:
        (candidate,) = fair_candidates(task, 100, 10, ["Prototype recipes"])
        assert isinstance(candidate.settings[0], Prototype)


def test_evidence_agrees_with_numerical_integration():
    rng = np.random.default_rng(1)
    signed = rng.standard_normal((40, 1)) + 0.5
    mean, sd = np.array([0.3]), 0.8

    def likelihood(theta):
        return float(np.exp(-np.logaddexp(0.0, -signed[:, 0] * theta).sum() + 20.0) * norm.pdf(theta, mean[0], sd))

    exact = np.log(quad(likelihood, -8.0, 8.0)[0]) - 20.0
    found = laplace(signed, mean, np.array([[sd]]))
    assert found.log_evidence == pytest.approx(exact, abs=0.01)
    # the mode is stationary
    slope = -(signed[:, 0] / (1.0 + np.exp(signed[:, 0] * found.theta[0]))).sum() + (found.theta[0] - 0.3) / sd**2
    assert slope == pytest.approx(0.0, abs=1e-3)


def test_noise_in_features_is_corrected_for():
    rng = np.random.default_rng(2)
    true = rng.standard_normal((20_000, 3))
    targets = true @ [1.0, -2.0, 0.5] + 3.0 + 0.5 * rng.standard_normal(20_000)
    seen = true + rng.standard_normal(true.shape)
    ones = np.ones((20_000, 1))
    centres = noise_corrected(
        moments_of(np.hstack([seen, ones]), targets), moments_of(np.hstack([true, ones]), targets)
    )
    half = next(centre.theta for centre in centres if centre.name == "50% noise")
    np.testing.assert_allclose(half, [1.0, -2.0, 0.5, 3.0], atol=0.1)


def test_trimming_sets_negated_targets_aside():
    rng = np.random.default_rng(4)
    features = np.column_stack([rng.standard_normal((2_000, 3)), np.ones(2_000)])
    targets = features @ [1.0, -2.0, 0.5, 0.0] + 0.1 * rng.standard_normal(2_000)
    targets[:600] *= -1.0
    (found,) = trimmed(features, targets, moments_of(features, targets).ridge()[None], np.array([0.5]))
    np.testing.assert_allclose(found, [1.0, -2.0, 0.5, 0.0], atol=0.05)


def test_ranks_are_uniform_for_rows_of_one_kind_only():
    rng = np.random.default_rng(5)
    buggy, same = rng.standard_normal(3_000), rng.standard_normal(200)
    assert ranks(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 2.0]), np.array([2.0]))[0] == pytest.approx(0.375)
    assert mean_rank_p(ranks(buggy, np.ones(3_000), same)) > 0.01
    assert mean_rank_p(ranks(buggy, np.ones(3_000), same + 1.0)) < 1e-6
