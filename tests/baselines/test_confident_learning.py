from __future__ import annotations

import sys

import numpy as np
import pytest
from simulated_agents import angle, simulate
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from comt.baselines.base import AgentRows
from comt.baselines.buggy_only import BuggyOnly
from comt.baselines.confident_learning import ConfidentLearning, held_out_chances
from comt.errors import InputError, MissingExtraError

cleanlab_count = pytest.importorskip("cleanlab.count")
cleanlab_filter = pytest.importorskip("cleanlab.filter")


def test_confident_joint_by_hand():
    labels = np.array([0, 0, 0, 1, 1, 1])
    chance = np.array([0.1, 0.2, 0.8, 0.9, 0.7, 0.3])
    chances = np.column_stack([1 - chance, chance])
    joint = cleanlab_count.compute_confident_joint(labels, chances, calibrate=False)
    np.testing.assert_array_equal(joint, [[2, 1], [1, 2]])
    issues = cleanlab_filter.find_label_issues(labels, chances, n_jobs=1)
    np.testing.assert_array_equal(np.flatnonzero(issues), [2, 5])


def test_held_out_chances_are_scikit_learns():
    agents, _ = simulate("classification", flips=0.2)
    x, y = agents[0].features, agents[0].targets
    model = LogisticRegression(C=0.5, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
    folds = StratifiedKFold(5, shuffle=True, random_state=7)
    expected = cross_val_predict(model, x, y, cv=folds, method="predict_proba")
    np.testing.assert_allclose(held_out_chances(x, y, 2.0, 5, 7), expected, atol=1e-6)


def test_label_issues_are_found_and_dropped():
    agents, truth = simulate("classification", sizes=(600, 300), trusted=(5, 0), slope=12.0)
    rng = np.random.default_rng(4)
    flipped = [rng.random(len(a.targets)) < 0.25 for a in agents]
    buggy = [
        AgentRows(a.name, a.features, np.where(f, -1, 1) * a.targets, a.trusted_features, a.trusted_targets)
        for a, f in zip(agents, flipped, strict=True)
    ]
    model = ConfidentLearning().fit(buggy, "classification")
    dropped = ~np.concatenate(model.found["kept"])
    wrong = np.concatenate(flipped)
    assert (dropped & wrong).sum() / wrong.sum() > 0.85
    assert (dropped & wrong).sum() / dropped.sum() > 0.85
    assert angle(model.coef, truth) < angle(BuggyOnly().fit(buggy, "classification").coef, truth)


def test_regression_drops_the_lowest_quality():
    agents, truth = simulate("regression", sizes=(300, 200), trusted=(5, 0))
    rng = np.random.default_rng(4)
    spoiled = []
    for a in agents:
        targets = a.targets.copy()
        targets[: len(targets) // 10] += 10 * rng.normal(size=len(targets) // 10)
        spoiled.append(AgentRows(a.name, a.features, targets, a.trusted_features, a.trusted_targets))
    method = ConfidentLearning(drop_fraction=0.15)
    before = np.random.get_state()[1].copy()
    model = method.fit(spoiled, "regression")
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    assert [int((~mask).sum()) for mask in model.found["kept"]] == [45, 30]
    plain = BuggyOnly().fit(spoiled, "regression").coef
    assert np.linalg.norm(model.coef - truth) < 0.5 * np.linalg.norm(plain - truth)
    np.testing.assert_array_equal(model.coef, method.fit(spoiled, "regression").coef)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_agents_too_small_to_judge_keep_their_rows(task):
    agents, _ = simulate(task, sizes=(3, 1, 4), trusted=(2, 0, 3))
    if task == "classification":
        agents = [
            AgentRows(a.name, a.features, np.ones(len(a.targets)), a.trusted_features, a.trusted_targets)
            for a in agents
        ]
    model = ConfidentLearning().fit(agents, task)
    assert all(mask.all() for mask in model.found["kept"])
    np.testing.assert_allclose(model.coef, BuggyOnly().fit(agents, task).coef, rtol=1e-9)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_without_cleanlab_the_extra_is_named(task, monkeypatch):
    for name in [n for n in sys.modules if n.startswith("cleanlab.")]:
        monkeypatch.setitem(sys.modules, name, None)
    agents, _ = simulate(task)
    with pytest.raises(MissingExtraError, match=r'pip install "comt\[bench\]"'):
        ConfidentLearning().fit(agents, task)


def test_settings_are_refused_with_a_sentence():
    with pytest.raises(InputError, match="n_folds=1"):
        ConfidentLearning(n_folds=1)
    with pytest.raises(InputError, match="use_trusted='never'"):
        ConfidentLearning(use_trusted="never")
    with pytest.raises(InputError, match=r"drop_fraction=1\.0"):
        ConfidentLearning(drop_fraction=1.0)
