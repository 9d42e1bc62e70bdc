from __future__ import annotations

import numpy as np
import pytest
from simulated_agents import simulate

from comt.baselines.base import pooled
from comt.baselines.buggy_only import BuggyOnly
from comt.baselines.centered_clipping import CenteredClipping
from comt.baselines.coordinate_median import CoordinateMedian
from comt.baselines.fedavg import FedAvg
from comt.baselines.fedprox import FedProx
from comt.baselines.fltrust import FLTrust
from comt.baselines.geometric_median import GeometricMedian
from comt.baselines.krum import Krum, MultiKrum
from comt.baselines.linear import loss_gradient
from comt.baselines.rounds import BoostedUpdate, LocalObjective, safe_step
from comt.baselines.trimmed_mean import TrimmedMean
from comt.errors import ConvergenceError, InputError

TASKS = ["regression", "classification"]
DEFENCES = [
    CoordinateMedian,
    TrimmedMean,
    Krum,
    MultiKrum,
    GeometricMedian,
    CenteredClipping,
    FLTrust,
]


@pytest.mark.parametrize("task", TASKS)
def test_fedavg_with_one_local_step_is_gradient_descent_on_the_pooled_rows(task):
    agents, _ = simulate(task)
    features, targets, _, _ = pooled(agents)
    settings = FedAvg(local_steps=1, n_rounds=7, use_trusted="ignore", lambda_w=3.0, step=0.2)
    coef = np.zeros(4)
    for _ in range(7):
        whole = loss_gradient(features, targets, coef, task) + 3.0 * coef
        coef = coef - 0.2 * whole / len(targets)
    np.testing.assert_allclose(settings.fit(agents, task).coef, coef, rtol=1e-12)


@pytest.mark.parametrize("task", TASKS)
def test_fedavg_with_one_local_step_reaches_the_exact_fit(task):
    agents, _ = simulate(task, flips=0.1)
    model = FedAvg(local_steps=1, n_rounds=2000).fit(agents, task)
    np.testing.assert_allclose(model.coef, BuggyOnly().fit(agents, task).coef, atol=1e-9)
    assert model.found["update_norm"] < 1e-9


def test_one_agent_alone_takes_rounds_times_steps():
    agents, _ = simulate("classification")
    few = FedAvg(local_steps=5, n_rounds=4).fit(agents[:1], "classification")
    many = FedAvg(local_steps=1, n_rounds=20).fit(agents[:1], "classification")
    np.testing.assert_allclose(few.coef, many.coef, rtol=1e-12)


def test_fedavg_with_many_local_steps_and_unlike_agents_misses_the_pooled_optimum():
    agents, _ = simulate("regression", bad_agents=(1,), sizes=(60, 6, 40))
    exact = BuggyOnly().fit(agents, "regression").coef
    drifted = FedAvg(local_steps=20, n_rounds=300).fit(agents, "regression").coef
    held = FedProx(local_steps=20, n_rounds=600, mu=30.0).fit(agents, "regression").coef
    assert np.linalg.norm(drifted - exact) > 1e-2
    # the proximal term holds agents back, and so lets them drift apart less
    assert np.linalg.norm(held - exact) < 0.2 * np.linalg.norm(drifted - exact)


@pytest.mark.parametrize("task", TASKS)
def test_fedprox_without_its_term_is_fedavg(task):
    agents, _ = simulate(task)
    np.testing.assert_array_equal(
        FedProx(mu=0.0, n_rounds=20).fit(agents, task).coef, FedAvg(n_rounds=20).fit(agents, task).coef
    )
    assert np.linalg.norm(FedProx(mu=1.0, n_rounds=3).fit(agents, task).coef) < np.linalg.norm(
        FedAvg(n_rounds=3).fit(agents, task).coef
    )


def test_many_proximal_steps_solve_the_local_problem():
    agents, _ = simulate("regression")
    x, y = agents[0].features, agents[0].targets
    objective = LocalObjective(x, y, "regression", decay=0.05)
    start, mu = np.array([1.0, -1.0, 4.0, 0.0]), 0.7
    step = safe_step([objective], mu)
    local = start - step * objective.update(start, step, 500, mu)
    n = len(y)
    expected = np.linalg.solve(x.T @ x / n + (0.05 + mu) * np.eye(4), x.T @ y / n + mu * start)
    np.testing.assert_allclose(local, expected, rtol=1e-10)


@pytest.mark.parametrize("task", TASKS)
def test_lipschitz_constant_bounds_the_gradients(task):
    agents, _ = simulate(task)
    objective = LocalObjective(agents[0].features, agents[0].targets, task, decay=0.1)
    u, v = np.random.default_rng(2).normal(size=(2, 200, 4))
    gaps = [np.linalg.norm(objective.gradient(a) - objective.gradient(b)) for a, b in zip(u, v, strict=True)]
    ratios = np.array(gaps) / np.linalg.norm(u - v, axis=1)
    assert ratios.max() <= objective.lipschitz() * (1 + 1e-12)


# two of seven agents negate their targets, and one of them boosts: a third of the rows
ATTACKED = {
    "sizes": (400, 300, 500, 200, 350, 600, 250),
    "trusted": (30, 20, 0, 30, 20, 20, 30),
    "bad_agents": (1, 4),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("defence", DEFENCES)
def test_defence_is_active_under_attack(defence, task):
    attacked, _ = simulate(task, **ATTACKED)
    clean, _ = simulate(task, **{**ATTACKED, "bad_agents": ()})
    goal = BuggyOnly().fit(clean, task).coef
    attack = BoostedUpdate(agent=1, factor=3.0)
    mean = FedAvg(local_steps=1, attack=attack).fit(attacked, task).coef
    defended = defence(attack=attack).fit(attacked, task).coef
    assert np.linalg.norm(defended - mean) > 0.1
    assert np.linalg.norm(defended - goal) < 0.5 * np.linalg.norm(mean - goal)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("defence", DEFENCES)
def test_defence_stays_near_the_clean_model_without_attack(defence, task):
    clean, _ = simulate(task, **{**ATTACKED, "bad_agents": ()})
    goal = BuggyOnly().fit(clean, task).coef
    model = defence().fit(clean, task)
    assert np.linalg.norm(model.coef - goal) < 0.25 * np.linalg.norm(goal)


def test_a_boost_as_strong_as_the_number_of_agents_takes_over_the_mean():
    agents, truth = simulate("regression", sizes=(100,) * 5, trusted=(0,) * 5, bad_agents=(0,))
    plain = FedAvg(local_steps=1).fit(agents, "regression").coef
    boosted = FedAvg(local_steps=1, attack=BoostedUpdate(0, 5.0)).fit(agents, "regression").coef
    assert plain @ truth > 0 > boosted @ truth


def test_fltrust_gives_no_trust_to_agents_that_negate():
    attacked, _ = simulate("regression", **ATTACKED)
    scores = FLTrust(n_rounds=1, step=1e-6).fit(attacked, "regression").found["trust"]
    assert (scores[[1, 4]] == 0).all()
    assert (scores[[0, 2, 3, 5, 6]] > 0.5).all()


def test_divergence_is_an_error_not_a_number():
    agents, _ = simulate("regression")
    with pytest.raises(ConvergenceError, match="smaller step"):
        FedAvg(local_steps=1, attack=BoostedUpdate(0, 1e6)).fit(agents, "regression")


def test_settings_are_refused_with_a_sentence():
    agents, _ = simulate("regression")
    with pytest.raises(InputError, match=r"mu=-1.0"):
        FedProx(mu=-1.0)
    with pytest.raises(InputError, match=r"n_rounds=0"):
        FedAvg(n_rounds=0)
    with pytest.raises(InputError, match=r"step=-0.1"):
        FedAvg(step=-0.1)
    with pytest.raises(InputError, match=r"radius=0"):
        CenteredClipping(radius=0.0)
    with pytest.raises(InputError, match=r"n_bad=1 must lie between 0 and 0 for 3 agents"):
        Krum(n_bad=1).fit(agents, "regression")
    with pytest.raises(InputError, match=r"0 trusted rows"):
        FLTrust().fit([agents[1]], "regression")
