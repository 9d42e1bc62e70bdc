"""Federated medians and quartiles against numpy's, which sees the rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comt.agent import Agent, ArrayRows
from comt.federation import LocalFederation
from comt.server.scaling import CONSTANT, NORMAL_DECILES, NORMAL_IQR, agree_on_preparation, center_and_scale

N = 4000


def columns():
    rng = np.random.default_rng(0)
    normal = rng.normal(size=N)
    return {
        "normal": normal,
        "shifted": 5.0 + 3.0 * normal,
        "negative": -100.0 + normal,
        "lognormal": np.exp(2.0 * normal),
        "million": 1e6 + normal,
        "minus million": -1e6 + normal,
        "tiny": 1e-9 * normal,
        "huge": 1e9 * normal,
        "astronomic": 1e15 * normal,
        "seconds since 1970": 1.7e9 + normal,
        "cauchy": rng.standard_cauchy(N),
        "uniform": rng.uniform(-1, 1, N),
        "exponential": rng.exponential(size=N),
        "two heaps": np.where(rng.random(N) < 0.5, -50.0, 50.0) + normal,
        "years": rng.integers(1900, 2025, N).astype(float),
    }


def federate(values, n_agents=3, seed=0, trusted=0.1):
    """Deal the rows of a table (targets last) out; a tenth of them are trusted."""
    rng = np.random.default_rng(seed)
    owner, is_trusted = rng.integers(n_agents, size=len(values)), rng.random(len(values)) < trusted
    agents = []
    for k in range(n_agents):
        mine, ours = values[(owner == k) & ~is_trusted], values[(owner == k) & is_trusted]
        agents.append(Agent(f"a{k}", ArrayRows(mine[:, :-1], mine[:, -1], ours[:, :-1], ours[:, -1])))
    return LocalFederation(agents, threads=1)


@pytest.fixture(scope="module")
def table():
    named = columns()
    values = np.column_stack([*named.values(), np.zeros(N)])
    return list(named), values, center_and_scale(federate(values), len(named))


@pytest.mark.parametrize("name", list(columns()))
def test_median_and_iqr_of_many_distributions(table, name):
    names, values, (center, scale) = table
    column = names.index(name)
    low, median, high = np.quantile(values[:, column], [0.25, 0.5, 0.75])
    assert scale[column] == pytest.approx((high - low) / NORMAL_IQR, rel=0.01)
    assert abs(center[column] - median) <= 0.01 * (high - low)


@pytest.mark.parametrize("levels", [2, 3, 5, 10, 100])
def test_integers(levels):
    """Between two values that both halve the rows any number is a median."""
    values = np.random.default_rng(1).integers(levels, size=(N, 2)).astype(float)
    center, scale = center_and_scale(federate(values), 1)
    low, high = np.quantile(values[:, 0], [0.25, 0.75])
    below, above = (np.quantile(values[:, 0], 0.5, method=method) for method in ("lower", "higher"))
    slack = 0.01 * (high - low)
    assert below - slack <= center[0] <= above + slack
    assert scale[0] == pytest.approx((high - low) / NORMAL_IQR, rel=0.03)


@pytest.mark.parametrize("share", [0.001, 0.1, 0.2, 0.8, 0.9])
@pytest.mark.parametrize("offset", [0.0, 7.0, -3.0])
def test_binary_columns_are_scaled_by_their_standard_deviation(share, offset):
    values = (np.random.default_rng(2).random((N, 2)) < share) + offset
    _, scale = center_and_scale(federate(values), 1)
    assert scale[0] == pytest.approx(values[:, 0].std(), rel=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.0, -5.0, 1e-9, 1e9, 1 / 3, 2.0**20])
def test_constant_columns_are_switched_off(value):
    values = np.full((500, 2), value)
    center, scale = center_and_scale(federate(values), 1)
    assert scale[0] == np.inf
    assert center[0] == pytest.approx(value, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("rest", [0.05, 0.2])
def test_mostly_one_value(rest):
    rng = np.random.default_rng(3)
    values = np.where(rng.random((N, 2)) < rest, rng.normal(10, 2, (N, 2)), 0.0)
    center, scale = center_and_scale(federate(values), 1)
    assert center[0] == pytest.approx(0.0, abs=1e-6)
    assert scale[0] == pytest.approx(values[:, 0].std(), rel=1e-5)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("rest", [0.27, 0.3])
def test_nearly_three_quarters_one_value(rest, sign):
    """The quartiles differ, but only just; what the other values spread over is told by the deciles."""
    rng = np.random.default_rng(3)
    values = sign * np.where(rng.random((N, 2)) < rest, rng.exponential(size=(N, 2)), 0.0)
    center, scale = center_and_scale(federate(values), 1)
    low, high = np.quantile(values[:, 0], [0.1, 0.9])
    assert center[0] == pytest.approx(0.0, abs=1e-3)
    assert scale[0] == pytest.approx((high - low) / NORMAL_DECILES, rel=0.02)


def test_two_values_that_are_about_as_frequent_keep_the_scale_of_their_quartiles():
    values = (np.random.default_rng(7).random((N, 2)) < 0.4).astype(float)
    federation = federate(values)
    _, scale = center_and_scale(federation, 1)
    assert scale[0] == pytest.approx(1.0 / NORMAL_IQR, rel=0.01)
    assert federation.rounds == 2  # and nobody is asked for deciles


def test_one_agent_times_a_thousand_does_not_ruin_the_scale():
    rng = np.random.default_rng(4)
    values = rng.standard_t(2, size=(N, 2))
    good = values[: N * 9 // 10]
    bad = 1000 * values[N * 9 // 10 :]
    agents = [Agent(f"a{k}", ArrayRows(part[:, :1], part[:, 1])) for k, part in enumerate((good, bad))]
    center, scale = center_and_scale(LocalFederation(agents, threads=1), 2)
    low, median, high = np.quantile(np.vstack([good, bad]), [0.25, 0.5, 0.75], axis=0)
    np.testing.assert_allclose(scale, (high - low) / NORMAL_IQR, rtol=0.01)
    assert (np.abs(center - median) <= 0.01 * (high - low)).all()
    clean_low, clean_high = np.quantile(values, [0.25, 0.75], axis=0)
    np.testing.assert_allclose(scale, (clean_high - clean_low) / NORMAL_IQR, rtol=0.3)


@settings(max_examples=15)
@given(n_agents=st.integers(1, 7), seed=st.integers(0, 1000), trusted=st.sampled_from([0.0, 0.3]))
def test_the_partition_does_not_matter(n_agents, seed, trusted):
    rng = np.random.default_rng(5)
    values = np.column_stack([rng.normal(size=300), rng.integers(4, size=300), rng.standard_cauchy(300)]).astype(float)
    one = center_and_scale(federate(values, 1, trusted=0.0), 3)
    many = center_and_scale(federate(values, n_agents, seed, trusted), 3)
    np.testing.assert_array_equal(many[0], one[0])
    np.testing.assert_array_equal(many[1], one[1])


@settings(max_examples=25)
@given(
    values=st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=1, max_size=30),
    n_agents=st.integers(1, 4),
)
def test_anything_gives_finite_centres_and_positive_scales(values, n_agents):
    """Few rows, ties, empty agents: no warning, no zero, no NaN."""
    rows = np.column_stack([values, values]).astype(float)
    center, scale = center_and_scale(federate(rows, n_agents), 2)
    assert np.isfinite(center).all()
    assert (scale > 0).all()
    if len(set(values)) == 1:
        assert (scale == np.inf).all()
    else:
        assert np.isfinite(scale).all()
    assert (center >= min(values) - 1e-3 * (1 + np.ptp(values))).all()
    assert (center <= max(values) + 1e-3 * (1 + np.ptp(values))).all()


# how the preparation follows


def raw():
    rng = np.random.default_rng(6)
    return np.column_stack([rng.normal(3, 2, 500), np.full(500, 4.0), rng.normal(50, 10, 500)])


def test_preparation_with_intercept_and_target():
    federation = federate(raw())
    prepared = agree_on_preparation(federation, 2, standardize=True, fit_intercept=True, scale_target=True)
    assert prepared.constant == CONSTANT
    assert prepared.width == 3
    assert prepared.center[0] == pytest.approx(3.0, abs=0.3)
    assert prepared.scale[0] == pytest.approx(2.0, rel=0.1)
    assert prepared.scale[1] == np.inf
    assert prepared.target_center == pytest.approx(50.0, abs=2)
    assert prepared.target_scale == pytest.approx(10.0, rel=0.1)
    # a model of prepared rows says the same as the raw one made of it
    rows, theta = raw(), np.array([0.5, 9.0, -0.2])
    coef, intercept = prepared.to_raw(theta)
    scores = prepared.features(rows[:, :2]) @ theta
    predicted = prepared.target_center + prepared.target_scale * scores
    np.testing.assert_allclose(rows[:, :2] @ coef + intercept, predicted)
    assert coef[1] == 0.0
    np.testing.assert_allclose(
        prepared.targets(rows[:, 2]) * prepared.target_scale + prepared.target_center, rows[:, 2]
    )


def test_preparation_without_intercept_does_not_shift():
    prepared = agree_on_preparation(federate(raw()), 2, standardize=True, fit_intercept=False, scale_target=True)
    assert not prepared.center.any()
    assert prepared.target_center == 0.0
    assert prepared.width == 2
    assert prepared.to_raw(np.array([1.0, 1.0]))[1] == 0.0


def test_nothing_is_asked_where_nothing_is_scaled():
    federation = federate(raw())
    prepared = agree_on_preparation(federation, 2, standardize=False, fit_intercept=False, scale_target=True)
    assert federation.rounds == 0
    assert prepared.trivial


def test_few_exchanges():
    federation = federate(raw())
    agree_on_preparation(federation, 2, standardize=True, fit_intercept=True, scale_target=True)
    assert federation.rounds <= 8


@pytest.mark.parametrize("share", [0.4, 0.45, 0.49, 0.5, 0.51, 0.55])
def test_nearly_half_one_value_in_the_middle(share):
    """A measurement that is zero where it was not taken: quartiles lie among the few others that are nearly zero."""
    rng = np.random.default_rng(3)
    taken = rng.random(4000) >= share
    _, scale = center_and_scale(federate(np.where(taken, rng.normal(size=4000), 0.0)[:, None]), 1)
    assert 0.55 < scale[0] < 0.85


@pytest.mark.parametrize("heavy", ["codes", "long tail", "another unit"])
def test_far_values_do_not_widen_the_scale(heavy):
    rng = np.random.default_rng(4)
    normal = rng.normal(size=4000)
    far = rng.random(4000) < 0.2
    values = {
        "codes": np.where(far, -999.0, normal),
        "long tail": np.exp(3.0 * normal),
        "another unit": np.where(np.arange(4000) < 1700, 1000.0 * normal, normal),
    }[heavy]
    quartiles = np.quantile(values, [0.25, 0.75])
    _, scale = center_and_scale(federate(values[:, None]), 1)
    assert scale[0] == pytest.approx(np.diff(quartiles)[0] / NORMAL_IQR, rel=0.03)
