"""Rows that were written again and again: what counts as a copy, and that leaving copies out shows no row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from comt.agent import Agent, ArrayRows, Policy
from comt.agent.coverage import Cover
from comt.agent.suspect_copies import DistinctRows, copied_rows, mark_copies
from comt.noise import Noise
from comt.preparation import Preparation
from comt.problem import TeachingProblem
from comt.queries import MomentsByAgent
from comt.server.training import Settings, train
from masked_sites import mask_federation

PLAIN = Preparation.identity(3)
ONCE = replace(PLAIN, distinct=True)


def with_copies(copies, n=60, seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    places = rng.choice(n, size=copies, replace=False)
    X[places], y[places] = X[places[0]], y[places[0]]
    return X, y, np.sort(places)


def moments(agent, preparation):
    query = MomentsByAgent(loss_name="squared", preparation=preparation, agents=(agent.name,), n_folds=1)
    return agent.answer(query, 1).arrays["moments"][0]


def test_a_copied_row_counts_once_wherever_it_stands():
    X, y, places = with_copies(9)
    rows = DistinctRows(ArrayRows(X, y), least=1)
    assert rows.n_rows == 60 - 8
    assert rows.kept[places[0]]
    assert not rows.kept[places[1:]].any()
    ((features, targets),) = rows.blocks()
    np.testing.assert_array_equal(features, X[rows.kept])
    np.testing.assert_array_equal(targets, y[rows.kept])


def test_rows_that_are_alike_by_nature_are_no_copies():
    rng = np.random.default_rng(1)
    sparse = (rng.random((400, 30)) < 0.05).astype(float)  # many rows have nothing but zeros
    labels = np.where(rng.random(400) < 0.9, -1.0, 1.0)
    _, counts = np.unique(np.column_stack([sparse, labels]), axis=0, return_counts=True)
    assert counts.max() > 40
    assert 2 * len(counts) > 400
    assert not len(copied_rows(sparse, labels))
    measured = np.column_stack([sparse, rng.normal(size=400)])
    measured[:20] = measured[0]
    labels[:20] = labels[0]
    (copy,) = copied_rows(measured, labels)
    assert mark_copies(copy[None], measured, labels).nonzero()[0].tolist() == list(range(20))


def test_an_agent_counts_copies_once_only_where_it_is_asked_to():
    X, y, places = with_copies(9)
    agent = Agent("a", ArrayRows(X, y))
    joint = np.column_stack([X, y])
    np.testing.assert_allclose(moments(agent, PLAIN), joint.T @ joint)
    once = np.delete(joint, places[1:], axis=0)
    np.testing.assert_allclose(moments(agent, ONCE), once.T @ once)


def test_the_difference_shows_a_row_unless_as_many_were_left_out_as_a_sum_needs():
    """Asked both ways, moments differ by copies of one row: fewer of them than ``min_rows`` are not left out."""
    X, y, places = with_copies(9)
    row = np.append(X[places[0]], y[places[0]])

    def difference(policy):
        agent = Agent("a", ArrayRows(X, y), policy)
        return moments(agent, PLAIN) - moments(agent, ONCE)

    np.testing.assert_allclose(difference(Policy(min_rows=8)), 8.0 * np.outer(row, row), atol=1e-9)
    assert not difference(Policy(min_rows=9)).any()


def test_covers_have_a_place_for_every_row_and_know_both_ways_of_counting():
    kept = np.array([True, True, False, True, False])
    assert Cover("f", b"m", None).among(kept).rows.tolist() == kept.tolist()
    part = Cover("f", b"m", np.array([True, False, True])).among(kept)
    assert part.rows.tolist() == [True, False, False, True, False]
    trusted = Cover("f", b"m", None, trusted=True)
    assert trusted.among(kept) is trusted


def test_the_memory_compares_sums_with_and_without_copies():
    X, y, _ = with_copies(25, n=200)
    agent = Agent("a", ArrayRows(X, y), Policy(min_rows=20))
    for preparation in (PLAIN, ONCE):
        query = MomentsByAgent(loss_name="squared", preparation=preparation, agents=("a",), n_folds=1)
        _, weight = agent.weighed_answer(query, 1)
    assert 24 in weight.apart.now


def test_under_noise_every_row_counts():
    """One row more could make many others copies: no noise that covers one row covers that."""
    pytest.importorskip("dp_accounting")
    X, y, _ = with_copies(20)
    noise = Noise(multiplier=1.0, clip_rows=10.0, clip_targets=10.0, delta=1e-5, max_epsilon=1e9)
    agent = Agent("a", ArrayRows(X, y), Policy(noise=noise))
    assert agent.prepared(ONCE).n_rows == 60


def test_a_federation_with_copies_trains_under_the_defaults_of_a_data_holder():
    rng = np.random.default_rng(3)
    right = np.array([1.0, -2.0, 0.5])
    agents = []
    for k in range(4):
        X, _, places = with_copies(40, n=150, seed=k)
        y = X @ right + 0.3 * rng.normal(size=150)
        y[places] = 8.0
        Xt = rng.normal(size=(30, 3))
        agents.append(Agent(f"s{k}", ArrayRows(X, y, Xt, Xt @ right), Policy.protective()))
    settings = Settings(TeachingProblem("squared", 1.0, 3.0, intercept=True), teaching="auto")
    training = train(mask_federation(agents), settings, by_agent=False)
    coef, _ = training.preparation.to_raw(training.theta)
    np.testing.assert_allclose(coef, right, atol=0.1)
    assert not training.preparation.distinct
