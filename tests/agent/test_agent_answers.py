"""Every answer of the vocabulary against a direct computation from the raw rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy.optimize import minimize

from comt import rows as row_maths
from comt.agent import Agent, ArrayRows
from comt.agent.data import BLOCK
from comt.agent.folds import fold_of
from comt.errors import ProtocolError
from comt.preparation import Preparation
from comt.problem import TeachingProblem
from comt.queries import (
    CurvatureTimes,
    DualSums,
    Keep,
    ProximalStep,
    Query,
    ResidualScale,
    ScoreHistogram,
    Spread,
    SubsetSum,
    TrustedScore,
)
from teaching import LOSSES, random_data

PREPARATION = Preparation(
    np.array([0.3, -0.2, 0.0]), np.array([1.5, 0.5, np.inf]), target_center=0.0, target_scale=1.0, constant=10.0
)
N = BLOCK + 100  # more than one block


@pytest.fixture(params=LOSSES)
def case(request):
    """An agent that holds every other row of larger arrays, and its rows prepared by hand."""
    data = random_data(request.param, n=2 * N, d=3, m=12, seed=5)
    index = np.arange(0, 2 * N, 2)
    agent = Agent("north", ArrayRows(data.features, data.targets, *data.trusted, index=index))

    def prepared(raw):
        columns = [(raw[:, 0] - 0.3) / 1.5, (raw[:, 1] + 0.2) / 0.5, np.zeros(len(raw)), np.full(len(raw), 10.0)]
        return np.column_stack(columns)

    buggy = prepared(data.features[index]), data.targets[index]
    trusted = PREPARATION.features(data.trusted_features)  # to the last bit, by which folds are decided
    np.testing.assert_allclose(trusted, prepared(data.trusted_features))
    return request.param, agent, buggy, (trusted, data.trusted_targets)


def ask(agent, query):
    answer = agent.answer(query, 1)
    query.check_answer(answer.arrays, agent.name)  # shapes and types are those of the vocabulary
    assert set(answer.rows) == set(answer.arrays)
    return answer


def models(loss_name, b=3, seed=0):
    return 0.2 * np.random.default_rng(seed).normal(size=(b, 4))


@pytest.mark.parametrize("curvature", ["none", "diagonal", "full"])
def test_dual_sums(case, curvature):
    loss_name, agent, buggy, trusted = case
    lambda_alpha, lambda_z = np.array([0.0, 0.3, 0.1]), np.array([np.inf, 2.0, 5.0])
    r, theta = models(loss_name), models(loss_name, seed=1)
    query = DualSums(
        loss_name=loss_name, preparation=PREPARATION, r=r, theta=theta,
        lambda_alpha=lambda_alpha, lambda_z=lambda_z, curvature=curvature,
    )  # fmt: skip
    answer = ask(agent, query)
    for i, sums in enumerate(query.unpack(answer.arrays)):
        problem = TeachingProblem(loss_name, 1.0, 1.0, lambda_alpha[i], lambda_z[i], intercept=True)
        expected = row_maths.sums_at(problem, buggy, trusted, r[i], theta[i], curvature)
        for name, value in vars(expected).items():
            if value is None:
                assert getattr(sums, name) is None
            else:
                np.testing.assert_allclose(getattr(sums, name), value, rtol=1e-9, atol=1e-8, err_msg=name)
    assert answer.rows["alpha_x"] == N
    assert answer.rows["trusted_slope"] == 12


def test_dual_sums_of_kept_rows_and_folds(case):
    loss_name, agent, (features, targets), trusted = case
    model = models(loss_name, 4, seed=2)
    problem = TeachingProblem(loss_name, intercept=True)
    losses = row_maths.losses(problem, features, targets, model[2])
    thresholds = np.array([np.inf, 0.0, np.median(losses), 0.3])
    held_out = np.array([-1, 0, 1, 2])
    query = DualSums(
        loss_name=loss_name, preparation=PREPARATION, r=model, theta=model,
        lambda_alpha=np.zeros(4), lambda_z=np.full(4, np.inf),
        keep=Keep("loss", model, thresholds), held_out=held_out, n_folds=3,
    )  # fmt: skip
    answer = ask(agent, query)
    folds = fold_of(*trusted, 3)
    for i, sums in enumerate(query.unpack(answer.arrays)):
        kept = row_maths.losses(problem, features, targets, model[i]) < thresholds[i]
        left = folds != held_out[i]
        expected = row_maths.sums_at(
            problem, (features[kept], targets[kept]), (trusted[0][left], trusted[1][left]), model[i], model[i]
        )
        assert sums.rows == kept.sum()
        assert sums.trusted_rows == left.sum()
        np.testing.assert_allclose(sums.weight_xx, expected.weight_xx, rtol=1e-9, atol=1e-8)
        np.testing.assert_allclose(sums.alpha_x, expected.alpha_x, rtol=1e-9, atol=1e-8)
        np.testing.assert_allclose(sums.trusted_slope, expected.trusted_slope, rtol=1e-9, atol=1e-9)
    assert answer.arrays["rows"][0] == N
    assert answer.arrays["rows"][1] == 0


def test_rows_kept_by_alpha(case):
    loss_name, agent, (features, targets), _ = case
    model = models(loss_name, 1)
    problem = TeachingProblem(loss_name, intercept=True)
    alpha = np.abs(row_maths.alphas(problem, features, targets, model[0]))
    query = DualSums(
        loss_name=loss_name, preparation=PREPARATION, r=model, theta=model, lambda_alpha=np.zeros(1),
        lambda_z=np.full(1, np.inf), keep=Keep("alpha", model, np.array([np.median(alpha)])),
    )  # fmt: skip
    assert ask(agent, query).arrays["rows"][0] == (alpha >= np.median(alpha)).sum()


@pytest.mark.parametrize("lambda_alpha", [0.0, 0.4])
def test_curvature_times(case, lambda_alpha):
    loss_name, agent, buggy, trusted = case
    r, theta, along_r, along_theta = models(loss_name, 4)
    query = CurvatureTimes(
        loss_name=loss_name, preparation=PREPARATION, r=r, theta=theta, lambda_alpha=lambda_alpha, lambda_z=3.0,
        along_r=along_r, along_theta=along_theta,
    )  # fmt: skip
    problem = TeachingProblem(loss_name, 1.0, 1.0, lambda_alpha, 3.0, intercept=True)
    sums = row_maths.sums_at(problem, buggy, trusted, r, theta)
    found = ask(agent, query).arrays
    np.testing.assert_allclose(found["buggy"], sums.weight_xx @ along_r, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(found["trusted"], sums.trusted_bend @ along_theta, rtol=1e-9, atol=1e-8)
    assert (found["rows"], found["trusted_rows"]) == (N, 12)


def test_curvature_of_exactly_fitted_rows():
    features = np.random.default_rng(0).normal(size=(20, 2))
    agent = Agent("north", ArrayRows(features, np.zeros(20)))
    zero, along = np.zeros(2), np.array([1.0, 2.0])
    query = CurvatureTimes(
        loss_name="squared", preparation=Preparation.identity(2), r=zero, theta=zero, lambda_alpha=0.0,
        lambda_z=np.inf, along_r=along, along_theta=along,
    )  # fmt: skip
    np.testing.assert_allclose(ask(agent, query).arrays["buggy"], features.T @ features @ along)


@pytest.mark.parametrize("by", ["loss", "alpha"])
def test_score_histogram(case, by):
    loss_name, agent, (features, targets), _ = case
    model = models(loss_name, 2)
    edges = np.array([[0.0, 0.3, 0.5, 0.9], [0.1, 0.2, 0.6, 2.0]])
    query = ScoreHistogram(
        loss_name=loss_name, preparation=PREPARATION, by=by, model=model, edges=edges, lambda_alpha=0.1
    )
    counts = ask(agent, query).arrays["counts"]
    problem = TeachingProblem(loss_name, lambda_alpha=0.1, intercept=True)
    for i in range(2):
        score = row_maths.losses if by == "loss" else row_maths.alphas
        scores = np.abs(score(problem, features, targets, model[i]))
        whole = np.concatenate([[-np.inf], edges[i], [np.inf]])
        np.testing.assert_array_equal(counts[i], np.histogram(scores, whole)[0])
    assert (counts.sum(axis=1) == N).all()


@pytest.mark.parametrize("lambda_z", [np.inf, 2.0])
def test_subset_sum(case, lambda_z):
    loss_name, agent, (features, targets), _ = case
    r = models(loss_name, 3)
    problem = TeachingProblem(loss_name, 1.0, 1.0, 0.1, lambda_z, intercept=True)
    thresholds = np.array([0.0, 0.5, 1e9])
    query = SubsetSum(
        loss_name=loss_name, preparation=PREPARATION, r=r, lambda_alpha=0.1, lambda_z=lambda_z, thresholds=thresholds
    )
    found = ask(agent, query).arrays
    for i, threshold in enumerate(thresholds):
        alpha = row_maths.alphas(problem, features, targets, r[i])
        beta = row_maths.betas(problem, features, targets, r[i])
        chosen = np.abs(alpha) >= threshold
        signed = (alpha * problem.loss.signs(targets))[chosen]
        np.testing.assert_allclose(found["vector"][i], signed @ (features + beta)[chosen], rtol=1e-9, atol=1e-8)
        assert found["rows"][i] == chosen.sum()
    assert found["rows"][0] == N
    assert 0 < found["rows"][1] < N


def test_trusted_score(case):
    loss_name, agent, _, (features, targets) = case
    theta = models(loss_name, 4)
    fold = np.array([-1, 0, 1, 2])
    query = TrustedScore(loss_name=loss_name, preparation=PREPARATION, theta=theta, fold=fold, n_folds=3)
    found = ask(agent, query).arrays
    folds = fold_of(features, targets, 3)
    for i in range(4):
        chosen = np.ones(12, dtype=bool) if i == 0 else folds == fold[i]
        scores, wanted = (features @ theta[i])[chosen], targets[chosen]
        loss = (scores - wanted) ** 2 / 2 if loss_name == "squared" else np.log1p(np.exp(-wanted * scores))
        assert found["rows"][i] == chosen.sum()
        assert found["loss"][i] == pytest.approx(loss.sum())
        assert found["loss_sq"][i] == pytest.approx((loss**2).sum())
        assert found["hits"][i] == (np.sign(scores) == np.sign(wanted)).sum()
        assert found["target"][i] == pytest.approx(wanted.sum())
        assert found["target_sq"][i] == pytest.approx((wanted**2).sum())


def test_trusted_score_against_another_model_on_the_same_rows(case):
    loss_name, agent, _, (features, targets) = case
    theta, against = models(loss_name, 3), 0.1 * models(loss_name, 3)[::-1]
    query = TrustedScore(loss_name=loss_name, preparation=PREPARATION, theta=theta, against=against)
    found = ask(agent, query).arrays
    for i in range(3):
        ours, others = (
            (features @ model - targets) ** 2 / 2
            if loss_name == "squared"
            else np.log1p(np.exp(-targets * (features @ model)))
            for model in (theta[i], against[i])
        )
        assert found["product"][i] == pytest.approx((ours * others).sum())
        assert found["tenths"][i] == (ours < 0.1 * others).sum()


def test_residual_scale(case):
    loss_name, agent, (features, targets), (trusted, wanted) = case
    theta = models(loss_name, 1)[0]
    found = ask(agent, ResidualScale(loss_name=loss_name, preparation=PREPARATION, theta=theta)).arrays
    assert found["buggy"] == pytest.approx(((targets - features @ theta) ** 2).sum())
    assert found["trusted"] == pytest.approx(((wanted - trusted @ theta) ** 2).sum())


def test_spread_counts_buggy_and_trusted_rows():
    rng = np.random.default_rng(0)
    features, targets = rng.normal(size=(30, 2)), rng.normal(size=30)
    agent = Agent("north", ArrayRows(features[:20], targets[:20], features[20:], targets[20:]))
    found = ask(agent, Spread(center=np.array([1.0, 2.0, 3.0]))).arrays
    centered = np.column_stack([features, targets]) - [1.0, 2.0, 3.0]
    np.testing.assert_allclose(found["first"], centered.sum(axis=0))
    np.testing.assert_allclose(found["second"], (centered**2).sum(axis=0))
    assert found["rows"] == 30
    assert ask(agent, Spread(center=np.zeros(2))).arrays["first"].shape == (2,)


def test_owner_sees_every_row_in_order(case):
    loss_name, agent, (features, targets), _ = case
    r = models(loss_name, 1)[0]
    problem = TeachingProblem(loss_name, 1.0, 1.0, 0.1, 2.0, intercept=True)
    np.testing.assert_allclose(agent.alphas(problem, PREPARATION, r), row_maths.alphas(problem, features, targets, r))
    np.testing.assert_allclose(agent.losses(problem, PREPARATION, r), row_maths.losses(problem, features, targets, r))
    np.testing.assert_allclose(agent.scores(PREPARATION, r), features @ r)
    assert len(agent.ledger) == 0  # nothing left


def test_an_agent_without_rows_adds_zero():
    agent = Agent("empty", ArrayRows(np.empty((0, 2)), np.empty(0)))
    zero = np.zeros((1, 2))
    query = DualSums(
        loss_name="logistic", preparation=Preparation.identity(2), r=zero, theta=zero, lambda_alpha=np.zeros(1),
        lambda_z=np.full(1, 2.0),
    )  # fmt: skip
    answer = ask(agent, query)
    assert not any(array.any() for array in answer.arrays.values())
    assert set(answer.rows.values()) == {0}


def test_another_preparation_replaces_the_kept_rows():
    agent = Agent("north", ArrayRows(np.array([[2.0], [4.0]]), np.zeros(2)))
    first = Preparation(np.array([1.0]), np.array([1.0]))
    second = Preparation(np.array([0.0]), np.array([2.0]))
    for preparation, expected in ((first, [1.0, 3.0]), (second, [1.0, 2.0]), (first, [1.0, 3.0])):
        np.testing.assert_allclose(agent.scores(preparation, np.ones(1)), expected)
    np.testing.assert_array_equal(agent.rows.features, [[2.0], [4.0]])


def test_unknown_questions_are_refused():
    @dataclass(frozen=True, kw_only=True)
    class Rows(Query):
        purpose: ClassVar[str] = "all rows"

        def shapes(self):
            return {}

    agent = Agent("north", ArrayRows(np.zeros((1, 1)), np.zeros(1)))
    with pytest.raises(ProtocolError, match="does not know the question Rows"):
        agent.answer(Rows(), 1)


# the one stateful question


def step(round_number, shift, loss_name="squared", lambda_z=4.0, training="t", damping=1.0):
    return ProximalStep(
        loss_name=loss_name, preparation=Preparation.identity(2), training=training, round=round_number, lambda_w=1.5,
        lambda_alpha=0.0, lambda_z=lambda_z, shift=shift, sigma=3.0, damping=damping, theta=np.zeros(2),
    )  # fmt: skip


@pytest.mark.parametrize("lambda_z", [np.inf, 4.0])
@pytest.mark.parametrize("loss_name", LOSSES)
def test_proximal_step_minimises_its_objective(loss_name, lambda_z):
    """Σℓ*(−α) + λ_Z‖β‖² + (σ/2)‖τ − v‖² over (α, β), by brute force."""
    data = random_data(loss_name, n=8, d=2, m=3, seed=1)
    agent = Agent("north", ArrayRows(*data.buggy, *data.trusted))
    shift = np.array([0.2, -0.1])
    found = ask(agent, step(0, shift, loss_name, lambda_z)).arrays
    signs = data.targets if loss_name == "logistic" else np.ones(8)
    crafting = np.isfinite(lambda_z)

    def split(unknowns):
        alpha = 1 / (1 + np.exp(-unknowns[:8])) if loss_name == "logistic" else unknowns[:8]
        return alpha, unknowns[8:].reshape(8, 2) if crafting else np.zeros((8, 2))

    def objective(unknowns):
        alpha, beta = split(unknowns)
        tau = (alpha * signs) @ (data.features + beta) / 1.5
        if loss_name == "logistic":
            value = (alpha * np.log(alpha) + (1 - alpha) * np.log1p(-alpha)).sum()
        else:
            value = (alpha**2 / 2 - alpha * data.targets).sum()
        return value + (lambda_z * (beta**2).sum() if crafting else 0.0) + 1.5 * ((tau - shift) ** 2).sum()

    start = 0.1 * np.random.default_rng(0).normal(size=24 if crafting else 8)
    best = minimize(objective, start, method="BFGS", options={"gtol": 1e-7, "maxiter": 3000})
    alpha, beta = split(best.x)
    np.testing.assert_allclose(found["tau"], (alpha * signs) @ (data.features + beta) / 1.5, atol=1e-5)
    assert found["alpha_abs"] == pytest.approx(np.abs(alpha).sum(), abs=1e-4)
    assert found["beta_sq"] == pytest.approx((beta**2).sum(), abs=1e-5)
    assert found["moved_sq"] == pytest.approx(found["tau"] @ found["tau"])
    own = found["conjugate"] + (lambda_z * found["beta_sq"] if crafting else 0.0)
    assert own + 1.5 * ((found["tau"] - shift) ** 2).sum() == pytest.approx(best.fun, abs=1e-8)


def test_a_repeated_round_is_answered_but_not_applied_again():
    data = random_data("squared", n=20, d=2, m=3, seed=1)
    agent = Agent("north", ArrayRows(*data.buggy, *data.trusted))
    shift = np.array([0.2, -0.1])
    ask(agent, step(0, shift, damping=0.5))
    first = ask(agent, step(1, shift, damping=0.5)).arrays["tau"]
    again = ask(agent, step(1, shift, damping=0.5)).arrays["tau"]
    np.testing.assert_array_equal(first, again)
    assert ask(agent, step(2, shift, damping=0.5)).arrays["moved_sq"] > 0


@pytest.mark.parametrize(("first", "then"), [(None, 1), (0, 2), (1, 0.5)])
def test_a_jump_of_rounds_is_refused(first, then):
    data = random_data("squared", n=20, d=2, m=3, seed=1)
    agent = Agent("north", ArrayRows(*data.buggy, *data.trusted))
    for k in range(0 if first is None else first + 1):
        ask(agent, step(k, np.zeros(2)))
    with pytest.raises(ProtocolError, match="round 0"):
        ask(agent, step(then, np.zeros(2)))
    with pytest.raises(ProtocolError, match="training other"):
        ask(agent, step(1, np.zeros(2), training="other"))
