"""What rows contribute, compared with loops over single rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comt import rows
from comt.problem import TeachingProblem
from teaching import LOSSES, random_data


def make(loss_name, *, lambda_alpha=0.4, lambda_z=3.0, intercept=False, n=40, seed=1):
    problem = TeachingProblem(loss_name, 1.5, 2.0, lambda_alpha, lambda_z, intercept)
    data = random_data(loss_name, n=n, d=3, m=6, seed=seed, constant=10.0 if intercept else 0.0)
    r = 0.6 * np.random.default_rng(seed).normal(size=data.features.shape[1])
    if intercept:
        r[-1] = 0.05
    return problem, data, r


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss_name", LOSSES)
def test_betas_are_rank_one_and_leave_the_intercept_alone(loss_name, intercept):
    problem, data, r = make(loss_name, intercept=intercept)
    beta = rows.betas(problem, *data.buggy, r)
    assert beta.shape == data.features.shape
    assert np.linalg.matrix_rank(beta) == 1
    signs = data.targets if loss_name == "logistic" else np.ones(len(data.targets))
    alpha = rows.alphas(problem, *data.buggy, r)
    for i in (0, 7, 21):
        expected = -alpha[i] * signs[i] * r / (2 * problem.lambda_z)
        if intercept:
            expected[-1] = 0.0
        np.testing.assert_allclose(beta[i], expected)


def test_no_row_is_changed_without_crafting():
    problem, data, r = make("squared", lambda_z=np.inf)
    assert not rows.betas(problem, *data.buggy, r).any()


@pytest.mark.parametrize("lambda_alpha", [0.0, 0.4, 1.5, 100.0], ids=["all", "most", "few", "no row active"])
@pytest.mark.parametrize("loss_name", LOSSES)
def test_sums_add_single_rows_up(loss_name, lambda_alpha):
    """The shares of active rows cover both ways of computing their Gram matrix."""
    problem, data, r = make(loss_name, lambda_alpha=lambda_alpha)
    found = rows.buggy_sums(problem, *data.buggy, r)
    c = problem.coupling(r)
    expected = dict.fromkeys(found, 0.0)
    for x, y in zip(*data.buggy, strict=True):
        (alpha,), (phi,), weight = problem.loss.dual(np.array([x @ r]), np.array([y]), lambda_alpha, c)
        weight = float(np.ravel(weight)[0]) if loss_name == "logistic" or alpha != 0 else 0.0
        signed = alpha * (y if loss_name == "logistic" else 1.0)
        terms = {
            "phi": phi,
            "alpha_x": signed * x,
            "alpha_sq": alpha**2,
            "active": float(alpha != 0),
            "rows": 1.0,
            "weight_alpha_sq": weight * alpha**2,
            "weight_alpha_x": weight * signed * x,
            "weight_xx": weight * np.outer(x, x),
        }
        assert set(terms) == set(found)
        expected = {name: expected[name] + term for name, term in terms.items()}
    for name, total in expected.items():
        np.testing.assert_allclose(found[name], total, rtol=1e-9, atol=1e-11, err_msg=name)
    if lambda_alpha == 100.0 and loss_name == "squared":
        assert found["active"] == 0


@pytest.mark.parametrize("curvature", ["full", "diagonal"])
def test_exactly_fitted_rows_keep_their_curvature_without_sparsity(curvature):
    problem, data, _ = make("squared", lambda_alpha=0.0)
    found = rows.buggy_sums(problem, data.features, np.zeros(40), np.zeros(3), curvature)
    gram = data.features.T @ data.features
    np.testing.assert_allclose(found["weight_xx"], gram if curvature == "full" else np.diag(gram))
    assert found["active"] == 40


@pytest.mark.parametrize("lambda_alpha", [0.0, 0.4, 1.5])
@pytest.mark.parametrize("loss_name", LOSSES)
def test_less_curvature_gives_the_same_numbers(loss_name, lambda_alpha):
    problem, data, r = make(loss_name, lambda_alpha=lambda_alpha)
    for compute, block in ((rows.buggy_sums, data.buggy), (rows.trusted_sums, data.trusted)):
        full, diagonal, none = (compute(problem, *block, r, kind) for kind in ("full", "diagonal", "none"))
        assert set(none) < set(full) == set(diagonal)
        for name, value in diagonal.items():
            wanted = np.diag(full[name]) if name in ("weight_xx", "trusted_bend") else full[name]
            np.testing.assert_allclose(value, wanted, rtol=1e-10, atol=1e-12, err_msg=name)
        for name, value in none.items():
            np.testing.assert_array_equal(value, full[name])


@pytest.mark.parametrize("loss_name", LOSSES)
def test_trusted_sums_are_value_gradient_and_hessian(loss_name):
    problem, data, theta = make(loss_name)

    def sums(at):
        return rows.trusted_sums(problem, *data.trusted, at)

    scores = data.trusted_features @ theta
    if loss_name == "squared":
        value = ((scores - data.trusted_targets) ** 2).sum()
    else:
        value = np.log1p(np.exp(-data.trusted_targets * scores)).sum()
    here = sums(theta)
    assert here["trusted_value"] == pytest.approx(value)
    assert here["trusted_rows"] == 6
    step = 1e-6 * np.eye(3)
    slope = [(sums(theta + e)["trusted_value"] - sums(theta - e)["trusted_value"]) / 2e-6 for e in step]
    bend = [(sums(theta + e)["trusted_slope"] - sums(theta - e)["trusted_slope"]) / 2e-6 for e in step]
    np.testing.assert_allclose(here["trusted_slope"], slope, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(here["trusted_bend"], bend, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("crafting", [False, True])
@pytest.mark.parametrize("loss_name", LOSSES)
def test_objective_terms_by_definition(loss_name, crafting):
    problem, data, _ = make(loss_name)
    rng = np.random.default_rng(5)
    n, d = data.features.shape
    alpha = rng.uniform(0.1, 0.9, n) * (1 if loss_name == "logistic" else rng.choice([-1, 1], n))
    beta = rng.normal(size=(n, d)) if crafting else None
    theta, conjugate, beta_sq = np.zeros(d), 0.0, 0.0
    for i, (x, y) in enumerate(zip(*data.buggy, strict=True)):
        change = beta[i] if crafting else 0.0
        if loss_name == "squared":
            theta += alpha[i] * (x + change) / 1.5
            conjugate += alpha[i] ** 2 / 2 - alpha[i] * y
        else:
            theta += alpha[i] * y * (x + change) / 1.5
            conjugate += alpha[i] * np.log(alpha[i]) + (1 - alpha[i]) * np.log(1 - alpha[i])
        beta_sq += np.sum(np.square(change))
    trusted = 0.0
    for x, y in zip(*data.trusted, strict=True):
        trusted += (x @ theta - y) ** 2 if loss_name == "squared" else np.logaddexp(0, -y * (x @ theta))
    terms = rows.objective_terms(problem, data.buggy, data.trusted, alpha, beta)
    assert terms.conjugate == pytest.approx(conjugate)
    assert terms.ridge == pytest.approx(0.75 * theta @ theta)
    assert terms.sparsity == pytest.approx(0.4 * np.abs(alpha).sum())
    assert terms.trusted == pytest.approx(2.0 * trusted)
    assert terms.crafting == pytest.approx(3.0 * beta_sq)
    assert terms.total == pytest.approx(
        conjugate + 0.75 * theta @ theta + 0.4 * np.abs(alpha).sum() + 2 * trusted + 3 * beta_sq
    )


@pytest.mark.parametrize("loss_name", LOSSES)
@given(cut=st.integers(0, 40), seed=st.integers(0, 50))
def test_sums_of_parts_add_up(loss_name, cut, seed):
    problem, data, r = make(loss_name, seed=seed)
    r *= min(1.0, np.sqrt(0.5 / max(problem.coupling(r), 1e-9)))
    whole = rows.buggy_sums(problem, *data.buggy, r)
    first = rows.buggy_sums(problem, data.features[:cut], data.targets[:cut], r)
    second = rows.buggy_sums(problem, data.features[cut:], data.targets[cut:], r)
    for name, total in whole.items():
        np.testing.assert_allclose(first[name] + second[name], total, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("loss_name", LOSSES)
def test_losses_of_rows(loss_name):
    problem, data, theta = make(loss_name)
    expected = problem.loss.value(data.features @ theta, data.targets)
    np.testing.assert_allclose(rows.losses(problem, *data.buggy, theta), expected)
    assert rows.sums_at(problem, data.buggy, data.trusted, theta, theta).size_sq == pytest.approx(
        np.linalg.norm(data.features) ** 2
    )
