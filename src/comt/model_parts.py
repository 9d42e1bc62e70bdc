"""Reading the parts of a ``model.json``: every value is checked, and what is wrong is said in a few words.

Raises ``KeyError``, ``TypeError``, ``ValueError`` or ``OverflowError``; :func:`comt.model_file.load` makes a sentence of it.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from comt.preparation import KNEE, TARGET_LIMIT, Preparation
from comt.problem import Array
from comt.schema import Schema

#: how numbers that JSON does not know are written
NOT_FINITE = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}


def model_parts(content: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a :class:`comt.model_file.TaughtModel`."""
    task, coef = content["task"], _vector(content, "coefficients")
    if task not in ("regression", "classification"):
        raise ValueError(f"task {task!r} is unknown")
    if not len(coef) or not np.isfinite(coef).all():
        raise ValueError("coefficients are not finite numbers")
    given = _part(content, "preparation", dict)
    knee, target_limit = _tails(given, content["format_version"])
    preparation = Preparation(
        _vector(given, "center", len(coef)),
        _vector(given, "scale", len(coef)),
        target_center=_finite(given, "target_center"),
        target_scale=_finite(given, "target_scale"),
        constant=_finite(given, "constant"),
        knee=knee,
        target_limit=target_limit,
    )
    return {
        "task": task,
        "classes": _classes(content["classes"], task),
        "columns": _columns(content["columns"], len(coef)),
        "coef": coef,
        "intercept": _finite(content, "intercept"),
        "preparation": preparation,
        "theta": _vector(content, "theta", preparation.width),
        "r": _vector(content, "r", preparation.width),
        "parameters": {name: _decoded(value) for name, value in _part(content, "parameters", dict).items()},
        "provenance": {name: _decoded(value) for name, value in _part(content, "provenance", dict).items()},
        "schema": _schema(content, len(coef)),
    }


def _tails(given: dict[str, Any], version: int) -> tuple[float, float]:
    """Return knee and target limit of a preparation; files before version 3 say only whether tails are compressed."""
    if version < 3:
        return (KNEE, TARGET_LIMIT) if given.get("compressed", False) else (np.inf, np.inf)
    knee, limit = (_number(given[name], name) for name in ("knee", "target_limit"))
    for name, value in (("knee", knee), ("target_limit", limit)):
        if not value > 0.0:
            raise ValueError(f"{name} is {value} and not positive")
    return knee, limit


def _schema(content: dict[str, Any], width: int) -> Schema | None:
    given = content["schema"] if content["format_version"] > 1 else None
    if given is None:
        return None
    schema = Schema.from_json(_part(content, "schema", dict))
    if list(schema.features) != content["columns"] or len(schema.features) != width:
        raise ValueError("schema: its features are not the columns of the model")
    return schema


def _part(content: dict[str, Any], name: str, kind: type) -> Any:
    if not isinstance(content[name], kind):
        raise TypeError(f"{name} is no {kind.__name__}")
    return content[name]


def _vector(content: dict[str, Any], name: str, length: int | None = None) -> Array:
    numbers = np.array([_number(value, name) for value in _part(content, name, list)], dtype=np.float64)
    if length is not None and len(numbers) != length:
        raise ValueError(f"{name} has {len(numbers)} numbers where {length} belong")
    return numbers


def _number(value: Any, name: str) -> float:
    value = _decoded(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} holds {value!r}, which is no number")
    return float(value)


def _finite(content: dict[str, Any], name: str) -> float:
    number = _number(content[name], name)
    if not isfinite(number):
        raise ValueError(f"{name} is not finite")
    return number


def _classes(given: Any, task: str) -> tuple[Any, Any] | None:
    if task == "regression":
        if given is not None:
            raise ValueError("a regression has no classes")
        return None
    if not isinstance(given, list) or len(given) != 2 or given[0] == given[1]:
        raise ValueError("classes are not two different labels")
    first, second = given
    if not isinstance(first, (str, bool, int, float)) or type(first) is not type(second):
        raise TypeError("classes are not two labels of one kind")
    return first, second


def _columns(given: Any, length: int) -> tuple[str, ...] | None:
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise TypeError("columns are not names")
    if len(given) != length or len(set(given)) != length:
        raise ValueError(f"columns are not {length} different names")
    return tuple(given)


def _decoded(value: Any) -> Any:
    return NOT_FINITE.get(value, value) if isinstance(value, str) else value
