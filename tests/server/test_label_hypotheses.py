"""What models of unverified labels say about trusted ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from comt.server.auto.label_hypotheses import (
    ONE_COLUMN,
    ROWS_TO_TELL,
    SLOPE,
    UNCERTAIN,
    UNCERTAIN_SLOPE,
    LabelModel,
    but_for_one_column,
    trusted_rows_follow,
)
from comt.server.auto.labels import score_size

SPREAD = np.array([[2.0, 0.5], [0.5, 1.0]])
INTERCEPT = np.array([[0.0], [0.0], [0.1]])
MODEL = LabelModel("m", np.array([0.2, -0.1, 0.05]), 0.01 * np.eye(3), reliability=0.64, prior=0.5, reversed=0.2)


def slopes(model, rows):
    """The expected slopes of the trusted labels with the model's sign, and their probabilities."""
    found: dict[float, float] = {}
    for hypothesis in trusted_rows_follow(model, SPREAD, INTERCEPT, rows, 1.0):
        slope = round(score_size(hypothesis.mean, SPREAD) / np.sqrt(model.reliability), 6)
        found[slope] = found.get(slope, 0.0) + float(np.exp(hypothesis.log_prior)) / model.prior
    return found


def test_few_rows_expect_right_labels_to_be_clear_and_many_may_find_an_uncertain_matter():
    few, many = ROWS_TO_TELL
    assert slopes(MODEL, few) == pytest.approx({SLOPE: 1.0})
    assert slopes(MODEL, many) == pytest.approx({SLOPE: 1.0 - UNCERTAIN, UNCERTAIN_SLOPE: UNCERTAIN})
    assert slopes(MODEL, (few + many) / 2)[UNCERTAIN_SLOPE] == pytest.approx(UNCERTAIN / 2)


def test_right_labels_are_at_least_as_clear_as_unverified_ones():
    size = score_size(MODEL.theta, SPREAD)
    clear = LabelModel("c", 3.0 * SLOPE / size * MODEL.theta, MODEL.covariance, 0.9, 1.0, 0.1)
    assert slopes(clear, 100.0) == pytest.approx({3.0 * SLOPE: 1.0})
    between = LabelModel("b", 0.8 / size * MODEL.theta, MODEL.covariance, 0.9, 1.0, 0.1)
    assert set(slopes(between, 100.0)) == {SLOPE, 0.8}


def test_priors_of_a_model_add_up_and_its_opposite_has_its_share():
    found = list(trusted_rows_follow(MODEL, SPREAD, INTERCEPT, 30.0, 4.0))
    assert logsumexp([h.log_prior for h in found]) == pytest.approx(np.log(4.0 * MODEL.prior))
    turned = [h for h in found if h.mean @ MODEL.theta < 0]
    assert logsumexp([h.log_prior for h in turned]) == pytest.approx(np.log(4.0 * MODEL.prior * MODEL.reversed))
    assert all("reversed" in h.name for h in turned)
    # half of them do not believe the balance of the classes
    assert sum(h.mean[-1] == 0.0 for h in found) == len(found) / 2


def test_a_column_that_is_set_free_may_have_any_weight():
    rules = but_for_one_column(MODEL, SPREAD)
    assert [rule.free for rule in rules] == [0, 1]
    assert sum(rule.prior for rule in rules) == pytest.approx(ONE_COLUMN * MODEL.prior)
    (first, *_), (kept, *_) = (list(trusted_rows_follow(m, SPREAD, INTERCEPT, 5.0, 1.0)) for m in (rules[0], MODEL))
    assert first.mean[0] == 0.0
    assert first.spread.shape[1] == kept.spread.shape[1] + 1
    np.testing.assert_allclose(first.spread[:, -1], [SLOPE / np.sqrt(2 * SPREAD[0, 0]), 0.0, 0.0])
