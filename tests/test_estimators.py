"""The scikit-learn facade: the public contract, its limits, its errors."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import comt
from comt import CoMTClassifier, CoMTRegressor, InputError, SelectionWarning, TrustedKFold
from comt.errors import CraftingError

PLAIN = {"fit_intercept": False, "standardize": False}
#: the paper's objective with fixed weights: what the checks of exactness are about
FIXED = {
    "teaching": "dual",
    "lambda_w": 1.0,
    "lambda_trusted": 1.0,
    "lambda_alpha": 0.0,
    "lambda_z": np.inf,
    "select": None,
}


def regressor(**parameters):
    return CoMTRegressor(**(FIXED | parameters))


def classifier(**parameters):
    return CoMTClassifier(**(FIXED | parameters))


def make(n=240, d=4, m=20, seed=0, classify=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    w = rng.normal(size=d)
    y = X @ w + rng.normal(size=n)
    if classify:
        y = np.where(y > 0, 1, 0)
    return X, y, rng.integers(0, 5, n), np.arange(n) < m


@parametrize_with_checks([CoMTRegressor(), CoMTClassifier(), regressor(), classifier(solver="newton-cg")])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::comt.errors.NoTrustedRowsWarning")
def test_scikit_learn_accepts_the_estimators(estimator, check):
    check(estimator)


def test_public_names_and_a_light_import():
    assert sorted(comt.__all__) == [
        *("Agent", "ArrayRows", "CoMTClassifier", "CoMTRegressor", "ComtError", "ConvergenceError", "Decision"),
        *("FileRows", "GateError", "InputError", "Ledger", "NoTrustedRowsWarning", "Policy", "Reviews"),
        *("SelectionWarning", "SparsityWarning", "TableRows", "TrustedKFold", "load", "selection_curve"),
    ]
    for name in comt.__all__:
        assert getattr(comt, name) is not None
    with pytest.raises(AttributeError):
        comt.nothing  # noqa: B018
    loaded = "import sys, comt; print([m for m in ('numpy', 'sklearn', 'pandas', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_trusted_rows_it_is_ridge():
    X, y, agents, _ = make()
    model = regressor(lambda_w=3.0, **PLAIN).fit(X, y, agents=agents)
    expected = Ridge(alpha=3.0, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0, atol=1e-10)
    assert model.n_rounds_ == 1
    assert model.certificate_ <= model.tol


def test_without_trusted_rows_it_is_logistic_regression():
    X, y, agents, _ = make(classify=True)
    model = classifier(lambda_w=3.0, **PLAIN).fit(X, y, agents=agents)
    expected = LogisticRegression(C=1 / 3.0, fit_intercept=False, solver="newton-cholesky", tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-8)
    assert (model.predict(X) == expected.predict(X)).all()


@pytest.mark.parametrize("classify", [False, True])
@pytest.mark.parametrize("lambda_z", [np.inf, 20.0])
@pytest.mark.parametrize("plain", [False, True])
def test_all_solvers_agree(classify, lambda_z, plain):
    X, y, agents, trusted = make(classify=classify)
    kind = CoMTClassifier if classify else CoMTRegressor
    fixed = {
        "lambda_w": 2.0,
        "lambda_trusted": 3.0,
        "lambda_alpha": 0.1,
        "lambda_z": lambda_z,
        **(PLAIN if plain else {}),
    }
    reference = kind(**fixed).fit(X, y, agents=agents, trusted=trusted)
    for solver in ("newton-cg", "admm"):
        other = kind(solver=solver, **fixed).fit(X, y, agents=agents, trusted=trusted)
        assert other.certificate_ <= other.tol
        np.testing.assert_allclose(other.theta_, reference.theta_, atol=1e-5)
        np.testing.assert_allclose(other.r_, reference.r_, atol=1e-4)


# some cases have fewer than ten trusted rows, which is warned of where they choose anything
@pytest.mark.filterwarnings("ignore::comt.errors.NoTrustedRowsWarning")
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_who_holds_which_row_does_not_matter(seed, classify, crafted):
    X, y, agents, trusted = make(n=120, m=9, seed=seed, classify=classify)
    rng = np.random.default_rng(seed)
    kind = CoMTClassifier if classify else CoMTRegressor
    model = kind(lambda_alpha=0.1, lambda_z=50.0 if crafted else np.inf, lambda_w=2.0)
    one = clone(model).fit(X, y, trusted=trusted)
    five = clone(model).fit(X, y, agents=agents, trusted=trusted)
    order = rng.permutation(len(y))
    unequal = np.where(np.arange(len(y)) == order[0], "single row", np.where(trusted, "trusted only", "rest"))
    shuffled = clone(model).fit(X[order], y[order], agents=unequal[order], trusted=trusted[order])
    for other in (five, shuffled):
        np.testing.assert_allclose(other.theta_, one.theta_, rtol=0, atol=1e-8)
        np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(shuffled.alpha_, five.alpha_[order], rtol=0, atol=1e-7)


def test_starting_on_a_part_of_the_rows_changes_the_way_not_the_end(monkeypatch):
    X, y, agents, trusted = make(n=3000, classify=True)
    model = classifier(lambda_alpha=0.1, lambda_z=50.0)
    whole = clone(model).fit(X, y, agents=agents, trusted=trusted)
    monkeypatch.setattr("comt.server.training.PART_FROM", 100)
    part = clone(model).fit(X, y, agents=agents, trusted=trusted)
    by_label = np.argsort(y, kind="stable")  # the worst case: a block's first rows are all of one class
    worst = clone(model).fit(X[by_label], y[by_label], agents=agents[by_label], trusted=trusted[by_label])
    assert part.n_rounds_ != whole.n_rounds_
    for other in (part, worst):
        np.testing.assert_allclose(other.theta_, whole.theta_, rtol=0, atol=1e-8)
        assert other.certificate_ <= 1e-8


def test_runs_are_equal_to_the_last_bit():
    X, y, agents, trusted = make(classify=True)
    first, second = (classifier().fit(X, y, agents=agents, trusted=trusted) for _ in range(2))
    assert first.coef_.tobytes() == second.coef_.tobytes()


def test_fitted_attributes():
    X, y, agents, trusted = make()
    model = regressor(lambda_z=100.0).fit(X, y, agents=agents, trusted=trusted)
    assert model.coef_.shape == (4,)
    assert np.isnan(model.alpha_[trusted]).all()
    assert np.isfinite(model.alpha_[~trusted]).all()
    assert model.selected_.all()
    assert model.theta_.shape == model.r_.shape == (5,)
    assert model.history_[-1]["certificate"] == model.certificate_
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)
    labels = np.where(y > 0, "sick", "healthy")
    sick = classifier().fit(X, labels, agents=agents, trusted=trusted)
    assert sick.classes_.tolist() == ["healthy", "sick"]
    assert sick.coef_.shape == (1, 4)
    assert sick.intercept_.shape == (1,)
    assert ((sick.decision_function(X) > 0) == (sick.predict(X) == "sick")).all()


def test_shifting_and_scaling_columns_changes_nothing():
    X, y, agents, trusted = make()
    base = regressor().fit(X, y, agents=agents, trusted=trusted)
    moved = regressor().fit(X * [1e-3, 1, 1e4, 5] + [0, 1e3, 7, -2], 10 * y - 3, agents=agents, trusted=trusted)
    new = X * [1e-3, 1, 1e4, 5] + [0, 1e3, 7, -2]
    np.testing.assert_allclose((moved.predict(new) + 3) / 10, base.predict(X), atol=5e-3)


def test_constant_columns_get_no_weight_and_d_may_exceed_n():
    X, y, agents, trusted = make()
    model = regressor().fit(np.column_stack([X, np.full(len(y), 3.7)]), y, agents=agents, trusted=trusted)
    assert model.coef_[-1] == 0.0
    wide = np.random.default_rng(0).normal(size=(12, 30))
    assert regressor().fit(wide, wide[:, 0]).certificate_ <= 1e-8


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames(frame):
    X, y, agents, trusted = make()
    named = frame({f"column {i}": X[:, i] for i in range(4)})
    model = regressor().fit(named, y, agents=agents, trusted=trusted)
    np.testing.assert_allclose(model.coef_, regressor().fit(X, y, agents=agents, trusted=trusted).coef_)
    assert model.feature_names_in_[0] == "column 0"


def test_pickle_and_clone_carry_no_rows():
    X, y, agents, trusted = make(n=3000)
    model = regressor().fit(X, y, agents=agents, trusted=trusted)
    model.issues()
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(InputError, match="fit again"):
        loaded.issues()
    blob = pickle.dumps(model)
    assert X[7].tobytes() not in blob
    assert X[1234].tobytes() not in blob
    assert not hasattr(clone(model), "coef_")


def test_grid_search_scores_on_trusted_rows_with_metadata_routing():
    X, y, agents, trusted = make()
    with sklearn.config_context(enable_metadata_routing=True):
        model = regressor().set_fit_request(agents=True, trusted=True)
        cv = TrustedKFold(4).set_split_request(trusted=True)
        search = GridSearchCV(model, {"lambda_w": [0.1, 1.0, 10.0]}, cv=cv).fit(X, y, agents=agents, trusted=trusted)
        assert search.best_score_ > 0.5
        pipe = make_pipeline(StandardScaler(), regressor().set_fit_request(agents=True, trusted=True))
        assert pipe.fit(X, y, agents=agents, trusted=trusted).score(X, y) > 0.5
    for train, test in TrustedKFold(4, trusted=trusted).split(X):
        assert trusted[test].all()
        assert (~trusted[train]).sum() == (~trusted).sum()
    with pytest.raises(InputError, match="at most that many"):
        next(TrustedKFold(30, trusted=trusted).split(X))
    with pytest.raises(InputError, match="no trusted rows"):
        next(TrustedKFold(3).split(X))


def test_progress(capsys):
    X, y, agents, trusted = make()
    regressor(lambda_alpha=0.1, verbose=1).fit(X, y, agents=agents, trusted=trusted)
    assert "round 1: certificate" in capsys.readouterr().out

    class Counter:
        def __init__(self):
            self.ended = 0

        def setup(self, estimator, context): ...

        def teardown(self, estimator, context): ...

        def on_fit_task_begin(self, estimator, context): ...

        def on_fit_task_end(self, estimator, context):
            self.ended += 1

    counter = Counter()
    regressor(lambda_alpha=0.1).set_callbacks(counter).fit(X, y, agents=agents, trusted=trusted)
    assert counter.ended >= 3
    classifier().set_callbacks(ProgressBar()).fit(X, y > 0)


def test_warm_start_needs_fewer_rounds():
    X, y, agents, trusted = make(classify=True)
    model = classifier(warm_start=True, lambda_z=50.0).fit(X, y, agents=agents, trusted=trusted)
    cold = model.n_rounds_
    assert model.fit(X, y, agents=agents, trusted=trusted).n_rounds_ < cold


def test_the_paper_s_selection_warns_and_keeps_the_largest_alpha():
    X, y, agents, trusted = make()
    with pytest.warns(SelectionWarning, match="E13"):
        model = regressor(select=0.5, lambda_z=30.0, **PLAIN).fit(X, y, agents=agents, trusted=trusted)
    buggy = ~trusted
    assert model.selected_[trusted].all()
    assert model.selected_[buggy].sum() == round(0.5 * buggy.sum())
    kept, dropped = (np.abs(model.alpha_[buggy & mask]) for mask in (model.selected_, ~model.selected_))
    assert kept.min() >= dropped.max()
    # θ_S = (1/λ_w) Σ_S α (x + β), written out
    beta = np.outer(model.alpha_, -model.r_ / 60.0)
    chosen = buggy & model.selected_
    np.testing.assert_allclose(model.theta_, model.alpha_[chosen] @ (X + beta)[chosen], atol=1e-8)


def test_the_usable_selection_keeps_the_smallest_loss_and_refits():
    X, y, agents, trusted = make()
    y[30:90] += 25  # gross errors
    everything = regressor(**PLAIN).fit(X, y, agents=agents, trusted=trusted)
    model = regressor(select=0.7, select_by="loss", **PLAIN).fit(X, y, agents=agents, trusted=trusted)
    buggy = ~trusted
    residual = np.abs(y - everything.predict(X))
    assert model.selected_[buggy].sum() == round(0.7 * buggy.sum())
    assert residual[buggy & model.selected_].max() <= residual[buggy & ~model.selected_].min()
    refit = regressor(**PLAIN).fit(X[model.selected_], y[model.selected_], trusted=trusted[model.selected_])
    np.testing.assert_allclose(model.coef_, refit.coef_, atol=1e-8)
    more = np.arange(len(y)) % 3 == 0
    more[30:90] = False
    chosen = regressor(select="auto", lambda_trusted=0.01).fit(X, y, agents=agents, trusted=more)
    assert chosen.selected_fraction_ < 1.0
    assert len(chosen.selection_curve_) == 10
    assert regressor(select="auto").fit(X, y, agents=agents).selected_.all()


def test_selection_curve_of_both_rules():
    X, y, agents, trusted = make(classify=True)
    curve = comt.selection_curve(classifier().fit(X, y, agents=agents, trusted=trusted), fractions=(0.5, 1.0))
    assert curve["rule"].tolist() == ["alpha", "alpha", "loss", "loss"]
    whole = curve[curve["fraction"] == 1.0].set_index("rule")
    assert whole.loc["loss", "loss"] < curve["loss"].max() + 1e-12
    with pytest.raises(InputError, match="fit first"):
        comt.selection_curve(classifier())
    with pytest.raises(InputError, match="0 trusted rows"):
        comt.selection_curve(classifier().fit(X, y))


def test_issues_put_wrong_rows_first():
    X, y, agents, trusted = make(n=600, m=40)
    wrong = ~trusted & (np.arange(600) % 10 == 0)
    table = regressor().fit(X, np.where(wrong, y + 30, y), agents=agents, trusted=trusted).issues()
    assert list(table.columns) == ["row", "agent", "score", "flagged", "given", "suggested", "kind", "column"]
    assert len(table) == (~trusted).sum()
    assert set(table["row"][: wrong.sum()]) == set(np.flatnonzero(wrong))
    assert table["flagged"][: wrong.sum()].all()
    assert table["score"].between(0, 1).all()
    first = table.iloc[0]
    assert first["agent"] == str(agents[first["row"]])
    assert first["given"] == pytest.approx(y[first["row"]] + 30)
    labels = np.where(y > 0, "b", "a")
    noisy = np.where(wrong, np.where(labels == "a", "b", "a"), labels)
    flips = classifier().fit(X, noisy, agents=agents, trusted=trusted).issues()
    top = flips[: wrong.sum()]
    assert wrong[top["row"]].mean() > 0.5
    assert (top["given"] == noisy[top["row"]]).all()
    assert (top["suggested"] != top["given"]).all()


def test_feature_changes_are_given_where_asked_for():
    X, y, agents, trusted = make(n=900, m=120)
    clean = X.copy()
    X[:, 1] *= 100
    clean[:, 1] *= 100
    spread = X.std(axis=0)
    X[~trusted] += spread * np.random.default_rng(5).normal(size=(780, 4))
    model = regressor().fit(X, y, agents=agents, trusted=trusted)
    table = model.issues(changes=True).set_index("row").loc[np.flatnonzero(~trusted)]
    changes = table[[f"change x{i}" for i in range(4)]].to_numpy()
    before = (((X - clean)[~trusted] / spread) ** 2).sum()
    after = (((X - clean)[~trusted] + changes) ** 2 / spread**2).sum()
    assert after < 0.75 * before
    assert "change x0" not in model.issues()


def test_too_sparse_a_training_is_said():
    X, y, *_ = make()
    with pytest.warns(comt.SparsityWarning, match="lower lambda_alpha"):
        regressor(lambda_alpha=float(np.sort(np.abs(y))[-3]), **PLAIN).fit(X, y)


BAD = {
    "nan": (lambda X, y, a, t: (np.where(X > 2, np.nan, X), y, a, t), "NaN or infinite .* row"),
    "infinite": (lambda X, y, a, t: (np.where(X > 2, np.inf, X), y, a, t), "NaN or infinite .* row"),
    "nan target": (lambda X, y, a, t: (X, np.where(y > 2, np.nan, y), a, t), "NaN"),
    "text": (lambda X, y, a, t: (pd.DataFrame(X, columns=list("abcd")).assign(b="x"), y, a, t), "column 'b'"),
    "trusted too short": (lambda X, y, a, t: (X, y, a, t[1:]), "one true or false per row"),
    "trusted not boolean": (lambda X, y, a, t: (X, y, a, np.full(len(y), 3)), "boolean"),
    "agents too short": (lambda X, y, a, t: (X, y, a[1:], t), "one label per row"),
    "agent missing": (lambda X, y, a, t: (X, y, np.where(a == 0, None, a.astype(object)), t), "name the agent"),
    "agents alike": (lambda X, y, a, t: (X, y, np.array([1, "1"] * (len(y) // 2), dtype=object), t), "read the same"),
    "all trusted": (lambda X, y, a, t: (X, y, a, np.ones(len(y), dtype=bool)), "every row is trusted"),
    "no rows": (lambda X, y, a, t: (X[:0], y[:0], a[:0], t[:0]), "0 sample"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_refused_in_one_sentence(case):
    change, message = BAD[case]
    X, y, agents, trusted = change(*make())
    with pytest.raises(InputError, match=message) as caught:
        regressor().fit(X, y, agents=agents, trusted=trusted)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "parameters",
    [
        {"lambda_w": 0.0}, {"lambda_w": -1.0}, {"lambda_trusted": -1e-9}, {"lambda_alpha": np.nan}, {"lambda_z": 0.0},
        {"lambda_z": "many"}, {"solver": "sgd"}, {"select": 1.5}, {"select": -0.1}, {"select_by": "mood"}, {"tol": 0.0},
        {"gamma": -1.0}, {"rho": 0.0}, {"max_rounds": 0}, {"teaching": "osmosis"},
    ],
)  # fmt: skip
def test_bad_parameters_are_refused_in_one_sentence(parameters):
    X, y, *_ = make()
    ((name, _),) = parameters.items()
    with pytest.raises(InputError, match=name):
        regressor(**parameters).fit(X, y)


def test_one_class_over_the_federation_is_refused_but_not_per_agent():
    X, y, _, _ = make(classify=True)
    with pytest.raises(InputError, match="one class"):
        classifier().fit(X, np.ones(len(y)))
    assert classifier().fit(X, y, agents=np.where(y > 0, "all ill", "all well")).certificate_ <= 1e-8
    with pytest.raises(InputError, match="binary"):
        classifier().fit(X, np.arange(len(y)) % 3)


def test_sparse_is_refused():
    X, y, *_ = make()
    with pytest.raises(InputError, match=r"[Ss]parse"):
        regressor().fit(sparse.csr_array(X), y)


def test_crafting_beyond_its_ball_is_refused():
    X, y, agents, trusted = make(n=30, m=20, classify=True)
    y[trusted] = 1 - y[trusted]  # heavily weighted trusted rows that contradict the few others
    with pytest.raises(CraftingError, match="increase lambda_z"):
        classifier(lambda_z=5.0, lambda_trusted=100.0, **PLAIN).fit(X, y, agents=agents, trusted=trusted)


def test_too_few_rounds_of_admm_is_an_error_with_its_certificate():
    X, y, agents, trusted = make()
    with pytest.raises(comt.ConvergenceError, match="admm did not converge in 3 rounds") as caught:
        regressor(solver="admm", max_rounds=3).fit(X, y, agents=agents, trusted=trusted)
    assert caught.value.certificate > 1e-8
    assert len(caught.value.history) == 3
    with pytest.raises(comt.ConvergenceError, match="rho='auto'"):
        regressor(solver="admm", rho=100.0, max_rounds=3).fit(X, y, agents=agents, trusted=trusted)


def test_the_printed_form_of_algorithm_1_reaches_the_same_model():
    X, y, agents, trusted = make()
    exact = regressor(lambda_w=100.0, **PLAIN).fit(X, y, agents=agents, trusted=trusted)
    printed = regressor(lambda_w=100.0, solver="admm", rho=100.0, tol=1e-6, **PLAIN)
    printed.fit(X, y, agents=agents, trusted=trusted)
    np.testing.assert_allclose(printed.coef_, exact.coef_, atol=1e-4)
    assert {"objective", "primal_residual", "dual_residual"} <= set(printed.history_[-1])
    assert printed.history_[-1]["objective"] == pytest.approx(exact.history_[-1]["objective"], rel=1e-4)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("classify", [False, True])
def test_files_give_the_model_of_the_same_rows_in_memory(tmp_path, ending, classify):
    X, y, agents, trusted = make(n=900, classify=classify)
    target = np.where(y > 0, "yes", "no") if classify else y
    table = pd.DataFrame(X, columns=list("abcd")).assign(target=target, verified=trusted)
    members = []
    for agent in range(5):
        path = tmp_path / f"{agent}.{ending}"
        mine = table[agents == agent]
        mine.to_parquet(path) if ending == "parquet" else mine.to_csv(path, index=False)
        members.append(comt.Agent(str(agent), comt.FileRows(path, target="target", trusted="verified")))
    kind = CoMTClassifier if classify else CoMTRegressor
    model = kind(lambda_alpha=0.1, lambda_z=50.0)
    files = clone(model).fit_agents(members)
    memory = clone(model).fit(table[list("abcd")], target, agents=agents, trusted=trusted)
    np.testing.assert_allclose(files.coef_, memory.coef_, rtol=0, atol=1e-8)
    assert files.score(table[list("abcd")], target) > 0.5
    assert len(files.issues()) == (~trusted).sum()
    assert all(len(member.ledger) for member in members)
