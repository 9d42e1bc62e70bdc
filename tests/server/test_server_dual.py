"""Many problems side by side over a federation: the same solutions as alone, pooled, or dealt out otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comt.agent.folds import fold_of
from comt.errors import CraftingError
from comt.preparation import Preparation
from comt.problem import TeachingProblem
from comt.rows import losses
from comt.server.dual import Task, solve
from teaching import LOSSES, Data, federate, random_data, solve_pooled

D = 4
PREPARATION = Preparation.identity(D)
ZERO = np.zeros(D)


def problems(loss_name):
    return [
        TeachingProblem(loss_name, 1.0, 2.0),
        TeachingProblem(loss_name, 10.0, 1.0, 0.3),
        TeachingProblem(loss_name, 0.5, 100.0, 0.1, 20.0),
        TeachingProblem(loss_name, 2.0, 0.0, 0.0, 5.0),
        TeachingProblem(loss_name, 100.0, 1e3, 1.0),
    ]


def run(federation, tasks, **kwargs):
    return solve(federation, PREPARATION, tasks, tol=1e-8, max_rounds=100, **kwargs)


@pytest.mark.parametrize("loss_name", LOSSES)
def test_a_batch_equals_its_members(loss_name):
    data = random_data(loss_name, n=150, d=D, m=12, seed=3)
    tasks = [Task(problem, ZERO, ZERO) for problem in problems(loss_name)]
    together = federate(data, 3)
    solutions = run(together, tasks)
    exchanges = []
    for task, solution in zip(tasks, solutions, strict=True):
        alone = federate(data, 3)
        (single,) = run(alone, [task])
        np.testing.assert_allclose(solution.theta, single.theta, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(solution.r, single.r, rtol=1e-9, atol=1e-10)
        assert solution.certificate <= 1e-8
        exchanges.append(alone.rounds)
        pooled, pooled_exchanges = solve_pooled(task.problem, data)
        np.testing.assert_allclose(solution.theta, pooled.theta, rtol=1e-8, atol=1e-8)
        assert pooled_exchanges == alone.rounds
    assert together.rounds == max(exchanges)
    assert len(set(exchanges)) > 1  # they end at different times


@pytest.mark.parametrize("loss_name", LOSSES)
@settings(max_examples=12)
@given(n_agents=st.sampled_from([1, 5, 9]), seed=st.integers(0, 1000))
def test_the_partition_does_not_matter(loss_name, n_agents, seed):
    data = random_data(loss_name, n=80, d=D, m=10, seed=seed % 7)
    chosen = problems(loss_name)[1:3]
    found = run(federate(data, n_agents, seed=seed), [Task(problem, ZERO, ZERO) for problem in chosen])
    for problem, solution in zip(chosen, found, strict=True):
        pooled, _ = solve_pooled(problem, data)
        np.testing.assert_allclose(solution.theta, pooled.theta, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(solution.r, pooled.r, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("loss_name", LOSSES)
def test_a_held_out_fold_is_as_if_its_rows_were_absent(loss_name):
    data = random_data(loss_name, n=100, d=D, m=30, seed=5)
    problem = TeachingProblem(loss_name, 1.0, 5.0, 0.1)
    folds = fold_of(*data.trusted, 3)
    assert set(folds) == {0, 1, 2}
    solutions = run(federate(data, 4), [Task(problem, ZERO, ZERO, held_out=k) for k in (-1, 0, 1, 2)], n_folds=3)
    for k, solution in zip((-1, 0, 1, 2), solutions, strict=True):
        rest = Data(*data.buggy, data.trusted_features[folds != k], data.trusted_targets[folds != k])
        np.testing.assert_allclose(solution.theta, solve_pooled(problem, rest)[0].theta, rtol=1e-8, atol=1e-8)
        assert solution.sums.trusted_rows == (folds != k).sum()
    thetas = [tuple(np.round(solution.theta, 4)) for solution in solutions]
    assert len(set(thetas)) == 4


@pytest.mark.parametrize("loss_name", LOSSES)
def test_rows_of_large_loss_can_be_left_out(loss_name):
    data = random_data(loss_name, n=100, d=D, m=10, seed=6)
    problem = TeachingProblem(loss_name, 1.0, 1.0)
    model = np.array([0.5, -0.5, 1.0, 0.0])
    value = losses(problem, *data.buggy, model)
    threshold = float(np.quantile(value, 0.7))
    tasks = [Task(problem, ZERO, ZERO), Task(problem, ZERO, ZERO, keep_model=model, keep_threshold=threshold)]
    everything, some = run(federate(data, 3), tasks)
    assert everything.sums.rows == 100
    kept = value < threshold
    rest = Data(data.features[kept], data.targets[kept], *data.trusted)
    np.testing.assert_allclose(some.theta, solve_pooled(problem, rest)[0].theta, rtol=1e-7, atol=1e-7)
    assert some.sums.rows == kept.sum() == 70
    np.testing.assert_allclose(everything.theta, solve_pooled(problem, data)[0].theta, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("loss_name", LOSSES)
def test_preparation_is_applied_by_the_agents(loss_name):
    data = random_data(loss_name, n=100, d=2, m=10, seed=7)
    preparation = Preparation(np.array([0.5, -1.0]), np.array([2.0, 0.25]), constant=10.0)
    problem = TeachingProblem(loss_name, 1.0, 1.0, 0.1, 20.0, intercept=True)
    zero = np.zeros(3)
    (found,) = solve(federate(data, 3), preparation, [Task(problem, zero, zero)], tol=1e-8, max_rounds=100)

    def by_hand(raw):
        return np.column_stack([(raw[:, 0] - 0.5) / 2, (raw[:, 1] + 1) / 0.25, np.full(len(raw), 10.0)])

    pooled = Data(by_hand(data.features), data.targets, by_hand(data.trusted_features), data.trusted_targets)
    np.testing.assert_allclose(found.theta, solve_pooled(problem, pooled)[0].theta, rtol=1e-8, atol=1e-8)


def test_an_impossible_problem_of_a_batch_is_an_error():
    data = random_data("logistic", n=40, d=D, m=30, seed=1, noise=0.1, bugs=0.0)
    data = Data(data.features, -data.targets, *data.trusted)
    uncrafted = solve_pooled(TeachingProblem("logistic", 1.0, 1000.0), data)[0].r
    good = TeachingProblem("logistic")
    bad = TeachingProblem("logistic", 1.0, 1000.0, lambda_z=(uncrafted @ uncrafted) / 200)
    with pytest.raises(CraftingError, match="increase lambda_z"):
        run(federate(data, 2), [Task(good, ZERO, ZERO), Task(bad, ZERO, ZERO)])


@pytest.mark.parametrize("loss_name", LOSSES)
def test_the_training_can_be_watched(loss_name):
    data = random_data(loss_name, n=60, d=D, m=10, seed=1)
    seen = []
    (solution,) = run(
        federate(data), [Task(TeachingProblem(loss_name, lambda_alpha=0.2), ZERO, ZERO)], watch=seen.append
    )
    assert seen[-1] == solution.history[-1]
    assert seen[-1]["certificate"] == solution.certificate
