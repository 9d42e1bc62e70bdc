from __future__ import annotations

import numpy as np
import pytest

from comt import rows
from comt.bench import literal_algorithm1 as literal
from comt.optimize import frozen
from comt.optimize.points import drive
from comt.problem import TeachingProblem


def exact_solution(agents, parameters):
    x, y, trusted_x, trusted_y = (np.concatenate(parts) for parts in zip(*agents, strict=True))
    problem = TeachingProblem("squared", parameters.lambda_w, parameters.lambda_trusted)

    def answer(points):
        return [
            rows.sums_at(problem, (x, y), (trusted_x, trusted_y), r, theta, points.curvature)
            for r, theta in zip(points.r, points.theta, strict=True)
        ]

    return drive(frozen.solve(problem, np.zeros(x.shape[1])), answer)


@pytest.mark.parametrize("lambda_w", [1.0, 10.0, 100.0])
def test_the_printed_loop_diverges_where_the_exact_solution_is_bounded(lambda_w):
    parameters = literal.Parameters(lambda_w=lambda_w)
    sizes = literal.norms(100, parameters)
    assert sizes.max() > 1e6
    solution = exact_solution(literal.example(), parameters)
    assert solution.certificate < 1e-8
    assert np.linalg.norm(solution.theta) < 10


def test_divergence_does_not_hang_on_one_seed():
    assert all(literal.norms(100, seed=seed).max() > 1e6 for seed in range(5))


def test_with_both_repairs_the_same_loop_reaches_the_exact_solution():
    parameters = literal.Parameters(lambda_w=100.0)
    agents = literal.example()
    path = literal.run(agents, parameters, 1000, others_fixed=True, summed_trusted=True)
    np.testing.assert_allclose(path[-1], exact_solution(agents, parameters).theta, rtol=1e-9, atol=1e-12)


def test_one_agent_has_no_others_and_needs_no_repair():
    parameters = literal.Parameters(lambda_w=100.0)
    agents = literal.example(n_agents=1)
    printed = literal.run(agents, parameters, 500)
    repaired = literal.run(agents, parameters, 500, others_fixed=True, summed_trusted=True)
    np.testing.assert_allclose(printed[-1], repaired[-1], rtol=1e-12)
    np.testing.assert_allclose(printed[-1], exact_solution(agents, parameters).theta, rtol=1e-6)


def test_the_agents_step_minimises_what_is_printed():
    """The first round against a generic minimiser of the printed expression."""
    from scipy.optimize import minimize

    ((x, y, *_),) = agents = literal.example(n_rows=20, n_features=3, n_agents=1, n_trusted=5)
    lambda_w, rho = 2.0, 3.0

    def printed(alpha):
        tau = x.T @ alpha / lambda_w
        return 0.5 * lambda_w * tau @ tau + 0.5 * alpha @ alpha - alpha @ y + 0.5 * rho * tau @ tau

    best = minimize(printed, np.zeros(len(y)), method="BFGS", options={"gtol": 1e-9, "maxiter": 1000}).x
    path = literal.run(agents, literal.Parameters(lambda_w=lambda_w, rho=rho), 1)
    np.testing.assert_allclose(path[0], x.T @ best / lambda_w, rtol=1e-5)
