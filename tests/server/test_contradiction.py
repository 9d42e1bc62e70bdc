"""Direct teaching: which agents contradict the trusted rows more than the others do, and what follows from it."""

from __future__ import annotations

import numpy as np
import pytest

from comt import CoMTClassifier, CoMTRegressor
from comt.agent import Agent, ArrayRows
from comt.federation import LocalFederation
from comt.preparation import Preparation
from comt.server.auto.agents import ask_moments, moments_of
from comt.server.auto.moments import total
from comt.server.contradiction import weigh_by_contradiction

D, K = 5, 5
GIVEN = {"teaching": "direct", "lambda_w": 1.0, "lambda_trusted": 5.0, "lambda_alpha": 0.0, "lambda_z": np.inf}


def rows(seed, *, classify=False, n=1000, m=50, flips=0.0):
    """Rows dealt at random to five agents; ``flips`` of the unverified targets are negated wherever they are."""
    rng = np.random.default_rng(seed)
    X, model = rng.normal(size=(n + m, D)), 2.0 * rng.normal(size=D)
    y = X @ model + 0.5 * rng.normal(size=n + m)
    if classify:
        y = np.where(rng.random(n + m) < 1.0 / (1.0 + np.exp(-X @ model)), 1.0, -1.0)
    trusted = rng.permutation(n + m) < m
    y[~trusted] *= np.where(rng.random(n) < flips, -1.0, 1.0)
    return X, y, rng.integers(0, K, n + m), trusted


def weights(X, y, agents, trusted, classify=False):
    loss_name = "logistic" if classify else "squared"
    held = [
        Agent(str(k), ArrayRows(X[own & ~trusted], y[own & ~trusted], X[own & trusted], y[own & trusted]))
        for k in np.unique(agents)
        for own in [agents == k]
    ]
    preparation, federation = Preparation.identity(X.shape[1]), LocalFederation(held, threads=1)
    answer = ask_moments(federation, preparation, loss_name)
    return weigh_by_contradiction(
        federation,
        preparation,
        moments_of(answer["moments"], answer["rows"]),
        total(moments_of(answer["trusted"], answer["trusted_rows"])),
        loss_name,
    )


@pytest.mark.parametrize("classify", [False, True])
@pytest.mark.parametrize("m", [20, 50, 200])
def test_agents_that_are_alike_keep_their_weight_whatever_errors_they_make(classify, m):
    """Forty fits each used to name an honest agent in 22 to 38 of them, from fifty trusted rows on."""
    least = [
        weights(*rows(seed, classify=classify, m=m, flips=flips), classify).weights.min()
        for seed in range(15)
        for flips in (0.0, 0.3)
    ]
    assert np.mean(np.array(least) == 1.0) >= 0.9
    assert min(least) > 0.1


@pytest.mark.parametrize("classify", [False, True])
@pytest.mark.parametrize("error", ["negated", "shuffled", "constant", "unit"])
def test_agents_whose_rows_say_something_else_lose_it(classify, error):
    for seed in range(5):
        X, y, agents, trusted = rows(seed, classify=classify, n=1500, m=80)
        wrong = (agents < 2) & ~trusted
        if error == "unit":
            if classify:
                return
            y[wrong] *= 100.0
        elif error == "negated":
            y[wrong] *= -1.0
        else:
            y[wrong] = np.random.default_rng(seed).permutation(y[wrong]) if error == "shuffled" else 1.0
        found = weights(X, y, agents, trusted, classify)
        assert (found.weights[:2] < 0.1).all()
        np.testing.assert_array_equal(found.weights[2:], 1.0)
        assert found.doubted == ("0", "1")
        assert "more than the others do: 0 (p = " in found.sentence()


def test_three_of_five_may_be_wrong():
    X, y, agents, trusted = rows(1, m=30)
    y[(agents < 3) & ~trusted] *= -1.0
    found = weights(X, y, agents, trusted)
    assert (found.weights[:3] < 0.01).all()
    np.testing.assert_array_equal(found.weights[3:], 1.0)


def test_an_agent_with_one_kind_of_patients_agrees_with_the_others():
    """Its labels are all alike, and so have no model; that of the others explains them."""
    X, y, agents, trusted = rows(2, classify=True, n=2000, m=100)
    ill = (agents == 0) & ~trusted
    kept = ~ill | (y > 0)
    found = weights(X[kept], y[kept], agents[kept], trusted[kept], classify=True)
    np.testing.assert_array_equal(found.weights, 1.0)


def test_few_rows_fewer_than_columns_and_none_are_no_contradiction():
    rng = np.random.default_rng(3)
    X, model = rng.normal(size=(240, 30)), rng.normal(size=30)
    y = X @ model + 0.5 * rng.normal(size=240)
    trusted = np.arange(240) < 100
    agents = np.where(trusted, 0, rng.integers(0, 10, 240))
    assert weights(X, y, agents, trusted).weights.min() > 0.5
    alone = weights(X, -y, np.zeros(240, int), trusted)  # nobody to compare with
    np.testing.assert_array_equal(alone.weights, 1.0)
    empty = weights(X, y, np.where(trusted, 11, agents), trusted)  # one agent has trusted rows only
    assert empty.weights[-1] == 1.0
    none = weights(X, y, agents, np.zeros(240, bool))
    np.testing.assert_array_equal(none.weights, 1.0)


@pytest.mark.parametrize("estimator", [CoMTRegressor, CoMTClassifier])
@pytest.mark.parametrize(
    ("select", "seed"), [(None, 4), ("auto", 4), (0.7, 1), (0.7, 2), (0.7, 3), (0.7, 4), (0.7, 5), (0.7, 6)]
)
def test_who_holds_which_row_does_not_matter_to_direct_teaching(estimator, select, seed):
    X, y, agents, trusted = rows(seed, classify=estimator is CoMTClassifier, flips=0.2)
    model = estimator(**GIVEN, select=select)
    one = model.fit(X, y, trusted=trusted).coef_.copy()
    five = model.fit(X, y, agents=agents, trusted=trusted)
    np.testing.assert_array_equal(five.choice_.agent_weights, 1.0)
    np.testing.assert_allclose(five.coef_, one, rtol=0, atol=1e-8 * np.abs(one).max())
    order = np.random.default_rng(0).permutation(len(y))
    again = model.fit(X[order], y[order], agents=agents[order], trusted=trusted[order]).coef_
    np.testing.assert_allclose(again, one, rtol=0, atol=1e-8 * np.abs(one).max())


def test_chosen_parameters_are_those_of_the_weighted_objective_and_lead_where_given_ones_do():
    """The held-out loss that is told is of models without the agents that are not believed."""
    X, y, agents, trusted = rows(5, m=20)
    wrong = (agents < 3) & ~trusted
    y[wrong] = -y[wrong]
    chosen = CoMTRegressor(teaching="direct").fit(X, y, agents=agents, trusted=trusted)
    assert (chosen.choice_.agent_weights[:3] < 1e-2).all()
    assert chosen.n_rounds_ <= 60
    # as if these agents were not there
    kept = ~wrong
    without = CoMTRegressor(teaching="direct").fit(X[kept], y[kept], agents=agents[kept], trusted=trusted[kept])
    told, expected = (float(m.choice_.sentence.split("held-out loss of ")[1].split()[0]) for m in (chosen, without))
    assert told == pytest.approx(expected, rel=0.2)
    problem, select = chosen._training.settings.problem, chosen._training.settings.select
    given = CoMTRegressor(
        teaching="direct",
        lambda_w=problem.lambda_w,
        lambda_trusted=problem.lambda_trusted,
        lambda_alpha=0.0,
        lambda_z=problem.lambda_z,
        select=select,
    ).fit(X, y, agents=agents, trusted=trusted)
    np.testing.assert_allclose(given.coef_, chosen.coef_, rtol=1e-9)
    assert "search" not in chosen.summary()
    assert "was reached from " in chosen.choice_.sentence
