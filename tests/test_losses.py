"""Both losses against their definitions: finite differences, numerical suprema, scalar searches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit

from comt.losses import LogisticLoss, SquaredLoss, get_loss
from teaching import LOSSES

SCORES = st.floats(-30, 30)
EXTREME = [-800.0, -300.0, -40.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 40.0, 300.0, 800.0]


def targets_of(loss_name, seed, n=1):
    rng = np.random.default_rng(seed)
    return rng.choice([-1.0, 1.0], n) if loss_name == "logistic" else 3 * rng.normal(size=n)


def one(*numbers):
    return tuple(np.array([number], dtype=float) for number in numbers)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_found_by_name(name):
    assert get_loss(name).name == name


@pytest.mark.parametrize("name", LOSSES)
@given(score=SCORES, seed=st.integers(0, 1000))
def test_slope_and_bend_are_derivatives_of_the_value(name, score, seed):
    loss = get_loss(name)
    target = targets_of(name, seed)
    step = 1e-5
    above, below = one(score + step)[0], one(score - step)[0]
    slope = (loss.value(above, target) - loss.value(below, target)) / (2 * step)
    bend = (loss.slope(above, target) - loss.slope(below, target)) / (2 * step)
    np.testing.assert_allclose(loss.slope(np.array([score]), target), slope, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(loss.bend(np.array([score]), target), bend, rtol=1e-5, atol=1e-9)


def test_values_by_hand():
    np.testing.assert_allclose(SquaredLoss().value(*one(3.0, 1.0)), [2.0])
    np.testing.assert_allclose(LogisticLoss().value(*one(0.0, 1.0)), [np.log(2.0)])
    np.testing.assert_allclose(LogisticLoss().value(*one(np.log(3.0), -1.0)), [np.log(4.0)])
    # no overflow, and no digit lost in the tail
    np.testing.assert_allclose(LogisticLoss().value(*one(-800.0, 1.0)), [800.0])
    np.testing.assert_allclose(LogisticLoss().value(*one(60.0, 1.0)), [np.exp(-60.0)], rtol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_value_leaves_its_arguments_alone(name):
    scores, targets = np.array([0.5, -2.0]), np.array([1.0, -1.0])
    loss = get_loss(name)
    loss.value(scores, targets), loss.slope(scores, targets), loss.dual(scores, targets, 0.3, 0.2)
    np.testing.assert_array_equal(scores, [0.5, -2.0])
    np.testing.assert_array_equal(targets, [1.0, -1.0])


@pytest.mark.parametrize("name", LOSSES)
@given(share=st.floats(1e-3, 1 - 1e-3), seed=st.integers(0, 1000))
def test_conjugate_is_the_supremum(name, share, seed):
    """ℓ*(−α) = sup over z of −α s z − ℓ(z)."""
    loss = get_loss(name)
    target = targets_of(name, seed)
    alpha = np.array([share if name == "logistic" else 20 * share - 10])
    sign = loss.signs(target)

    def negative(z):
        return float((alpha * sign * z + loss.value(np.array([z]), target))[0])

    best = minimize_scalar(negative, bounds=(-40, 40), method="bounded", options={"xatol": 1e-9})
    np.testing.assert_allclose(loss.conjugate(alpha, target), [-best.fun], rtol=1e-9, atol=1e-10)


def test_conjugate_of_the_logistic_loss_ends_at_zero():
    ends = LogisticLoss().conjugate(np.array([0.0, 1.0, 0.5]), np.ones(3))
    np.testing.assert_allclose(ends, [0.0, 0.0, -np.log(2.0)])


def brute_phi(name, z, y, lambda_alpha, c):
    """φ = max over a of −ℓ*(−a) − λ_α|a| − a s z + c a²/2, by scalar search where the maximiser must lie."""
    if name == "squared":

        def negative(a):
            return 0.5 * a * a - a * y + lambda_alpha * abs(a) + a * z - 0.5 * c * a * a

        reach = (abs(y - z) + 1) / (1 - c)
        ends = (-reach, 0.0), (0.0, reach)  # one search on either side of the kink
    else:
        start = -lambda_alpha - y * z

        def negative(t):
            a, rest = expit(t), expit(-t)
            entropy = a * np.logaddexp(0, -t) + rest * np.logaddexp(0, t)
            return -(entropy + a * start + 0.5 * c * a * a)

        ends = ((start - 1.0, start + c + 1.0),)
    searches = [minimize_scalar(negative, bounds=e, method="bounded", options={"xatol": 1e-10}) for e in ends]
    return -min([0.0 if name == "squared" else np.inf, *(found.fun for found in searches)])


def check_dual(name, z, y, lambda_alpha, c):
    loss = get_loss(name)
    alpha, phi, _ = (np.ravel(part)[0] for part in loss.dual(*one(z, y), lambda_alpha, c))
    sign = y if name == "logistic" else 1.0
    if name == "squared":
        # 0 ∈ (1 − c)a − (y − z) + λ_α ∂|a|
        distance = y - z - (1 - c) * alpha
        if alpha == 0:
            assert abs(distance) <= lambda_alpha
        else:
            assert distance == pytest.approx(np.sign(alpha) * lambda_alpha, abs=1e-13 * (1 + abs(y - z)))
    else:
        logit = -lambda_alpha - y * z + c * alpha
        # abs: near c = 4 an error in α reproduces itself almost unchanged, so this is the sharp test there
        assert alpha == pytest.approx(expit(logit), rel=1e-12, abs=1e-300)
        assert 0 <= alpha <= 1
    assert phi == pytest.approx(brute_phi(name, z, y, lambda_alpha, c), rel=1e-9, abs=1e-12)
    step = 1e-5
    _, above, _ = loss.dual(*one(z + step, y), lambda_alpha, c)
    _, below, _ = loss.dual(*one(z - step, y), lambda_alpha, c)
    # φ is in the thousands at the extremes: its rounding limits the difference quotient
    rounding = 4e-16 * (1 + abs(phi)) / step
    assert ((above - below) / (2 * step))[0] == pytest.approx(-alpha * sign, rel=1e-5, abs=1e-7 + rounding)


@given(
    z=st.floats(-50, 50),
    y=st.floats(-50, 50),
    lambda_alpha=st.one_of(st.just(0.0), st.floats(1e-3, 20)),
    c=st.one_of(st.just(0.0), st.floats(1e-6, 0.999)),
)
def test_dual_of_the_squared_loss(z, y, lambda_alpha, c):
    assume(abs(abs(y - z) - lambda_alpha) > 1e-3)  # differences across the kink mean nothing
    check_dual("squared", z, y, lambda_alpha, c)
    alpha, _, weight = SquaredLoss().dual(*one(z, y), lambda_alpha, c)
    moved, _, _ = SquaredLoss().dual(*one(z + 1e-6, y), lambda_alpha, c)
    assert ((alpha - moved) / 1e-6)[0] == pytest.approx(weight if alpha[0] != 0 else 0.0, rel=1e-4)


@given(
    z=st.floats(-800, 800),
    y=st.sampled_from([-1.0, 1.0]),
    lambda_alpha=st.one_of(st.just(0.0), st.floats(1e-3, 20)),
    c=st.one_of(st.just(0.0), st.floats(1e-6, 3.99)),
)
def test_dual_of_the_logistic_loss(z, y, lambda_alpha, c):
    check_dual("logistic", z, y, lambda_alpha, c)


@given(z=st.floats(-5, 5), y=st.sampled_from([-1.0, 1.0]), c=st.floats(3.5, 3.99))
def test_dual_of_the_logistic_loss_near_the_limit_of_crafting(z, y, c):
    check_dual("logistic", z, y, 0.0, c)


@pytest.mark.parametrize("score", EXTREME)
@pytest.mark.parametrize("c", [0.0, 0.5, 3.99])
def test_logistic_dual_at_extreme_scores(score, c):
    for target in (-1.0, 1.0):
        check_dual("logistic", score, target, 0.0, c)


@pytest.mark.parametrize("score", EXTREME)
@pytest.mark.parametrize("c", [0.0, 0.5, 0.999])
def test_squared_dual_at_extreme_scores(score, c):
    check_dual("squared", score, 0.5, 0.0, c)


@given(z=st.floats(-20, 20), y=st.sampled_from([-1.0, 1.0]), c=st.one_of(st.just(0.0), st.floats(1e-6, 3.99)))
def test_logistic_weight_is_the_derivative_of_alpha(z, y, c):
    loss, step = LogisticLoss(), 1e-6
    weight = loss.dual(*one(z, y), 0.1, c)[2]
    up, down = loss.dual(*one(z + step, y), 0.1, c)[0], loss.dual(*one(z - step, y), 0.1, c)[0]
    np.testing.assert_allclose(-(up - down) / (2 * step) * y, weight, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("c", [0.0, 1.0, 3.99])
def test_the_worst_row_of_a_block_does_not_spoil_the_others(c):
    """All rows are iterated together, so an extreme one must not end the iteration for the rest."""
    loss = LogisticLoss()
    scores = np.array([*np.linspace(-6, 6, 41), 800.0, -800.0, 1e6])
    together = loss.dual(scores, np.ones(len(scores)), 0.0, c)[0]
    alone = np.concatenate([loss.dual(np.array([z]), np.ones(1), 0.0, c)[0] for z in scores])
    np.testing.assert_allclose(together, alone, rtol=1e-9)


def test_dual_of_no_rows():
    for name in LOSSES:
        alpha, phi, _ = get_loss(name).dual(np.empty(0), np.empty(0), 0.1, 0.1)
        assert alpha.shape == phi.shape == (0,)


def test_predicted_means():
    np.testing.assert_allclose(SquaredLoss().predict_mean(np.array([2.0])), [2.0])
    np.testing.assert_allclose(LogisticLoss().predict_mean(np.array([0.0, np.log(3.0)])), [0.5, 0.75])
