"""Labels that bend: found by products of features, not mistaken for flips, and not made of mistakes in one column."""

from __future__ import annotations

import numpy as np
import pytest

from comt import CoMTClassifier
from comt.agent import Agent, ArrayRows, Policy
from comt.federation import LocalFederation
from comt.preparation import Preparation
from comt.queries import BendingSums
from comt.server.auto.bending import STRAIGHT, bends
from comt.server.auto.moments import Moments
from comt.server.auto.vague_labels import read

D, N = 6, 3000
PREPARATION = Preparation.identity(D, 10.0)


def labels(kind, seed=0, n=N):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, D)) @ (np.eye(D) + 0.3 * rng.normal(size=(D, D)))
    score = features @ np.array([1.0, -0.6, 0.4, 0.0, 0.0, 0.0])
    if kind == "bent":
        score = 0.5 * score + features[:, 3] * features[:, 4] + 0.5 * (features[:, 5] ** 2 - 1.0)
    given = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * score)), 1.0, -1.0)
    if kind == "flipped":
        given[rng.random(n) < 0.35] *= -1.0
    elif kind == "flipped by a column":
        given[features[:, 1] > np.quantile(features[:, 1], 0.7)] *= -1.0
    return features, given


def federation(features, targets, agents, policy=None):
    parts = zip(np.array_split(features, agents), np.array_split(targets, agents), strict=True)
    rules = {} if policy is None else {"policy": policy}
    return LocalFederation([Agent(f"a{k}", ArrayRows(x, y, x[:0], y[:0]), **rules) for k, (x, y) in enumerate(parts)])


def moments(features, targets):
    joint = np.column_stack([features, np.full(len(targets), 10.0), targets])
    return Moments(joint.T @ joint, float(len(targets)))


def bending(kind, agents=3, seed=0):
    features, targets = labels(kind, seed)
    with federation(features, targets, agents).open() as run:
        return bends(run, PREPARATION, moments(features, targets), 1)


def test_the_sums_are_those_written_out_row_by_row():
    features, targets = labels("bent", n=40)
    rng = np.random.default_rng(1)
    theta, axes, bend = rng.normal(size=(1, D + 1)), rng.normal(size=(3, D + 1)), rng.normal(size=(3, 3))
    common = {"loss_name": "logistic", "preparation": PREPARATION, "theta": theta, "axes": axes}
    with federation(features, targets, 2).open() as run:
        first, second = run.sum(BendingSums(**common)), run.sum(BendingSums(**common, bend=bend))
    bent, square, along, own = np.zeros((3, 3)), 0.0, np.zeros(D + 1), 0.0
    for row, target in zip(np.column_stack([features, np.full(40, 10.0)]), targets, strict=True):
        error, z = target - row @ theta[0], axes @ row
        bent += error * np.outer(z, z)
        square += (z @ bend @ z) ** 2
        along += (z @ bend @ z) * row
        own += error**2 * (z @ z) ** 2
    np.testing.assert_allclose(first["bent"], bent, rtol=1e-10)
    np.testing.assert_allclose(second["along"], along, rtol=1e-9)
    assert second["square"] == pytest.approx(square)
    assert second["own"] == pytest.approx(own)


def test_bending_is_found_and_is_no_more_than_products_of_features_explain():
    found = bending("bent")
    features, targets = labels("bent")
    upper = np.triu_indices(D)
    products = (features[:, :, None] * features[:, None, :])[:, upper[0], upper[1]]

    def explained(columns):
        design = np.column_stack([np.ones(N), columns])
        left = targets - design @ np.linalg.lstsq(design, targets, rcond=None)[0]
        return 1.0 - left @ left / (N * targets.var())

    most = explained(np.hstack([features, products])) - explained(features)
    assert 0.3 * most < found.explained < most
    assert found.nats > 50.0


@pytest.mark.parametrize("kind", ["straight", "flipped", "flipped by a column"])
def test_straight_labels_do_not_bend_however_they_are_flipped(kind):
    found = [bending(kind, seed=seed) for seed in range(8)]
    assert np.mean([each.nats > 5.0 for each in found]) <= 0.125
    assert np.mean([each.explained for each in found]) < 0.01


def test_it_does_not_matter_who_holds_the_rows():
    one, five = bending("bent", 1), bending("bent", 5)
    assert one.explained == pytest.approx(five.explained, rel=1e-9)
    assert one.nats == pytest.approx(five.nats, rel=1e-9)


def test_owners_who_refuse_the_sums_get_a_model_without_them():
    features, targets = labels("bent", n=60)
    strict = Policy(min_rows=50)
    with federation(features, targets, 3, strict).open() as run:
        assert bends(run, PREPARATION, moments(features, targets), 1) == STRAIGHT


def test_bending_speaks_against_flips_but_not_as_loudly_as_the_shape_for_right_labels():
    flips, straight, bent = (read(0.5, 1.0, *said).right for said in ((40.0, 0.0), (-40.0, 0.0), (40.0, 80.0)))
    assert flips < bent < straight


def test_few_trusted_rows_do_not_overrule_right_labels_of_a_bent_matter():
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    lost = []
    for seed in range(6):
        features, targets = labels("bent", seed)
        trusted = np.zeros(N, dtype=bool)
        trusted[:12] = True
        test = labels("bent", seed + 100)
        agents = np.repeat([f"a{k}" for k in range(5)], N // 5)
        np.random.default_rng(seed).shuffle(agents)
        model = CoMTClassifier().fit(features, targets, agents=agents, trusted=trusted)
        plain = LogisticRegression().fit(features, targets)
        lost.append(
            roc_auc_score(test[1], plain.decision_function(test[0]))
            - roc_auc_score(test[1], model.decision_function(test[0]))
        )
    assert np.mean(lost) < 0.01
