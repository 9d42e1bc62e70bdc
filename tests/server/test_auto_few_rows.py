"""What a handful of trusted rows must decide: the sign of a model that unverified rows know but for its sign."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from comt import CoMTClassifier, CoMTRegressor
from comt.datasets import noisy_federation
from comt.datasets.corruptions import AsymmetricFlips, Clean, DuplicatedRows, RuleOfThumb, ScaledTargets, WrongAgents
from comt.server.auto.labels import LabelFit
from comt.server.auto.signs import REVERSED, compare_agents
from teaching import stacked


def score(task, corruption, *, oracle, n_trusted, seed):
    data = noisy_federation(
        task, corruption=corruption, n_rows=1500, n_trusted=n_trusted, n_test=4000, oracle=oracle, seed=seed
    )
    return trained(data).score(data.test_features, data.test_targets), data


def trained(data):
    X, y, names, trusted = stacked(data)
    kind = CoMTRegressor if data.task == "regression" else CoMTClassifier
    return kind().fit(X, y, agents=names, trusted=trusted)


def mean_score(task, corruption, **options):
    return np.mean([score(task, corruption, seed=seed, **options)[0] for seed in range(300, 306)])


def test_eight_rows_turn_labels_round_that_all_agents_reversed():
    right = mean_score("classification", Clean(), oracle=0.97, n_trusted=8)
    turned = mean_score("classification", WrongAgents(agents=5), oracle=0.97, n_trusted=8)
    assert right > 0.85  # share of right labels
    assert turned > right - 0.05


def test_ten_rows_turn_targets_round_that_all_agents_negated():
    right = mean_score("regression", Clean(), oracle=0.5, n_trusted=10)
    turned = mean_score("regression", WrongAgents(agents=5), oracle=0.5, n_trusted=10)
    assert right > 0.48
    assert turned > right - 0.2  # the wrong sign costs 1.5


def test_twenty_rows_notice_that_all_targets_are_in_another_unit():
    """Three times too large everywhere: unverified rows know the model but for a factor."""
    right = mean_score("regression", Clean(), oracle=0.9, n_trusted=20)
    tripled = mean_score("regression", ScaledTargets(fraction=1.0, factor=3.0), oracle=0.9, n_trusted=20)
    assert right > 0.89
    assert tripled > right - 0.1  # taken as they are, targets three times too large cost 3.6


def test_copies_of_a_wrong_row_count_once():
    right = mean_score("regression", Clean(), oracle=0.5, n_trusted=10)
    copied = mean_score("regression", DuplicatedRows(fraction=0.3), oracle=0.5, n_trusted=10)
    assert right > 0.48
    assert copied > right - 0.02  # plain training has less than 0.1


def test_few_rows_notice_that_labels_follow_a_rule_on_one_column():
    """The model of the unverified labels is right but for that column's weight: twenty rows find out which one."""
    scores, plain = [], []
    for seed in range(300, 306):
        data = noisy_federation(
            "classification", corruption=RuleOfThumb(), n_rows=1500, n_trusted=20, n_test=4000, oracle=0.9, seed=seed
        )
        chosen = trained(data).decision_function(data.test_features)
        X, y, *_ = stacked(data)
        unverified = LogisticRegression().fit(X, y).decision_function(data.test_features)
        scores.append(roc_auc_score(data.test_targets > 0, chosen))
        plain.append(roc_auc_score(data.test_targets > 0, unverified))
    assert np.mean(plain) < 0.75
    assert np.mean(scores) > 0.83


def test_many_trusted_rows_among_few_unverified_ones_refute_copies_of_a_wrong_row():
    """What the other model leaves unexplained might be rare rows, but half as many trusted rows would have met one."""
    scores = []
    for seed in range(200, 206):
        data = noisy_federation(
            "regression",
            corruption=DuplicatedRows(fraction=0.15),
            n_rows=200,
            n_trusted=100,
            n_test=3000,
            oracle=0.55,
            seed=seed,
        )
        scores.append(trained(data).score(data.test_features, data.test_targets))
    assert np.mean(scores) > 0.48  # trusted rows alone have .48, plain training .15


@pytest.mark.parametrize("seed", range(300, 304))
def test_trusted_rows_of_one_class_do_not_turn_labels_round_because_the_other_class_was_mislabelled(seed):
    _, data = score("classification", AsymmetricFlips(), oracle=None, n_trusted=40, seed=seed)
    agents = []
    for agent in data.agents:
        of_the_class = agent.trusted_targets < 0
        rows, labels = agent.trusted_features[of_the_class], agent.trusted_targets[of_the_class]
        agents.append(replace(agent, trusted_features=rows[:1], trusted_targets=labels[:1]))
    scores = trained(replace(data, agents=tuple(agents))).decision_function(data.test_features)
    assert roc_auc_score(data.test_targets > 0, scores) > 0.8


def fit_of(theta, uncertain):
    return LabelFit(
        np.asarray(theta, dtype=float), uncertain * np.eye(len(theta)), value=1.0, certificate=0.0, evidence=0.0
    )


def compared(fits):
    reliability = np.array([fit.reliability(np.eye(2)) for fit in fits])
    return compare_agents(np.stack([fit.theta for fit in fits]), reliability, np.eye(2))


def test_the_larger_camp_leads_and_not_the_loudest_agent():
    vague = [fit_of([1.0, 0.2], 0.4), fit_of([0.9, -0.1], 0.4), fit_of([1.1, 0.1], 0.4), fit_of([1.0, 0.0], 0.4)]
    loud = fit_of([-4.0, 0.0], 0.01)
    signs = compared([*vague, loud])
    assert signs.reversed.tolist() == [False, False, False, False, True]
    assert 0.0 < signs.larger_wrong < REVERSED


def test_agents_that_agree_leave_no_smaller_camp():
    signs = compared([fit_of([1.0, 0.2], 0.1), fit_of([0.9, -0.1], 0.1)])
    assert not signs.reversed.any()
    assert signs.larger_wrong == 0.0
