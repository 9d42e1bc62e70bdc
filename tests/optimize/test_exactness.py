"""The solvers against independent ones: scikit-learn, a conic solver, brute-force joint minimisation, the rows."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge

from comt.errors import ConvergenceError, CraftingError
from comt.optimize.saddle import longest_step
from comt.problem import TeachingProblem, certificate, residuals
from comt.rows import alphas, betas, objective_terms, sums_at
from teaching import LOSSES, Data, is_one_sentence, random_data, solve_pooled

NO_TRUSTED = {"m": 0}


# (a) without trusted rows, sparsity and crafting the objective is the dual of a standard regression


@pytest.mark.parametrize("lambda_w", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("seed", range(3))
def test_squared_rows_alone_are_ridge_regression(lambda_w, seed):
    data = random_data("squared", n=80, d=6, seed=seed, **NO_TRUSTED)
    solution, _ = solve_pooled(TeachingProblem("squared", lambda_w), data)
    reference = Ridge(alpha=lambda_w, fit_intercept=False).fit(*data.buggy)
    np.testing.assert_allclose(solution.theta, reference.coef_, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("lambda_w", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("seed", range(3))
def test_logistic_rows_alone_are_logistic_regression(lambda_w, seed):
    data = random_data("logistic", n=80, d=6, seed=seed, **NO_TRUSTED)
    solution, _ = solve_pooled(TeachingProblem("logistic", lambda_w), data)
    reference = LogisticRegression(C=1 / lambda_w, fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    reference.fit(*data.buggy)
    np.testing.assert_allclose(solution.theta, reference.coef_[0], rtol=1e-6, atol=1e-6)


# (b) CoMT-subset is convex: a conic solver minimises D(α) itself


def conic(problem, data):
    """Minimise D(α) as the paper writes it; return θ, α and D."""
    features, targets = data.buggy
    alpha = cp.Variable(len(targets))
    signs = targets if problem.loss_name == "logistic" else np.ones(len(targets))
    theta = features.T @ cp.multiply(signs, alpha) / problem.lambda_w
    scores = data.trusted_features @ theta
    if problem.loss_name == "squared":
        conjugate = cp.sum_squares(alpha) / 2 - targets @ alpha
        trusted = cp.sum_squares(scores - data.trusted_targets)
    else:
        conjugate = -cp.sum(cp.entr(alpha)) - cp.sum(cp.entr(1 - alpha))
        trusted = cp.sum(cp.logistic(-cp.multiply(data.trusted_targets, scores)))
    objective = conjugate + problem.lambda_w / 2 * cp.sum_squares(theta)
    objective += problem.lambda_alpha * cp.norm1(alpha) + problem.lambda_trusted * trusted
    task = cp.Problem(cp.Minimize(objective))
    # the tightest that the solver reaches; on exponential cones that depends on the processor's arithmetic
    for tol in (1e-11,) if problem.loss_name == "squared" else (1e-8, 3e-8, 1e-7):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate")
            task.solve(solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
        if task.status == cp.OPTIMAL:
            break
    assert task.status == cp.OPTIMAL
    return theta.value, alpha.value, task.value


@pytest.mark.parametrize("lambda_trusted", [0.5, 8.0])
@pytest.mark.parametrize("lambda_alpha", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("loss_name", LOSSES)
def test_subset_equals_a_conic_solver(loss_name, lambda_alpha, lambda_trusted):
    data = random_data(loss_name, n=30, d=4, m=6, seed=7)
    problem = TeachingProblem(loss_name, 2.0, lambda_trusted, lambda_alpha)
    theta, alpha, value = conic(problem, data)
    solution, _ = solve_pooled(problem, data)
    np.testing.assert_allclose(solution.theta, theta, atol=1e-5)
    own = alphas(problem, *data.buggy, solution.r)
    np.testing.assert_allclose(own, alpha, atol=1e-4)
    total = objective_terms(problem, data.buggy, data.trusted, own).total
    assert total == pytest.approx(value, rel=1e-7, abs=1e-7)
    assert solution.history[-1]["objective"] == pytest.approx(total, rel=1e-9)
    if lambda_alpha == 2.0 and loss_name == "squared":
        assert (own == 0).sum() > 10  # the case is about sparsity


# (c) crafting: the joint problem in (α, β), not convex, searched from several starts


class Joint:
    """D(α, β) and its gradient, written out; the unknowns are (α⁺, α⁻, β) or (logit α, β)."""

    def __init__(self, problem, data):
        self.problem, self.data = problem, data
        self.n, self.p = data.features.shape
        self.width = self.p - problem.intercept  # columns that crafting may change
        self.logistic = problem.loss_name == "logistic"
        self.heads = self.n if self.logistic else 2 * self.n

    def split(self, unknowns):
        head, tail = unknowns[: self.heads], unknowns[self.heads :]
        beta = np.zeros((self.n, self.p))
        beta[:, : self.width] = tail.reshape(self.n, self.width)
        return (expit(head) if self.logistic else head[: self.n] - head[self.n :]), beta

    def __call__(self, unknowns):
        problem, (features, targets) = self.problem, self.data.buggy
        lambda_w, head = problem.lambda_w, unknowns[: self.heads]
        alpha, beta = self.split(unknowns)
        signs = targets if self.logistic else np.ones(self.n)
        changed = features + beta
        theta = (alpha * signs) @ changed / lambda_w
        x, y = self.data.trusted
        scores = x @ theta
        if self.logistic:
            entropy = alpha * np.logaddexp(0, -head) + expit(-head) * np.logaddexp(0, head)
            value = -entropy.sum() + problem.lambda_alpha * alpha.sum()
            value += problem.lambda_trusted * np.logaddexp(0, -y * scores).sum()
            trusted_slope = -(y * expit(-y * scores)) @ x
            of_alpha = head + problem.lambda_alpha
        else:
            value = (alpha**2 / 2 - alpha * targets).sum() + problem.lambda_alpha * head.sum()
            value += problem.lambda_trusted * ((scores - y) ** 2).sum()
            trusted_slope = 2 * (scores - y) @ x
            of_alpha = alpha - targets
        value += lambda_w / 2 * theta @ theta + problem.lambda_z * (beta**2).sum()
        of_theta = (lambda_w * theta + problem.lambda_trusted * trusted_slope) / lambda_w
        of_alpha = of_alpha + signs * (changed @ of_theta)
        if self.logistic:
            of_head = of_alpha * alpha * (1 - alpha)
        else:
            of_head = np.concatenate([of_alpha, -of_alpha]) + problem.lambda_alpha
        of_beta = np.outer(alpha * signs, of_theta) + 2 * problem.lambda_z * beta
        return value, np.concatenate([of_head, of_beta[:, : self.width].ravel()])

    def minimize(self, seed):
        rng = np.random.default_rng(seed)
        start = rng.normal(size=self.heads + self.n * self.width)
        bounds = None
        if not self.logistic:
            start[: self.heads] = np.abs(start[: self.heads])
            bounds = [(0, None)] * self.heads + [(None, None)] * (self.n * self.width)
        options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 40}
        found = minimize(self, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return found.fun, *self.split(found.x)


def test_the_brute_force_gradient_is_right():
    """The judge is judged first."""
    for loss_name in LOSSES:
        data = random_data(loss_name, n=5, d=2, m=2, seed=1)
        joint = Joint(TeachingProblem(loss_name, 1.3, 0.7, 0.2, 2.0), data)
        at = np.abs(np.random.default_rng(0).normal(size=joint.heads + 10))
        basis = 1e-6 * np.eye(len(at))
        numeric = [(joint(at + e)[0] - joint(at - e)[0]) / 2e-6 for e in basis]
        np.testing.assert_allclose(joint(at)[1], numeric, rtol=1e-5, atol=1e-6)


CRAFTING = [
    # loss, λ_trusted, λ_α, λ_Z, intercept
    ("squared", 1.0, 0.0, 50.0, False),
    ("squared", 1.0, 0.0, 0.5, False),
    ("squared", 1.0, 0.3, 1.0, False),
    ("squared", 0.5, 0.2, 1.0, True),
    ("logistic", 1.0, 0.0, 5.0, False),
    ("logistic", 1.0, 0.0, 0.3, False),
    ("logistic", 0.5, 0.3, 0.5, False),
    ("logistic", 1.0, 0.2, 0.5, True),
]


@pytest.mark.parametrize(("loss_name", "lambda_trusted", "lambda_alpha", "lambda_z", "intercept"), CRAFTING)
def test_crafting_equals_brute_force_joint_minimisation(loss_name, lambda_trusted, lambda_alpha, lambda_z, intercept):
    data = random_data(loss_name, n=9, d=2, m=3, seed=11, constant=2.0 if intercept else 0.0)
    problem = TeachingProblem(loss_name, 1.5, lambda_trusted, lambda_alpha, lambda_z, intercept)
    solution, _ = solve_pooled(problem, data, tol=1e-10)
    own_alpha, own_beta = alphas(problem, *data.buggy, solution.r), betas(problem, *data.buggy, solution.r)
    own_value = objective_terms(problem, data.buggy, data.trusted, own_alpha, own_beta).total
    assert -own_value == pytest.approx(-solution.history[-1]["objective"], rel=1e-8)
    signs = problem.loss.signs(data.targets)
    for seed in range(4):
        value, alpha, beta = Joint(problem, data).minimize(seed)
        assert value == pytest.approx(own_value, rel=1e-9, abs=1e-9)
        theta = (alpha * signs) @ (data.features + beta) / problem.lambda_w
        np.testing.assert_allclose(solution.theta, theta, atol=1e-5)
        np.testing.assert_allclose(own_alpha, alpha, atol=1e-5)
        np.testing.assert_allclose(own_beta, beta, atol=1e-5)
    assert np.abs(own_beta).max() > 1e-3  # the case is about crafting


# (d) hard problems: the certificate, recomputed from the rows


def check_certified(problem, data, tol=1e-8):
    solution, _ = solve_pooled(problem, data, tol=tol)
    fresh = sums_at(problem, data.buggy, data.trusted, solution.r, solution.theta)
    assert solution.certificate <= tol
    assert certificate(problem, solution.r, solution.theta, fresh) <= 2 * tol
    # the same statement without the module under test: what the terms are, before they cancel
    g_r, g_theta = residuals(problem, solution.r, solution.theta, fresh)
    norm = np.linalg.norm
    size = norm(data.features)
    terms_r = np.sqrt(fresh.alpha_sq) * size + size**2 * norm(solution.r) + problem.lambda_w * norm(solution.theta)
    size = norm(data.trusted_features)
    terms_theta = problem.lambda_w * norm(solution.r) + problem.lambda_trusted * (
        size * norm(data.trusted_targets) + size**2 * norm(solution.theta)
    )
    assert norm(g_r) <= 1e-8 * terms_r
    assert norm(g_theta) <= 1e-8 * terms_theta
    return solution


@settings(max_examples=120)
@given(
    seed=st.integers(0, 10_000),
    d=st.integers(1, 12),
    m=st.integers(0, 20),
    condition=st.sampled_from([1.0, 1e3, 1e6]),
    lambda_w=st.sampled_from([1e-2, 1.0, 100.0]),
    lambda_trusted=st.sampled_from([0.0, 1.0, 100.0, 1e4]),
    lambda_alpha=st.sampled_from([0.0, 0.1, 1.0]),
    lambda_z=st.sampled_from([0.05, 1.0, 100.0, np.inf]),
)
def test_random_squared_problems_are_certified(seed, d, m, condition, lambda_w, lambda_trusted, lambda_alpha, lambda_z):
    data = random_data("squared", n=60, d=d, m=m, seed=seed, condition=condition)
    check_certified(TeachingProblem("squared", lambda_w, lambda_trusted, lambda_alpha, lambda_z), data)


@settings(max_examples=120)
@given(
    seed=st.integers(0, 10_000),
    d=st.integers(1, 12),
    m=st.integers(0, 20),
    condition=st.sampled_from([1.0, 1e3, 1e6]),
    lambda_w=st.sampled_from([1e-2, 1.0, 100.0]),
    lambda_trusted=st.sampled_from([0.0, 1.0, 100.0, 1e4]),
    lambda_alpha=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_random_logistic_problems_are_certified(seed, d, m, condition, lambda_w, lambda_trusted, lambda_alpha):
    data = random_data("logistic", n=60, d=d, m=m, seed=seed, condition=condition)
    check_certified(TeachingProblem("logistic", lambda_w, lambda_trusted, lambda_alpha), data)


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10_000),
    d=st.integers(1, 8),
    m=st.integers(0, 12),
    lambda_trusted=st.sampled_from([0.0, 1.0, 10.0]),
    lambda_alpha=st.sampled_from([0.0, 0.2]),
    coupling=st.sampled_from([0.01, 0.5, 2.0]),
)
def test_random_logistic_crafting_is_certified(seed, d, m, lambda_trusted, lambda_alpha, coupling):
    """λ_Z is chosen by the uncrafted solution, so that the coupling ranges up to about the given one."""
    data = random_data("logistic", n=60, d=d, m=m, seed=seed)
    subset = TeachingProblem("logistic", 1.0, lambda_trusted, lambda_alpha)
    r = solve_pooled(subset, data)[0].r
    problem = TeachingProblem("logistic", 1.0, lambda_trusted, lambda_alpha, (r @ r + 1e-6) / (2 * coupling))
    try:
        solution = check_certified(problem, data)
    except CraftingError:
        assert coupling == 2.0  # only there may the solution lie beyond the limit
    else:
        assert problem.coupling(solution.r) < 4.0


@pytest.mark.parametrize("lambda_alpha", [0.0, 0.01])
@pytest.mark.parametrize("noise", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("seed", range(3))
def test_crafting_next_to_its_limit(noise, lambda_alpha, seed):
    """Rows fitted almost exactly by a model outside the ball press r against ‖r‖² = 2λ_Z."""
    data = random_data("squared", n=40, d=6, m=20, seed=seed, noise=noise, bugs=0.0)
    opposed = Data(data.features, -data.targets, data.trusted_features, data.trusted_targets)
    subset = solve_pooled(TeachingProblem("squared", 0.1, 10.0), opposed)[0]
    problem = TeachingProblem("squared", 0.1, 10.0, lambda_alpha, 0.9 * (subset.r @ subset.r) / 2)
    solution = check_certified(problem, opposed)
    assert 0.7 < problem.coupling(solution.r) < 1.0


# (e) crafting that has no unique solution is refused, and says what to do


def contradiction(loss_name, seed):
    data = random_data(loss_name, n=40, d=3, m=30, seed=seed, noise=0.1, bugs=0.0)
    return Data(data.features, -data.targets, data.trusted_features, data.trusted_targets)


@pytest.mark.parametrize("seed", range(4))
def test_logistic_crafting_beyond_its_limit_is_refused(seed):
    data = contradiction("logistic", seed)
    subset = solve_pooled(TeachingProblem("logistic", 1.0, 1000.0), data)[0]
    problem = TeachingProblem("logistic", 1.0, 1000.0, lambda_z=(subset.r @ subset.r) / 200)
    with pytest.raises(CraftingError, match="increase lambda_z") as caught:
        solve_pooled(problem, data)
    assert isinstance(caught.value, ConvergenceError)
    assert f"lambda_z={problem.lambda_z:g}" in str(caught.value)
    assert is_one_sentence(caught.value)
    assert caught.value.certificate > 1e-8


@pytest.mark.parametrize("start", [0.0, 1.0, 1.9, 1.99])
@pytest.mark.parametrize("reach", [0.001, 0.5, 3.0, 1e6])
def test_steps_stay_below_the_limit_of_crafting(start, reach):
    problem = TeachingProblem("logistic", lambda_z=0.5)  # the limit ‖r‖² = 8 λ_Z lies at 2
    size = longest_step(problem, np.array([start]), np.array([reach]))
    assert 0 < size <= 1
    assert problem.coupling(np.array([start + size * reach])) < 4.0
    assert longest_step(problem, np.array([start]), np.array([-1e-3])) == 1.0


@pytest.mark.parametrize("lambda_alpha", [0.0, 1e-3])
def test_squared_crafting_without_signal_left_is_refused(lambda_alpha):
    """One row and d = 3: r can run off, at no cost, in the directions that the row does not see."""
    data = random_data("squared", n=1, d=3, m=20, seed=2, noise=1e-3, bugs=0.0)
    data = Data(data.features, -data.targets, data.trusted_features, data.trusted_targets)
    subset = solve_pooled(TeachingProblem("squared", 1.0, 10.0), data)[0]
    lambda_z = 0.1 * (subset.r @ subset.r) / 2
    with pytest.raises(CraftingError, match="increase lambda_z") as caught:
        solve_pooled(TeachingProblem("squared", 1.0, 10.0, lambda_alpha, lambda_z), data)
    assert f"lambda_z={lambda_z:g}" in str(caught.value)
    assert is_one_sentence(caught.value)


@pytest.mark.parametrize("lambda_z", [np.inf, 1.0, 1e-3])
@pytest.mark.parametrize("lambda_alpha", [0.0, 1e-3])
def test_rows_with_target_zero_count_like_others(lambda_alpha, lambda_z):
    """At r = 0 they have α = 0; they must not be taken for rows without curvature."""
    data = random_data("squared", n=40, d=3, m=10, seed=3)
    targets = np.where(np.arange(40) < 30, 0.0, data.targets)
    data = Data(data.features, targets, data.trusted_features, data.trusted_targets)
    check_certified(TeachingProblem("squared", 1.0, 1.0, lambda_alpha, lambda_z), data)
    if lambda_alpha == 0 and lambda_z == np.inf:
        alone = Data(data.features, targets, np.empty((0, 3)), np.empty(0))
        solution, _ = solve_pooled(TeachingProblem("squared", 1.0), alone)
        reference = Ridge(alpha=1.0, fit_intercept=False).fit(*alone.buggy)
        np.testing.assert_allclose(solution.theta, reference.coef_, atol=1e-10)


def test_one_row_of_target_zero_against_heavy_trusted_rows():
    """Refusing is right here, an answer is too; a "solution" outside the ball (|r|² = 1e18 λ_Z was found once) is not."""
    rng = np.random.default_rng(0)
    features, model = rng.normal(size=(1, 3)), np.array([100.0, -50.0, 80.0])
    trusted = rng.normal(size=(20, 3))
    data = Data(features, np.zeros(1), trusted, trusted @ model)
    problem = TeachingProblem("squared", 1.0, 1e4, 0.0, 1e-3)
    try:
        solution = check_certified(problem, data)
    except CraftingError:
        return
    assert problem.coupling(solution.r) < 1.0
    np.testing.assert_allclose(solution.theta, model, rtol=1e-4)


# (f) starts and exchanges


@pytest.mark.parametrize("lambda_z", [np.inf, 1.0])
@pytest.mark.parametrize("lambda_alpha", [0.0, 0.3])
@pytest.mark.parametrize("loss_name", LOSSES)
def test_the_start_does_not_matter(loss_name, lambda_alpha, lambda_z):
    data = random_data(loss_name, n=60, d=5, m=7, seed=4)
    problem = TeachingProblem(loss_name, 1.0, 2.0, lambda_alpha, lambda_z)
    cold, cold_exchanges = solve_pooled(problem, data)
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 10.0):
        start = scale * rng.normal(size=5), scale * rng.normal(size=5)
        other, _ = solve_pooled(problem, data, start=start)
        np.testing.assert_allclose(other.theta, cold.theta, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(other.r, cold.r, rtol=1e-7, atol=1e-8)
    warm, warm_exchanges = solve_pooled(problem, data, start=(cold.r, cold.theta))
    np.testing.assert_allclose(warm.theta, cold.theta, rtol=1e-7, atol=1e-8)
    assert warm_exchanges <= cold_exchanges
    if loss_name == "logistic":
        assert warm_exchanges == 1  # it looks, and finds itself at the solution


@pytest.mark.parametrize("lambda_z", [np.inf, 0.2])
@pytest.mark.parametrize("lambda_trusted", [0.0, 1.0, 1e4])
def test_squared_rows_without_sparsity_take_one_exchange(lambda_trusted, lambda_z):
    data = random_data("squared", n=60, d=5, m=7, seed=4)
    _, exchanges = solve_pooled(TeachingProblem("squared", 1.0, lambda_trusted, 0.0, lambda_z), data)
    assert exchanges == 1


@pytest.mark.parametrize("loss_name", LOSSES)
def test_giving_up_carries_the_certificate(loss_name):
    """A tolerance no floating-point number can meet ends in an error, not in a loop or a false claim."""
    data = random_data(loss_name, n=200, d=5, m=7, seed=4)
    with pytest.raises(ConvergenceError, match="tol=1e-20") as caught:
        solve_pooled(TeachingProblem(loss_name, 1.0, 2.0, 0.3, 1.0), data, tol=1e-20)
    assert 1e-20 < caught.value.certificate < 1e-10
    assert is_one_sentence(caught.value)


@pytest.mark.parametrize("loss_name", LOSSES)
def test_history_ends_at_the_solution(loss_name):
    data = random_data(loss_name, n=60, d=5, m=7, seed=4)
    solution, _ = solve_pooled(TeachingProblem(loss_name, 1.0, 2.0, 0.3, 1.0), data)
    assert solution.history[-1]["certificate"] == solution.certificate
    assert solution.history[0]["certificate"] > solution.certificate
