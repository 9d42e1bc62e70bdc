"""Parameters, derivatives of Σφ, residuals and the certificate, each recomputed from the rows by its formula."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from comt.errors import InputError
from comt.problem import (
    ROUNDING,
    ObjectiveTerms,
    TeachingProblem,
    certificate,
    residuals,
    row_gradient,
    row_hessian,
    saddle_value,
)
from comt.rows import buggy_sums, sums_at
from teaching import LOSSES, is_one_sentence, random_data

NOT_POSITIVE = [0.0, -1.0, np.nan, "1", None, True, -np.inf]
NOT_FROM_ZERO = [-1e-9, np.nan, np.inf, "1", None, True]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("lambda_w", value) for value in [*NOT_POSITIVE, np.inf]),
        *(("lambda_z", value) for value in NOT_POSITIVE),
        *(("lambda_trusted", value) for value in NOT_FROM_ZERO),
        *(("lambda_alpha", value) for value in NOT_FROM_ZERO),
    ],
)
def test_bad_lambdas_are_refused_in_one_sentence(name, value):
    with pytest.raises(InputError) as caught:
        TeachingProblem("squared", **{name: value})
    assert isinstance(caught.value, ValueError)
    assert is_one_sentence(caught.value)
    assert f"{name}={value!r}" in str(caught.value)


@pytest.mark.parametrize("value", [1, 0.5, np.float64(2.0), np.int64(3)])
def test_numbers_of_any_kind_are_accepted(value):
    problem = TeachingProblem("squared", lambda_w=value, lambda_z=value, lambda_alpha=value, lambda_trusted=value)
    assert problem.lambda_w == value


def test_zero_and_infinity_where_they_mean_something():
    problem = TeachingProblem("logistic", lambda_trusted=0.0, lambda_alpha=0.0, lambda_z=np.inf)
    assert problem.coupling(np.array([3.0, 4.0])) == 0.0


def test_coupling_and_direction_do_not_see_the_intercept():
    r = np.array([3.0, 4.0, 100.0])
    with_intercept = TeachingProblem("squared", lambda_z=5.0, intercept=True)
    assert with_intercept.coupling(r) == pytest.approx(25 / 10)
    np.testing.assert_allclose(with_intercept.crafting_direction(r), [-0.3, -0.4, 0.0])
    without = TeachingProblem("squared", lambda_z=5.0)
    assert without.coupling(r) == pytest.approx(10025 / 10)
    np.testing.assert_allclose(without.crafting_direction(r), [-0.3, -0.4, -10.0])
    np.testing.assert_array_equal(r, [3.0, 4.0, 100.0])  # not changed in place
    np.testing.assert_array_equal(with_intercept.crafted(np.ones((2, 3))), [[1, 1, 0], [1, 1, 0]])


def cases():
    for loss_name in LOSSES:
        for lambda_z in (np.inf, 2.0):
            for intercept in (False, True):
                for lambda_alpha in (0.0, 0.3):
                    yield TeachingProblem(loss_name, 1.7, 2.5, lambda_alpha, lambda_z, intercept)


def point(problem, seed=3):
    """Rows and a pair (r, θ) with a coupling of about 0.4: well inside for either loss."""
    data = random_data(problem.loss_name, n=30, d=3, m=5, seed=seed, constant=10.0 if problem.intercept else 0.0)
    rng = np.random.default_rng(seed)
    r = rng.normal(size=data.features.shape[1])
    r *= np.sqrt(0.4 * 4.0) / np.linalg.norm(problem.crafted(r))
    if problem.intercept:
        r[-1] = 0.1
    return data, r, rng.normal(size=len(r))


@pytest.mark.parametrize("problem", list(cases()), ids=str)
def test_row_gradient_and_hessian_are_derivatives_of_phi(problem):
    data, r, _ = point(problem)

    def sums(at):
        return sums_at(problem, data.buggy, data.trusted, at, at)

    step = 1e-6
    basis = step * np.eye(len(r))
    gradient = [(sums(r + e).phi - sums(r - e).phi) / (2 * step) for e in basis]
    hessian = [
        (row_gradient(problem, r + e, sums(r + e)) - row_gradient(problem, r - e, sums(r - e))) / (2 * step)
        for e in basis
    ]
    here = sums(r)
    scale = np.abs(here.weight_xx).max()
    np.testing.assert_allclose(row_gradient(problem, r, here), gradient, rtol=1e-6, atol=1e-8 * scale)
    np.testing.assert_allclose(row_hessian(problem, r, here), hessian, rtol=1e-6, atol=1e-7 * scale)
    # φ is convex (method page, section 3)
    assert np.linalg.eigvalsh(row_hessian(problem, r, here)).min() > 0


@pytest.mark.parametrize("problem", list(cases()), ids=str)
def test_the_hessian_does_not_change_the_sums_it_is_made_of(problem):
    data, r, theta = point(problem)
    sums = sums_at(problem, data.buggy, data.trusted, r, theta)
    first = row_hessian(problem, r, sums)
    np.testing.assert_array_equal(row_hessian(problem, r, sums), first)


def independent(problem, data, r, theta):
    """α, Σ α s x, ‖α‖², ∇L̃ and L̃ by loops over rows, written from the method page alone."""
    seen = np.append(r[:-1], 0.0) if problem.intercept else r
    c = seen @ seen / (2 * problem.lambda_z)
    alpha, alpha_x = [], np.zeros_like(r)
    for x, y in zip(*data.buggy, strict=True):
        if problem.loss_name == "squared":
            error = y - x @ r
            a = np.sign(error) * max(abs(error) - problem.lambda_alpha, 0) / (1 - c)
            alpha_x += a * x
        else:
            a = 0.5
            for _ in range(3000):  # the fixed point, by plain iteration
                a = expit(-problem.lambda_alpha - y * (x @ r) + c * a)
            alpha_x += a * y * x
        alpha.append(a)
    slope, value = np.zeros_like(r), 0.0
    for x, y in zip(*data.trusted, strict=True):
        if problem.loss_name == "squared":
            slope += 2 * (x @ theta - y) * x
            value += (x @ theta - y) ** 2
        else:
            slope -= y * expit(-y * (x @ theta)) * x
            value += np.log1p(np.exp(-y * (x @ theta)))
    return np.array(alpha), alpha_x, slope, value, seen


@pytest.mark.parametrize("problem", list(cases()), ids=str)
def test_residuals_and_certificate_by_their_formulas(problem):
    data, r, theta = point(problem)
    sums = sums_at(problem, data.buggy, data.trusted, r, theta)
    alpha, alpha_x, slope, _, seen = independent(problem, data, r, theta)
    pull = alpha @ alpha / (2 * problem.lambda_z)
    g_r = -alpha_x + pull * seen + problem.lambda_w * theta
    g_theta = problem.lambda_w * (r - theta) - problem.lambda_trusted * slope
    found_r, found_theta = residuals(problem, r, theta, sums)
    np.testing.assert_allclose(found_r, g_r, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found_theta, g_theta, rtol=1e-9, atol=1e-9)

    norm = np.linalg.norm
    factor = 2.0 if problem.loss_name == "squared" else 1.0
    scale_r = (
        norm(alpha) * norm(data.features)
        + ROUNDING * norm(data.features) ** 2 * norm(r)
        + pull * norm(seen)
        + problem.lambda_w * norm(theta)
    )
    scale_theta = problem.lambda_w * (norm(r) + norm(theta)) + problem.lambda_trusted * (
        norm(slope) + ROUNDING * factor * norm(data.trusted_features) ** 2 * norm(theta)
    )
    expected = max(norm(g_r) / scale_r, norm(g_theta) / scale_theta)
    assert certificate(problem, r, theta, sums) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("which", ["r", "theta"])
@pytest.mark.parametrize("loss_name", LOSSES)
def test_the_certificate_sees_either_residual(loss_name, which):
    """Each of the two equations alone must be able to make the certificate large."""
    problem = TeachingProblem(loss_name, lambda_w=2.0, lambda_trusted=3.0)
    data, r, theta = point(problem)
    sums = sums_at(problem, data.buggy, data.trusted, r, theta)
    if which == "r":  # θ fits r exactly, the rows are ignored
        r = theta + problem.lambda_trusted / problem.lambda_w * sums.trusted_slope
        sums = replace(sums, **buggy_sums(problem, *data.buggy, r))
        assert np.linalg.norm(residuals(problem, r, theta, sums)[1]) < 1e-12
    else:  # θ fits the rows' sum exactly, the trusted rows are ignored
        theta = sums.alpha_x / problem.lambda_w
        sums = sums_at(problem, data.buggy, data.trusted, r, theta)
        assert np.linalg.norm(residuals(problem, r, theta, sums)[0]) < 1e-12
    assert certificate(problem, r, theta, sums) > 1e-2


def test_a_certificate_of_nothing_is_zero():
    problem = TeachingProblem("squared")
    nothing = (np.zeros((0, 2)), np.zeros(0))
    zero = np.zeros(2)
    assert certificate(problem, zero, zero, sums_at(problem, nothing, nothing, zero, zero)) == 0.0


@pytest.mark.parametrize("problem", list(cases()), ids=str)
def test_saddle_value_by_its_formula(problem):
    data, r, theta = point(problem)
    sums = sums_at(problem, data.buggy, data.trusted, r, theta)
    _, _, _, value, _ = independent(problem, data, r, theta)
    bilinear = problem.lambda_w * (r @ theta - theta @ theta / 2)
    assert saddle_value(problem, r, theta, sums) == pytest.approx(sums.phi + bilinear - 2.5 * value)


def test_the_total_counts_every_term_once():
    assert ObjectiveTerms(1.0, 10.0, 100.0, 1000.0, 10000.0).total == 11111.0
