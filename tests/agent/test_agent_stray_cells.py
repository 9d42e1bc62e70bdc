"""Single wrong cells: named by column and undone, told from wrong targets, from units and from long tails."""

import numpy as np
import pandas as pd
import pytest

from comt import CoMTClassifier, CoMTRegressor


def federation(seed=0, n=1040, classify=False):
    """Five agents, forty trusted rows, coefficients of one or two spreads of the noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    score = X @ [2.0, -1.5, 1.0, -1.0, 0.5] + 0.4 * rng.normal(size=n)
    trusted = np.arange(n) < 40
    y = (score > 0).astype(int) if classify else score + 3.0
    return X, y, rng.integers(0, 5, n), trusted, rng


def issues(X, y, agents, trusted, **parameters):
    kind = CoMTRegressor if y.dtype.kind == "f" else CoMTClassifier
    table = kind(**parameters).fit(X, y, agents=agents, trusted=trusted).issues(changes=True)
    return table.sort_values("row", ignore_index=True).set_index("row")


@pytest.mark.parametrize("parameters", [{}, {"teaching": "dual"}, {"teaching": "dual", "standardize": False}])
def test_a_cell_far_out_is_named_and_undone(parameters):
    X, y, agents, trusted, rng = federation()
    X = 10.0 * X + 50.0
    wrong = np.flatnonzero(~trusted & (rng.random(len(y)) < 0.1))
    spoilt = X.copy()
    spoilt[wrong, 0] += 80.0 * rng.choice([-1.0, 1.0], len(wrong))
    table = issues(spoilt, y, agents, trusted, **parameters)
    found = table.loc[wrong]
    assert found["flagged"].all()
    assert (found["kind"] == "feature").mean() > 0.98
    assert (found["column"] == "x0").mean() > 0.98
    named = found[found["column"] == "x0"]
    np.testing.assert_allclose(named["given"].astype(float), spoilt[named.index, 0])
    np.testing.assert_allclose((named["suggested"] - named["given"]).astype(float), named["change x0"])
    assert (spoilt[named.index, 0] + named["change x0"] - X[named.index, 0]).abs().median() < 3.0  # spreads are 10
    right = table.drop(index=wrong)
    assert (right["column"] == "").all()
    assert (
        right.filter(like="change ").abs().to_numpy().max() < 6.0
    )  # spreads are 10: no noise is seen in sound columns


def test_cells_of_any_column_beside_wrong_targets():
    X, y, agents, trusted, rng = federation(1)
    X[:, 1] = 0.9 * X[:, 0] + 0.4 * X[:, 1]
    y = X @ [2.0, -1.5, 1.0, -1.0, 0.8] + 0.3 * rng.normal(size=len(y))
    part = rng.random(len(y))
    cells, targets = (np.flatnonzero(~trusted & (part > low) & (part < low + 0.1)) for low in (0.0, 0.5))
    column = rng.integers(0, 5, len(cells))
    X[cells, column] += 8.0
    y[targets] += 6.0 * rng.choice([-1.0, 1.0], len(targets))
    table = issues(X, y, agents, trusted)
    flagged = table.loc[cells, "flagged"].to_numpy()
    assert (table.loc[cells, "column"] == [f"x{j}" for j in column])[flagged].mean() > 0.9
    assert (table.loc[targets, "kind"] == "target").mean() > 0.98


@pytest.mark.parametrize("seed", [0, 1])
def test_long_tails_of_right_rows_do_not_make_wrong_targets_features(seed):
    X, _, agents, trusted, rng = federation(seed)
    X[:, 0], X[:, 1] = np.exp(1.2 * X[:, 0]), rng.standard_t(2, len(X))
    y = X @ [1.0, -1.5, 1.0, -1.0, 0.5] + 0.4 * rng.normal(size=len(X))
    wrong = np.flatnonzero(~trusted & (rng.random(len(y)) < 0.1))
    y[wrong] += 6.0 * rng.normal(size=len(wrong))
    table = issues(X, y, agents, trusted)
    assert (table["kind"] == "target").mean() > 0.98
    assert table["flagged"].drop(index=wrong).mean() < 0.01


@pytest.mark.parametrize("classify", [False, True])
def test_noise_of_thirty_spreads_is_no_unit(classify):
    X, y, agents, trusted, rng = federation(2, classify=classify)
    wrong = np.flatnonzero(~trusted & (rng.random(len(y)) < 0.1))
    X[wrong, 0] += 30.0 * rng.normal(size=len(wrong))
    table = issues(X, y, agents, trusted)
    far = wrong[np.abs(X[wrong, 0]) > 8.0]
    far = far[table.loc[far, "flagged"].to_numpy()]  # of few far cells labels do not tell all
    assert len(far) > 0.5 * len(wrong)
    assert (table.loc[far, "column"] == "x0").all()
    assert (table.loc[far, "kind"] == "feature").mean() > 0.9
    assert np.abs(X[far, 0] + table.loc[far, "change x0"]).max() < 5.0
    assert not table["flagged"].drop(index=wrong).any()


def test_a_factor_that_explains_the_targets_stays_a_unit():
    X, y, agents, trusted, rng = federation(3)
    wrong = np.flatnonzero(~trusted & (rng.random(len(y)) < 0.1))
    X[wrong, 0] *= 1000.0
    table = issues(X, y, agents, trusted)
    far = wrong[np.abs(X[wrong, 0]) > 10.0]
    assert (table.loc[far, "kind"] == "unit").all()


@pytest.mark.parametrize("classify", [False, True])
@pytest.mark.parametrize("how", ["shuffled", "constant"])
def test_an_agent_whose_targets_say_nothing_is_wrong_as_a_whole(classify, how):
    X, y, agents, trusted, rng = federation(4, classify=classify)
    bad = np.flatnonzero((agents == 1) & ~trusted)
    single = np.flatnonzero((agents == 2) & ~trusted)[:8]
    y[single] = 1 - y[single] if classify else y[single] + 10.0
    y[bad] = rng.permutation(y[bad]) if how == "shuffled" else y[bad[0]]
    table = issues(X, y, agents, trusted)
    flagged = table.loc[bad][table.loc[bad, "flagged"]]
    assert len(flagged) > 0.2 * len(bad)
    assert (flagged["kind"] == "agent").all()
    honest = table.drop(index=bad)
    assert (honest["kind"] == ("label" if classify else "target")).mean() > 0.99


def test_few_rows_of_many_columns_are_not_looked_at():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 20))
    X[20:, 0] += 100.0
    table = issues(X, X[:, 0].copy(), None, np.arange(30) < 10)
    assert isinstance(table, pd.DataFrame)
    assert (table["column"] == "").all()
