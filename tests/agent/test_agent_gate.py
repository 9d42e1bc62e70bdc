"""The gate lets out what the policy allows, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from comt.agent import Agent, ArrayRows, Policy
from comt.agent.gate import Gate
from comt.errors import GateError
from comt.preparation import Preparation
from comt.queries import Answer, DualSums, Histogram, Keep, SubsetSum, TrustedScore
from teaching import is_one_sentence

QUERY = Histogram(n_columns=2)


def answer(rows=10, **counts):
    return Answer({"counts": np.zeros(4)}, {"counts": rows, **counts})


def refused(policy, query=QUERY, given=None, **kwargs):
    with pytest.raises(GateError) as caught:
        Gate("north", policy).check(query, given or answer(), **kwargs)
    assert isinstance(caught.value, PermissionError)
    assert is_one_sentence(caught.value)
    assert "north" in str(caught.value)
    return str(caught.value)


def test_the_default_policy_lets_sums_out():
    Gate("north", Policy()).check(QUERY, answer(rows=1))


def test_own_answers_stay_inside_by_default():
    assert "individual=True" in refused(Policy(), individual=True)
    Gate("north", Policy(individual=True)).check(QUERY, answer(), individual=True)


def test_purposes():
    policy = Policy(purposes=frozenset({"sums at a model"}))
    assert "'histogram of columns'" in refused(policy)
    Gate("north", Policy(purposes=frozenset({"histogram of columns"}))).check(QUERY, answer())
    refused(Policy(purposes=frozenset()))


def test_size():
    assert "32 bytes" in refused(Policy(max_bytes=31))
    Gate("north", Policy(max_bytes=32)).check(QUERY, answer())


@pytest.mark.parametrize("rows", [1, 4])
def test_few_rows(rows):
    message = refused(Policy(min_rows=5), given=answer(rows))
    assert f"{rows} rows" in message
    assert "minimum is 5" in message


@pytest.mark.parametrize("rows", [0, 5, 6])
def test_enough_rows_or_none(rows):
    Gate("north", Policy(min_rows=5)).check(QUERY, answer(rows))


def test_an_array_without_a_row_count_stays_inside():
    refused(Policy(), given=Answer({"counts": np.zeros(4)}))


# the counts that the gate goes by must be those of the poorest sum of a batch


def agent(policy):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(50, 2))
    trusted = rng.normal(size=(12, 2))
    return Agent("north", ArrayRows(features, features[:, 0], trusted, trusted[:, 0]), policy)


def dual(n_models, **kwargs):
    zero = np.zeros((n_models, 2))
    return DualSums(
        loss_name="squared",
        preparation=Preparation.identity(2),
        r=zero,
        theta=zero,
        lambda_alpha=np.zeros(n_models),
        lambda_z=np.full(n_models, np.inf),
        **kwargs,
    )


def smallest_losses(k):
    """A threshold that keeps exactly k rows."""
    losses = np.sort(0.5 * agent(None).rows.targets ** 2)
    return np.append(losses, np.inf)[k]


@pytest.mark.parametrize("kept", [[3], [50, 3], [0, 3], [3, 0, 50]], ids=str)
def test_no_model_of_a_batch_may_sum_few_rows(kept):
    """Also when another model of the batch sums none at all."""
    thresholds = np.array([smallest_losses(k) for k in kept])
    query = dual(len(kept), keep=Keep("loss", np.zeros((len(kept), 2)), thresholds))
    found = agent(Policy()).answer(query, 1)
    np.testing.assert_array_equal(found.arrays["rows"], kept)
    assert found.rows["alpha_x"] == 3
    with pytest.raises(GateError, match="3 rows"):
        agent(Policy(min_rows=4)).answer(query, 1)
    agent(Policy(min_rows=3)).answer(query, 1)


def test_no_threshold_of_a_subset_sum_may_sum_few_rows():
    largest = np.sort(np.abs(agent(None).rows.targets))[::-1]
    query = SubsetSum(
        loss_name="squared",
        preparation=Preparation.identity(2),
        r=np.zeros((3, 2)),
        lambda_alpha=0.0,
        lambda_z=np.inf,
        thresholds=np.array([1e9, largest[2], 0.0]),
    )
    with pytest.raises(GateError, match="3 rows"):
        agent(Policy(min_rows=4)).answer(query, 1)
    np.testing.assert_array_equal(agent(Policy(min_rows=3)).answer(query, 1).arrays["rows"], [0, 3, 50])


def test_no_fold_of_trusted_rows_may_be_small():
    folds = np.arange(-1, 6)
    query = TrustedScore(
        loss_name="squared", preparation=Preparation.identity(2), theta=np.zeros((7, 2)), fold=folds, n_folds=6
    )
    rows = agent(Policy()).answer(query, 1).arrays["rows"]
    smallest = int(rows[rows > 0].min())
    assert rows[0] == rows[1:].sum() == 12
    agent(Policy(min_rows=smallest)).answer(query, 1)
    with pytest.raises(GateError, match=f"{smallest} rows"):
        agent(Policy(min_rows=smallest + 1)).answer(query, 1)


def test_trusted_rows_are_counted_by_themselves():
    """50 buggy rows do not make a sum over 12 trusted ones pass a minimum of 20."""
    with pytest.raises(GateError, match="12 rows"):
        agent(Policy(min_rows=20)).answer(dual(1), 1)


def test_what_is_refused_does_not_enter_the_ledger():
    one = agent(Policy(min_rows=1000))
    with pytest.raises(GateError):
        one.answer(dual(1), 1)
    assert len(one.ledger) == 0
