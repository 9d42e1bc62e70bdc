"""What labels are judged by: all labels improve the model where flips are random, and do not where a rule made them."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from comt.agent import Agent, ArrayRows
from comt.federation import LocalFederation
from comt.preparation import Preparation
from comt.server.label_models import PRECISION, label_models, refitted

D = 4
COMMON = {"loss_name": "logistic", "preparation": Preparation.identity(D)}
MODEL = np.array([2.0, -1.0, 0.5, 0.0])


def agents(given, m, n=900, seed=0):
    """Three agents; ``given(features, right, rng)`` says what labels they write down."""
    rng = np.random.default_rng(seed)
    made = []
    for name in "abc":
        features = rng.normal(size=(n // 3 + m, D))
        right = np.where(rng.random(len(features)) < expit(features @ MODEL), 1.0, -1.0)
        labels = given(features, right, rng)
        k = n // 3
        made.append(Agent(name, ArrayRows(features[:k], labels[:k], features[k:], right[k:])))
    return made


def flipped(rate):
    return lambda features, right, rng: np.where(rng.random(len(right)) < rate, -right, right)


def thumb(features, right, rng):
    return np.where(features[:, 0] + 2.0 * features[:, 3] > 0, 1.0, -1.0)


def test_the_refit_is_the_minimum_of_the_noisy_likelihood():
    people = agents(flipped(0.2), 5)
    flips = np.array([[0.2, 0.2], [0.1, 0.3], [0.25, 0.05]])
    start = MODEL + 0.3

    def objective(theta):
        total = 0.5 * PRECISION * (theta - start) @ (theta - start)
        for agent, (plus, minus) in zip(people, flips, strict=True):
            for features, labels in agent.rows.blocks():
                p = expit(features @ theta)
                chance = (1 - plus) * p + minus * (1 - p)
                total -= np.log(np.where(labels > 0, chance, 1 - chance)).sum()
        return total

    with (federation := LocalFederation(people, threads=1)).open():
        found, _ = refitted(federation, COMMON, start, flips)
    best = minimize(objective, start).fun
    assert objective(start) - best > 1.0
    assert objective(found) == pytest.approx(best, abs=0.01 * (objective(start) - best))


@pytest.mark.parametrize("m", [7, 40])
def test_random_flips_believe_the_refit_which_is_better(m):
    rng = np.random.default_rng(1)
    start = MODEL + 0.5 * rng.normal(size=D)
    with (federation := LocalFederation(agents(flipped(0.2), m, n=3000), threads=1)).open():
        taught, again = label_models(federation, COMMON, start)
    assert taught.weight + again.weight == pytest.approx(1.0)
    assert again.weight > 0.5
    assert np.linalg.norm(again.theta - MODEL) < 0.5 * np.linalg.norm(start - MODEL)


def test_a_rule_of_thumb_is_refuted_and_the_taught_model_is_as_uncertain_as_few_rows_leave_it():
    with (federation := LocalFederation(agents(thumb, 10, n=3000), threads=1)).open():
        taught, again = label_models(federation, COMMON, MODEL)
    assert again.weight < 0.05
    assert taught.covariance is not None
    rows = np.random.default_rng(2).normal(size=(50, D))
    plain = taught.slope * rows @ MODEL + taught.shift
    softened = taught.logits(rows)
    assert (np.abs(softened) < np.abs(plain)).all()
    assert (np.sign(softened) == np.sign(plain)).all()


def test_wide_rows_are_judged_by_the_taught_model_alone():
    with (federation := LocalFederation(agents(flipped(0.2), 5), threads=1)).open():
        (only,) = label_models(federation, COMMON, MODEL, refit=False)
    assert only.weight == 1.0
    assert only.covariance is None
