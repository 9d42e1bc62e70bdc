"""Direct teaching over a federation: choosing rows, several starts, weights of agents, partitions, messages."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from comt.agent import Agent, ArrayRows
from comt.agent.folds import fold_of
from comt.errors import ProtocolError
from comt.federation import LocalFederation
from comt.preparation import Preparation
from comt.problem import TeachingProblem
from comt.queries import DirectSums
from comt.rows import losses
from comt.server.direct import DirectTask, solve, teach
from teaching import LOSSES, Data, federate, random_data

D = 3
PREPARATION = Preparation.identity(D)
ZERO = np.zeros(D)


def repaired_losses(problem, data, theta):
    loss = problem.loss
    return loss.dual(data.features @ theta, data.targets, 0.0, -(theta @ theta) / (2 * problem.lambda_z))[1]


def objective(problem, data, theta, chosen):
    trusted = problem.loss.trusted_factor * losses(problem, *data.trusted, theta).sum()
    rows = repaired_losses(problem, data, theta)[chosen].sum()
    return rows + problem.lambda_trusted * trusted + 0.5 * problem.lambda_w * theta @ theta


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_finds_what_brute_force_over_subsets_finds(loss_name, seed):
    data = random_data(loss_name, n=8, d=2, m=6, seed=seed, noise=0.1, bugs=0.3)
    problem = TeachingProblem(loss_name, 0.5, 1.0, 0.0, 5.0)
    found = teach(federate(data, 3), Preparation.identity(2), problem, fraction=0.625)
    best = np.inf
    for chosen in combinations(range(8), 5):
        ends = [
            minimize(lambda t, chosen=list(chosen): objective(problem, data, t, chosen), start, method="BFGS").fun
            for start in (np.zeros(2), found.theta)
        ]
        best = min(best, *ends)
    assert found.best.value == pytest.approx(best, rel=1e-6)
    assert found.best.sums.rows == 5


@pytest.mark.parametrize("loss_name", LOSSES)
def test_the_chosen_rows_are_those_of_smallest_loss_and_the_objective_falls(loss_name):
    data = random_data(loss_name, n=200, d=D, m=10, seed=1, bugs=0.4)
    problem = TeachingProblem(loss_name, 1.0, 2.0, 0.0, 10.0)
    found = teach(federate(data, 4), PREPARATION, problem, fraction=0.6)
    for solution in found.solutions:
        assert solution.certificate <= 1e-8
        assert solution.selection_gap <= 1e-10
        assert (np.diff(solution.history) <= 1e-12 * np.abs(solution.history[:-1])).all()
        kept = losses(problem, *data.buggy, solution.keep_model) < solution.keep_threshold
        assert kept.sum() == 120 == solution.sums.rows
        repaired = repaired_losses(problem, data, solution.theta)
        assert repaired[kept].sum() == pytest.approx(np.sort(repaired)[:120].sum(), rel=1e-9)
        assert solution.value == pytest.approx(objective(problem, data, solution.theta, kept), rel=1e-10)
        assert solution.history[-1] == pytest.approx(solution.value, rel=1e-12)
    assert found.best.value == pytest.approx(min(solution.value for solution in found.solutions), rel=1e-11)
    names = {solution.name for solution in found.solutions}
    assert names == {
        "trusted rows alone",
        "unverified rows alone",
        "dual teaching",
        *(f"the rows of agent-{k} alone" for k in range(4)),
    }
    assert found.best.name in found.sentence()


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("fraction", [1.0, 0.7])
def test_the_partition_does_not_matter(loss_name, fraction):
    data = random_data(loss_name, n=150, d=D, m=10, seed=2, bugs=0.3)
    problem = TeachingProblem(loss_name, 1.0, 3.0, 0.0, 5.0)
    tasks = [DirectTask(problem, start, fraction=fraction) for start in (ZERO, np.ones(D))]
    pooled = solve(federate(data, 1), PREPARATION, tasks)
    for n_agents in (5, 9):
        dealt = solve(federate(data, n_agents, seed=3), PREPARATION, tasks)
        for one, other in zip(pooled, dealt, strict=True):
            np.testing.assert_allclose(one.theta, other.theta, rtol=1e-8, atol=1e-8)
            assert one.value == pytest.approx(other.value, rel=1e-10)


@pytest.mark.parametrize("loss_name", LOSSES)
def test_a_batch_equals_its_members_and_costs_the_longest(loss_name):
    data = random_data(loss_name, n=100, d=D, m=8, seed=4)
    tasks = [
        DirectTask(TeachingProblem(loss_name, 1.0, 1.0, 0.0, 2.0), ZERO),
        DirectTask(TeachingProblem(loss_name, 10.0, 5.0, 0.0, np.inf), np.ones(D)),
        DirectTask(TeachingProblem(loss_name, 0.1, 0.0, 0.0, 0.5), -np.ones(D)),
    ]
    together = federate(data, 2)
    solutions = solve(together, PREPARATION, tasks)
    rounds = []
    for task, solution in zip(tasks, solutions, strict=True):
        alone = federate(data, 2)
        np.testing.assert_allclose(solve(alone, PREPARATION, [task])[0].theta, solution.theta, rtol=1e-9, atol=1e-10)
        rounds.append(alone.rounds)
    assert together.rounds == max(rounds)


def test_agents_of_weight_zero_are_absent_and_others_count_as_much_as_they_do():
    data = random_data("squared", n=90, d=D, m=6, seed=5)
    parts = [slice(0, 30), slice(30, 60), slice(60, 90)]
    agents = [
        Agent(
            "abc"[k],
            ArrayRows(data.features[s], data.targets[s], *data.trusted)
            if k == 0
            else ArrayRows(data.features[s], data.targets[s]),
        )
        for k, s in enumerate(parts)
    ]
    problem = TeachingProblem("squared", 1.0, 2.0, 0.0, 4.0)
    weights = np.array([1.0, 0.25, 0.0])
    (found,) = solve(LocalFederation(agents, threads=1), PREPARATION, [DirectTask(problem, ZERO, weights=weights)])

    def weighted(theta):
        row = np.repeat(weights, 30)
        trusted = 2.0 * losses(problem, *data.trusted, theta).sum()
        return row @ repaired_losses(problem, data, theta) + 2.0 * trusted + 0.5 * theta @ theta

    np.testing.assert_allclose(found.theta, minimize(weighted, ZERO, tol=1e-12).x, atol=1e-6)
    assert found.sums.rows == pytest.approx(37.5)
    (some,) = solve(
        LocalFederation(agents, threads=1), PREPARATION, [DirectTask(problem, ZERO, weights=weights, fraction=0.5)]
    )
    value = losses(problem, *data.buggy, some.keep_model)
    assert some.sums.rows == pytest.approx(np.repeat(weights, 30) @ (value < some.keep_threshold))
    assert 18.0 <= some.sums.rows < 20.0


@pytest.mark.parametrize("loss_name", LOSSES)
def test_a_held_out_fold_and_a_part_of_the_rows(loss_name):
    data = random_data(loss_name, n=64, d=D, m=30, seed=6)
    problem = TeachingProblem(loss_name, 1.0, 5.0, 0.0, 3.0)
    folds = fold_of(*data.trusted, 3)
    rest = Data(*data.buggy, data.trusted_features[folds != 1], data.trusted_targets[folds != 1])
    (found,) = solve(federate(data, 2), PREPARATION, [DirectTask(problem, ZERO, held_out=1)], n_folds=3)
    (expected,) = solve(federate(rest, 1), PREPARATION, [DirectTask(problem, ZERO)])
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-8, atol=1e-8)
    # every fourth row, four times
    agent = Agent("one", ArrayRows(*data.buggy, *data.trusted))
    (part,) = solve(LocalFederation([agent]), PREPARATION, [DirectTask(problem, ZERO)], thin=4)
    repeated = Data(np.repeat(data.features[::4], 4, axis=0), np.repeat(data.targets[::4], 4), *data.trusted)
    (expected,) = solve(federate(repeated), PREPARATION, [DirectTask(problem, ZERO)])
    np.testing.assert_allclose(part.theta, expected.theta, rtol=1e-7, atol=1e-7)


def test_half_of_the_targets_negated_is_no_match_for_a_few_trusted_rows():
    data = random_data("squared", n=2000, d=8, m=12, seed=7, noise=0.3, bugs=0.5)
    model = np.linalg.lstsq(*random_data("squared", n=4000, d=8, m=0, seed=7, noise=0.3, bugs=0.0).buggy)[0]
    problem = TeachingProblem("squared", 1.0, 10.0, 0.0, 100.0)
    found = teach(federate(data, 5), Preparation.identity(8), problem, fraction=0.5)
    assert np.linalg.norm(found.theta - model) < 0.1 * np.linalg.norm(model)


def test_no_trusted_rows_and_no_single_agents():
    data = random_data("squared", n=40, d=D, m=0, seed=8)
    found = teach(federate(data, 3), PREPARATION, TeachingProblem("squared", 1.0, 1.0, 0.0, 5.0), single_agents=False)
    assert {solution.name for solution in found.solutions} == {"unverified rows alone", "dual teaching"}


@pytest.mark.parametrize("weights", [np.ones((1, 3)), np.array([[1.5, 0.0]])])
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(ProtocolError, match="from 0 to 1 per model and agent"):
        DirectSums(
            loss_name="squared",
            preparation=PREPARATION,
            theta=ZERO[None],
            lambda_z=np.ones(1),
            agents=("a", "b"),
            weights=weights,
        )


@pytest.mark.parametrize("loss_name", LOSSES)
def test_many_rows_race_on_a_part_and_take_few_exchanges(loss_name, monkeypatch):
    data = random_data(loss_name, n=4000, d=D, m=20, seed=9, bugs=0.2)
    problem = TeachingProblem(loss_name, 4.0, 5.0, 0.0, 50.0)
    everything = teach(federate(data, 3), PREPARATION, problem, fraction=0.8)
    monkeypatch.setattr("comt.server.direct.SAMPLE", 500)
    federation = federate(data, 3)
    found = teach(federation, PREPARATION, problem, fraction=0.8, n_rows=4000)
    assert federation.rounds <= 50
    assert found.best.certificate <= 1e-8
    assert found.best.sums.rows == 3200
    assert found.best.selection_gap < 1e-4
    assert found.best.value == pytest.approx(everything.best.value, rel=1e-4)
    assert len(found.solutions) < len(everything.solutions)
