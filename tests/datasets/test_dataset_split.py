from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comt.datasets import CORRUPTIONS, Table, federate, noisy_federation
from comt.datasets.split import allot
from comt.errors import InputError


def numbered_table(n=1000, **parts):
    """A table whose first column is the row number, so that every row can be found again."""
    g = np.random.default_rng(0)
    features = np.column_stack([np.arange(n), g.standard_normal((n, 2))]).astype(float)
    table = Table("numbered", features, np.where(g.random(n) < 0.5, 1.0, -1.0), "classification", ("id", "a", "b"))
    return replace(table, **parts)


def ids(features):
    return [int(i) for i in features[:, 0]]


def all_ids(data):
    per_agent = [ids(x) + ids(a.trusted_features) for x, a in zip(data.clean_features, data.agents, strict=True)]
    return [i for part in per_agent for i in part] + ids(data.test_features)


@given(
    train=st.one_of(st.integers(1, 400), st.floats(0.05, 0.4)),
    trusted=st.one_of(st.integers(0, 200), st.floats(0, 0.2)),
    n_agents=st.integers(1, 7),
    seed=st.integers(0, 999),
)
@settings(max_examples=50, deadline=None)
def test_every_row_has_one_place(train, trusted, n_agents, seed):
    data = federate(numbered_table(), train=train, trusted=trusted, n_agents=n_agents, seed=seed)
    assert sorted(all_ids(data)) == list(range(1000))
    sizes = [len(a.targets) for a in data.agents]
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == (train if isinstance(train, int) else round(train * 1000))
    assert sum(len(a.trusted_targets) for a in data.agents) == (
        trusted if isinstance(trusted, int) else round(trusted * 1000)
    )


def test_trusted_rows_at_one_agent_only():
    data = federate(numbered_table(), train=0.5, trusted=30, trusted_at=2, corruption="label_flips")
    assert [len(a.trusted_targets) for a in data.agents] == [0, 0, 30, 0, 0]
    assert [len(a.targets) for a in data.agents] == [100] * 5
    assert "30 trusted rows at agent 2 only" in data.description


def test_one_seed_draws_the_same_rows_for_every_corruption():
    one, other = (federate(numbered_table(), train=0.5, corruption=c, seed=8) for c in ("label_flips", "missing_codes"))
    assert all_ids(one) == all_ids(other)
    again = federate(numbered_table(), train=0.5, corruption="label_flips", seed=8)
    np.testing.assert_array_equal(one.pooled().y, again.pooled().y)
    assert all_ids(federate(numbered_table(), train=0.5, seed=9)) != all_ids(one)


def test_trusted_and_test_rows_are_the_tables_own():
    table = numbered_table()
    data = federate(table, train=0.5, trusted=50, corruption=CORRUPTIONS["mixed"])
    for a in data.agents:
        np.testing.assert_array_equal(a.trusted_features, table.features[ids(a.trusted_features)])
        np.testing.assert_array_equal(a.trusted_targets, table.targets[ids(a.trusted_features)])
    np.testing.assert_array_equal(data.test_targets, table.targets[ids(data.test_features)])
    for x, y in zip(data.clean_features, data.clean_targets, strict=True):
        np.testing.assert_array_equal(y, table.targets[ids(x)])


def test_a_table_with_its_own_test_rows_is_tested_on_them():
    own = np.full((40, 3), -7.0)
    table = numbered_table(test_features=own, test_targets=np.ones(40))
    data = federate(table, trusted=100)
    np.testing.assert_array_equal(data.test_features, own)
    assert sum(len(a.targets) for a in data.agents) == 900
    assert len(federate(table, trusted=100, test=15).test_targets) == 15


@given(seed=st.integers(0, 999), at=st.one_of(st.none(), st.integers(0, 2)))
@settings(max_examples=30, deadline=None)
def test_sites_keep_their_rows(seed, at):
    sites = np.repeat([0, 1, 2], [600, 300, 100])
    table = numbered_table(sites=sites, site_names=("A", "B", "C"))
    data = federate(table, trusted=40, test=0.3, trusted_at=at, seed=seed)
    assert [a.name for a in data.agents] == ["A", "B", "C"]
    for k, agent in enumerate(data.agents):
        assert set(sites[ids(data.clean_features[k]) + ids(agent.trusted_features)]) == {k}
    assert sorted(all_ids(data)) == list(range(1000))
    wanted = [24, 12, 4] if at is None else [40 * (k == at) for k in range(3)]
    assert [len(a.trusted_targets) for a in data.agents] == wanted


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.floats(0, 1))
@settings(max_examples=100, deadline=None)
def test_allotment_adds_up_and_fits(room, share):
    total = int(share * sum(room))
    parts = allot(total, np.array(room))
    assert parts.sum() == total
    assert (parts <= room).all()
    assert (parts >= 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "train and test are both None"),
        ({"train": 0.9, "trusted": 0.2}, "do not fit"),
        ({"train": 1.5}, r"train is 1\.5"),
        ({"train": 0.5, "trusted": -1}, "trusted is -1"),
        ({"train": 0.5, "trusted_at": 5}, "trusted_at is 5"),
        ({"train": 0.5, "n_agents": 0}, "n_agents is 0"),
        ({"train": 0.5, "corruption": "typo"}, "corruption is 'typo'"),
    ],
)
def test_impossible_splits_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        federate(numbered_table(), **options)


def test_impossible_sites_are_refused():
    table = numbered_table(sites=np.repeat([0, 1], [990, 10]), site_names=("A", "B"))
    with pytest.raises(InputError, match="2 sites"):
        federate(table, test=0.2, n_agents=3)
    with pytest.raises(InputError, match="one agent that has 10"):
        federate(table, test=0.2, trusted=20, trusted_at=1)


def test_pooled_is_what_estimators_take():
    data = noisy_federation("classification", corruption="label_flips", n_rows=503, n_trusted=12, seed=1)
    X, y, agents, trusted = data.pooled()
    assert X.shape == (515, 10)
    assert len(y) == len(agents) == len(trusted) == 515
    for a in data.agents:
        mine = agents == a.name
        np.testing.assert_array_equal(X[mine & ~trusted], a.features)
        np.testing.assert_array_equal(y[mine & trusted], a.trusted_targets)
    wrong = data.pooled_wrong()
    assert not wrong[trusted].any()
    assert wrong.sum() == sum(m.sum() for m in data.wrong_rows)


def test_clean_is_the_same_federation_without_bugs():
    data = noisy_federation("regression", corruption="malicious_agent", n_rows=500, seed=1)
    oracle = data.clean()
    assert data.malicious is not None
    assert oracle.malicious is None
    assert not oracle.pooled_wrong().any()
    wrong = data.pooled_wrong()
    np.testing.assert_array_equal(oracle.pooled().y != data.pooled().y, wrong)
    np.testing.assert_array_equal(oracle.pooled().trusted, data.pooled().trusted)
    np.testing.assert_array_equal(oracle.agents[0].features, data.clean_features[0])


def test_standardised_moves_test_rows_with_the_training_rows():
    table = numbered_table(
        task="regression", test_features=np.ones((2, 3)), test_targets=np.zeros(2), targets=np.arange(1000.0)
    )
    z = table.standardised()
    np.testing.assert_allclose(z.features.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(z.features.std(axis=0), 1)
    np.testing.assert_allclose(z.targets.std(), 1)
    np.testing.assert_allclose(z.test_targets, -499.5 / np.arange(1000).std())
    constant = replace(table, features=np.ones((1000, 3)))
    assert (constant.standardised().features == 0).all()
