from __future__ import annotations

import numpy as np
import pytest
from simulated_agents import simulate

from comt.baselines import cocoa as module
from comt.baselines.base import pooled
from comt.baselines.buggy_only import BuggyOnly
from comt.baselines.cocoa import CoCoA, cocoa, conjugate
from comt.baselines.linear import fit_exact, loss, loss_slope
from comt.errors import InputError

TASKS = ["regression", "classification"]
LAMBDA = 3.0


@pytest.fixture
def federation(request):
    task = request.param
    agents, _ = simulate(task, sizes=(40,) * 5, trusted=(0,) * 5, n_features=6, flips=0.1)
    features, targets, _, _ = pooled(agents)
    rows = [(agent.features, agent.targets) for agent in agents]
    return rows, task, fit_exact(features, targets, task, LAMBDA)


@pytest.mark.parametrize("federation", TASKS, indirect=True)
@pytest.mark.parametrize(("gamma", "sigma"), [(0.2, 1.0), (1.0, 5.0)], ids=["averaging", "adding"])
def test_averaging_and_adding_converge_monotonically(federation, gamma, sigma):
    rows, task, exact = federation
    run = cocoa(rows, task, LAMBDA, gamma=gamma, sigma=sigma, n_rounds=400, tolerance=1e-15)
    assert np.linalg.norm(run.coef - exact) < 1e-2
    assert (np.diff(run.dual_values) <= 1e-9).all()
    gaps = np.array(run.gaps)
    assert (gaps >= -1e-9).all()
    assert gaps[-1] < 1e-2 * gaps[0]


@pytest.mark.parametrize("federation", ["regression"], indirect=True)
@pytest.mark.parametrize(("gamma", "sigma"), [(0.2, 1.0), (1.0, 5.0)], ids=["averaging", "adding"])
def test_rounds_on_sums_are_the_rounds_on_rows(federation, gamma, sigma, monkeypatch):
    rows, task, _ = federation
    short = cocoa(rows, task, LAMBDA, gamma=gamma, sigma=sigma, n_rounds=30)
    monkeypatch.setattr(module, "_same_sums", lambda features, targets: (features, targets))
    long = cocoa(rows, task, LAMBDA, gamma=gamma, sigma=sigma, n_rounds=30)
    np.testing.assert_allclose(short.coef, long.coef, rtol=1e-10)
    np.testing.assert_allclose(short.dual_values, long.dual_values, rtol=1e-10)
    np.testing.assert_allclose(short.gaps, long.gaps, rtol=1e-6)


def test_adding_reaches_the_ridge_solution():
    agents, _ = simulate("regression", sizes=(40,) * 5, trusted=(0,) * 5, n_features=6)
    model = CoCoA(lambda_w=LAMBDA, n_rounds=3000, tolerance=1e-12).fit(agents, "regression")
    assert model.found["converged"]
    np.testing.assert_allclose(model.coef, BuggyOnly(lambda_w=LAMBDA).fit(agents, "regression").coef, atol=1e-5)


@pytest.mark.parametrize("federation", ["regression"], indirect=True)
def test_adding_without_a_larger_sigma_diverges(federation):
    rows, task, exact = federation
    run = cocoa(rows, task, LAMBDA, gamma=1.0, sigma=1.0, n_rounds=40)
    assert not run.converged
    assert np.linalg.norm(run.coef - exact) > 1e4 * np.linalg.norm(exact)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("combine", ["add", "average"])
def test_one_agent_is_done_in_one_round(task, combine):
    agents, _ = simulate(task)
    model = CoCoA(combine=combine, tolerance=1e-9).fit(agents[:1], task)
    assert model.found["rounds"] == 1
    np.testing.assert_allclose(model.coef, BuggyOnly().fit(agents[:1], task).coef, atol=1e-9)


@pytest.mark.parametrize("federation", TASKS, indirect=True)
def test_strong_duality(federation):
    rows, task, exact = federation
    features = np.concatenate([x for x, _ in rows])
    targets = np.concatenate([y for _, y in rows])
    scores = features @ exact
    dual = -loss_slope(scores, targets, task)
    np.testing.assert_allclose(features.T @ dual / LAMBDA, exact, atol=1e-9)
    primal = loss(scores, targets, task).sum() + LAMBDA / 2 * exact @ exact
    dual_value = conjugate(dual, targets, task) + LAMBDA / 2 * exact @ exact
    assert abs(primal + dual_value) < 1e-9


@pytest.mark.parametrize("task", TASKS)
def test_gap_bounds_the_suboptimality_and_stops_the_run(task):
    agents, _ = simulate(task)
    features, targets = (np.concatenate(pooled(agents)[i::2]) for i in (0, 1))
    model = CoCoA(lambda_w=10.0, tolerance=1e-3).fit(agents, task)
    exact = BuggyOnly(lambda_w=10.0).fit(agents, task)

    def primal(coef):
        return loss(features @ coef, targets, task).sum() + 5.0 * coef @ coef

    assert model.found["converged"]
    assert 0 <= primal(model.coef) - primal(exact.coef) <= model.found["gap"] <= 1e-3 * primal(model.coef)


def test_a_spent_budget_is_told():
    agents, _ = simulate("regression", bad_agents=(1,))
    found = CoCoA(n_rounds=3).fit(agents, "regression").found
    assert found["rounds"] == 3
    assert not found["converged"]
    assert found["gap"] > 0


def test_settings_are_refused_with_a_sentence():
    with pytest.raises(InputError, match="combine='multiply' must be 'add' or 'average'"):
        CoCoA(combine="multiply")
