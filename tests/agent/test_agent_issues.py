"""The issue table against known corruptions: calibrated scores, named columns, repairs, and data at their worst."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from comt.agent import Agent, ArrayRows
from comt.agent.files import FileRows
from comt.agent.issues import issue_table
from comt.agent.suspect_cells import _unit_of_some
from comt.datasets import noisy_federation
from comt.datasets.corruptions import (
    Clean,
    DuplicatedRows,
    GaussianNoise,
    LabelFlips,
    MissingCodes,
    NegatedTargets,
    ScaledTargets,
    ShiftedTargets,
    UnitError,
    WrongAgents,
)
from comt.federation import LocalFederation
from comt.server.issues_context import gather_context
from comt.server.scaling import agree_on_preparation


def judged(data, *, standardize=True, changes=False):
    """Return the issue tables of all agents under a model fitted to the clean rows: the judgement alone is tested."""
    agents = [
        Agent(a.name, ArrayRows(a.features, a.targets, a.trusted_features, a.trusted_targets)) for a in data.agents
    ]
    regression = data.task == "regression"
    with (federation := LocalFederation(agents, threads=1)).open():
        preparation = agree_on_preparation(
            federation,
            data.test_features.shape[1],
            standardize=standardize,
            fit_intercept=True,
            scale_target=regression,
        )
        features = preparation.features(np.concatenate(data.clean_features))
        targets = preparation.targets(np.concatenate(data.clean_targets))
        if regression:
            theta = np.linalg.lstsq(features, targets, rcond=None)[0]
        else:
            theta = LogisticRegression(fit_intercept=False, C=1.0).fit(features, targets).coef_[0]
        classes = None if regression else (-1, 1)
        context = gather_context(federation, preparation, theta, "squared" if regression else "logistic", classes)
    by_name = {agent.name: agent for agent in agents}
    tables = [issue_table(by_name[a.name], preparation, theta, context, changes=changes) for a in data.agents]
    return pd.concat(tables, ignore_index=True), np.concatenate(data.wrong_rows)


def spoilt(task, corruption, m=100, n=1500, seed=0):
    return noisy_federation(task, corruption=corruption, n_rows=n, n_trusted=m, n_test=50, seed=seed)


@pytest.mark.parametrize(
    ("task", "corruption", "precision", "average"),
    [
        ("regression", NegatedTargets(0.5), 0.9, 0.95),
        ("regression", ScaledTargets(), 0.9, 0.95),
        ("regression", ShiftedTargets(), 0.95, 0.99),
        ("regression", WrongAgents(3), 0.95, 0.99),
        ("classification", LabelFlips(0.2), 0.8, 0.6),
        ("classification", LabelFlips(0.4), 0.8, 0.75),
        ("classification", WrongAgents(2), 0.95, 0.95),
        ("classification", DuplicatedRows(), 0.95, 0.95),
    ],
)
def test_rows_scored_high_are_wrong_and_come_first(task, corruption, precision, average):
    table, wrong = judged(spoilt(task, corruption))
    assert table["score"].between(0, 1).all()
    high = table["score"].to_numpy() >= 0.8
    assert (table["flagged"] == high).all()
    assert high.sum() >= 20
    assert wrong[high].mean() >= precision
    assert average_precision_score(wrong, table["score"]) >= average


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_clean_rows_are_left_alone(task):
    table, _ = judged(spoilt(task, Clean()))
    assert table["flagged"].mean() <= 0.005
    assert (table["column"] == "").all()


def test_heavy_tails_that_trusted_rows_share_are_no_errors():
    data = spoilt("regression", Clean(), m=200, n=2000, seed=3)
    rng = np.random.default_rng(0)
    for agent in data.agents:  # one right row in twenty is far off, among the trusted as well
        for targets in (agent.targets, agent.trusted_targets):
            targets[rng.random(len(targets)) < 0.05] += 8.0
    for agent, clean in zip(data.agents, data.clean_targets, strict=True):
        clean[:] = agent.targets
    table, _ = judged(data)
    assert table["flagged"].mean() <= 0.01


def test_a_rule_of_wrong_targets_is_undone_exactly():
    data = spoilt("regression", NegatedTargets(0.5))
    table, wrong = judged(data)
    sure = wrong & table["flagged"].to_numpy()
    error = table["suggested"][sure] - np.concatenate(data.clean_targets)[sure]
    residual = table["suggested"][~wrong] - np.concatenate(data.clean_targets)[~wrong]
    assert np.sqrt((error**2).mean()) < 0.5 * np.sqrt((residual**2).mean())
    assert (table["kind"] == "target").all()


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_wholly_wrong_agents_are_called_that(task):
    data = spoilt(task, WrongAgents((1, 3)))
    table, _ = judged(data)
    kinds = table.groupby("agent")["kind"].agg(lambda kind: kind.mode()[0])
    assert [kind == "agent" for kind in kinds] == [False, True, False, True, False]
    if task == "classification":
        assert (table["suggested"] == np.concatenate(data.clean_targets)).mean() > 0.97


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize(
    ("corruption", "kind"),
    [
        (UnitError(1000.0), "unit"),
        (UnitError(0.01), "unit"),
        (UnitError(2.54e2), "unit"),
        (MissingCodes(-999.0), "missing code"),
        (MissingCodes(0.0), "missing code"),
        (MissingCodes(99.0, fraction=0.05), "missing code"),
    ],
)
def test_wrong_cells_are_named_by_column(task, corruption, kind):
    data = spoilt(task, corruption)
    table, wrong = judged(data, changes=True)
    cells = np.concatenate(data.wrong_cells)
    named = np.stack(
        [[f"x{j}" in names.split(", ") for names in table["column"]] for j in range(cells.shape[1])], axis=1
    )
    assert (named & cells).sum() >= 0.95 * cells.sum()
    assert (named & ~cells).sum() <= 0.01 * cells.sum()
    assert (table["kind"][wrong] == kind).mean() > 0.95
    assert table["flagged"][wrong].all()
    changed = table.filter(like="change ").to_numpy()
    raw, clean = np.concatenate([a.features for a in data.agents]), np.concatenate(data.clean_features)
    assert np.abs((raw + changed - clean)[cells]).mean() < (0.3 if corruption == UnitError(1000.0) else 1.3)
    first = table[wrong].iloc[0]
    column = int(first["column"].split(", ")[0][1:])
    assert first["given"] == raw[np.flatnonzero(wrong)[0], column]
    assert first["suggested"] == pytest.approx(first["given"] + first[f"change x{column}"], abs=1.0)


@pytest.mark.parametrize(("factor", "offset"), [(1000.0, 0.0), (100.0, 0.0), (10.0, 5.0), (0.1, 40.0)])
def test_a_unit_wrong_in_part_of_a_column_is_named_and_undone(factor, offset):
    data = spoilt("regression", Clean())
    for agent in data.agents:
        agent.features[:, 2] += offset
        agent.trusted_features[:, 2] += offset
    for features in data.clean_features:
        features[:, 2] += offset
    rng = np.random.default_rng(3)
    wrong = rng.random(len(data.agents[1].features)) < 0.1
    data.agents[1].features[wrong, 2] *= factor
    table, _ = judged(data)
    own = table[table["agent"] == data.agents[1].name].reset_index(drop=True)
    assert (own["column"] == "x2")[wrong].mean() >= 0.95
    assert not (table["column"] != "").to_numpy()[table["agent"] != data.agents[1].name].any()
    assert not (own["column"] != "")[~wrong].any()
    named = own[wrong & (own["column"] == "x2").to_numpy()]
    assert set(named["kind"]) == {"unit"}
    np.testing.assert_allclose(named["suggested"].astype(float), named["given"].astype(float) / factor)


@pytest.mark.parametrize("seed", range(5))
def test_a_long_tail_is_no_unit(seed):
    rng = np.random.default_rng(seed)
    for values in (rng.standard_t(2, 2000), rng.lognormal(0, 1.5, 2000), rng.exponential(1.0, 2000) ** 3):
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        context = SimpleNamespace(center=[middle], scale=[(high - low) / 1.349])
        assert _unit_of_some(0, values, context) == []


def test_codes_are_replaced_by_what_the_other_columns_say():
    data = spoilt("regression", Clean())
    rng = np.random.default_rng(1)
    for agent, clean in zip(data.agents, data.clean_features, strict=True):
        for block in (agent.features, agent.trusted_features, clean):
            block[:, 1] = block[:, 0] + 0.1 * block[:, 1]
        agent.features[rng.random(len(agent.features)) < 0.2, 1] = 0.0
    table, _ = judged(data, changes=True)
    coded = np.concatenate([agent.features[:, 1] == 0.0 for agent in data.agents])
    truth = np.concatenate([clean[:, 1] for clean in data.clean_features])[coded]
    assert ((table["change x1"][coded] - truth) ** 2).mean() < 0.05 * (truth**2).mean()


def test_a_number_that_trusted_rows_hold_as_often_is_no_code():
    data = spoilt("regression", Clean())
    for agent, clean in zip(data.agents, data.clean_features, strict=True):
        for block in (agent.features, agent.trusted_features, clean):
            np.maximum(block[:, 2], -0.5, out=block[:, 2])  # a third of the values are exactly at the detection limit
    table, _ = judged(data)
    assert (table["column"] == "").all()


@pytest.mark.parametrize(("number", "named"), [(-1.0, 1.0), (9.0, 1.0), (-0.73, 0.0)])
def test_a_customary_code_inside_the_range_is_named_though_few_trusted_rows_tell(number, named):
    """Five trusted rows would hold a tenth of a natural number's rows at most: the number itself has to say it."""
    data = spoilt("regression", Clean(), m=5)
    rng = np.random.default_rng(3)
    for agent, clean in zip(data.agents, data.clean_features, strict=True):
        for block in (agent.features, agent.trusted_features, clean):
            block[:, 1] *= 10.0  # the code lies among the values
        agent.features[rng.random(len(agent.features)) < 0.1, 1] = number
    table, _ = judged(data)
    coded = np.concatenate([agent.features[:, 1] == number for agent in data.agents])
    sure = (table["column"] == "x1").to_numpy() & (table["score"] >= 0.8).to_numpy()
    assert sure[coded].mean() == named
    assert not sure[~coded].any()


def test_a_customary_number_that_trusted_rows_hold_as_often_is_a_measurement():
    data = spoilt("regression", Clean())
    for agent, clean in zip(data.agents, data.clean_features, strict=True):
        for block in (agent.features, agent.trusted_features, clean):
            np.maximum(block[:, 2], -1.0, out=block[:, 2])
    table, _ = judged(data)
    assert (table["column"] == "").all()


def test_rare_levels_and_rare_counts_are_no_codes():
    data = spoilt("regression", Clean(), m=5)
    rng = np.random.default_rng(2)
    for agent, clean in zip(data.agents, data.clean_features, strict=True):
        for block in (agent.features, agent.trusted_features):
            block[:, 0] = np.where(rng.random(len(block)) < 0.08, 3.0, -1.0 / 3.0)
            block[:, 1] = rng.geometric(0.5, size=len(block)) ** 2
        clean[:] = agent.features
    table, _ = judged(data)
    assert (table["column"] == "").all()


@pytest.mark.parametrize(("m", "theta"), [(20, 1.2), (100, 0.6), (100, 1.2), (400, 3.0)])
def test_feature_noise_is_reduced_at_least_as_much_as_by_the_best_rank_one_repair(m, theta):
    data = spoilt("regression", GaussianNoise(theta, 0.0), m=m)
    table, _ = judged(data, changes=True)
    raw, clean = np.concatenate([a.features for a in data.agents]), np.concatenate(data.clean_features)
    wanted = clean - raw
    features = np.column_stack([clean, np.ones(len(clean))])
    targets = np.concatenate(data.clean_targets)
    theta_true = np.linalg.lstsq(features, targets, rcond=None)[0]
    error = targets - np.column_stack([raw, np.ones(len(raw))]) @ theta_true
    best = wanted - np.outer(error, error @ wanted / (error @ error))
    reached = wanted - table.filter(like="change ").to_numpy()
    before = (wanted**2).sum()
    assert before - (reached**2).sum() >= before - (best**2).sum()
    if m >= 100:
        assert (table["kind"] == "feature").mean() > 0.7


def test_rows_that_were_not_scaled_are_judged_in_the_columns_own_units():
    table, wrong = judged(spoilt("regression", UnitError(1000.0)), standardize=False)
    assert (table["kind"][wrong] == "unit").mean() > 0.95


# ------------------------------------------------------------------------------------------------ data at their worst


def tables_of(agents, loss_name, classes=None, changes=True):
    regression = loss_name == "squared"
    with (federation := LocalFederation(agents, threads=1)).open():
        preparation = agree_on_preparation(
            federation, len(agents[0].columns), standardize=True, fit_intercept=True, scale_target=regression
        )
        slopes = np.where(np.isfinite(preparation.scale), [1.0, 0.75, 0.5] * preparation.scale, 0.0)
        theta = np.append(slopes / preparation.target_scale, -preparation.target_center / preparation.target_scale / 10)
        if not regression:
            theta *= 5.0
        context = gather_context(federation, preparation, theta, loss_name, classes)
    return [issue_table(agent, preparation, theta, context, changes=changes) for agent in agents]


def rows(n, m=0, seed=0, labels=False):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n + m, 3))
    targets = features @ [1.0, 0.75, 0.5] + 0.2 * rng.normal(size=n + m)
    if labels:
        targets = np.where(targets > 0, 1.0, -1.0)
    return features[:n], targets[:n], features[n:], targets[n:]


@pytest.mark.parametrize("loss_name", ["squared", "logistic"])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 300])
def test_few_rows_no_trusted_rows_and_a_constant_column(loss_name, n):
    labels = loss_name == "logistic"
    small, large = rows(n, labels=labels), rows(50, labels=labels, seed=1)
    for block in (*small[:1], *large[:1]):
        block[:, 2] = 7.0
    agents = [Agent("A", ArrayRows(*small)), Agent("B", ArrayRows(*large))]
    table, _ = tables_of(agents, loss_name, (-1, 1) if labels else None)
    assert len(table) == n
    assert np.isfinite(table["score"]).all()
    assert np.isfinite(table.filter(like="change ").to_numpy()).all()
    assert (table["change x2"] == 0).all()


def test_without_trusted_rows_gross_errors_are_still_found():
    features, targets, *_ = rows(300)
    targets[::10] += 20.0
    (table,) = tables_of([Agent("A", ArrayRows(features, targets))], "squared")
    assert (table["flagged"].to_numpy() == (np.arange(300) % 10 == 0)).all()


def test_an_agent_with_one_class_only():
    features, labels, trusted, trusted_labels = rows(300, 40, labels=True)
    positive = labels > 0
    agents = [
        Agent("A", ArrayRows(features[positive], labels[positive], trusted, trusted_labels)),
        Agent("B", ArrayRows(features[~positive], labels[~positive])),
    ]
    for table in tables_of(agents, "logistic", ("no", "yes")):
        assert table["flagged"].mean() < 0.02
        assert (table["given"] == table["suggested"]).mean() > 0.8


def test_rows_in_a_file_give_the_same_table(tmp_path):
    features, targets, trusted, trusted_targets = rows(400, 30)
    targets[:40] *= -1
    features[40:80, 1] = -999.0
    frame = pd.DataFrame(np.vstack([features, trusted]), columns=["x0", "x1", "x2"])
    frame["y"], frame["ok"] = np.append(targets, trusted_targets), np.arange(430) >= 400
    frame.to_parquet(tmp_path / "A.parquet")
    (expected,) = tables_of([Agent("A", ArrayRows(features, targets, trusted, trusted_targets))], "squared")
    (table,) = tables_of([Agent("A", FileRows(tmp_path / "A.parquet", target="y", trusted="ok"))], "squared")
    pd.testing.assert_frame_equal(table, expected)
    assert set(table["kind"][40:80]) == {"missing code"}
