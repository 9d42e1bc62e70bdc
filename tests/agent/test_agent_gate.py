"""The gate lets out what the policy allows, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from comt.agent import Agent, ArrayRows, Policy
from comt.agent.answers import compute
from comt.agent.bins import cells
from comt.agent.coverage import covers
from comt.agent.folds import fold_of
from comt.agent.gate import Gate, Weight
from comt.agent.memory import Distances
from comt.errors import GateError
from comt.preparation import Preparation
from comt.queries import (
    Answer,
    DualSums,
    ErrorsByPrediction,
    Histogram,
    Keep,
    MomentsByAgent,
    ProximalStep,
    Query,
    RobustMoments,
    SubsetSum,
    TrustedScore,
)
from teaching import is_one_sentence

QUERY = Histogram(n_columns=2)


def answer(rows=10, **counts):
    return Answer({"counts": np.zeros(4)}, {"counts": rows, **counts})


def passes(policy, query=QUERY, given=None, **kwargs):
    gate = Gate("north", policy)
    gate.admit(query, **kwargs)
    gate.check(query, given or answer())


def refused(policy, query=QUERY, given=None, **kwargs):
    with pytest.raises(GateError) as caught:
        passes(policy, query, given, **kwargs)
    assert isinstance(caught.value, PermissionError)
    assert is_one_sentence(caught.value)
    assert "north" in str(caught.value)
    return str(caught.value)


def test_the_default_policy_lets_sums_out():
    passes(Policy(), given=answer(rows=1))


def test_own_answers_stay_inside_by_default():
    assert "individual=True" in refused(Policy(), individual=True)
    passes(Policy(individual=True), individual=True)


def test_purposes():
    policy = Policy(purposes=frozenset({"sums at a model"}))
    assert "'histogram of columns'" in refused(policy)
    passes(Policy(purposes=frozenset({"histogram of columns"})))
    refused(Policy(purposes=frozenset()))


def test_size():
    assert "32 bytes" in refused(Policy(max_bytes=31))
    passes(Policy(max_bytes=32))


@pytest.mark.parametrize("rows", [1, 4])
def test_few_rows(rows):
    message = refused(Policy(min_rows=5), given=answer(rows))
    assert "fewer rows" in message
    assert "5" in message
    assert str(rows) not in message  # how many there are is the owner's business


@pytest.mark.parametrize("rows", [0, 5, 6])
def test_enough_rows_or_none(rows):
    passes(Policy(min_rows=5), given=answer(rows))


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
    with pytest.raises(GateError, match="fewer rows"):
        agent(Policy(min_rows=4)).answer(query, 1)
    agent(Policy(min_rows=3)).answer(query, 1)  # 3 apart from each other, too


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
    with pytest.raises(GateError, match="fewer rows"):
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
    with pytest.raises(GateError, match="fewer rows"):
        agent(Policy(min_rows=smallest + 1)).answer(query, 1)


def test_trusted_rows_are_counted_by_themselves():
    """50 buggy rows do not make a sum over 12 trusted ones pass a minimum of 20."""
    with pytest.raises(GateError, match="fewer rows"):
        agent(Policy(min_rows=20)).answer(dual(1), 1)


def test_what_is_refused_does_not_enter_the_ledger():
    one = agent(Policy(min_rows=1000))
    with pytest.raises(GateError):
        one.answer(dual(1), 1)
    assert len(one.ledger) == 0
    (refusal,) = one.ledger.refusals  # the owner can read what was asked in vain
    assert (refusal.agent, refusal.round, refusal.purpose) == ("north", 1, "sums at a model")


def test_a_limit_on_rounds():
    one = agent(Policy(max_rounds=2))
    for round_number in (1, 2):
        one.answer(dual(1), round_number)
    with pytest.raises(GateError, match="2 rounds"):
        one.answer(dual(1), 3)


# bounds on what is broadcast


@pytest.mark.parametrize("value", [1e7, -1e7, np.inf])
def test_models_beyond_any_size_are_refused(value):
    query = TrustedScore(loss_name="squared", preparation=Preparation.identity(2), theta=np.zeros((1, 2)))
    query.theta[0, 1] = value
    with pytest.raises(GateError, match="'theta'"):
        agent(Policy(max_magnitude=1e6)).answer(query, 1)
    query.theta[0, 1] = 1e6
    agent(Policy(max_magnitude=1e6)).answer(query, 1)


def test_what_is_not_a_number_is_refused():
    query = Histogram(n_columns=3, low=np.array([0.0, np.nan, 0.0]), high=np.ones(3))
    with pytest.raises(GateError, match="not a number"):
        agent(Policy(max_magnitude=1e6)).answer(query, 1)


def test_thresholds_may_be_infinite():
    query = dual(2, keep=Keep("loss", np.zeros((2, 2)), np.full(2, np.inf)))
    agent(Policy(max_magnitude=1e6)).answer(query, 1)


def step(**kwargs):
    values = {"sigma": 1.0, "damping": 1.0, "training": "t", "round": 0} | kwargs
    return ProximalStep(
        loss_name="squared", preparation=Preparation.identity(2), lambda_w=1.0, lambda_alpha=0.0, lambda_z=np.inf,
        shift=np.zeros(2), theta=np.zeros(2), **values,
    )  # fmt: skip


@pytest.mark.parametrize("wrong", [{"damping": 0.0}, {"damping": 1.5}, {"sigma": -1.0}, {"sigma": 1e300}])
def test_steps_that_are_none_of_algorithm_1(wrong):
    with pytest.raises(GateError, match="Algorithm 1"):
        agent(Policy(max_magnitude=1e6)).answer(step(**wrong), 1)


def test_a_refused_step_is_not_taken():
    """The step moves the agent's state; if its answer stays inside, so does the move."""
    one = agent(Policy(min_rows=20))  # 12 trusted rows are fewer
    with pytest.raises(GateError):
        one.answer(step(), 1)
    assert one.store == {}


# two sums for one model are no or many rows apart


def nested(n_rows):
    """Thresholds that keep so many of the rows with the largest |α| under r = 0."""
    largest = np.append(np.sort(np.abs(agent(None).rows.targets))[::-1], 0.0)
    return SubsetSum(
        loss_name="squared",
        preparation=Preparation.identity(2),
        r=np.zeros((len(n_rows), 2)),
        lambda_alpha=0.0,
        lambda_z=np.inf,
        thresholds=np.array([(largest[k - 1] + largest[k]) / 2 for k in n_rows]),
    )


@pytest.mark.parametrize("apart", [1, 4])
def test_nested_subset_sums_are_refused(apart):
    """In one batch, and one after the other."""
    with pytest.raises(GateError, match="differ by fewer"):
        agent(Policy(min_rows=5)).answer(nested([20, 20 + apart]), 1)
    one = agent(Policy(min_rows=5))
    one.answer(nested([20]), 1)
    with pytest.raises(GateError, match="differ by fewer"):
        one.answer(nested([20 + apart]), 2)


@pytest.mark.parametrize("apart", [0, 5, 6])
def test_subset_sums_far_apart_pass(apart):
    agent(Policy(min_rows=5)).answer(nested([20, 20 + apart]), 1)


def test_a_subset_is_compared_with_the_whole():
    """Σ over all rows at r = 0, then over all but one: different questions, the same subtraction."""
    one = agent(Policy(min_rows=5))
    one.answer(dual(1), 1)
    with pytest.raises(GateError, match="differ by fewer"):
        one.answer(nested([49]), 2)


def test_kept_rows_are_compared():
    one = agent(Policy(min_rows=5))
    one.answer(dual(1, keep=Keep("loss", np.zeros((1, 2)), np.array([smallest_losses(30)]))), 1)
    with pytest.raises(GateError, match="differ by fewer"):
        one.answer(dual(1, keep=Keep("loss", np.zeros((1, 2)), np.array([smallest_losses(31)]))), 2)


def test_few_active_rows_are_few_rows():
    """A large λ_α leaves a handful of rows in sums that seem to be over all."""
    query = dual(1)
    largest = np.sort(np.abs(agent(None).rows.targets))[::-1]
    query.lambda_alpha[0] = largest[3]
    with pytest.raises(GateError, match="fewer rows"):
        agent(Policy(min_rows=5)).answer(query, 1)


def test_held_out_folds_are_compared():
    """All trusted rows, then all but a small fold."""
    n_folds = 6
    rows = agent(None).rows.trusted()
    sizes = np.bincount(fold_of(*rows, n_folds), minlength=n_folds)
    small = int(np.argmin(np.where(sizes > 0, sizes, 99)))
    query = dual(2, held_out=np.array([-1, small]), n_folds=n_folds)
    with pytest.raises(GateError, match="differ by fewer"):
        agent(Policy(min_rows=int(sizes[small]) + 1)).answer(query, 1)
    agent(Policy(min_rows=int(sizes[small]))).answer(query, 1)


def test_a_question_nobody_has_thought_through_is_refused():
    @dataclass(frozen=True, kw_only=True)
    class Novel(Query):
        purpose = "novel"

        def shapes(self):
            return {"x": ()}

    compute.register(Novel)(lambda query, agent: Answer({"x": np.zeros(())}, {"x": 50}))
    agent(Policy()).answer(Novel(), 1)
    with pytest.raises(GateError, match="cannot tell which rows"):
        agent(Policy(min_rows=2)).answer(Novel(), 1)


def test_every_question_of_the_vocabulary_has_covers():
    known = {cls for cls in covers.registry if cls is not object}
    assert set(questions(Query)) <= known


def questions(cls):
    for sub in cls.__subclasses__():
        yield from questions(sub)
        if sub.__module__.startswith("comt.queries") and not getattr(sub, "__abstractmethods__", None):
            yield sub


# bins


def test_no_bin_holds_few_rows():
    query = Histogram(n_columns=3, low=np.full(3, -3.0), high=np.full(3, 3.0), bins=200)
    counts = agent(Policy(min_rows=6)).answer(query, 1).arrays["counts"]
    assert not ((counts > 0) & (counts < 6)).any()
    np.testing.assert_array_equal(counts.sum(axis=1), 62)
    exact = agent(Policy()).answer(query, 1).arrays["counts"]
    medians = [np.argmax(part.cumsum(axis=1) >= 31, axis=1) for part in (counts, exact)]
    assert np.abs(medians[0] - medians[1]).max() <= 20  # the median stays where it is, within a few bins of 0.03


def test_too_few_rows_for_one_bin_are_left_out():
    np.testing.assert_array_equal(cells(np.array([[1.0, 0.0, 2.0]]), 5), 0.0)
    np.testing.assert_array_equal(cells(np.array([[3.0, 0.0, 2.0, 1.0]]), 5), [[6.0, 0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(cells(np.array([[5.0, 7.0]]), 5), [[5.0, 7.0]])


def test_errors_in_a_range_of_predictions_that_holds_one_row_stay_inside():
    """Edges drawn around one row's prediction would tell its error."""
    theta = np.array([[1.0, 0.3]])
    predicted = np.sort(agent(None).rows.features @ theta[0])
    edges = (predicted[[29, 30]] + predicted[[30, 31]])[None] / 2.0
    query = ErrorsByPrediction(
        loss_name="squared",
        preparation=Preparation.identity(2),
        agents=("north",),
        theta=theta,
        edges=edges,
        weights=np.ones(1),
    )
    exact, guarded = (agent(policy).answer(query, 1).arrays["counts"][0] for policy in (Policy(), Policy(min_rows=6)))
    assert exact[1].sum() == 1.0
    assert guarded[1].sum() == 0.0
    assert not ((guarded > 0) & (guarded < 6)).any()


# minimums under masks apply to the sum over sites


def test_totals_over_sites():
    gate = Gate("north", Policy(min_rows=10, min_trusted_rows="columns"))
    gate.check_totals(dual(1), [Weight((4,), (1,)), Weight((6,), (9,))])
    with pytest.raises(GateError):
        gate.check_totals(dual(1), [Weight((4,), (1,)), Weight((5,), (9,))])
    with pytest.raises(GateError):
        gate.check_totals(dual(1), [Weight((4,), (), Distances((1,))), Weight((6,), (), Distances((0,)))])
    gate.check_totals(dual(1), [Weight((4,), (), Distances((1,))), Weight((6,), (), Distances((9,)))])
    gate.check_totals(dual(1), [Weight((0,), (0,)), Weight((0,), (0,))])


def test_fewer_trusted_rows_than_columns_stay_inside():
    policy = Policy(min_trusted_rows="columns")
    few = Agent("north", ArrayRows(np.zeros((50, 2)), np.zeros(50), np.ones((1, 2)), np.ones(1)), policy)
    with pytest.raises(GateError, match="2 trusted"):
        few.answer(dual(1), 1)
    agent(policy).answer(dual(1), 1)


# questions that show agents one by one


def moments(*agents):
    return MomentsByAgent(loss_name="squared", preparation=Preparation.identity(2), agents=agents, n_folds=2)


def test_slots_are_individual_answers():
    """A slot of its own shows an agent's moments, masked or not; the ledger calls it what it is."""
    one = agent(Policy())
    one.answer(moments("north", "south"), 1)
    assert all(entry.individual for entry in one.ledger)
    with pytest.raises(GateError, match="every agent by itself"):
        agent(Policy(by_agent=False)).answer(moments("north", "south"), 1)
    agent(Policy(by_agent=False)).answer(moments("north"), 1)  # one slot for all is an ordinary sum


def test_the_rows_that_fit_are_compared():
    errors = np.sort(np.abs(agent(None).rows.targets))
    limits = (errors[[19, 20]] + errors[[20, 21]]) / 2.0
    query = RobustMoments(
        loss_name="squared", preparation=Preparation.identity(2), theta=np.zeros((2, 2)), limit=limits,
        smooth=np.zeros(2, dtype=bool),
    )  # fmt: skip
    agent(Policy()).answer(query, 1)
    with pytest.raises(GateError, match="differ by fewer"):
        agent(Policy(min_rows=5)).answer(query, 1)
