"""Legal data that leave little to learn, or are hard to fit: nobody gets a traceback, nothing comes out that is not finite."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from comt import CoMTClassifier, CoMTRegressor
from comt.server import dual

# fewer than ten trusted rows are warned of where they choose anything
pytestmark = pytest.mark.filterwarnings("ignore::comt.errors.NoTrustedRowsWarning")

TEACHINGS = ("auto", "dual", "direct")
ROWS, TRUSTED = 60, 9


@pytest.fixture
def rows():
    features = np.random.default_rng(0).normal(size=(ROWS, 3))
    return {"X": features}, {"agents": np.arange(ROWS) % 3, "trusted": np.arange(ROWS) < TRUSTED}


@pytest.mark.parametrize("teaching", TEACHINGS)
@pytest.mark.parametrize("value", [0.0, 5.0, 1e9, -3e-200])
def test_one_target_for_all_is_predicted(rows, teaching, value):
    features, who = rows
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = CoMTRegressor(teaching=teaching).fit(**features, y=np.full(ROWS, value), **who)
    np.testing.assert_allclose(model.predict(features["X"]), value, rtol=1e-9, atol=1e-100)
    assert not model.issues()["flagged"].any()


@pytest.mark.parametrize("teaching", TEACHINGS)
@pytest.mark.parametrize("value", [0.0, 5.0, -3e-200])
def test_unverified_targets_that_are_all_one_value_do_no_harm(rows, teaching, value):
    """The trusted ones differ; without them a prediction would be ``value``."""
    features, who = rows
    targets = np.full(ROWS, value)
    targets[who["trusted"]] += np.random.default_rng(3).normal(size=TRUSTED)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = CoMTRegressor(teaching=teaching).fit(**features, y=targets, **who)
    assert np.abs(model.predict(features["X"]) - value).max() < 10.0


@pytest.mark.parametrize("teaching", TEACHINGS)
def test_labels_that_far_out_rows_part_cleanly_are_fitted_without_trusted_rows(teaching):
    """A small penalty and separable labels: the plain fit takes more rounds than a candidate of the search may."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(300, 5)) * np.exp(3.0 * rng.normal(size=(300, 5)))
    labels = (features / features.std(axis=0)) @ [1.0, -1.0, 0.5, 2.0, 0.1] > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = CoMTClassifier(teaching=teaching, lambda_w="auto").fit(features, labels)
    assert model.score(features, labels) > 0.9


def test_more_models_than_one_question_may_name_are_asked_about_in_several(rows, monkeypatch):
    features, who = rows
    targets = features["X"] @ [1.0, -2.0, 0.5] + np.random.default_rng(4).normal(size=ROWS)
    at_once = CoMTRegressor(teaching="dual").fit(**features, y=targets, **who)
    monkeypatch.setattr(dual, "MAX_BATCH", 100)
    in_parts = CoMTRegressor(teaching="dual").fit(**features, y=targets, **who)
    np.testing.assert_array_equal(in_parts.coef_, at_once.coef_)
    assert in_parts.n_rounds_ > at_once.n_rounds_
