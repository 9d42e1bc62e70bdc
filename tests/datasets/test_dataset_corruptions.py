from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comt.datasets import CORRUPTIONS
from comt.datasets.corruptions import (
    AsymmetricFlips,
    DuplicatedRows,
    FeatureDependentFlips,
    GaussianNoise,
    LabelFlips,
    MaliciousAgent,
    MissingCodes,
    NegatedTargets,
    RuleOfThumb,
    ScaledTargets,
    ShiftedTargets,
    UnitError,
    WrongAgents,
    magnitude,
)
from comt.errors import InputError

TASKS = ("regression", "classification")
CASES = [(name, task) for name, c in CORRUPTIONS.items() for task in TASKS if task in c.tasks]


def rng(seed=0):
    return np.random.default_rng(seed)


def clean_rows(task, sizes=(100, 120, 80, 100, 100), d=10, seed=1):
    g = rng(seed)
    rows = []
    for n in sizes:
        x = g.standard_normal((n, d))
        y = g.standard_normal(n) + 5 if task == "regression" else np.where(g.random(n) < 0.4, 1.0, -1.0)
        rows.append((x, y))
    return rows


def wrong_share(result):
    return np.concatenate(result.wrong_targets).mean()


@pytest.mark.parametrize(("name", "task"), CASES)
def test_masks_are_exactly_where_values_differ_and_inputs_stay(name, task):
    rows = clean_rows(task)
    kept = [(x.copy(), y.copy()) for x, y in rows]
    result = CORRUPTIONS[name](rows, task, rng())
    for k, ((x, y), (x0, y0)) in enumerate(zip(rows, kept, strict=True)):
        np.testing.assert_array_equal(x, x0)
        np.testing.assert_array_equal(y, y0)
        assert not np.shares_memory(result.features[k], x)
        np.testing.assert_array_equal(result.wrong_cells[k], result.features[k] != x)
        np.testing.assert_array_equal(result.wrong_targets[k], result.targets[k] != y)
        both = (result.features[k] != x).any(axis=1) | (result.targets[k] != y)
        np.testing.assert_array_equal(result.wrong_rows[k], both)
        assert np.isfinite(result.features[k]).all()
    changed = any(mask.any() for mask in result.wrong_rows)
    assert changed == (name != "clean")
    if task == "classification":
        assert set(np.concatenate(result.targets)) == {-1.0, 1.0}


@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_seed_fixes_the_corruption(name, task):
    one, again = (CORRUPTIONS[name](clean_rows(task), task, rng(3)) for _ in range(2))
    for a, b in zip(one.features + one.targets, again.features + again.targets, strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.malicious == again.malicious


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_descriptions_are_one_line(name):
    text = CORRUPTIONS[name].description
    assert text
    assert "\n" not in text


def test_unfit_tasks_are_refused_in_one_sentence():
    for name, corruption in CORRUPTIONS.items():
        for task in set(TASKS) - corruption.tasks:
            with pytest.raises(InputError, match=f"the task is {task}"):
                corruption(clean_rows(task), task, rng())
            assert name


@given(
    fraction=st.floats(0, 1),
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_flip_rates_are_exact_at_every_agent(fraction, sizes, seed):
    rows = clean_rows("classification", sizes, d=3, seed=seed)
    result = LabelFlips(fraction)(rows, "classification", rng(seed))
    assert [int(m.sum()) for m in result.wrong_targets] == [round(fraction * n) for n in sizes]
    assert not any(m.any() for m in result.wrong_cells)


@given(fraction=st.floats(0, 1), label=st.sampled_from([-1.0, 1.0]), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_asymmetric_flips_touch_one_class_only(fraction, label, seed):
    rows = clean_rows("classification", seed=seed)
    result = AsymmetricFlips(fraction, label)(rows, "classification", rng(seed))
    for (_, y), wrong in zip(rows, result.wrong_targets, strict=True):
        assert wrong.sum() == round(fraction * (y == label).sum())
        assert (y[wrong] == label).all()


@given(fraction=st.floats(0, 1), column=st.integers(0, 9), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_systematic_flips_are_those_of_the_largest_values(fraction, column, seed):
    rows = clean_rows("classification", seed=seed)
    result = FeatureDependentFlips(fraction, column)(rows, "classification", rng(seed))
    values = np.concatenate([x[:, column] for x, _ in rows])
    wrong = np.concatenate(result.wrong_targets)
    assert wrong.sum() == round(fraction * len(wrong))
    if 0 < wrong.sum() < len(wrong):
        assert values[wrong].min() >= values[~wrong].max()


def test_systematic_flips_keep_their_rate_on_ties_and_avoid_binary_columns():
    g = rng(2)
    x = (g.random((200, 4)) < 0.5).astype(float)
    y = np.ones(200)
    assert wrong_share(FeatureDependentFlips(0.3, 0)([(x, y)], "classification", rng())) == 0.3
    x[:, 2] = g.standard_normal(200)
    for seed in range(5):
        wrong = FeatureDependentFlips(0.3)([(x, y)], "classification", rng(seed)).wrong_targets[0]
        assert x[wrong, 2].min() > x[~wrong, 2].max()


def test_systematic_flips_may_follow_a_sum_of_columns():
    ((x, y),) = clean_rows("classification")[:1]
    wrong = FeatureDependentFlips(0.3, 1, columns=2)([(x, y)], "classification", rng()).wrong_targets[0]
    assert wrong.sum() == round(0.3 * len(y))
    sums = [x[:, 1] + x[:, k] for k in range(x.shape[1])]
    assert sum(bool(values[wrong].min() >= values[~wrong].max()) for values in sums) == 1


@given(fraction=st.floats(0, 1), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_a_rule_of_thumb_overrules_the_clearest_disagreements(fraction, seed):
    rows = clean_rows("classification", seed=seed)
    result = RuleOfThumb(fraction, 4)(rows, "classification", rng(seed))
    values = np.concatenate([x[:, 4] for x, _ in rows])
    rule = values - np.median(values)
    label = np.concatenate([y for _, y in rows])
    wrong, disagrees = np.concatenate(result.wrong_targets), label * rule < 0
    assert wrong.sum() == min(round(fraction * len(wrong)), disagrees.sum())
    assert disagrees[wrong].all()
    if wrong.any() and (disagrees & ~wrong).any():
        assert np.abs(rule[wrong]).min() >= np.abs(rule[disagrees & ~wrong]).max()


@pytest.mark.parametrize("corruption", [NegatedTargets(0.35), ScaledTargets(0.35)])
def test_target_rates_are_exact(corruption):
    rows = clean_rows("regression")
    result = corruption(rows, "regression", rng())
    assert [int(m.sum()) for m in result.wrong_targets] == [round(0.35 * len(y)) for _, y in rows]


def test_another_unit_at_some_agents_only():
    rows = clean_rows("regression")
    result = ScaledTargets(1.0, factor=10.0, agents=(1, 3))(rows, "regression", rng())
    assert [bool(wrong.all()) for wrong in result.wrong_targets] == [k in (1, 3) for k in range(len(rows))]
    np.testing.assert_allclose(result.targets[1], 10.0 * rows[1][1])


def test_negation_is_about_the_common_mean():
    rows = clean_rows("regression")
    mean = np.concatenate([y for _, y in rows]).mean()
    result = NegatedTargets(1.0)(rows, "regression", rng())
    for (_, y), new in zip(rows, result.targets, strict=True):
        np.testing.assert_allclose(new - mean, -(y - mean), atol=1e-12)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("agents", [0, 1, 3, 5])
def test_whole_agents_are_wrong_or_right(task, agents):
    result = WrongAgents(agents)(clean_rows(task), task, rng())
    assert sorted(m.mean() for m in result.wrong_targets) == [0.0] * (5 - agents) + [1.0] * agents
    assert result.malicious is None


def test_named_agents_are_the_wrong_ones():
    result = WrongAgents((1, 4))(clean_rows("classification"), "classification", rng())
    assert [bool(m.all()) for m in result.wrong_targets] == [False, True, False, False, True]
    shifted = ShiftedTargets(2.0, (0,))(rows := clean_rows("regression"), "regression", rng())
    amount = 2 * np.concatenate([y for _, y in rows]).std()
    np.testing.assert_allclose(shifted.targets[0] - rows[0][1], amount)
    assert not any(m.any() for m in shifted.wrong_targets[1:])


@pytest.mark.parametrize("task", TASKS)
def test_the_malicious_agent_is_marked(task):
    seen = set()
    for seed in range(60):
        result = MaliciousAgent()(clean_rows(task), task, rng(seed))
        assert [k for k, m in enumerate(result.wrong_targets) if m.any()] == [result.malicious]
        assert result.wrong_targets[result.malicious].all()
        seen.add(result.malicious)
    assert seen == set(range(5))
    assert MaliciousAgent(2)(clean_rows(task), task, rng()).malicious == 2


def test_unit_error_multiplies_one_column_of_one_agent():
    rows = clean_rows("regression")
    rows[3][0][:, 5] = 0.0
    result = UnitError(agent=3)(rows, "regression", rng())
    assert [int(m.any(axis=0).sum()) for m in result.wrong_cells] == [0, 0, 0, 1, 0]
    column = int(np.flatnonzero(result.wrong_cells[3].any(axis=0))[0])
    np.testing.assert_allclose(result.features[3][:, column], 1000 * rows[3][0][:, column])
    assert column != 5


@given(fraction=st.floats(0, 1), columns=st.integers(0, 10), code=st.sampled_from([0.0, -999.0]))
@settings(max_examples=40, deadline=None)
def test_missing_codes_fill_their_share_of_cells(fraction, columns, code):
    rows = clean_rows("regression")
    result = MissingCodes(code, fraction, columns)(rows, "regression", rng())
    for (x, _), new, wrong in zip(rows, result.features, result.wrong_cells, strict=True):
        expected = round(fraction * len(x))
        assert sorted(wrong.sum(axis=0)) == [0] * (10 - columns) + [expected] * columns
        assert (new[wrong] == code).all()


def test_a_code_over_the_same_value_is_no_error():
    x = np.zeros((50, 3))
    result = MissingCodes(code=0.0, fraction=1.0)([(x, np.ones(50))], "regression", rng())
    assert not result.wrong_cells[0].any()


@pytest.mark.parametrize("task", TASKS)
def test_duplicates_are_one_wrong_row(task):
    rows = clean_rows(task)
    result = DuplicatedRows(0.25)(rows, task, rng())
    pooled = np.concatenate([y for _, y in rows])
    for (x, y), new_x, new_y, wrong in zip(rows, result.features, result.targets, result.wrong_rows, strict=True):
        assert wrong.sum() == round(0.25 * len(y))
        assert len(np.unique(np.column_stack([new_x, new_y])[wrong], axis=0)) == 1
        source = np.flatnonzero((x == new_x[wrong][0]).all(axis=1))
        assert len(source) == 1
        gap = new_y[wrong][0] - y[source[0]]
        assert abs(gap) == 2 if task == "classification" else abs(gap) >= 3 * pooled.std()


@given(theta=st.floats(0.1, 3), d=st.integers(1, 20), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_the_two_readings_of_epsilon_differ_by_d(theta, d, seed):
    rows = clean_rows("classification", (400, 400), d=d, seed=seed)
    parts = [x for x, _ in rows]
    assert magnitude(parts, "mean") == pytest.approx(np.sqrt(2 / np.pi), rel=0.15)
    added = [
        GaussianNoise(theta, 0.0, reading)(rows, "classification", rng(seed)).features[0] - rows[0][0]
        for reading in ("mean", "sum")
    ]
    # the same draw of zeta, d times as large
    np.testing.assert_allclose(added[1], d * added[0], rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("reading", ["mean", "sum"])
def test_noise_has_the_papers_size(reading):
    rows = clean_rows("regression", (4000, 4000))
    result = GaussianNoise(0.6, 1.2, reading)(rows, "regression", rng())
    dx = np.concatenate(result.features) - np.concatenate([x for x, _ in rows])
    dy = np.concatenate(result.targets) - np.concatenate([y for _, y in rows])
    x, y = (np.concatenate(part) for part in zip(*rows, strict=True))
    epsilon = np.abs(x).mean() if reading == "mean" else np.abs(x).sum(axis=1).mean()
    assert dx.std() == pytest.approx(0.6 * epsilon, rel=0.02)
    assert dy.std() == pytest.approx(1.2 * np.abs(y).mean(), rel=0.03)


def test_mixed_is_wrong_in_all_three_ways():
    result = CORRUPTIONS["mixed"](clean_rows("classification"), "classification", rng())
    assert all(m.all() for m in result.wrong_cells)
    # 20 % flips everywhere, and one agent reversed afterwards
    np.testing.assert_allclose(sorted(m.mean() for m in result.wrong_targets), [0.2] * 4 + [0.8])


def test_parameters_vary_by_replace():
    fewer = replace(CORRUPTIONS["label_flips"], fraction=0.1)
    assert wrong_share(fewer(clean_rows("classification"), "classification", rng())) == 0.1
    assert "10%" in fewer.description


@pytest.mark.parametrize(
    "make",
    [
        lambda: LabelFlips(1.1),
        lambda: NegatedTargets(-0.1),
        lambda: AsymmetricFlips(label=0.0),
        lambda: GaussianNoise(-1.0),
        lambda: GaussianNoise(reading="median"),
        lambda: MissingCodes(columns=-1),
        lambda: WrongAgents(6)(clean_rows("regression"), "regression", rng()),
        lambda: MaliciousAgent(5)(clean_rows("regression"), "regression", rng()),
        lambda: UnitError(column=10)(clean_rows("regression"), "regression", rng()),
    ],
)
def test_unusable_parameters_are_refused(make):
    with pytest.raises(InputError, match=r"give|choose|ask"):
        make()
