"""What trusted rows may change in a model of labels: all coefficients alike or, if they are many, all predictions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from comt import CoMTClassifier
from comt.preparation import Preparation
from comt.server.auto.classification import _shapes
from teaching import moments


def nearly_repeated(rng, rows):
    """Two pairs of columns that nearly repeat each other; labels follow what the columns of a pair differ in."""
    common = rng.normal(size=(rows, 2))
    differ = rng.normal(size=(rows, 2))
    features = np.hstack([common + 0.1 * differ, common - 0.1 * differ])
    labels = np.where(2.0 * differ[:, 0] - 2.0 * differ[:, 1] + rng.normal(size=rows) > 0, 1, -1)
    return features, labels


@pytest.mark.parametrize("seed", range(4))
def test_labels_may_follow_what_columns_that_nearly_repeat_each_other_differ_in(seed):
    """Half of the labels are flipped, so that only ninety trusted rows tell; shrunk alike, they had an AUC of about .8."""
    rng = np.random.default_rng(seed)
    (features, labels), (test, right) = nearly_repeated(rng, 800), nearly_repeated(rng, 2000)
    trusted = np.arange(800) < 90
    flipped = ~trusted & (rng.random(800) < 0.5)
    model = CoMTClassifier().fit(
        features, np.where(flipped, -labels, labels), agents=np.arange(800) % 4, trusted=trusted
    )
    assert roc_auc_score(right, model.decision_function(test)) > 0.9


@pytest.mark.parametrize("d", [3, 15])
def test_scores_vary_by_as_much_under_either_shape(d):
    rng = np.random.default_rng(d)
    features = np.column_stack([rng.normal(size=(400, d)) @ np.diag(np.linspace(0.2, 2.0, d)), np.full(400, 10.0)])
    preparation = Preparation.identity(d, 10.0)
    trusted = moments(features, np.sign(rng.normal(size=400)))
    spread = np.cov(features[:, :d].T, bias=True)
    coefficients, predictions = _shapes(preparation, spread, trusted)
    sizes = [np.trace(spread @ shape[:d] @ shape[:d].T) for shape in (coefficients, predictions)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01)
    along = predictions[:d].T @ spread @ predictions[:d]
    np.testing.assert_allclose(np.diag(along), np.trace(along) / d, rtol=0.01)


def test_few_rows_change_coefficients_only():
    preparation = Preparation.identity(3, 10.0)
    trusted = moments(np.ones((15, 4)), np.ones(15))
    assert len(_shapes(preparation, np.eye(3), trusted)) == 1
