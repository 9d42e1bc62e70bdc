from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from comt.baselines.base import AgentRows, Array
from comt.baselines.rolr import Rolr, rolr_fit, screened_rows, trimmed_margin_direction
from comt.errors import InputError


def labelled_rows(n: int, d: int, slope: float, seed: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=d)
    truth /= np.linalg.norm(truth)
    features = rng.normal(size=(n, d))
    return features, np.where(rng.random(n) < expit(slope * features @ truth), 1.0, -1.0), truth


def outlier_rows(seed: int = 0, n: int = 1000, d: int = 10) -> tuple[Array, Array, Array, Array]:
    """A tenth of the rows is replaced by huge features whose labels oppose the truth."""
    features, labels, truth = labelled_rows(n, d, 5.0, seed)
    rng = np.random.default_rng(seed + 100)
    wrong = np.arange(n) < n // 10
    features[wrong] = 20 * rng.normal(size=(wrong.sum(), d))
    labels[wrong] = -np.sign(features[wrong] @ truth)
    return features, labels, truth, wrong


def cosine(a: Array, b: Array) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_without_trimming_it_is_the_mean_row() -> None:
    features, labels, _ = labelled_rows(200, 5, 1.0, 0)
    mean = labels @ features
    direction, value = trimmed_margin_direction(features, labels, 200)
    np.testing.assert_allclose(direction, mean / np.linalg.norm(mean), atol=1e-14)
    assert value == pytest.approx(np.linalg.norm(mean))


@pytest.mark.parametrize(("last", "direction", "value"), [(-1.0, 1.0, 2.0), (-4.0, 0.0, 0.0)])
def test_one_feature_known_answers(last: float, direction: float, value: float) -> None:
    found = trimmed_margin_direction(np.array([[1.0], [2.0], [3.0], [last]]), np.ones(4), 3)
    assert found[0].tolist() == [direction]
    assert found[1] == value


def test_two_features_agree_with_a_linear_program() -> None:
    features, labels, _ = labelled_rows(80, 2, 2.0, 1)
    counted, n, sides = 70, 80, 2000
    direction, value = trimmed_margin_direction(features, labels, counted)
    # min counted nu + sum xi, y beta.x + nu + xi >= 0, xi >= 0, beta in a regular polygon around the disc
    angle = 2 * np.pi * np.arange(sides) / sides
    margins = labels[:, None] * features
    found = linprog(
        np.concatenate([np.zeros(2), [counted], np.ones(n)]),
        A_ub=np.block(
            [
                [-margins, -np.ones((n, 1)), -np.eye(n)],
                [np.cos(angle)[:, None], np.sin(angle)[:, None], np.zeros((sides, n + 1))],
            ]
        ),
        b_ub=np.concatenate([np.zeros(n), np.ones(sides)]),
        bounds=[(None, None)] * 3 + [(0, None)] * n,
    )
    # the polygon reaches out of the disc by 1/cos(pi/sides)
    assert value <= -found.fun + 1e-9
    assert value == pytest.approx(-found.fun, rel=3e-6)
    np.testing.assert_allclose(direction, found.x[:2], atol=3e-3)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12), st.floats(0.02, 0.3))
def test_duality_certificate_and_no_better_direction(seed: int, d: int, trimmed: float) -> None:
    features, labels, _ = labelled_rows(150, d, 5.0, seed)
    counted = 150 - int(150 * trimmed)
    direction, value = trimmed_margin_direction(features, labels, counted)

    def total(beta: Array) -> float:
        return float(np.sort(labels * (features @ beta))[:counted].sum())

    assert total(direction) == pytest.approx(value, abs=1e-8)
    rng = np.random.default_rng(seed)
    for scale in (1e-3, 1e-1, 10.0):
        other = direction + scale * rng.normal(size=d)
        assert total(other / max(1.0, float(np.linalg.norm(other)))) <= value + 1e-7


def test_supergradient_ascent_finds_the_same_value() -> None:
    features, labels, _ = labelled_rows(300, 6, 3.0, 2)
    rows, counted = labels[:, None] * features, 260
    beta = rows.mean(axis=0) / np.linalg.norm(rows.mean(axis=0))
    best = -np.inf
    for step in range(1, 2001):
        chosen = np.argpartition(rows @ beta, counted - 1)[:counted]
        best = max(best, float((rows[chosen] @ beta).sum()))
        ascent = rows[chosen].mean(axis=0)
        beta = beta + ascent / np.linalg.norm(ascent) / np.sqrt(step)
        beta /= max(1.0, float(np.linalg.norm(beta)))
    value = trimmed_margin_direction(features, labels, counted)[1]
    assert best <= value + 1e-9
    assert best == pytest.approx(value, rel=1e-3)


def test_screen_finds_huge_rows_and_keeps_ordinary_ones() -> None:
    features, _, _, wrong = outlier_rows()
    kept = screened_rows(features)
    assert kept[~wrong].all()
    assert kept[wrong].mean() < 0.1
    assert not screened_rows(features, 0.1)[wrong].any()
    # a column of ones has no spread to judge by
    np.testing.assert_array_equal(screened_rows(np.column_stack([features, np.ones(1000)])), kept)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_huge_rows_with_opposite_labels(seed: int) -> None:
    features, labels, truth, _ = outlier_rows(seed)
    plain = LogisticRegression(fit_intercept=False).fit(features, labels).coef_[0]
    assert cosine(plain, truth) < -0.7
    unscreened, _ = trimmed_margin_direction(features, labels, 900)
    assert not unscreened.any() or cosine(unscreened, truth) < 0.5
    assert cosine(rolr_fit(features, labels)[0], truth) > 0.96
    assert cosine(rolr_fit(features, labels, outlier_fraction=0.1)[0], truth) > 0.97


def test_weak_signal_and_strong_trimming_fall_back_with_a_warning() -> None:
    features, labels, _ = labelled_rows(1000, 5, 0.3, 0)
    with pytest.warns(UserWarning, match="lower trimmed_fraction"):
        direction, _ = rolr_fit(features, labels, trimmed_fraction=0.3)
    mean = labels @ features
    np.testing.assert_allclose(direction, mean / np.linalg.norm(mean))


def federation() -> tuple[list[AgentRows], Array, Array, Array]:
    truth = labelled_rows(2, 6, 5.0, 7)[2]
    rng = np.random.default_rng(7)

    def clean(n: int) -> tuple[Array, Array]:
        features = rng.normal(size=(n, 6))
        return features, np.where(rng.random(n) < expit(5 * features @ truth), 1.0, -1.0)

    agents = []
    for k, (n, m) in enumerate([(600, 30), (300, 10), (120, 0)]):
        features, labels = clean(n)
        wrong = np.arange(n) < n // 10
        features[wrong] *= 20
        labels[wrong] = -np.sign(features[wrong] @ truth)
        agents.append(AgentRows(f"agent {k}", features, labels, *clean(m)))
    return agents, *clean(2000), truth


@pytest.mark.parametrize("use_trusted", ["append", "ignore"])
def test_federation_beats_plain_training(use_trusted: str) -> None:
    agents, test_features, test_labels, truth = federation()
    model = Rolr(use_trusted=use_trusted).fit(agents, "classification")
    plain = LogisticRegression(fit_intercept=False).fit(
        np.concatenate([a.features for a in agents]), np.concatenate([a.targets for a in agents])
    )
    auc = roc_auc_score(test_labels, model.predict(test_features))
    assert auc > roc_auc_score(test_labels, test_features @ plain.coef_[0]) + 0.3
    assert cosine(model.coef, truth) > 0.95
    assert np.linalg.norm(model.coef) == pytest.approx(1.0)
    assert [kept.size for kept in model.found["kept"]] == [600, 300, 120]


def test_federation_averages_unit_directions_by_rows() -> None:
    agents, *_ = federation()
    local = np.array([rolr_fit(a.features, a.targets)[0] for a in agents])
    mean = np.array([600.0, 300.0, 120.0]) @ local
    model = Rolr(use_trusted="ignore").fit(agents, "classification")
    np.testing.assert_allclose(model.coef, mean / np.linalg.norm(mean), atol=1e-12)


def test_unusable_parameters_are_refused() -> None:
    with pytest.raises(InputError, match="trimmed_fraction"):
        Rolr(trimmed_fraction=1.0)
    with pytest.raises(InputError, match="RoLR"):
        Rolr().fit(federation()[0], "regression")
