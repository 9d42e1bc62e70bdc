"""Flips that follow the features: the model behind them is found from unverified labels alone, and clean ones keep theirs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

from comt import CoMTClassifier
from comt.preparation import Preparation
from comt.queries import NoisyLabelSums
from comt.server.auto.flips import COLUMNS, EXPECTED, FINALISTS, PRECISION, Start, flipped, starts
from comt.server.auto.labels import BuggyLabels
from teaching import Data, federate

D, N = 6, 2000
WEIGHTS = np.array([2.0, -1.5, 1.0, 0.5, 0.0, 0.0])
PREPARATION = Preparation.identity(D, 10.0)


def labelled(mistakes, seed=0, n=N):
    """Right labels, and labels with mistakes that follow one column, or two."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    right = np.where(rng.random(n) < expit(2.0 * X @ WEIGHTS), 1.0, -1.0)
    given = right.copy()
    if mistakes == "rule":
        given = np.where(np.abs(X[:, 4]) > 0.7, np.sign(X[:, 4]), right)
    elif mistakes == "where a column is large":
        given[X[:, 1] > 0.5] *= -1.0
    elif mistakes == "where two columns are large":
        given[X[:, 1] + X[:, 2] > 0.7] *= -1.0
    return X, given, right


def models(mistakes, agents=3, seed=0, turns=None):
    X, given, _ = labelled(mistakes, seed)
    labels = BuggyLabels(federate(Data(X, given, X[:3], given[:3]), agents), PREPARATION, 1)
    (plain,) = labels.fits(np.ones((1, agents)))
    rates = np.full((agents, 2), 0.2)
    return plain, *flipped(labels, plain.theta, rates, plain.theta, 0.2, starts(plain.theta, np.eye(D), turns))


def score(theta, seed=99):
    X, _, right = labelled("none", seed, 4000)
    return roc_auc_score(right > 0, X @ theta[:D])


def test_sums_of_flips_are_slopes_and_bends_of_their_likelihood():
    """Beside finite differences of the likelihood, with responsibilities held as they are."""
    rng = np.random.default_rng(3)
    X, given, _ = labelled("rule", n=60)
    parts = federate(Data(X, given, X[:3], given[:3]), 2)
    theta, axis, flips, leans = (
        rng.normal(size=D + 1) / 3,
        rng.normal(size=D + 1),
        np.array([0.2, 0.4]),
        rng.normal(size=2),
    )
    query = NoisyLabelSums(
        loss_name="logistic", preparation=PREPARATION, agents=parts.agents, theta=theta[None], weights=np.ones((1, 2)),
        flips=np.tile(flips, (1, 2, 1)), axes=axis[None], leans=leans[None],
    )  # fmt: skip
    totals = parts.sum(query)
    rows, positive = np.column_stack([X, np.full(60, 10.0)]), given > 0
    u, chance = rows @ axis, expit(rows @ theta)

    def likelihood(inside):
        of_plus, of_minus = (expit(inside[2 * kind] + inside[2 * kind + 1] * u) for kind in (0, 1))
        return np.where(
            positive, chance * (1 - of_plus) + (1 - chance) * of_minus, chance * of_plus + (1 - chance) * (1 - of_minus)
        )

    at = np.array([logit(flips[0]), leans[0], logit(flips[1]), leans[1]])
    assert totals["value"][0] == pytest.approx(-np.log(likelihood(at)).sum())
    # by Fisher's identity the slope of the expected loss is that of the likelihood itself
    slope = approx_fprime(at, lambda inside: -np.log(likelihood(inside)).sum(), 1e-7)
    np.testing.assert_allclose(totals["lean_slope"][0].ravel(), slope, rtol=1e-4, atol=1e-4)
    of_plus = expit(at[0] + at[1] * u)
    right = chance * np.where(positive, 1 - of_plus, of_plus) / likelihood(at)
    along = np.stack([np.ones(60), u])
    np.testing.assert_allclose(totals["lean_bend"][0, 0], (along * (right * of_plus * (1 - of_plus))) @ along.T)


@pytest.mark.parametrize("mistakes", ["rule", "where a column is large", "where two columns are large"])
def test_the_model_behind_mistakes_is_found_from_unverified_labels(mistakes):
    turns = np.array([0.0, 1.0, 1.0, 0.0, 0.0, 0.0]) if "two" in mistakes else None
    plain, at_random, leaning = models(mistakes, turns=turns)
    assert at_random.objective - leaning[0].objective > 50.0
    assert score(leaning[0].theta) > score(WEIGHTS) - 0.015
    assert score(leaning[0].theta) > score(plain.theta) + 0.01
    assert len(leaning) == FINALISTS
    assert [model.objective for model in leaning] == sorted(model.objective for model in leaning)


def test_a_rule_leans_against_its_column_and_other_mistakes_with_it():
    _, _, (rule, *_) = models("rule")
    assert np.flatnonzero(rule.axis).tolist() == [4]
    assert rule.flips[0, 1] < -1.0 < 1.0 < rule.flips[1, 1]
    _, _, (large, *_) = models("where a column is large")
    assert np.flatnonzero(large.axis).tolist() == [1]
    assert (large.flips[:, 1] * np.sign(large.axis[1]) > 1.0).all()


def test_clean_labels_gain_nothing_by_flips_that_lean():
    for seed in range(4):
        _, at_random, leaning = models("none", seed=seed)
        assert at_random.objective - leaning[0].objective < 3.0


def test_it_does_not_matter_who_holds_which_row():
    first, second = (models("rule", agents)[2][0] for agents in (1, 4))
    np.testing.assert_allclose(first.theta, second.theta, atol=1e-8)
    assert first.objective == pytest.approx(second.objective)


def test_the_objective_is_the_likelihood_and_what_is_expected_beforehand():
    X, given, _ = labelled("rule")
    _, _, (model, *_) = models("rule")
    rows = np.column_stack([X, np.full(N, 10.0)])
    chance, (of_plus, of_minus) = (
        expit(rows @ model.theta),
        expit(model.flips @ np.stack([np.ones(N), rows @ model.axis])),
    )
    likelihood = chance * np.where(given > 0, 1 - of_plus, of_plus) + (1 - chance) * np.where(
        given > 0, of_minus, 1 - of_minus
    )
    penalty = 0.5 * model.theta[:D] @ model.theta[:D] + 0.5 * model.theta[D] ** 2
    expected = 0.5 * (PRECISION * (model.flips - EXPECTED) ** 2).sum()
    assert model.objective == pytest.approx(-np.log(likelihood).sum() + penalty + expected, rel=1e-6)


def test_starts_are_the_columns_that_weigh_most_and_the_direction_labels_turn_in():
    theta, turns = np.append(np.arange(1.0, 16.0), 0.3), np.zeros(15)
    turns[[2, 5]] = 3.0, -4.0
    found = starts(theta, np.diag(np.full(15, 4.0)), turns)
    assert sum(start.rule for start in found) == COLUMNS
    rule, *_ = found
    np.testing.assert_allclose(rule.axis, 0.5 * np.eye(16)[14])  # one unit of an axis is one standard deviation
    others = [start for start in found if not start.rule]
    np.testing.assert_allclose(others[0].axis, -0.5 * np.eye(16)[5])
    np.testing.assert_allclose(others[-1].axis[:15] @ np.diag(np.full(15, 4.0)) @ others[-1].axis[:15], 1.0)
    assert len(others) == 3
    np.testing.assert_allclose(Start(rule.axis, True).leans, [-others[0].leans[0], others[0].leans[1]])
    assert len(starts(theta, np.eye(15), None)) == 3 * COLUMNS


@pytest.mark.parametrize("mistakes", ["rule", "where a column is large"])
def test_trusted_rows_confirm_the_model_behind_mistakes(mistakes):
    scores, plain = [], []
    for seed in range(4):
        X, given, right = labelled(mistakes, seed)
        trusted = np.arange(N) < 32
        rows = {"agents": np.arange(N) % 5, "trusted": trusted}
        model = CoMTClassifier().fit(X, np.where(trusted, right, given), **rows)
        test, _, truth = labelled("none", 50 + seed)
        scores.append(roc_auc_score(truth > 0, model.decision_function(test)))
        plain.append(score(models(mistakes, seed=seed)[0].theta))
    assert np.mean(scores) > np.mean(plain) + 0.02
    assert np.mean(scores) > score(WEIGHTS) - 0.03
