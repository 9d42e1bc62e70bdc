"""Dual and direct teaching that choose their parameters: what was scored is what is fitted, and harm is kept away."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from comt import CoMTClassifier, CoMTRegressor, NoTrustedRowsWarning, SelectionWarning
from comt.preparation import Preparation
from comt.queries import DirectSums, DualSums
from comt.reporting import Told, aggregate_report
from comt.server import dual, grids, tuning
from comt.server.grids import Sizes, Wanted, candidates
from comt.server.selection import select
from comt.server.tuning import tune
from teaching import federate, random_data

BOTH = pytest.mark.parametrize("teaching", ["dual", "direct"])


def rows(n=600, m=40, d=5, *, seed=0, negated=0.0, labels=False):
    """Unverified rows, trusted rows and 2,000 new ones of one linear model."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n + m + 2000, d)), 2.0 * rng.normal(size=d)
    y = X @ w + 0.5 * rng.normal(size=len(X)) + 3.0
    if labels:
        y = (rng.random(len(X)) < 1 / (1 + np.exp(-X @ w))).astype(float) * 2.0 - 1.0
    trusted = np.arange(n + m) >= n
    given = np.where(~trusted & (rng.random(n + m) < negated), -y[: n + m], y[: n + m])
    return X[: n + m], given, trusted, X[n + m :], y[n + m :]


def quietly(kind, X, y, trusted, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoTrustedRowsWarning)
        return kind(**options).fit(X, y, trusted=trusted, agents=np.arange(len(y)) % 3)


def test_a_given_fraction_is_fitted_under_the_rule_it_was_scored_under():
    X, y, trusted, new, targets = rows(negated=0.3)
    model = CoMTRegressor(select=0.7).fit(X, y, trusted=trusted)  # and no warning of the paper's rule
    assert model.score(new, targets) > 0.95
    assert model.selected_fraction_ == 0.7
    loss = np.abs(y - model.predict(X))[~trusted]
    assert loss[model.selected_[~trusted]].mean() < 0.2 * loss[~model.selected_[~trusted]].mean()


def test_the_papers_rule_is_scored_where_it_is_asked_for_by_its_name():
    data = random_data("squared", n=80, d=3, m=15, seed=2, bugs=0.2)
    federation, preparation = federate(data, 2), Preparation.identity(3)
    wanted = Wanted("squared", lambda_w=1.0, lambda_trusted=2.0, lambda_z=50.0, fraction=0.6)
    found = tune(federation, preparation, wanted, rule="alpha")
    folds = found.models
    assert found.fraction == 0.6
    by_fold = []
    for fold in range(tuning.FOLDS):
        task = dual.Task(found.problem, np.zeros(3), np.zeros(3), held_out=fold)
        solutions = dual.solve(federation, preparation, [task], tol=1e-8, max_rounds=50, n_folds=tuning.FOLDS)
        ((kept,),) = select(
            federation,
            preparation,
            [task],
            solutions,
            "alpha",
            [0.6],
            tol=1e-8,
            max_rounds=50,
            n_folds=tuning.FOLDS,
        )
        by_fold.append(kept.theta)
    for _, theta in folds:
        assert min(np.abs(theta - own).max() for own in by_fold) < 1e-4
    X, y, trusted, *_ = rows(n=200, negated=0.1)
    with pytest.warns(SelectionWarning):
        model = CoMTRegressor(select=0.8, select_by="alpha", lambda_w=1.0).fit(X, y, trusted=trusted)
    assert model.choice_ is not None


@BOTH
def test_one_absurd_cell_leaves_the_right_models_in(teaching):
    X, y, trusted, new, targets = rows(n=1000, m=50, seed=2)
    X[3, 1] = -1e4
    model = quietly(CoMTRegressor, X, y, trusted, teaching=teaching)
    assert model.score(new, targets) > 0.97


def test_trusted_only_is_trusted_rows_alone_and_says_so():
    X, y, trusted, new, targets = rows(n=400, m=60, seed=1)
    X[:200, 0] *= 1000.0
    y[:400] = np.random.default_rng(0).permutation(y[:400])  # nothing to be learnt from them
    model = quietly(CoMTRegressor, X, y, trusted, teaching="dual")
    assert model.choice_.lines[0].candidate.startswith("trusted rows alone")
    assert not model.selected_[~trusted].any()
    assert model.selected_[trusted].all()
    assert np.isnan(model.r_).all()
    assert model.certificate_ <= model.tol
    assert model.score(new, targets) > 0.98
    again = X.copy()
    again[~trusted] = np.random.default_rng(1).permutation(again[~trusted])
    same = quietly(CoMTRegressor, again, y, trusted, teaching="dual")
    np.testing.assert_allclose(same.coef_, model.coef_, rtol=1e-6)
    model.set_params(warm_start=True, lambda_w=1.0, lambda_trusted=1.0, lambda_alpha=0.0, lambda_z=np.inf, select=None)
    assert np.isfinite(model.fit(X, y, trusted=trusted, agents=np.arange(len(y)) % 3).coef_).all()


@BOTH
@pytest.mark.parametrize("m", [12, 40])
def test_trusted_labels_of_one_class_decide_nothing(teaching, m):
    X, y, trusted, new, targets = rows(n=500, m=2 * m + 60, seed=3, labels=True)
    chosen = np.flatnonzero(trusted & (y > 0))[:m]
    keep = ~trusted
    keep[chosen] = True
    X, y, trusted = X[keep], y[keep], trusted[keep]
    with pytest.warns(NoTrustedRowsWarning, match="one label"):
        model = CoMTClassifier(teaching=teaching).fit(X, y, trusted=trusted)
    plain = quietly(CoMTClassifier, X[~trusted], y[~trusted], None, teaching="dual")
    assert model.choice_.undecided
    assert model.choice_.trusted_rows == m
    assert model.score(new, targets) > plain.score(new, targets) - 0.01


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("m", [3, 6])
@BOTH
def test_few_trusted_rows_do_not_spoil_clean_rows(teaching, m, labels):
    kind = CoMTClassifier if labels else CoMTRegressor
    for seed in range(2):
        X, y, trusted, new, targets = rows(n=300, m=m, seed=seed, labels=labels)
        with pytest.warns(NoTrustedRowsWarning):
            model = kind(teaching=teaching).fit(X, y, trusted=trusted)
        plain = quietly(kind, X[~trusted], y[~trusted], None, teaching="dual")
        assert model.score(new, targets) > plain.score(new, targets) - 0.02
        assert model.choice_.undecided


@BOTH
def test_negated_targets_are_still_seen_by_thirty_trusted_rows(teaching):
    X, y, trusted, new, targets = rows(m=30, seed=4, negated=0.4)
    assert quietly(CoMTRegressor, X, y, trusted, teaching=teaching).score(new, targets) > 0.98


@pytest.mark.parametrize("options", [{"teaching": "dual"}, {"teaching": "direct"}, {"lambda_w": 1.0}])
@pytest.mark.parametrize("m", [0, 1, 5])
def test_hardly_any_trusted_rows_are_warned_of_and_told(options, m):
    X, y, trusted, *_ = rows(n=100, m=m)
    with pytest.warns(NoTrustedRowsWarning, match="verify more rows"):
        model = CoMTRegressor(**options).fit(X, y, trusted=trusted)
    assert "verify more rows" in model.summary()
    assert model.choice_.undecided


@BOTH
def test_the_choice_holds_the_candidates_that_matter(teaching):
    X, y, trusted, *_ = rows(negated=0.3)
    model = quietly(CoMTRegressor, X, y, trusted, teaching=teaching)
    choice = model.choice_
    assert choice.trusted_rows == 40
    assert not choice.undecided
    np.testing.assert_array_equal(choice.theta, model.theta_)
    assert len(choice.agents) == len(choice.agent_weights) == 3
    first, *others = choice.lines
    assert first.share == 1.0
    assert all(line.share == 0.0 and line.loss > 0.0 for line in others)
    for simple in ("unverified rows alone", "trusted rows alone"):
        assert any(line.candidate.startswith(simple) for line in choice.lines)
    assert "search 1" not in model.summary()
    report = aggregate_report(model, model.issues(), Told(run="r", target="t"))
    assert [shown.score for shown in report.choices] == [-line.loss for line in choice.lines]


def test_answers_about_many_columns_are_split_and_fewer_candidates_tried(monkeypatch):
    wanted, sizes = Wanted("logistic", fraction=None), Sizes(1000.0, 40.0, 0.0, 1.0)
    narrow, wide = (candidates(wanted, sizes, 5, width) for width in (20, 400))
    assert len(wide) < 10 < len(narrow)
    assert {candidate.kind for candidate in wide} == {"buggy only", "plain", "trusted only"}
    monkeypatch.setattr(dual, "MAX_EXCHANGE_BYTES", 40_000)
    monkeypatch.setattr(grids, "SEARCH_BYTES", 200_000)
    data = random_data("logistic", n=60, d=12, m=12, seed=1)
    for teaching in ("dual", "direct"):
        federation = federate(data, 2)
        sizes_sent = []
        plain_sum = federation.sum

        def spy(query, plain_sum=plain_sum, sizes_sent=sizes_sent):
            if isinstance(query, (DualSums, DirectSums)) and len(query.theta) > 1:
                sizes_sent.append(sum(8 * int(np.prod(shape)) for shape in query.shapes().values()))
            return plain_sum(query)

        monkeypatch.setattr(federation, "sum", spy)
        tune(federation, Preparation.identity(12), Wanted("logistic", teaching, fraction=None))
        assert max(sizes_sent) <= 40_000


@pytest.mark.parametrize("options", [{"lambda_w": 1.0}, {"lambda_w": 1.0, "solver": "newton-cg"}])
def test_many_columns_are_no_error(options):
    X, y, trusted, *_ = rows(n=150, m=30, d=250)
    model = quietly(CoMTRegressor, X, y, trusted, **options)
    assert model.solver_ in (options.get("solver", "newton"), "newton")


def test_tasks_that_ask_the_same_share_an_answer(monkeypatch):
    data = random_data("squared", n=40, d=3, m=10, seed=0)
    federation = federate(data, 2)
    asked = []
    plain_sum = federation.sum
    monkeypatch.setattr(federation, "sum", lambda query: (asked.append(len(query.r)), plain_sum(query))[1])
    wanted = Wanted("squared", lambda_alpha=0.0, fraction=1.0)
    problems = [c.problem for c in candidates(wanted, Sizes(40.0, 10.0, 1.0, 1.0)) if not c.alone]
    tasks = [dual.Task(problem, np.zeros(3), np.zeros(3)) for problem in problems]
    dual.solve(federation, Preparation.identity(3), tasks, tol=1e-8, max_rounds=50)
    assert len(tasks) > 10
    assert asked[0] == 1


def test_candidates_are_named_in_words():
    names = {c.kind: c.name for c in candidates(Wanted("squared"), Sizes(10.0, 5.0, 1.0, 1.0))}
    assert names["trusted only"].startswith("trusted rows alone (")
    assert names["buggy only"].startswith("unverified rows alone (")
    assert names["extended"].startswith("all rows (")
