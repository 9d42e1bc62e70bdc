from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad
from simulated_agents import angle, simulate

from comt.baselines.base import pooled
from comt.baselines.buggy_only import BuggyOnly
from comt.baselines.glc import GLC, corrected_loss, corruption_matrix
from comt.baselines.learning_to_reweight import LearningToReweight, row_weights
from comt.baselines.linear import fit_exact, loss, loss_gradient, loss_slope
from comt.errors import InputError


def estimated_corruption(separation, seed=0):
    """Two clouds, 30 % of the negative and 20 % of the positive labels flipped; 20,000 rows, 200 trusted."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(20200) < 0.5, 1.0, -1.0)
    features = rng.normal(size=(20200, 3))
    features[:, 0] += separation * labels
    # unequal flips shift the noisy model, so it needs a constant column
    features[:, 2] = 1.0
    noisy = np.where(rng.random(20200) < np.where(labels > 0, 0.2, 0.3), -labels, labels)
    coef = fit_exact(features[200:], noisy[200:], "classification", 1.0)
    return corruption_matrix(coef, features[:200], labels[:200])


def test_glc_finds_the_corruption():
    matrix = estimated_corruption(separation=2.0)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)
    np.testing.assert_allclose(matrix, [[0.7, 0.3], [0.2, 0.8]], atol=0.08)


def test_glc_is_biased_to_the_middle_where_classes_overlap():
    apart, overlapping = estimated_corruption(2.0), estimated_corruption(1.0)
    assert 0.5 < overlapping[0, 0] < apart[0, 0]
    assert 0.5 < overlapping[1, 1] < apart[1, 1]


def test_glc_by_hand():
    # scores log(3), log(3), -log(3): chances .75, .75, .25
    features = np.log(3) * np.array([[1.0], [1.0], [-1.0]])
    matrix = corruption_matrix(np.ones(1), features, np.array([1.0, -1.0, -1.0]))
    np.testing.assert_allclose(matrix, [[0.5, 0.5], [0.25, 0.75]])
    # no trusted row of a class: its labels are believed
    np.testing.assert_allclose(corruption_matrix(np.ones(1), features[:1], np.ones(1)), [[1.0, 0.0], [0.25, 0.75]])


def test_corrected_loss_gradient_and_its_limit_without_corruption():
    agents, _ = simulate("classification")
    features, targets, _, _ = pooled(agents)
    matrix = np.array([[0.7, 0.3], [0.1, 0.9]])
    coef = np.array([0.5, -1.0, 0.2, 2.0])
    error = check_grad(
        lambda w: corrected_loss(w, features, targets, matrix)[0],
        lambda w: corrected_loss(w, features, targets, matrix)[1],
        coef,
    )
    assert error < 1e-4
    value, gradient = corrected_loss(coef, features, targets, np.eye(2))
    assert value == pytest.approx(loss(features @ coef, targets, "classification").sum())
    np.testing.assert_allclose(gradient, loss_gradient(features, targets, coef, "classification"), atol=1e-7)


def test_glc_repairs_one_sided_flips():
    agents, truth = simulate("classification", sizes=(900, 500, 700), trusted=(60, 0, 60), slope=4.0)
    rng = np.random.default_rng(5)
    shifted = []
    for agent in agents:
        wrong = (agent.targets > 0) & (rng.random(len(agent.targets)) < 0.5)
        ones = np.ones((len(agent.targets), 1)), np.ones((len(agent.trusted_targets), 1))
        shifted.append(
            type(agent)(
                agent.name,
                np.hstack([agent.features, ones[0]]),
                np.where(wrong, -1.0, agent.targets),
                np.hstack([agent.trusted_features, ones[1]]),
                agent.trusted_targets,
            )
        )
    goal = np.append(truth, 0.0)
    repaired = GLC().fit(shifted, "classification")
    plain = BuggyOnly().fit(shifted, "classification")
    assert angle(repaired.coef, goal) < 0.5 * angle(plain.coef, goal)
    assert repaired.found["gradient"] < 1e-3


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_row_weights_are_the_meta_gradient(task):
    agents, _ = simulate(task, flips=0.3)
    features, targets, trusted_features, trusted_targets = pooled(agents)
    coef, step = np.array([0.2, -0.4, 0.1, 0.3]), 0.05
    slopes = loss_slope(features @ coef, targets, task)
    rows = slopes[:, None] * features

    def trusted_loss(epsilon):
        moved = coef - step * rows.T @ epsilon
        return loss(trusted_features @ moved, trusted_targets, task).mean()

    h = 1e-5
    basis = h * np.eye(len(targets))
    meta = np.array([(trusted_loss(e) - trusted_loss(-e)) / (2 * h) for e in basis])
    guide = loss_gradient(trusted_features, trusted_targets, coef, task) / len(trusted_targets)
    np.testing.assert_allclose(-step * slopes * (features @ guide), meta, atol=1e-9)
    expected = np.maximum(-meta, 0)
    np.testing.assert_allclose(row_weights(slopes, features, guide), expected / expected.sum(), atol=1e-7)


def test_no_weight_where_no_row_helps():
    np.testing.assert_array_equal(row_weights(np.array([-1.0, 0.0]), np.ones((2, 1)), np.ones(1)), [0.0, 0.0])


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_learning_to_reweight_is_active(task):
    sizes, trusted = (400, 300, 500), (150, 0, 150)
    # all rows of the two larger agents are wrong: their majority turns a plain fit around
    agents, truth = simulate(task, sizes=sizes, trusted=trusted, bad_agents=(0, 2))
    plain = BuggyOnly().fit(agents, task).coef
    model = LearningToReweight().fit(agents, task)
    assert angle(plain, truth) > 90
    assert angle(model.coef, truth) < 25
    assert np.linalg.norm(model.coef - truth) < 0.5 * np.linalg.norm(plain - truth)
    assert model.found["weights"].sum() == pytest.approx(1.0)


def test_input_is_refused_with_a_sentence():
    regression, _ = simulate("regression")
    with pytest.raises(InputError, match=r"GLC does not solve 'regression'"):
        GLC().fit(regression, "regression")
    classification, _ = simulate("classification")
    for method in (GLC(), LearningToReweight()):
        with pytest.raises(InputError, match="0 trusted rows"):
            method.fit([classification[1]], "classification")
