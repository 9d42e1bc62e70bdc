"""Direct teaching at fixed rows: against scipy on the joint objective, finite differences and total least squares."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from comt.losses import get_loss
from comt.optimize import primal
from comt.optimize.points import Points, drive
from comt.problem import TeachingProblem, direct_gradient, direct_hessian, direct_value
from comt.rows import betas, sums_at
from teaching import LOSSES, random_data


def direct_problem(loss_name, lambda_w=1.0, lambda_trusted=2.0, lambda_z=3.0, **kwargs):
    return TeachingProblem(loss_name, lambda_w, lambda_trusted, 0.0, lambda_z, repair=True, **kwargs)


def solve_here(problem, data, start):
    asked = []

    def answer(points: Points):
        asked.append(len(points.theta))
        return [sums_at(problem, data.buggy, data.trusted, theta, theta) for theta in points.theta]

    return drive(primal.solve(problem, start), answer), len(asked)


def joint_objective(problem, data):
    """The objective of method page section 5 over θ and all β, b = 1: the definition, without any elimination."""
    n, p = data.features.shape
    free = p - problem.intercept

    def value(unknowns):
        theta, beta = unknowns[:p], np.zeros((n, p))
        beta[:, :free] = unknowns[p:].reshape(n, free)
        loss = problem.loss.value((data.features + beta) @ theta, data.targets).sum()
        trusted = problem.loss.trusted_factor * problem.loss.value(data.trusted_features @ theta, data.trusted_targets)
        return (
            loss
            + problem.lambda_z * (beta**2).sum()
            + problem.lambda_trusted * trusted.sum()
            + 0.5 * problem.lambda_w * theta @ theta
        )

    return value


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("q", [0.01, 1.0, 50.0, 1e4])
def test_a_repaired_row_has_the_envelope_of_its_loss(loss_name, q):
    loss = get_loss(loss_name)
    scores, targets = np.linspace(-30.0, 60.0, 46), np.where(np.arange(46) % 2, 1.0, -1.0)
    alpha, phi, weight = loss.dual(scores.copy(), targets, 0.0, -q)
    for i, (z, y) in enumerate(zip(scores, targets, strict=True)):
        moved = minimize_scalar(
            lambda u, z=z, y=y: float(loss.value(np.array([z + u]), np.array([y]))[0]) + u * u / (2 * q),
            bounds=(-200.0, 200.0),
            options={"xatol": 1e-10},
        )
        assert phi[i] == pytest.approx(moved.fun, rel=1e-6, abs=1e-9)
    up, down = (loss.dual(scores + move, targets, 0.0, -q) for move in (1e-4, -1e-4))
    np.testing.assert_allclose(-alpha * loss.signs(targets), (up[1] - down[1]) / 2e-4, rtol=1e-5, atol=1e-9)
    assert (np.asarray(weight) > 0).all()


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize(("lambda_z", "constant"), [(20.0, 0.0), (0.5, 0.0), (1.0, 2.0)])
def test_equals_a_joint_minimisation_over_model_and_repairs(loss_name, lambda_z, constant):
    data = random_data(loss_name, n=10, d=2, m=5, seed=1, constant=constant)
    problem = direct_problem(loss_name, lambda_z=lambda_z, intercept=constant > 0)
    p = data.features.shape[1]
    found, _ = solve_here(problem, data, np.zeros(p))
    assert found.certificate <= 1e-8
    value = joint_objective(problem, data)
    repairs = betas(problem, *data.buggy, found.theta)
    if constant:
        np.testing.assert_array_equal(repairs[:, -1], 0.0)
        repairs = repairs[:, :-1]
    here = np.concatenate([found.theta, repairs.ravel()])
    assert value(here) == pytest.approx(found.value, rel=1e-10)
    joint = minimize(value, here + 0.05 * np.random.default_rng(0).normal(size=here.size), method="BFGS", tol=1e-9)
    assert joint.fun == pytest.approx(found.value, rel=1e-7)
    np.testing.assert_allclose(joint.x[:p], found.theta, atol=1e-4)
    np.testing.assert_allclose(joint.x[p:], repairs.ravel(), atol=1e-4)


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("lambda_z", [0.05, 2.0, np.inf])
def test_derivatives_equal_finite_differences(loss_name, lambda_z):
    data = random_data(loss_name, n=30, d=3, m=6, seed=2, constant=1.5)
    problem = direct_problem(loss_name, lambda_z=lambda_z, intercept=True)
    theta = np.array([0.7, -0.4, 1.1, 0.3])

    def at(point):
        sums = sums_at(problem, data.buggy, data.trusted, point, point)
        return direct_value(problem, point, sums), direct_gradient(problem, point, sums), sums

    _, gradient, sums = at(theta)
    hessian = direct_hessian(problem, theta, sums)
    for i, move in enumerate(1e-5 * np.eye(4)):
        up, down = at(theta + move), at(theta - move)
        assert gradient[i] == pytest.approx((up[0] - down[0]) / 2e-5, rel=1e-6, abs=1e-7)
        np.testing.assert_allclose(hessian[i], (up[1] - down[1]) / 2e-5, rtol=1e-5, atol=1e-5)


def test_without_trusted_rows_it_is_total_least_squares():
    data = random_data("squared", n=200, d=3, m=0, seed=3, bugs=0.0)
    found, exchanges = solve_here(direct_problem("squared", 1e-9, 0.0, 0.5), data, np.zeros(3))
    smallest = np.linalg.svd(np.column_stack([data.features, data.targets]))[2][-1]
    np.testing.assert_allclose(found.theta, -smallest[:3] / smallest[3], rtol=1e-7)
    assert exchanges == 1  # second moments say it all


@pytest.mark.parametrize("loss_name", LOSSES)
def test_repairs_at_an_infinite_price_are_the_plain_weighted_fit(loss_name):
    data = random_data(loss_name, n=60, d=3, m=8, seed=4)
    problem = direct_problem(loss_name, lambda_z=np.inf)
    found, _ = solve_here(problem, data, np.zeros(3))

    def plain(theta):
        loss = problem.loss
        own, trusted = (
            loss.value(data.features @ theta, data.targets),
            loss.value(data.trusted_features @ theta, data.trusted_targets),
        )
        return own.sum() + 2.0 * loss.trusted_factor * trusted.sum() + 0.5 * theta @ theta

    np.testing.assert_allclose(minimize(plain, np.zeros(3), tol=1e-12).x, found.theta, atol=1e-5)


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("seed", range(6))
def test_every_start_descends_and_ends_at_a_certificate(loss_name, seed):
    rng = np.random.default_rng(seed)
    data = random_data(loss_name, n=50, d=4, m=6, seed=seed, condition=10.0 ** (seed % 4), bugs=0.5)
    problem = direct_problem(
        loss_name, 10.0 ** rng.uniform(-3, 2), 10.0 ** rng.uniform(-2, 3), 10.0 ** rng.uniform(-2, 2)
    )
    start = 3.0 * rng.normal(size=4)
    found, _ = solve_here(problem, data, start)
    first = direct_value(problem, start, sums_at(problem, data.buggy, data.trusted, start, start))
    assert found.certificate <= 1e-8
    assert found.values[0] == pytest.approx(first)
    assert (np.diff(found.values) <= 0).all()
    assert (
        np.linalg.eigvalsh(direct_hessian(problem, found.theta, found.sums))[0] > -1e-6 * found.sums.size_sq
    )  # a minimum
