from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from comt.baselines.base import AgentRows, Array
from comt.baselines.rlr import Rlr, noisy_loss, rlr_fit
from comt.errors import InputError

TRUTH = np.array([0.3, 2.0, -1.5, 1.0, 0.0, 0.5])


def noisy_rows(n: int, down: float, up: float, seed: int = 0) -> tuple[Array, Array]:
    """Rows (first column ones) whose labels turn from -1 to +1 with chance ``up``, back with ``down``."""
    rng = np.random.default_rng(seed)
    features = np.column_stack([np.ones(n), rng.normal(size=(n, 5))])
    positive = rng.random(n) < expit(features @ TRUTH)
    flipped = rng.random(n) < np.where(positive, down, up)
    return features, np.where(positive ^ flipped, 1.0, -1.0)


def flips(up: float, down: float) -> Array:
    return np.array([[1 - up, up], [down, 1 - down]])


def published_update(scores: Array, positive: Array, gamma: Array) -> Array:
    """The authors' multiplicative update of gamma for fixed w, entry by entry."""
    p = expit(scores)
    s1 = gamma[0, 1] * (1 - p) + gamma[1, 1] * p
    s0 = 1 - s1
    g00 = gamma[0, 0] * ((1 - positive) / s0 * (1 - p)).sum()
    g01 = gamma[0, 1] * (positive / s1 * (1 - p)).sum()
    g10 = gamma[1, 0] * ((1 - positive) / s0 * p).sum()
    g11 = gamma[1, 1] * (positive / s1 * p).sum()
    return np.array([[g00 / (g00 + g01), g01 / (g00 + g01)], [g10 / (g10 + g11), g11 / (g10 + g11)]])


def test_gradient_matches_finite_differences() -> None:
    features, labels = noisy_rows(200, 0.1, 0.3)
    positive, step = (labels > 0) * 1.0, 1e-5
    point = np.append(np.random.default_rng(1).normal(size=6), [0.25, 0.1])

    def loss(point: Array) -> float:
        return noisy_loss(point[:6], point[6:], features, positive, 1.5)[0]

    numeric = [(loss(point + step * e) - loss(point - step * e)) / (2 * step) for e in np.eye(8)]
    _, by_coef, by_flips = noisy_loss(point[:6], point[6:], features, positive, 1.5)
    np.testing.assert_allclose(np.append(by_coef, by_flips), numeric, atol=1e-5)


def test_without_flips_gradient_and_fit_are_those_of_logistic_regression() -> None:
    features, labels = noisy_rows(500, 0.1, 0.1)
    positive = (labels > 0) * 1.0
    coef = np.random.default_rng(1).normal(size=6)
    gradient = noisy_loss(coef, np.zeros(2), features, positive, 0.0)[1]
    np.testing.assert_allclose(gradient, -features.T @ (positive - expit(features @ coef)), atol=1e-10)
    np.testing.assert_array_equal(published_update(features @ coef, positive, np.eye(2)), np.eye(2))

    found, gamma, _ = rlr_fit(features, labels, lambda_w=2.0, start=0.0)
    peer = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10).fit(features, labels)
    np.testing.assert_allclose(found, peer.coef_[0], atol=1e-4)
    np.testing.assert_array_equal(gamma, np.eye(2))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.floats(0.01, 0.49), st.floats(0.01, 0.49))
def test_published_update_never_raises_our_loss(seed: int, up: float, down: float) -> None:
    features, labels = noisy_rows(100, 0.2, 0.3, seed)
    positive = (labels > 0) * 1.0
    coef = np.random.default_rng(seed).normal(size=6)
    after = published_update(features @ coef, positive, flips(up, down))
    old = noisy_loss(coef, np.array([up, down]), features, positive, 0.0)[0]
    new = noisy_loss(coef, np.array([after[0, 1], after[1, 0]]), features, positive, 0.0)[0]
    assert new <= old + 1e-9


@pytest.mark.parametrize("start", [0.1, 0.4])
def test_fit_is_a_fixed_point_of_the_published_update(start: float) -> None:
    features, labels = noisy_rows(4000, 0.1, 0.3, 2)
    coef, gamma, loss = rlr_fit(features, labels, start=start)
    positive = (labels > 0) * 1.0
    np.testing.assert_allclose(published_update(features @ coef, positive, gamma), gamma, atol=1e-5)
    again, by_coef, by_flips = noisy_loss(coef, np.array([gamma[0, 1], gamma[1, 0]]), features, positive, 1.0)
    assert again == pytest.approx(loss, rel=1e-12)
    assert np.abs(np.append(by_coef, by_flips)).max() < 1e-4 * len(labels)


def test_exchanged_classes_have_the_same_likelihood() -> None:
    features, labels = noisy_rows(300, 0.2, 0.3)
    positive = (labels > 0) * 1.0
    one = noisy_loss(TRUTH, np.array([0.3, 0.2]), features, positive, 1.0)[0]
    other = noisy_loss(-TRUTH, np.array([0.8, 0.7]), features, positive, 1.0)[0]
    assert one == pytest.approx(other, rel=1e-13)


@pytest.mark.parametrize("seed", [0, 1])
def test_unequal_flips_are_recovered(seed: int) -> None:
    features, labels = noisy_rows(8000, 0.1, 0.3, seed)
    model = Rlr().fit([agent("one", features, labels, 0)], "classification")
    np.testing.assert_allclose(model.found["gamma"][0], flips(0.3, 0.1), atol=0.06)
    np.testing.assert_allclose(model.coef, TRUTH, atol=0.35)
    plain = LogisticRegression(C=1.0, fit_intercept=False).fit(features, labels).coef_[0]
    assert np.linalg.norm(model.coef - TRUTH) < 0.3 * np.linalg.norm(plain - TRUTH)


def test_strong_symmetric_flips_from_every_start() -> None:
    features, labels = noisy_rows(8000, 0.4, 0.4)
    losses = [rlr_fit(features, labels, start=start)[2] for start in (0.1, 0.2, 0.3, 0.4)]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-6)
    coef = Rlr().fit([agent("one", features, labels, 0)], "classification").coef
    assert coef @ TRUTH / np.linalg.norm(coef) / np.linalg.norm(TRUTH) > 0.98


def test_mostly_wrong_labels_do_not_leave_the_classes_exchanged_in_gamma() -> None:
    features, labels = noisy_rows(1000, 0.1, 0.1)
    for start in (0.1, 0.45):
        gamma = rlr_fit(features, -labels, start=start)[1]
        assert gamma[0, 1] + gamma[1, 0] <= 1.0


def agent(name: str, features: Array, labels: Array, trusted: int) -> AgentRows:
    """An agent whose trusted rows are fresh and without flips."""
    trusted_features, trusted_labels = noisy_rows(trusted, 0.0, 0.0, seed=99)
    return AgentRows(name, features, labels, trusted_features, trusted_labels)


def federation() -> list[AgentRows]:
    sizes = [(3000, 50), (1500, 10), (700, 0)]
    return [agent(f"agent {k}", *noisy_rows(n, 0.05, 0.4, k), m) for k, (n, m) in enumerate(sizes)]


@pytest.mark.parametrize("use_trusted", ["append", "ignore"])
def test_federation_beats_plain_training(use_trusted: str) -> None:
    agents = federation()
    model = Rlr(use_trusted=use_trusted).fit(agents, "classification")
    plain = LogisticRegression(C=1.0, fit_intercept=False).fit(
        np.concatenate([a.features for a in agents]), np.concatenate([a.targets for a in agents])
    )
    assert np.linalg.norm(model.coef - TRUTH) < 0.5 * np.linalg.norm(plain.coef_[0] - TRUTH)
    features, clean = noisy_rows(5000, 0.0, 0.0, seed=50)
    right = np.mean(np.sign(model.predict(features)) == clean)
    assert right > np.mean(np.sign(features @ plain.coef_[0]) == clean) + 0.02
    assert [gamma.shape for gamma in model.found["gamma"]] == [(2, 2)] * 3


def test_federation_weighs_agents_by_their_rows() -> None:
    agents = federation()
    local = np.array([rlr_fit(a.features, a.targets, start=0.2)[0] for a in agents])
    model = Rlr(flip_starts=(0.2,), use_trusted="ignore").fit(agents, "classification")
    np.testing.assert_allclose(model.coef, np.array([3000, 1500, 700]) / 5200 @ local)


def test_unusable_parameters_are_refused() -> None:
    with pytest.raises(InputError, match="flip_starts"):
        Rlr(flip_starts=(0.6,))
    with pytest.raises(InputError, match="rLR"):
        Rlr().fit(federation(), "regression")
