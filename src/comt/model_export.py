"""A trained model as a plain, fitted scikit-learn pipeline that needs no CoMT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from comt.errors import InputError
from comt.preparation import CAP, KNEE, compress
from comt.schema import Column, Schema

if TYPE_CHECKING:
    from comt.model_file import TaughtModel
    from comt.problem import Array

#: how a missing cell of text may be written in a table
_NO_TEXT = ("", None, np.nan)


def to_sklearn(model: TaughtModel) -> Any:
    """Return the fitted pipeline, or the linear model alone if nothing has to come before it."""
    from sklearn.pipeline import Pipeline

    schema = model.schema
    if schema is None:
        steps = _last_steps(model, list(range(len(model.coef))), [False] * len(model.coef))
        last = steps[0][1] if len(steps) == 1 else Pipeline(steps)
        if model.columns is not None:
            steps[0][1].feature_names_in_ = np.array(model.columns, dtype=object)
        return last
    encoder, places = _encoder(schema)
    numbers = {column.name for column in schema.columns if column.kind == "number"}
    coded = [schema.features[place] not in numbers for place in places]
    return Pipeline([("columns", encoder), *_last_steps(model, places, coded)])


def _last_steps(model: TaughtModel, places: Sequence[int], coded: Sequence[bool]) -> list[tuple[str, Any]]:
    """Return the linear model, behind the compression of heavy tails if there is one."""
    if not model.preparation.compressed:
        return [("model", _linear(model, model.coef[list(places)], model.intercept))]
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    prepared, theta = model.preparation, model.theta
    values = [index for index, is_coded in enumerate(coded) if not is_coded]
    codes = [index for index, is_coded in enumerate(coded) if is_coded]
    at = [places[index] for index in values]
    transformers: list[tuple[str, Any, list[int]]] = []
    coef: list[Array] = []
    unit = prepared.target_scale
    intercept = prepared.target_center
    if prepared.constant:
        intercept += unit * prepared.constant * float(theta[-1])
    if values:
        transformers.append(("values", Pipeline(_compression()), values))
        # |z| up to the knee, and the logarithms of what lies above and below it
        coef += [unit * theta[at], unit * KNEE * theta[at], -unit * KNEE * theta[at]]
    if codes:
        # a code is 0 or 1: whatever is done to it is a straight line between two values
        where = sorted({places[index] for index in codes})
        off = compress(-prepared.center[where] / prepared.scale[where])
        on = compress((1.0 - prepared.center[where]) / prepared.scale[where])
        intercept += unit * float(theta[where] @ off)
        slopes = dict(zip(where, unit * theta[where] * (on - off), strict=True))
        transformers.append(("codes", "passthrough", codes))
        coef.append(np.array([slopes[places[index]] for index in codes]))
    squeeze = ColumnTransformer(transformers, verbose_feature_names_out=False)
    # two rows, one scale below and one above the centre: that is what their mean and deviation are (a constant column,
    # of infinite scale, has the coefficient 0 whatever is done to it)
    two_rows = np.zeros((2, len(places)))
    known = np.where(np.isfinite(prepared.scale), prepared.scale, 1.0)
    two_rows[:, values] = prepared.center[at] + np.array([[-1.0], [1.0]]) * known[at]
    squeeze.fit(two_rows)
    return [("compression", squeeze), ("model", _linear(model, np.concatenate(coef), intercept))]


def _compression() -> list[tuple[str, Any]]:
    """Return scaling, then the parts of the compression, made of NumPy's own functions."""
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    reach = KNEE * float(np.exp(CAP / KNEE - 1.0))

    def clip(low: float, high: float) -> Any:
        return FunctionTransformer(np.clip, kw_args={"a_min": low, "a_max": high})

    above = Pipeline([("clip", clip(KNEE, reach)), ("log", FunctionTransformer(np.log))])
    below = Pipeline(
        [("turn", FunctionTransformer(np.negative)), ("clip", clip(KNEE, reach)), ("log", FunctionTransformer(np.log))]
    )
    parts = FeatureUnion([("inside", clip(-KNEE, KNEE)), ("above", above), ("below", below)])
    return [("scale", StandardScaler()), ("parts", parts)]


def _linear(model: TaughtModel, coef: Array, intercept: float) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge

    fit_intercept = bool(model.parameters.get("fit_intercept", True))
    if model.classes is None:
        linear = Ridge(fit_intercept=fit_intercept)
        linear.coef_, linear.intercept_ = coef.copy(), intercept
    else:
        linear = LogisticRegression(fit_intercept=fit_intercept)
        linear.coef_, linear.intercept_ = coef[None, :].copy(), np.array([intercept])
        linear.classes_ = np.array(model.classes)
    linear.n_features_in_ = len(coef)
    return linear


def _encoder(schema: Schema) -> tuple[Any, list[int]]:
    """Return a fitted ColumnTransformer and, for each of its outputs, the feature of the model it is."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import MissingIndicator, SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

    def floats() -> Any:
        return FunctionTransformer(np.asarray, kw_args={"dtype": np.float64}, feature_names_out="one-to-one")

    place = {name: index for index, name in enumerate(schema.features)}
    parts: list[tuple[str, Any, list[str]]] = []
    places: list[int] = []

    def add(name: str, transformer: Any, columns: Sequence[Column], outputs: list[str]) -> None:
        if outputs:
            parts.append((name, transformer, [column.name for column in columns]))
            places.extend(place[output] for output in outputs)

    numbers = [column for column in schema.columns if column.kind == "number"]
    whole = [column for column in numbers if column.fill is None]
    gaps = [column for column in numbers if column.fill is not None]
    often = [column for column in numbers if column.missing_feature]
    add("numbers", floats(), whole, [column.name for column in whole])
    # fitted on one row, the medians: each is the median of itself
    imputer = Pipeline([("floats", floats()), ("median", SimpleImputer(strategy="median"))])
    add("numbers with gaps", imputer, gaps, [column.name for column in gaps])
    indicator = Pipeline([("floats", floats()), ("missing", MissingIndicator(features="all"))])
    add("gaps", indicator, often, [column.features[-1] for column in often])
    for numeric in (True, False):
        group = [c for c in schema.columns if c.kind == "category" and c.numeric == numeric and c.features]
        levels = [_levels(column) for column in group]
        encoder: Any = OneHotEncoder(categories=levels, handle_unknown="ignore", sparse_output=False)
        if numeric:
            encoder = Pipeline([("floats", floats()), ("levels", encoder)])
        outputs = [name for column in group for name in _outputs(column)]
        add("coded categories" if numeric else "categories", encoder, group, outputs)
    if not parts:
        raise InputError("the model has no features that scikit-learn could take; train on more columns.")
    transformer = ColumnTransformer(parts, verbose_feature_names_out=False)
    return transformer.fit(_one_row(schema)), places


def _levels(column: Column) -> np.ndarray[Any, Any]:
    if column.numeric:
        return np.array([*column.levels, *([np.nan] if column.missing_feature else [])])
    return np.array([*column.levels, *(_NO_TEXT if column.missing_feature else ())], dtype=object)


def _outputs(column: Column) -> list[str]:
    """Return the feature that each of the encoder's outputs is; text knows several ways to be missing."""
    if column.numeric or not column.missing_feature:
        return list(column.features)
    return [*column.features[:-1], *[column.features[-1]] * len(_NO_TEXT)]


def _one_row(schema: Schema) -> pd.DataFrame:
    """Return a table of one row on which the transformers learn exactly what they have to know."""
    cells: dict[str, Any] = {}
    for column in schema.columns:
        if column.kind == "number":
            cells[column.name] = [0.0 if column.fill is None else column.fill]
        else:
            cells[column.name] = [column.levels[0] if column.levels else ""]
    return pd.DataFrame(cells)
