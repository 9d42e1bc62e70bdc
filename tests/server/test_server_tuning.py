"""Parameters that choose themselves: equal to a brute-force search in one place, in few exchanges, never a catastrophe."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import stdtrit

from comt import CoMTClassifier, CoMTRegressor
from comt.agent.folds import fold_of
from comt.preparation import Preparation
from comt.rows import losses
from comt.server import dual, tuning
from comt.server.direct import teach
from comt.server.grids import Grids, Wanted
from comt.server.held_out import simple_choices
from comt.server.selection import select
from teaching import LOSSES, Data, federate, random_data, solve_pooled

D = 3
PREPARATION = Preparation.identity(D)
SMALL = Grids(ridge=(1e-3, 0.1), trust=(1.0, 30.0), alone=(0.01, 0.1), sparsity=(1.0,), price=(20.0,), fractions=(0.6,))


def fitted(candidate, data):
    """The model of a candidate, solved in one place."""
    problem = candidate.problem
    if candidate.alone:
        X, y, loss = *data.trusted, problem.loss
        fit = minimize(
            lambda w: (
                problem.lambda_trusted * loss.trusted_factor * loss.value(X @ w, y).sum() + problem.lambda_w * w @ w / 2
            ),
            np.zeros(X.shape[1]),
            tol=1e-12,
        )
        return fit.x
    theta = solve_pooled(problem, data)[0].theta
    if candidate.fraction < 1.0:
        value = losses(problem, *data.buggy, theta)
        kept = value <= np.sort(value)[round(candidate.fraction * len(value)) - 1]
        theta = solve_pooled(problem, replace(data, features=data.features[kept], targets=data.targets[kept]))[0].theta
    return theta


def brute_force(candidate, data, n_folds):
    """Held-out loss of every trusted row, each from a solve in one place without its fold."""
    folds = fold_of(*data.trusted, n_folds)
    held_out = np.empty(len(folds))
    for fold in np.unique(folds):
        rest = Data(*data.buggy, data.trusted_features[folds != fold], data.trusted_targets[folds != fold])
        out = folds == fold
        theta = fitted(candidate, rest)
        held_out[out] = losses(candidate.problem, data.trusted_features[out], data.trusted_targets[out], theta)
    return held_out


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("m", [6, 15])
def test_equals_a_brute_force_cross_validation_in_one_place(loss_name, m):
    data = random_data(loss_name, n=80, d=D, m=m, seed=m, bugs=0.3)
    wanted = Wanted(loss_name, fraction=None, grids=SMALL)
    found = tuning.tune(federate(data, 3), PREPARATION, wanted)
    kinds = {scored.candidate.kind for scored in found.table}
    assert kinds == {"buggy only", "plain", "extended", "trusted only"}
    n_folds = tuning.FOLDS if m >= tuning.ALONE_BELOW else tuning.MANY_FOLDS
    if m < tuning.ALONE_BELOW:
        assert len(np.unique(fold_of(*data.trusted, n_folds))) == m  # every row alone
    rows = {s.candidate: brute_force(s.candidate, data, n_folds) for s in found.table if not s.excluded}
    assert len(rows) >= 0.8 * len(found.table)
    level = 0.99 if m >= 10 else 0.999
    rivals = simple_choices(list(rows), np.array([r.mean() for r in rows.values()]))
    for scored in found.table:
        if scored.excluded:
            continue
        mine = rows[scored.candidate]
        assert scored.loss == pytest.approx(mine.mean(), rel=3e-3 if scored.candidate.alone else 1e-4)
        assert scored.loss_error == pytest.approx(mine.std(ddof=1) / np.sqrt(m), rel=1e-2)
        rival = rows[list(rows)[rivals["trusted only"]]]
        lead = rival - mine
        assert ("trusted only" in scored.beats) == bool(lead.mean() > lead.std(ddof=1) / np.sqrt(m))
    assert found.chosen.candidate.name in found.sentence
    assert found.undecided == (m < 10)
    base = next(s for s in found.table if s.candidate.kind == "buggy only")
    if found.chosen.candidate.kind != "buggy only":
        lead = rows[base.candidate] - rows[found.chosen.candidate]
        tenths = (rows[found.chosen.candidate] < 0.1 * rows[base.candidate]).mean()
        t = lead.mean() / (lead.std(ddof=1) / np.sqrt(m))
        assert max(t, (tenths - 0.5) * 2 * np.sqrt(m)) > 0.9 * stdtrit(m - 1, level)


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("teaching", ["dual", "direct"])
def test_the_number_of_exchanges_does_not_grow_with_the_grid(loss_name, teaching):
    data = random_data(loss_name, n=100, d=D, m=12, seed=1)
    coarse = Grids(ridge=(1e-3, 1.0), trust=(0.1, 100.0), sparsity=(), price=(20.0,), fractions=())
    fine = replace(coarse, ridge=tuple(np.geomspace(1e-3, 1.0, 5)), trust=tuple(np.geomspace(0.1, 100.0, 5)))
    rounds = []
    for grids in (coarse, fine):
        federation = federate(data, 3)
        table = tuning.tune(federation, PREPARATION, Wanted(loss_name, teaching, grids=grids)).table
        rounds.append((federation.rounds, len(table)))
    assert rounds[1][1] > 3 * rounds[0][1]
    assert rounds[1][0] <= rounds[0][0] + 4
    assert rounds[1][0] <= 40


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("teaching", ["dual", "direct"])
def test_the_partition_does_not_change_the_choice(loss_name, teaching):
    data = random_data(loss_name, n=120, d=D, m=12, seed=2, bugs=0.4)
    wanted = Wanted(loss_name, teaching, fraction=None, grids=SMALL)
    one, five = (tuning.tune(federate(data, k, seed=4), PREPARATION, wanted) for k in (1, 5))
    for name in ("lambda_w", "lambda_trusted", "lambda_alpha", "lambda_z"):
        assert getattr(one.problem, name) == pytest.approx(getattr(five.problem, name), rel=1e-6)
    assert one.fraction == five.fraction
    assert one.chosen.loss == pytest.approx(five.chosen.loss, rel=1e-5)


def test_given_numbers_stay_and_their_grids_are_not_searched():
    data = random_data("squared", n=60, d=D, m=12, seed=3)
    wanted = Wanted("squared", lambda_w=3.0, lambda_trusted=2.0, lambda_alpha=0.1, lambda_z=50.0, fraction=0.8)
    found = tuning.tune(federate(data, 2), PREPARATION, wanted)
    assert len(found.table) == 1
    problem = found.problem
    assert (problem.lambda_w, problem.lambda_trusted, problem.lambda_alpha, problem.lambda_z) == (3.0, 2.0, 0.1, 50.0)
    assert found.fraction == 0.8
    some = tuning.tune(federate(data, 2), PREPARATION, replace(wanted, lambda_trusted=None))
    assert {scored.candidate.problem.lambda_w for scored in some.table} == {3.0}
    assert {scored.candidate.kind for scored in some.table} == {"buggy only", "plain", "trusted only"}


@pytest.mark.parametrize("m", [0, 1])
def test_without_trusted_rows_the_buggy_rows_are_taken_at_their_word(m):
    data = random_data("squared", n=60, d=D, m=m, seed=4)
    found = tuning.tune(federate(data, 2), PREPARATION, Wanted("squared", fraction=None))
    assert found.undecided
    assert found.problem.lambda_w == pytest.approx(0.06)
    assert (found.problem.lambda_trusted, found.fraction) == (0.0, 1.0)
    assert "unverified rows are taken at their word" in found.sentence


@pytest.mark.parametrize("loss_name", LOSSES)
def test_clean_rows_are_believed(loss_name):
    data = random_data(loss_name, n=300, d=D, m=20, seed=5, bugs=0.0)
    found = tuning.tune(federate(data, 3), PREPARATION, Wanted(loss_name, fraction=None))
    assert found.chosen.candidate.kind == "buggy only"


def test_half_of_the_targets_negated_is_seen_by_direct_teaching():
    # 15 trusted rows for 8 coefficients: they are too few to be preferred to the right half of the rows
    data = random_data("squared", n=600, d=8, m=15, seed=6, noise=0.2, bugs=0.5)
    federation, preparation = federate(data, 3), Preparation.identity(8)
    found = tuning.tune(federation, preparation, Wanted("squared", "direct", fraction=None))
    assert found.fraction == 0.5
    theta = teach(federation, preparation, found.problem, fraction=found.fraction).theta
    clean = random_data("squared", n=600, d=8, m=15, seed=6, noise=0.2, bugs=0.0)
    model = np.linalg.lstsq(*clean.buggy)[0]
    assert np.linalg.norm(theta - model) < 0.1 * np.linalg.norm(model)


def test_the_search_looks_at_a_sample_and_the_finalists_at_all_rows(monkeypatch):
    data = random_data("squared", n=400, d=D, m=15, seed=7, bugs=0.3)
    everything = tuning.tune(federate(data, 2), PREPARATION, Wanted("squared", grids=SMALL))
    monkeypatch.setattr(tuning, "SAMPLE", 100)
    asked = []
    federation = federate(data, 2)
    plain_sum = federation.sum
    monkeypatch.setattr(federation, "sum", lambda query: (asked.append(query), plain_sum(query))[1])
    found = tuning.tune(federation, PREPARATION, Wanted("squared", grids=SMALL))
    batches = [(getattr(query, "thin", 1), len(query.r)) for query in asked if hasattr(query, "r")]
    assert max(size for thin, size in batches if thin == 4) > 60
    assert 0 < max(size for thin, size in batches if thin == 1) <= 60
    assert found.chosen.candidate.kind == everything.chosen.candidate.kind
    same = [s for s in everything.table if s.candidate == found.chosen.candidate]
    assert all(s.loss == pytest.approx(found.chosen.loss, rel=1e-6) for s in same)


@pytest.mark.parametrize("m", [5, 20, 60])
@pytest.mark.parametrize("seed", range(3))
def test_heavy_tails_give_no_catastrophe(m, seed):
    """A column that is 1 or 2 in nearly every row and thousands in a few: a few trusted rows say nothing about those."""
    rng = np.random.default_rng(seed)
    n, test, d = 1500, 1500, 6
    features = rng.normal(size=(n + m + test, d))
    features[:, 0] = np.where(
        rng.random(len(features)) < 0.01, 10 ** rng.uniform(2, 3.4, len(features)), features[:, 0]
    )
    model = np.array([0.002, 1.0, -1.0, 0.5, 0.3, 0.8])
    targets = features @ model + 0.5 * rng.standard_t(3, size=len(features))
    targets[:n] += 1.5 * rng.normal(size=n)
    trusted_at = np.arange(n, n + m)
    data = Data(features[:n], targets[:n], features[trusted_at], targets[trusted_at])
    fresh, wanted_targets = features[n + m :], targets[n + m :]

    def r2(theta):
        return 1 - ((wanted_targets - fresh @ theta) ** 2).sum() / ((wanted_targets - wanted_targets.mean()) ** 2).sum()

    federation = federate(data, 3)
    found = tuning.tune(federation, Preparation.identity(d), Wanted("squared", fraction=None))
    tasks = [dual.Task(found.problem, np.zeros(d), np.zeros(d))]
    solutions = dual.solve(federation, Preparation.identity(d), tasks, tol=1e-8, max_rounds=100)
    ((kept,),) = select(
        federation, Preparation.identity(d), tasks, solutions, "loss", [found.fraction], tol=1e-8, max_rounds=100
    )
    plain = np.linalg.lstsq(*data.buggy)[0]
    assert r2(kept.theta) >= r2(plain) - 0.05


@pytest.mark.parametrize("estimator", [CoMTRegressor, CoMTClassifier])
def test_what_dual_teaching_chooses_does_not_depend_on_who_holds_which_row(estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X @ [1.0, -1.0, 2.0] + 0.3 * rng.normal(size=400)
    y = np.sign(y) if estimator is CoMTClassifier else y
    trusted = np.arange(400) < 30
    y[~trusted] *= np.where(rng.random(370) < 0.2, -1.0, 1.0)
    one = estimator(teaching="dual").fit(X, y, trusted=trusted)
    five = estimator(teaching="dual").fit(X, y, agents=rng.integers(0, 5, 400), trusted=trusted)
    assert five.choice_.sentence == one.choice_.sentence
    np.testing.assert_allclose(five.coef_, one.coef_, rtol=0, atol=1e-8)
