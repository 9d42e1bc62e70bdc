from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.optimize import Bounds, minimize
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score

from comt.baselines.base import AgentRows, Array, pooled
from comt.baselines.duti import Duti, repair_path
from comt.baselines.duti_box_model import minimise_in_box, positive_part
from comt.baselines.duti_classification import ClassificationRepair, classification_path, fit_shares
from comt.baselines.duti_regression import RegressionRepair, regression_path
from comt.baselines.linear import fit_exact
from comt.errors import InputError


def regression_rows(seed: int = 0, n: int = 60, d: int = 5, m: int = 8) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=d)
    features, trusted = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    targets = features @ truth + 0.1 * rng.normal(size=n)
    targets[: n // 5] += 4.0
    return features, targets, trusted, trusted @ truth


def classification_rows(seed: int = 0, n: int = 300, d: int = 5, m: int = 20) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=d)
    features, trusted = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    return features, np.sign(features @ truth), trusted, np.sign(trusted @ truth)


def dense_lasso(
    features: Array,
    targets: Array,
    trusted: Array,
    trusted_targets: Array,
    lambda_w: float,
    confidence: float,
) -> tuple[Array, Array]:
    """The design and response of the lasso that DUTI is, with n x n matrices."""
    n, m = len(targets), len(trusted_targets)
    inverse = np.linalg.inv(features @ features.T + lambda_w * np.eye(n))
    predict, fit = trusted @ features.T @ inverse, features @ features.T @ inverse
    design = np.vstack([np.sqrt(confidence / m) * predict, (fit - np.eye(n)) / np.sqrt(n)])
    response = np.concatenate([np.sqrt(confidence / m) * trusted_targets, np.zeros(n)]) - design @ targets
    return design, response


def kernel_features(points: Array, trusted: Array, sigma: float) -> tuple[Array, Array]:
    """Features whose inner products are the RBF kernel: the kernel learner becomes a linear one."""

    def kernel(a: Array, b: Array) -> Array:
        return np.exp(-((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2) / (2 * sigma**2))

    values, vectors = eigh(kernel(points, points))
    large = values > 1e-12 * values.max()
    root = np.sqrt(values[large])
    return vectors[:, large] * root, kernel(trusted, points) @ vectors[:, large] / root


# --- regression -------------------------------------------------------------------------------------------


def test_one_row_known_answer() -> None:
    one = np.ones((1, 1))
    problem = RegressionRepair(one, np.array([1.0]), one, np.array([3.0]), lambda_w=1.0, confidence=2.0)
    assert problem.largest_gamma() == pytest.approx(4.5)
    assert problem.solve(0.5, np.zeros(1))[0] == pytest.approx(8 / 3, abs=1e-12)
    # O = 2 (u/2 - 3)^2 + u^2/4 + |u - 1|/2 at u = 11/3
    assert problem.objective(np.array([8 / 3]), 0.5) == pytest.approx(2 * (11 / 6 - 3) ** 2 + (11 / 6) ** 2 + 4 / 3)


def test_nothing_changes_from_the_largest_gamma_on_and_one_row_just_below() -> None:
    problem = RegressionRepair(*regression_rows(), lambda_w=1.0)
    largest = problem.largest_gamma()
    assert not problem.solve(1.001 * largest, np.zeros(60)).any()
    assert np.count_nonzero(problem.solve(0.999 * largest, np.zeros(60))) == 1


def test_regression_gradient_matches_finite_differences() -> None:
    problem = RegressionRepair(*regression_rows(), lambda_w=0.7, confidence=np.linspace(1, 100, 8))
    delta, step = np.random.default_rng(1).normal(size=60), 1e-4
    numeric = [
        (problem.objective(delta + step * e, 0.0) - problem.objective(delta - step * e, 0.0)) / (2 * step)
        for e in np.eye(60)
    ]
    exact = problem.gradient(delta)
    assert np.abs(exact - numeric).max() < 1e-8 * np.abs(exact).max()


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
def test_repair_agrees_with_coordinate_descent_fista_and_a_conic_solver(share: float) -> None:
    rows = regression_rows()
    problem = RegressionRepair(*rows, lambda_w=2.0, confidence=20.0)
    gamma = share * problem.largest_gamma()
    found = problem.solve(gamma, np.zeros(60))
    assert problem.residual(found, gamma) < 1e-9

    fista = problem.fista(gamma, np.zeros(60), steps=5000)
    np.testing.assert_allclose(found, fista, atol=1e-7)

    design, response = dense_lasso(*rows, 2.0, 20.0)
    size = len(response)
    # scikit-learn minimises |r|^2/(2 rows) + alpha |delta|_1
    lasso = Lasso(alpha=gamma / 60 / (2 * size), fit_intercept=False, tol=1e-12, max_iter=200_000)
    np.testing.assert_allclose(found, lasso.fit(design, response).coef_, atol=1e-6)

    delta = cp.Variable(60)
    objective = cp.sum_squares(design @ delta - response) + gamma / 60 * cp.norm1(delta)
    best = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    assert problem.objective(found, gamma) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_repair_certificate_on_badly_scaled_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features, targets, trusted, trusted_targets = regression_rows(seed, n=150, d=8, m=3 + 3 * seed)
    features = features * np.geomspace(0.1, 10, 8)
    targets = np.where(rng.random(150) < 0.3, -3 * targets, targets)
    problem = RegressionRepair(features, targets, trusted, trusted_targets, lambda_w=1e-3, confidence=500.0)
    path = regression_path(problem)
    for gamma, repaired in zip(path.gammas, path.repaired, strict=True):
        assert problem.residual(repaired - targets, gamma) < 1e-6


def test_learner_is_the_ridge_fit_to_repaired_targets() -> None:
    features, targets, *trusted = regression_rows()
    problem = RegressionRepair(features, targets, *trusted, lambda_w=3.0)
    expected = np.linalg.solve(features.T @ features + 3.0 * np.eye(5), features.T @ targets)
    np.testing.assert_allclose(problem.learner(targets), expected, atol=1e-13)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_sine_toy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.arange(0.02, 2.001, 0.02)
    clean = np.sin(2 * np.pi * x) + 0.1 * rng.normal(size=100)
    targets = clean.copy()
    targets[50:90] = -np.abs(clean[50:90])
    bugs = targets != clean
    trusted = np.array([0.9, 1.0, 1.1]) + 0.05 * rng.random(3)
    features = kernel_features(x[:, None], trusted[:, None], 0.7)
    problem = RegressionRepair(features[0], targets, features[1], np.sin(2 * np.pi * trusted), lambda_w=100 * 3.8e-6)
    path = regression_path(problem, path_points=100)
    assert average_precision_score(bugs, -path.rank) > 0.85
    error = np.abs(path.repaired - clean)[:, bugs].mean(axis=1)
    assert error[0] > 1.0
    assert error[-1] < 0.2


# --- classification ---------------------------------------------------------------------------------------


def test_inner_fit_is_logistic_regression() -> None:
    features, labels, *_ = classification_rows()
    coef = fit_shares(features, (labels > 0) * 1.0, 2.0, start=np.zeros(5), tolerance=1e-12)
    peer = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10).fit(features, labels)
    np.testing.assert_allclose(coef, peer.coef_[0], atol=1e-5)


def test_hyper_gradient_matches_finite_differences() -> None:
    problem = ClassificationRepair(
        *classification_rows(n=40, m=6),
        lambda_w=0.5,
        confidence=np.linspace(1, 100, 6),
        inner_tolerance=1e-14,
    )
    moved, step = np.random.default_rng(1).uniform(0.1, 0.9, 40), 1e-4
    exact = problem.objective_and_gradient(moved, 0.3)[1]
    numeric = [
        (
            problem.objective_and_gradient(moved + step * e, 0.3)[0]
            - problem.objective_and_gradient(moved - step * e, 0.3)[0]
        )
        / (2 * step)
        for e in np.eye(40)
    ]
    assert np.abs(exact - numeric).max() < 1e-7 * np.abs(exact).max()


def test_curvature_matches_finite_differences() -> None:
    problem = ClassificationRepair(*classification_rows(n=40, m=6), lambda_w=0.5, inner_tolerance=1e-14)
    moved = np.random.default_rng(1).uniform(0.1, 0.9, 40)
    found, step = problem.respond(moved), 1e-5
    for row in (0, 17):
        ahead, behind = (problem.respond(moved + sign * step * np.eye(40)[row]).slope for sign in (1, -1))
        # moving w_i by one unit moves b by y_i x_i
        numeric = (ahead - behind) / (2 * step)
        np.testing.assert_allclose(found.curvature @ problem.rows[row], numeric, atol=1e-6 * np.abs(numeric).max())


def test_box_model_agrees_with_a_conic_solver() -> None:
    rng = np.random.default_rng(3)
    rows, slope = rng.normal(size=(80, 4)), 3 * rng.normal(size=4)
    curvature = positive_part(np.diag([2.0, 0.5, 0.1, -3.0]))
    start = rng.uniform(size=80)
    found = minimise_in_box(rows, start, slope, curvature, 0.7, 1e-8)
    w = cp.Variable(80)
    change = rows.T @ (w - start)
    model = slope @ change + 0.5 * cp.quad_form(change, cp.psd_wrap(curvature)) + 0.7 * cp.sum(w)
    best = cp.Problem(cp.Minimize(model), [w >= 0, w <= 1]).solve(solver=cp.CLARABEL)
    reached = rows.T @ (found - start)
    assert slope @ reached + 0.5 * reached @ curvature @ reached + 0.7 * found.sum() == pytest.approx(best, rel=1e-6)
    assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.parametrize(("seed", "m"), [(0, 20), (1, 20), (2, 3), (3, 8)])  # 3 trusted rows leave concave directions
def test_repair_reaches_the_optimum_of_a_quasi_newton_solver(seed: int, m: int) -> None:
    features, labels, *trusted = classification_rows(seed, m=m)
    labels = np.where(np.random.default_rng(seed).random(300) < 0.3, -labels, labels)
    problem = ClassificationRepair(features, labels, *trusted, lambda_w=3.0)
    largest, moved = problem.largest_gamma(), np.zeros(300)

    def quasi_newton(gamma: float, start: Array) -> float:
        options = {"maxiter": 2000, "maxfun": 5000, "ftol": 1e-14, "gtol": 1e-9 / 300}
        start, args, box = np.clip(start + 1e-5, 0.0, 1.0 - 1e-5), (gamma,), Bounds(0.0, 1.0)
        calls = {"args": args, "jac": True, "bounds": box, "options": options}
        return float(minimize(problem.objective_and_gradient, start, method="L-BFGS-B", **calls).fun)

    for halving in range(1, 7):
        gamma = largest / 2**halving
        from_the_same_start = quasi_newton(gamma, moved)
        moved = problem.solve(gamma, moved)
        reached = problem.objective_and_gradient(moved, gamma)[0]
        assert problem.certificate(moved, gamma) <= 1e-5
        assert quasi_newton(gamma, moved) == pytest.approx(reached, rel=1e-4)
        # not convex: the two may end in neighbouring valleys
        assert reached <= from_the_same_start * 1.01


def test_original_labels_are_stationary_from_gamma_0_on_only() -> None:
    problem = ClassificationRepair(*classification_rows(), lambda_w=0.3)
    largest = problem.largest_gamma()
    assert problem.objective_and_gradient(np.zeros(300), largest)[1].min() >= -1e-9
    assert problem.objective_and_gradient(np.zeros(300), 0.99 * largest)[1].min() < 0
    path = classification_path(problem, path_points=6)
    assert not path.flagged[0].any()
    # even clean labels are flagged below: the trusted rows are a finite sample
    assert path.flagged[-1].any()


def test_rank_reads_off_the_first_flag() -> None:
    path = classification_path(ClassificationRepair(*classification_rows(), lambda_w=0.3), path_points=6)
    never = ~path.flagged.any(axis=0)
    assert (path.rank[never] == 7.0).all()
    first = path.flagged.argmax(axis=0)[~never] + 1
    assert ((path.rank[~never] >= first) & (path.rank[~never] < first + 0.5)).all()


def test_path_stops_beyond_its_budget() -> None:
    features, labels, trusted, trusted_labels = classification_rows()
    path = repair_path(features, -labels, trusted, trusted_labels, "classification", budget=0.1)
    assert len(path.gammas) < 12
    assert path.flagged[-1].mean() > 0.1
    assert (path.flagged[:-1].mean(axis=1) <= 0.1).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_harry_potter_toy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = np.arange(0.05, 1.0, 0.1)
    points = np.stack(np.meshgrid(grid, grid), axis=2).reshape(-1, 2) + 0.03 * rng.normal(size=(100, 2))
    clean = np.where(points[:, 1] > 0.5, 1.0, -1.0)
    labels = clean.copy()
    labels[(points[:, 1] < 4 * (points[:, 0] - 0.5) ** 2 + 0.5) & (points[:, 0] < 0.5)] = -1.0
    bugs = labels != clean
    features, trusted = kernel_features(points, np.array([[0.3, 0.4], [0.2, 0.6]]), 0.5)
    # a large constant column is an intercept that is hardly penalised
    problem = ClassificationRepair(
        np.column_stack([features, np.full(100, 100.0)]),
        labels,
        np.column_stack([trusted, np.full(2, 100.0)]),
        np.array([-1.0, 1.0]),
        lambda_w=100 * 1e-3,
        inner_tolerance=1e-10,
    )
    path = classification_path(problem, path_points=20, budget=1.0)
    assert roc_auc_score(bugs, -path.rank) > 0.9


# --- the federation ---------------------------------------------------------------------------------------


def federation(task: str, seed: int = 0) -> tuple[list[AgentRows], list[Array], Array, Array]:
    """Three unequal agents with systematic bugs where the first feature is large; the last trusts nothing."""
    rng = np.random.default_rng(seed)
    truth = np.array([1.0, -2.0, 1.5, 0.5])

    def rows(n: int) -> tuple[Array, Array]:
        features = rng.normal(size=(n, 4))
        scores = features @ truth
        if task == "regression":
            return features, scores + 0.1 * rng.normal(size=n)
        return features, np.where(rng.random(n) < 1 / (1 + np.exp(-3 * scores)), 1.0, -1.0)

    agents, bugs = [], []
    for k, (n, m) in enumerate([(400, 40), (250, 25), (60, 0)]):
        (features, targets), (trusted, trusted_targets) = rows(n), rows(m)
        wrong = targets - 8.0 if task == "regression" else -1.0
        buggy = np.where(features[:, 0] > 0.7, wrong, targets)
        bugs.append(buggy != targets)
        agents.append(AgentRows(f"agent {k}", features, buggy, trusted, trusted_targets))
    return agents, bugs, *rows(3000)


def test_regression_repairs_beat_plain_training() -> None:
    agents, bugs, test_features, test_targets = federation("regression")
    model = Duti().fit(agents, "regression")
    features = np.concatenate([a.features for a in agents])
    targets = np.concatenate([a.targets for a in agents])
    plain = np.linalg.solve(features.T @ features + np.eye(4), features.T @ targets)
    error = np.mean((model.predict(test_features) - test_targets) ** 2)
    assert error < 0.25 * np.mean((test_features @ plain - test_targets) ** 2)
    for k in (0, 1):
        assert roc_auc_score(bugs[k], -model.found["rank"][k]) > 0.9
    np.testing.assert_array_equal(model.found["repaired"][2], agents[2].targets)
    assert (model.found["rank"][2] == 13.0).all()


def test_classification_repairs_beat_plain_training() -> None:
    agents, _, test_features, test_labels = federation("classification")
    model = Duti().fit(agents, "classification")
    plain = LogisticRegression(C=1.0, fit_intercept=False).fit(
        np.concatenate([a.features for a in agents]), np.concatenate([a.targets for a in agents])
    )
    auc = roc_auc_score(test_labels, model.predict(test_features))
    assert auc > roc_auc_score(test_labels, test_features @ plain.coef_[0]) + 0.02
    assert all(np.isin(repaired, (-1.0, 1.0)).all() for repaired in model.found["repaired"])


def test_model_is_the_pooled_fit_on_repaired_and_trusted_rows() -> None:
    agents, *_ = federation("classification")
    model = Duti(path_points=4).fit(agents, "classification")
    peer = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10).fit(
        np.concatenate([a.features for a in agents] + [a.trusted_features for a in agents]),
        np.concatenate([*model.found["repaired"], *(a.trusted_targets for a in agents)]),
    )
    np.testing.assert_allclose(model.coef, peer.coef_[0], atol=1e-4)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_one_path_holds_the_model_of_every_price(task: str) -> None:
    agents, *_ = federation(task)
    models = Duti(path_points=5).fit_path(agents, task)
    assert len(models) == 5
    plain = fit_exact(*_pooled_with_trusted(agents), task, 1.0)
    np.testing.assert_allclose(models[0].coef, plain, atol=1e-8)  # at the first price nothing is repaired
    assert np.linalg.norm(models[-1].coef - plain) > 0.05


def _pooled_with_trusted(agents: list[AgentRows]) -> tuple[Array, Array]:
    features, targets, trusted_features, trusted_targets = pooled(agents)
    return np.concatenate([features, trusted_features]), np.concatenate([targets, trusted_targets])


def test_few_trusted_rows_choose_the_first_point_that_flags() -> None:
    agents, *_ = federation("regression")
    few = [AgentRows(a.name, a.features, a.targets, a.trusted_features[:5], a.trusted_targets[:5]) for a in agents]
    model = Duti().fit(few, "regression")
    assert model.found["point"] == [1, 1, 0]


def test_without_any_trusted_row_it_is_plain_ridge() -> None:
    agents, *_ = federation("regression")
    model = Duti(lambda_w=2.0).fit(agents[2:], "regression")
    features, targets = agents[2].features, agents[2].targets
    expected = np.linalg.solve(features.T @ features + 2.0 * np.eye(4), features.T @ targets)
    np.testing.assert_allclose(model.coef, expected, atol=1e-12)


@pytest.mark.parametrize("wrong", [{"lambda_w": 0.0}, {"path_points": 0}, {"folds": 1}])
def test_unusable_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Duti(**wrong)
