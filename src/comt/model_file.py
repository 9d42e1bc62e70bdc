"""A trained model as a file: readable JSON, versioned, without any row, and never a pickle."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from comt import __version__
from comt.errors import InputError
from comt.losses import get_loss
from comt.model_parts import model_parts
from comt.preparation import Preparation
from comt.problem import Array
from comt.schema import Column, Schema
from comt.writing import write_whole

if TYPE_CHECKING:
    from comt.agent import Agent
    from comt.server.training import Training

FORMAT = "comt-model"
#: version 1 had no schema: its models take numbers only
FORMAT_VERSION = 3
#: parameters of an estimator that say nothing about its model
_PASSING = ("verbose", "warm_start")


@dataclass(frozen=True, eq=False)
class TaughtModel:
    """A linear model as it was trained: what it predicts with, how rows were prepared, and where it comes from.

    Made by the estimators' ``save`` and read back by :func:`comt.model_file.load`.
    """

    task: str
    #: the two labels of a classification, the second being the positive one; None for regression
    classes: tuple[Any, Any] | None
    #: names of the features, in order; None if the model was trained on arrays without names
    columns: tuple[str, ...] | None
    coef: Array
    intercept: float
    preparation: Preparation
    theta: Array
    r: Array
    parameters: dict[str, Any]
    provenance: dict[str, Any]
    #: how the columns of a table become the features; None: features are given as they are
    schema: Schema | None = None

    @classmethod
    def of(cls, estimator: Any, training: Training, agents: Iterable[Agent]) -> TaughtModel:
        """Take the model out of a fitted estimator."""
        columns = getattr(estimator, "feature_names_in_", None)
        classes = getattr(estimator, "classes_", None)
        agents = list(agents)
        counts = [(agent.name, agent.rows.n_rows, len(agent.rows.trusted()[1])) for agent in agents]
        return cls(
            task="regression" if classes is None else "classification",
            classes=None if classes is None else (_label(classes[0]), _label(classes[1])),
            columns=None if columns is None else tuple(str(name) for name in columns),
            coef=np.ravel(estimator.coef_),
            intercept=float(np.ravel(estimator.intercept_)[0]),
            preparation=training.preparation,
            theta=estimator.theta_,
            r=estimator.r_,
            parameters={
                name: value.item() if isinstance(value, np.generic) else value
                for name, value in estimator.get_params().items()
                if name not in _PASSING
            },
            provenance={
                "comt_version": __version__,
                "agents": [
                    {"name": name, "rows": buggy + trusted, "trusted_rows": trusted} for name, buggy, trusted in counts
                ],
                "rounds": estimator.n_rounds_,
                "certificate": estimator.certificate_,
                "solver": estimator.solver_,
                "selected_fraction": float(estimator.selected_fraction_),
            },
            schema=_schema_of(estimator, training.preparation, agents),
        )

    def decision_function(self, X: Any) -> Array:
        """Return coef·x + intercept of every row: the log-odds of ``classes[1]``, or the predicted target."""
        if self.schema is not None and (hasattr(X, "columns") or not self.schema.plain):
            if not hasattr(X, "columns"):
                raise InputError("the model takes tables with named columns, not arrays; pass a pandas DataFrame.")
            return self.decision_of(self.schema.cells(X))
        return self._score(self._features(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels or targets; of a table the columns are taken by name, whatever their order."""
        return self.labels(self.decision_function(X))

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of ``classes``, one column each."""
        return self.probabilities(self.decision_function(X))

    def labels(self, scores: Array) -> NDArray[Any]:
        """Return what rows with these values of ``decision_function`` are predicted to be."""
        if self.classes is None:
            return scores
        labels: NDArray[Any] = np.array(self.classes)[(scores > 0).astype(int)]
        return labels

    def probabilities(self, scores: Array) -> Array:
        """Return the probabilities of ``classes`` at these values of ``decision_function``."""
        if self.classes is None:
            raise InputError("a regression has no probabilities; use predict.")
        positive = get_loss("logistic").predict_mean(scores)
        return np.column_stack([1.0 - positive, positive])

    def to_sklearn(self) -> Any:
        """Return a plain, fitted scikit-learn model that predicts the same without CoMT.

        It is a ``Ridge`` or ``LogisticRegression``, behind a ``ColumnTransformer`` in a ``Pipeline`` if the model was
        trained on tables (numbers, categories, missing values).
        """
        from comt.model_export import to_sklearn

        return to_sklearn(self)

    def _repr_html_(self) -> str:
        """Show the model in a notebook."""
        from comt.report import model_html

        names = self.columns or tuple(f"x{i}" for i in range(len(self.coef)))
        rows = self.provenance.get("rows") or sum(agent["rows"] for agent in self.provenance.get("agents", []))
        facts = {
            "columns": len(self.coef) if self.schema is None else len(self.schema.columns),
            "agents": len(self.provenance.get("agents", [])),
            "rows": rows,
            "rounds": self.provenance.get("rounds", "unknown"),
            "certificate": self.provenance.get("certificate", "unknown"),
        }
        title = self.task if self.schema is None else f"{self.task} of {self.schema.target}"
        return model_html(title, facts, dict(zip(names, self.coef.tolist(), strict=True)))

    def save(self, path: str | Path) -> None:
        """Write ``model.json``; an existing file is replaced at once or not at all."""
        write_whole(Path(path), self.to_json())

    def to_json(self) -> str:
        """Return the text of ``model.json``."""
        prepared = self.preparation
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "task": self.task,
            "classes": None if self.classes is None else list(self.classes),
            "schema": None if self.schema is None else self.schema.to_json(),
            "columns": None if self.columns is None else list(self.columns),
            "coefficients": self.coef.tolist(),
            "intercept": self.intercept,
            "preparation": {
                "center": prepared.center.tolist(),
                "scale": prepared.scale.tolist(),
                "target_center": float(prepared.target_center),
                "target_scale": float(prepared.target_scale),
                "constant": float(prepared.constant),
                "knee": float(prepared.knee),
                "target_limit": float(prepared.target_limit),
            },
            "theta": self.theta.tolist(),
            "r": self.r.tolist(),
            "parameters": self.parameters,
            "provenance": self.provenance,
        }
        return json.dumps(_encoded(content), indent=2, allow_nan=False, ensure_ascii=False) + "\n"

    def _features(self, X: Any) -> Array:
        if self.columns is not None and hasattr(X, "columns"):
            missing = [name for name in self.columns if name not in X.columns]
            if missing:
                raise InputError(f"X has no columns {missing}, which the model needs; add them.")
            X = X[list(self.columns)]
        try:
            features = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("X holds values that are not numbers; encode them as numbers.") from None
        if features.ndim != 2 or features.shape[1] != len(self.coef):
            raise InputError(
                f"X has shape {features.shape} where (rows, {len(self.coef)}) is expected; pass such rows."
            )
        if not np.isfinite(features).all():
            row, column = (int(i) for i in np.argwhere(~np.isfinite(features))[0])
            raise InputError(f"X is NaN or infinite in row {row}, column {column}; fill or drop that row.")
        return features

    def decision_of(self, cells: Mapping[str, NDArray[Any]], first_row: int = 0) -> Array:
        """Return ``decision_function`` of rows given as one array of cells per column (numbers as floats, NaN: missing)."""
        schema = self.schema or Schema(tuple(Column(name, "number") for name in self.columns or ()))
        features = schema.encode(cells)
        wrong = ~np.isfinite(features)
        if wrong.any():
            row, column = (int(i) for i in np.argwhere(wrong)[0])
            raise InputError(
                f"there is a missing or infinite value in row {first_row + row}, column '{schema.features[column]}'; fill "
                "it or drop the row."
            )
        return self._score(features)

    def _score(self, features: Array) -> Array:
        return self.preparation.predict(features, self.theta, self.coef, self.intercept)


def load(path: str | Path) -> TaughtModel:
    """Read a ``model.json``; nothing in it is executed.

    Examples
    --------
    >>> import tempfile, comt
    >>> path = tempfile.mkdtemp() + "/model.json"
    >>> model = comt.CoMTRegressor().fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0], trusted=[False, False, True])
    >>> model.save(path)
    >>> comt.load(path).predict([[4.0]]).shape
    (1,)
    """
    path = Path(path)
    try:
        content = json.loads(path.read_bytes().decode("utf-8"), parse_constant=_refuse_constant)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); give the path of a model.json.") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON, so no model of CoMT; give a model.json that `save` wrote.") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path} is JSON but no model of CoMT (format '{FORMAT}'); give a model.json.")
    version = content.get("format_version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise InputError(
            f"{path} has format_version {version!r} where 1 to {FORMAT_VERSION} are known; update comt, or save the model "
            "again."
        )
    try:
        return TaughtModel(**model_parts(content))
    except KeyError as error:
        reason = f"{error} is missing"
    except (TypeError, ValueError, OverflowError) as error:
        reason = str(error)
    raise InputError(f"{path} is damaged ({reason}); save the model again.")


def _schema_of(estimator: Any, preparation: Preparation, agents: list[Agent]) -> Schema | None:
    """Return the schema that agents over tables share; gaps that occur only later become the median, too."""
    schema: Schema | None = getattr(agents[0].rows, "schema", None) if agents else None
    if schema is None or not (estimator.standardize and estimator.fit_intercept):  # only then the centre is the median
        return schema
    return filled(schema, preparation)


def filled(schema: Schema, preparation: Preparation) -> Schema:
    """Return the schema with the centre of every column of numbers for gaps that there were none of in training."""
    centers = dict(zip(schema.features, preparation.center.tolist(), strict=True))

    def column_filled(column: Column) -> Column:
        known = column.kind != "number" or column.fill is not None
        return column if known else replace(column, fill=centers[column.name])

    return replace(schema, columns=tuple(column_filled(column) for column in schema.columns))


def _label(value: Any) -> Any:
    label = value.item() if isinstance(value, np.generic) else value
    if not isinstance(label, (str, bool, int, float)):
        raise InputError(f"label {value!r} of type {type(label).__name__} cannot be stored; use text or numbers.")
    return label


def _encoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _encoded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_encoded(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
