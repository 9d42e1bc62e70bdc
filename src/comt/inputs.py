"""From what users pass to ``fit`` to agents: every check comes before any work, each with one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from comt.agent import Agent, ArrayRows
from comt.agent.data import own_rows
from comt.errors import InputError
from comt.problem import Array


@dataclass(frozen=True)
class Grouped:
    """Agents built from pooled arrays, and where each agent's buggy rows stand in them."""

    agents: list[Agent]
    positions: list[NDArray[np.intp]]
    trusted: NDArray[np.bool_]


def check_features(estimator: Any, X: Any, y: Any = "no_validation", *, reset: bool, **checks: Any) -> Any:
    """Run scikit-learn's validation, then say where values are missing."""
    try:
        checked = validate_data(
            estimator, X, y, reset=reset, dtype=np.float64, order=None, ensure_all_finite=False, **checks
        )
    except (TypeError, ValueError) as error:
        told = _about_table(X)
        if isinstance(error, TypeError) and not told:
            raise
        raise InputError(told or " ".join(str(error).split())) from None
    features = checked[0] if isinstance(checked, tuple) else checked
    _check_finite(features, X)
    return checked


def _check_finite(features: Array, given: Any) -> None:
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(features.sum()):
            return
    bad = ~np.isfinite(features)
    if not bad.any():
        return  # only the sum overflowed
    row, column = (int(i) for i in np.argwhere(bad)[0])
    name = getattr(given, "columns", range(features.shape[1]))[column]
    raise InputError(
        f"X holds {int(bad.sum())} NaN or infinite (inf) values, the first in row {row}, column '{name}'; CoMT needs "
        "finite numbers: fill or drop them."
    )


def _about_table(X: Any) -> str:
    """Say what is wrong with the shape, columns or cells of X; "" if nothing is."""
    if issparse(X):
        return "X is a sparse matrix where a dense table is expected; pass X.toarray()."
    if not hasattr(X, "columns"):
        try:
            shape = np.shape(X)
        except ValueError:
            return "the rows of X differ in length; give every row the same columns."
        if len(shape) != 2:
            return (
                f"X has shape {shape} where rows × columns are expected: Reshape your data, for example with "
                "X.reshape(-1, 1) if it is one column."
            )
        return ""
    names = list(X.columns)
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        return f"X has {names.count(repeated)} columns named {str(repeated)!r}; give every column a name of its own."
    for name in names:
        try:
            np.asarray(X[name], dtype=np.float64)
        except (TypeError, ValueError):
            return f"column '{name}' of X does not hold numbers; encode it as numbers or leave it out."
    return ""


def _column_of(y: Any) -> NDArray[Any] | None:
    """Return targets or labels as one column; None where their shape is wrong, which scikit-learn says well."""
    try:
        values = np.asarray(y)
    except ValueError:
        return None
    return values if values.ndim == 1 else None


def check_targets(y: Any) -> None:
    """Refuse targets that are not finite numbers."""
    values = _column_of(y)
    if values is None or values.dtype.kind in "biuc":
        return
    if values.dtype.kind != "f":
        values = np.array([_number(value, row) for row, value in enumerate(values.tolist())])
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise InputError(f"y is NaN or infinite (inf) in row {row}; CoMT needs finite targets: fill or drop that row.")


def _number(value: Any, row: int) -> float:
    if value is None or value is pd.NA:
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(
            f"y holds {value!r} in row {row} where a number is expected; convert it, or use CoMTClassifier for labels."
        ) from None


def check_labels(y: Any) -> None:
    """Refuse labels that are missing or cannot be told apart."""
    values = _column_of(y)
    if values is None or values.dtype.kind in "biu":
        return
    missing = np.asarray(pd.isna(values), dtype=np.bool_)
    if missing.any():
        raise InputError(
            f"y is missing (None or NaN) in {int(missing.sum())} rows, the first is row {int(np.argmax(missing))}; label "
            "or drop them."
        )
    if values.dtype.kind == "O":
        first = values[0]
        other = next((value for value in values if isinstance(value, str) != isinstance(first, str)), None)
        if other is not None:
            raise InputError(f"y mixes text and numbers, such as {first!r} and {other!r}; write all labels alike.")
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values != np.round(values)).any():
        value = float(values[values != np.round(values)][0])
        raise InputError(
            f"Unknown label type: y is continuous, with values such as {value:g}, where two labels are expected; use "
            "CoMTRegressor, or make two classes of y."
        )


def check_trusted(trusted: Any, n_rows: int) -> NDArray[np.bool_]:
    """Return the mask of trusted rows."""
    if trusted is None:
        return np.zeros(n_rows, dtype=bool)
    mask = np.asarray(trusted)
    if mask.shape != (n_rows,):
        raise InputError(
            f"trusted has shape {mask.shape} where ({n_rows},) is expected; pass one true or false per row of X."
        )
    if mask.dtype != bool:
        if mask.dtype.kind not in "iufO" or not np.isin(mask, (0, 1)).all():
            other = next(value for value in mask.tolist() if isinstance(value, str) or value not in (0, 1))
            raise InputError(
                f"trusted holds values other than true and false (such as {other!r}); pass a boolean mask."
            )
        mask = mask.astype(bool)
    return mask


def group(
    features: Array, targets: Array, agents: Any, trusted: NDArray[np.bool_], names: tuple[str, ...] | None
) -> Grouped:
    """Split pooled rows into one agent per label, trusted and buggy rows apart."""
    n_rows = len(targets)
    if agents is None:
        codes, labels = np.zeros(n_rows, dtype=np.intp), ["all"]
    else:
        given = np.asarray(agents)
        if given.shape != (n_rows,):
            raise InputError(
                f"agents has shape {given.shape} where ({n_rows},) is expected; pass one label per row of X."
            )
        codes, found = pd.factorize(given)
        if (codes < 0).any():
            raise InputError(
                f"agents is missing in {int((codes < 0).sum())} rows, the first is row {int(np.argmax(codes < 0))}; "
                "name the agent of every row."
            )
        labels = [str(label) for label in found]
        if len(set(labels)) < len(labels):
            raise InputError(
                f"agents holds labels that read the same, such as {_repeated(labels)!r}; give each agent one name."
            )
    small = codes.astype(np.int16) if len(labels) < 2**14 else codes  # 16-bit keys are sorted by radix: linear time
    order = np.argsort(2 * small + trusted, kind="stable")
    edges = np.searchsorted((2 * small + trusted)[order], np.arange(2 * len(labels) + 1))
    # one gather for everybody: every agent's rows lie side by side in it, and agents hold views
    sorted_features, sorted_targets = own_rows(features, order), targets[order]
    built, positions = [], []
    for code, label in enumerate(labels):
        buggy, checked = (slice(edges[2 * code + i], edges[2 * code + i + 1]) for i in range(2))
        source = ArrayRows(
            sorted_features[buggy],
            sorted_targets[buggy],
            sorted_features[checked],
            sorted_targets[checked],
            names=names,
        )
        built.append(Agent(label, source))
        positions.append(order[buggy])
    return Grouped(built, positions, trusted)


def _repeated(labels: list[str]) -> str:
    return next(label for label in labels if labels.count(label) > 1)
