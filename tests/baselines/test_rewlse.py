from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import halfnorm

from comt.baselines.base import AgentRows, Array
from comt.baselines.lts import least_trimmed_squares
from comt.baselines.rewlse import Rewlse, kept_rows, rewlse_fit
from comt.errors import InputError

SMALL = [0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7, -0.8]


def gross_rows(n: int = 2000, p: int = 10, bad: float = 0.3, seed: int = 0) -> tuple[Array, Array, Array, Array]:
    """Rows of which a share are bad leverage points: far out in x, and far off in y."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=p)
    features = rng.normal(size=(n, p))
    targets = features @ truth + rng.normal(size=n)
    wrong = np.arange(n) < bad * n
    features[wrong] += 6.0
    targets[wrong] = 50.0 + rng.normal(size=wrong.sum())
    return features, targets, truth, wrong


def test_two_far_residuals_are_dropped() -> None:
    np.testing.assert_array_equal(kept_rows(np.array([*SMALL, 10.0, -12.0])), [True] * 8 + [False] * 2)


def test_a_moderate_tail_is_kept() -> None:
    # d = F+(3) - 0.9 = 0.0973, and 10 d < 1
    assert halfnorm.cdf(3.0) - 0.9 == pytest.approx(0.0973002, abs=1e-7)
    assert kept_rows(np.array([*SMALL, 2.0, 3.0])).all()


def test_short_tails_lose_nothing() -> None:
    assert kept_rows(np.linspace(-2, 2, 20)).all()


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=60), st.floats(0.5, 4.0))
def test_count_form_is_the_supremum_form(values: list[float], eta: float) -> None:
    residuals = np.array(values)
    n, size = len(values), np.abs(values)
    # the supremum over t >= eta is approached just below the jumps of the empirical cdf
    at = np.concatenate([size[size >= eta], [eta]])
    below = np.array([(size < t).mean() for t in at])
    excess = np.maximum(halfnorm.cdf(at) - below, 0.0)[:-1].max(initial=0.0)
    dropped = ~kept_rows(residuals, eta)
    assert dropped.sum() <= n * excess + 1e-6
    assert dropped.sum() >= min(np.floor(n * excess - 1e-6), (size > eta).sum())
    assert not dropped.any() or size[dropped].min() >= size[~dropped].max(initial=0.0)
    assert (size[dropped] > eta).all()


def test_gaussian_residuals_lose_a_vanishing_share() -> None:
    rng = np.random.default_rng(0)
    shares = [np.mean([1 - kept_rows(rng.normal(size=n)).mean() for _ in range(200)]) for n in (50, 200, 2000)]
    assert shares[0] < 0.008
    assert shares[2] < 0.003
    assert shares[2] < shares[0]


def test_trimmed_squares_match_an_exhaustive_search() -> None:
    rng = np.random.default_rng(3)
    features, n, p = rng.normal(size=(13, 2)), 13, 2
    targets = features @ [1.0, -1.0] + rng.normal(size=13)
    targets[:4] += 10.0
    h = (n + p + 1) // 2

    def loss(coef: Array) -> float:
        return float(np.sort((targets - features @ coef) ** 2)[:h].sum())

    halves = (np.array(half) for half in combinations(range(n), h))
    best = min(loss(np.linalg.lstsq(features[half], targets[half])[0]) for half in halves)
    assert loss(least_trimmed_squares(features, targets)) == pytest.approx(best, rel=1e-9)


def test_bad_leverage_points_are_all_found() -> None:
    features, targets, truth, wrong = gross_rows()
    coef, kept = rewlse_fit(features, targets)
    plain = np.linalg.lstsq(features, targets)[0]
    assert np.linalg.norm(coef - truth) < 0.15
    assert np.linalg.norm(plain - truth) > 0.8
    assert not kept[wrong].any()
    assert kept[~wrong].mean() > 0.99


def test_clean_rows_cost_little_efficiency() -> None:
    rng = np.random.default_rng(0)
    errors = []
    for seed in range(60):
        features, targets = rng.normal(size=(200, 4)), rng.normal(size=200)
        fits = (
            np.linalg.lstsq(features, targets)[0],
            rewlse_fit(features, targets, seed=seed)[0],
            least_trimmed_squares(features, targets, seed=seed),
        )
        errors.append([fit @ fit for fit in fits])
    plain, reweighted, trimmed = np.mean(errors, axis=0)
    assert reweighted < 1.4 * plain
    assert trimmed > 3 * reweighted


def test_without_outliers_it_is_least_squares() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(100, 3))
    targets = features @ [1.0, 2.0, 3.0] + rng.uniform(-1, 1, size=100)
    coef, kept = rewlse_fit(features, targets)
    assert kept.all()
    np.testing.assert_allclose(coef, np.linalg.lstsq(features, targets)[0], atol=1e-12)
    ridge = np.linalg.solve(features.T @ features + 5 * np.eye(3), features.T @ targets)
    np.testing.assert_allclose(rewlse_fit(features, targets, lambda_w=5.0)[0], ridge, atol=1e-12)


@settings(max_examples=10, deadline=None)
@given(st.floats(-50, 50).filter(lambda a: abs(a) > 0.01), st.integers(0, 1000))
def test_equivariance(factor: float, seed: int) -> None:
    features, targets, *_ = gross_rows(n=300, p=4, seed=seed)
    rng = np.random.default_rng(seed)
    shift, mix = rng.normal(size=4), rng.normal(size=(4, 4)) + 3 * np.eye(4)
    coef, kept = rewlse_fit(features, targets)
    moved, moved_kept = rewlse_fit(features, factor * targets + features @ shift)
    np.testing.assert_allclose(moved, factor * coef + shift, atol=1e-7 * (1 + abs(factor)))
    np.testing.assert_array_equal(kept, moved_kept)
    mixed, _ = rewlse_fit(features @ mix, targets)
    np.testing.assert_allclose(mix @ mixed, coef, atol=1e-7)


def test_rows_on_a_plane_are_fitted_exactly() -> None:
    features, _, truth, wrong = gross_rows(n=200, p=3)
    targets = np.where(wrong, 100.0, features @ truth)
    coef, kept = rewlse_fit(features, targets)
    np.testing.assert_allclose(coef, truth, atol=1e-10)
    np.testing.assert_array_equal(kept, ~wrong)


def test_a_category_in_few_rows_and_a_constant_zero_column() -> None:
    features, targets, truth, _ = gross_rows(n=400, p=4, bad=0.2)
    rare = (np.arange(400) % 40 == 39) * 1.0
    wide = np.column_stack([features, rare, np.zeros(400)])
    coef, _ = rewlse_fit(wide, targets + 7 * rare, lambda_w=1e-6)
    np.testing.assert_allclose(coef[:4], truth, atol=0.3)
    assert coef[4] == pytest.approx(7.0, abs=1.5)


def test_fewer_rows_than_features_is_ridge() -> None:
    rng = np.random.default_rng(0)
    features, targets = rng.normal(size=(3, 5)), rng.normal(size=3)
    expected = np.linalg.solve(features.T @ features + np.eye(5), features.T @ targets)
    np.testing.assert_allclose(rewlse_fit(features, targets, lambda_w=1.0)[0], expected)


def federation() -> tuple[list[AgentRows], list[Array], Array]:
    rng = np.random.default_rng(5)
    agents, wrongs = [], []
    for k, (n, m) in enumerate([(500, 20), (200, 5), (90, 0)]):
        features, targets, truth, wrong = gross_rows(n=n, p=4, seed=0)
        trusted = rng.normal(size=(m, 4))
        agents.append(AgentRows(f"agent {k}", features, targets, trusted, trusted @ truth))
        wrongs.append(wrong)
    return agents, wrongs, truth


@pytest.mark.parametrize("use_trusted", ["append", "ignore"])
def test_federation_beats_plain_training(use_trusted: str) -> None:
    agents, wrongs, truth = federation()
    model = Rewlse(use_trusted=use_trusted).fit(agents, "regression")
    features, targets = (np.concatenate([getattr(a, part) for a in agents]) for part in ("features", "targets"))
    plain = np.linalg.solve(features.T @ features + np.eye(4), features.T @ targets)
    assert np.linalg.norm(model.coef - truth) < 0.2 * np.linalg.norm(plain - truth)
    for agent, wrong, kept in zip(agents, wrongs, model.found["kept"], strict=True):
        assert kept.shape == agent.targets.shape
        assert not kept[wrong].any()


def test_federation_weighs_agents_by_their_rows() -> None:
    agents, *_ = federation()
    local = [rewlse_fit(a.features, a.targets, lambda_w=1.0)[0] for a in agents]
    model = Rewlse(use_trusted="ignore").fit(agents, "regression")
    np.testing.assert_allclose(model.coef, np.array([500, 200, 90]) / 790 @ np.array(local))


def test_classification_is_refused() -> None:
    with pytest.raises(InputError, match="REWLSE"):
        Rewlse().fit(federation()[0], "classification")
