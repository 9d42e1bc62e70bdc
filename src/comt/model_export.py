"""A trained model as a plain, fitted scikit-learn pipeline that needs no CoMT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from comt.errors import InputError
from comt.preparation import Preparation
from comt.schema import Column, Schema

if TYPE_CHECKING:
    from comt.model_file import TaughtModel
    from comt.problem import Array

#: how a missing cell of text may be written in a table
_NO_TEXT = ("", None, np.nan)


def to_sklearn(model: TaughtModel) -> Any:
    """Return the fitted pipeline; the linear model alone if it needs nothing before it."""
    from sklearn.pipeline import Pipeline

    steps: list[tuple[str, Any]] = []
    places = list(range(len(model.coef)))
    if model.schema is not None:
        encoder, places = _encoder(model.schema)
        steps.append(("columns", encoder))
    coef, intercept = model.coef[places], model.intercept
    if model.preparation.compressed:
        scaler, (coef, intercept) = _scaler(model, places), _compressed_coef(model, places)
        steps += [("scales", scaler), ("heavy tails", _compression(model.preparation, len(places)))]
    steps.append(("model", _linear(model, coef, intercept)))
    if model.columns is not None and model.schema is None:
        steps[0][1].feature_names_in_ = np.array(model.columns, dtype=object)
    return steps[0][1] if len(steps) == 1 else Pipeline(steps)


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


def _scaler(model: TaughtModel, places: list[int]) -> Any:
    """Return z = (x − centre)/scale; a column that is switched off (its scale is infinite) has no weight later on."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    scale = model.preparation.scale[places]
    scaler.mean_, scaler.scale_ = model.preparation.center[places], np.where(np.isfinite(scale), scale, 1.0)
    scaler.var_, scaler.n_samples_seen_, scaler.n_features_in_ = scaler.scale_**2, 1, len(places)
    return scaler


def _compression(preparation: Preparation, width: int) -> Any:
    """Return the compression of heavy tails out of NumPy's functions.

    With a = clip(z, ±knee), b = ln clip(z, knee, top), c = ln clip(−z, knee, top) it is a + knee·(b − c), where
    top = knee·exp(cap/knee − 1).
    """
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.preprocessing import FunctionTransformer

    def clip(low: float, high: float) -> Any:
        return FunctionTransformer(np.clip, kw_args={"a_min": low, "a_max": high})

    knee = preparation.knee
    top = knee * float(np.exp(preparation.cap / knee - 1.0))
    tail = [("clipped", clip(knee, top)), ("logarithm", FunctionTransformer(np.log))]
    below = Pipeline([("negative", FunctionTransformer(np.negative)), *tail])
    union = FeatureUnion([("middle", clip(-knee, knee)), ("above", Pipeline(tail)), ("below", below)])
    return union.fit(np.zeros((1, width)))


def _compressed_coef(model: TaughtModel, places: list[int]) -> tuple[Array, float]:
    """Return the weights of the three parts of the compression, and the intercept."""
    prepared = model.preparation
    live = np.isfinite(prepared.scale)
    weights = np.where(live, prepared.target_scale * model.theta[: len(live)], 0.0)[places]
    constant = prepared.constant * float(model.theta[-1]) if prepared.constant else 0.0
    intercept = prepared.target_center + prepared.target_scale * constant
    return np.concatenate([weights, prepared.knee * weights, -prepared.knee * weights]), float(intercept)


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
