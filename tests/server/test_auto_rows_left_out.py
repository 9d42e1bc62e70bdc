"""Trusted rows left out: their losses are those of models fitted again without them, and they count where columns are many."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from comt import CoMTClassifier
from comt.agent import Agent, ArrayRows
from comt.agent.choosing import LEAST_FROM_OTHERS
from comt.bench.unseen import corruption
from comt.bench.unseen_tables import table
from comt.datasets import federate
from comt.errors import ProtocolError
from comt.federation import LocalFederation
from comt.preparation import Preparation
from comt.queries import TrustedLeftOut
from comt.server.auto import classification
from comt.server.auto.laplace import LEFT_OUT, Hypothesis, share_left_out, weigh

ROWS, WIDTH = 30, 4
PREPARATION = Preparation.identity(WIDTH)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(ROWS, WIDTH))
    return features, np.where(features @ [1.0, -1.0, 0.5, 0.0] + 0.7 * rng.normal(size=ROWS) > 0, 1.0, -1.0)


def federation(features, labels, agents=3):
    part = np.arange(len(labels)) % agents
    return LocalFederation(
        [
            Agent(f"a{k}", ArrayRows(features[:1], labels[:1], features[part == k], labels[part == k]))
            for k in range(agents)
        ]
    )


def fitted(features, labels, mean, spread):
    """Return the mode of θ = mean + spread·u, u ~ N(0, I), and its covariance."""

    def objective(u):
        return np.logaddexp(0.0, -labels * (features @ (mean + spread @ u))).sum() + 0.5 * u @ u

    mode = mean + spread @ minimize(objective, np.zeros(spread.shape[1]), options={"gtol": 1e-10}).x
    positive = 1.0 / (1.0 + np.exp(-features @ mode))
    bend = (features * (positive * (1.0 - positive))[:, None]).T @ features
    return mode, spread @ np.linalg.solve(spread.T @ bend @ spread + np.eye(spread.shape[1]), spread.T)


@pytest.mark.parametrize("size", [0.3, 1.0, 2.0])
def test_losses_of_rows_left_out_are_those_of_models_fitted_again(rows, size):
    features, labels = rows
    mean, spread = np.array([0.5, -0.2, 0.0, 0.3]), size * np.eye(WIDTH)
    mode, covariance = fitted(features, labels, mean, spread)
    again = 0.0
    for left in range(ROWS):
        others = np.arange(ROWS) != left
        without, _ = fitted(features[others], labels[others], mean, spread)
        again += np.logaddexp(0.0, -labels[left] * (features[left] @ without))
    query = TrustedLeftOut(loss_name="logistic", preparation=PREPARATION, theta=mode[None], covariance=covariance[None])
    found = [float(federation(*rows, agents).sum(query)["value"][0]) for agents in (1, 3)]
    inside = np.logaddexp(0.0, -labels * (features @ mode)).sum()
    assert found[0] == pytest.approx(again, abs=0.05 * (again - inside))
    assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_a_weight_is_evidence_and_rows_left_out_by_their_shares(rows):
    hypotheses = [
        Hypothesis("model", np.array([1.0, -1.0, 0.0, 0.0]), 0.5 * np.eye(WIDTH), -1.0),
        Hypothesis("line", np.zeros(WIDTH), np.array([[1.0], [-1.0], [0.5], [0.0]]), -0.5),
        Hypothesis("anything", np.zeros(WIDTH), 2.0 * np.eye(WIDTH), -2.0),
    ]
    weights = {}
    for share in (0.0, 0.4, 1.0):
        modes, weights[share] = weigh(federation(*rows), PREPARATION, hypotheses, np.eye(WIDTH), share)
    np.testing.assert_allclose(weights[0.4], 0.6 * weights[0.0] + 0.4 * weights[1.0])
    for hypothesis, mode, weight in zip(hypotheses, modes, weights[1.0], strict=True):
        wanted, covariance = fitted(*rows, hypothesis.mean, hypothesis.spread)
        np.testing.assert_allclose(mode, wanted / np.sqrt(1.0 + np.pi / 8.0 * np.trace(covariance)), atol=1e-3)
        query = TrustedLeftOut(
            loss_name="logistic", preparation=PREPARATION, theta=wanted[None], covariance=covariance[None]
        )
        left_out = float(federation(*rows).sum(query)["value"][0])
        assert weight == pytest.approx(hypothesis.log_prior - left_out, abs=1e-2)


def test_rows_left_out_count_where_columns_outnumber_them():
    assert share_left_out(24, 64) == LEFT_OUT
    assert 0.0 < share_left_out(20, 30) < LEFT_OUT
    assert share_left_out(100, 64) == share_left_out(24, 25) == 0.0
    # each of six rows tells little: many columns are needed
    assert share_left_out(6, 12) == share_left_out(6, 30) == 0.0
    assert share_left_out(6, 64) == LEFT_OUT


def test_no_covariance_makes_one_row_stand_out(rows):
    features, labels = rows
    theta = np.zeros((1, WIDTH))  # every row bends by a quarter
    row = features[0] / np.linalg.norm(features[0])
    for almost in (4.0, 40.0, 400.0):  # a row whose uncertainty would be all its own, and more
        covariance = almost / (row @ features[0]) ** 2 * np.outer(row, row)
        query = TrustedLeftOut(loss_name="logistic", preparation=PREPARATION, theta=theta, covariance=covariance[None])
        value = float(federation(features, labels).sum(query)["value"][0])
        assert (
            value
            <= ROWS * np.log(2.0) + 0.5 * np.einsum("nd,de,ne->", features, covariance, features) / LEAST_FROM_OTHERS
        )
    with pytest.raises(ProtocolError, match="covariance has shape"):
        TrustedLeftOut(loss_name="logistic", preparation=PREPARATION, theta=theta, covariance=np.eye(WIDTH))


def test_a_few_clear_rows_of_many_columns_are_heard(monkeypatch):
    """Ones and sevens, mistakes where a column is large: 24 rows of 64 columns are a better classifier than the others."""
    wrong = corruption("ones and sevens", "flips by two columns")
    scores = []
    for seed in range(720, 725):
        data = federate(table("ones and sevens"), corruption=wrong, trusted=24, test=0.4, n_agents=5, seed=seed)
        X, y, agents, trusted = data.pooled()
        alone = LogisticRegression(C=0.1, max_iter=1000).fit(X[trusted], y[trusted])
        heard = CoMTClassifier().fit(X, y, agents=agents, trusted=trusted)
        with monkeypatch.context() as patched:
            patched.setattr(classification, "share_left_out", lambda rows, columns: 0.0)
            by_evidence = CoMTClassifier().fit(X, y, agents=agents, trusted=trusted)
        scores.append(
            [
                roc_auc_score(data.test_targets, each.decision_function(data.test_features))
                for each in (alone, heard, by_evidence)
            ]
        )
    alone, heard, by_evidence = np.mean(scores, axis=0)
    assert heard > by_evidence + 0.002
    assert heard > alone - 0.01
