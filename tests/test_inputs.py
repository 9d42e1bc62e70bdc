"""Bad input gets one sentence: the value, what was expected, what to do next; what has no effect is said."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from comt import CoMTClassifier, CoMTRegressor, InputError
from comt.errors import IgnoredParameterWarning

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.normal(size=80)
LABELS = np.where(Y > 0, "a", "b")
TRUSTED = np.arange(80) < 20


def with_first(values, first):
    changed = np.asarray(values, dtype=object).copy()
    changed[3] = first
    return changed


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (LABELS, "y holds '[ab]' in row 0 where a number is expected; convert it, or use CoMTClassifier"),
        (with_first(Y, "many"), "y holds 'many' in row 3 where a number is expected"),
        (with_first(Y, None), "y is NaN or infinite .* in row 3; .* fill or drop that row"),
        (pd.array(with_first(Y, pd.NA), dtype="Float64"), "in row 3; .* fill or drop that row"),
        (np.where(np.arange(80) == 4, np.inf, Y), "in row 4; .* fill or drop that row"),
    ],
)
def test_targets_that_are_no_numbers(y, sentence):
    with pytest.raises(InputError, match=sentence) as told:
        CoMTRegressor().fit(X, y, trusted=TRUSTED)
    assert len(str(told.value)) < 200


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (with_first(LABELS, None), "y is missing .* the first is row 3; label or drop"),
        (with_first(LABELS, np.nan), "y is missing .* the first is row 3"),
        (with_first(LABELS, 1), "y mixes text and numbers, such as '[ab]' and 1; write all labels alike"),
        (Y, "y is continuous, .* two labels are expected; use CoMTRegressor"),
    ],
)
def test_labels_that_cannot_be_told_apart(y, sentence):
    with pytest.raises(InputError, match=sentence):
        CoMTClassifier().fit(X, y, trusted=TRUSTED)


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        (X[:, 0], r"X has shape \(80,\) where rows × columns are expected: Reshape your data"),
        (X[:, 0].tolist(), r"X has shape \(80,\)"),
        (csr_matrix(X), r"X is a sparse matrix where a dense table is expected; pass X.toarray\(\)"),
        (pd.DataFrame(X, columns=["a", "a", "b"]), "X has 2 columns named 'a'; give every column a name of its own"),
    ],
)
def test_tables_of_the_wrong_form(features, sentence):
    with pytest.raises(InputError, match=sentence) as told:
        CoMTRegressor().fit(features, Y, trusted=TRUSTED)
    assert len(str(told.value)) < 200


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"select": "half"}, r"select='half' is not a fraction in \(0, 1\]; .* 'auto', or None"),
        ({"select": 0}, r"select=0 is not a fraction in \(0, 1\]"),
        ({"lambda_w": "Auto"}, "lambda_w='Auto' is not a number; choose one, .* or 'auto'"),
        ({"max_rounds": 0}, "max_rounds=0 is not a positive number; choose such a value, for example 200, or None"),
    ],
)
def test_parameters_out_of_range_are_told_what_is_in_range(parameters, sentence):
    with pytest.raises(InputError, match=sentence):
        CoMTRegressor(**parameters).fit(X, Y, trusted=TRUSTED)


def test_the_trusted_value_that_is_neither_is_shown():
    mask = with_first(TRUSTED.astype(object), "perhaps")
    with pytest.raises(InputError, match="such as 'perhaps'"):
        CoMTRegressor().fit(X, Y, trusted=mask)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"solver": "admm"}, "solver='admm' has no effect under teaching='auto'"),
        ({"max_rounds": 5}, "max_rounds=5 has no effect under teaching='auto'"),
        ({"teaching": "direct", "solver": "admm"}, "solver='admm' has no effect under teaching='direct'"),
        ({"teaching": "direct", "lambda_alpha": 5.0}, "lambda_alpha=5.0 has no effect"),
        ({"teaching": "direct", "select": 0.7, "select_by": "alpha"}, "select_by='alpha' has no effect"),
    ],
)
def test_parameters_without_effect_are_said(parameters, said):
    with pytest.warns(IgnoredParameterWarning, match=said) as seen:
        CoMTRegressor(**parameters).fit(X, Y, trusted=TRUSTED)
    assert seen[0].filename == __file__


def test_parameters_with_effect_are_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CoMTRegressor(lambda_w=1.0, lambda_alpha=0.1, solver="admm", max_rounds=900).fit(X, Y, trusted=TRUSTED)
        CoMTRegressor(teaching="direct", lambda_alpha=0.0, select=0.7, select_by="loss").fit(X, Y, trusted=TRUSTED)
