"""What a question may look like: every array and number in it finite and of reasonable size, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from comt.errors import GateError
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import DirectSums, ModelQuery, ProximalStep, Query, ScoreHistogram, SlotQuery

#: arrays that are not multiplied with rows; every other one of the right width is taken for a model
_NO_MODELS = ("thresholds", "edges", "lambda_alpha", "lambda_z", "limit", "weights", "flips")


def width(query: Query) -> int:
    """Return how many coefficients the models of a question have (0: it is not about models)."""
    return query.preparation.width if isinstance(query, ModelQuery) else 0


def shows_agents(query: Query) -> bool:
    """Whether the sum over agents shows each of them by itself, in a slot of its own or by weights."""
    if isinstance(query, (DirectSums, ScoreHistogram)):
        return query.weights is not None and len(query.agents) > 1
    return isinstance(query, SlotQuery) and len(query.agents) > 1


def check(query: Query, agent: str, max_magnitude: float | None) -> None:
    """Refuse a broadcast that no training sends: not finite, or far larger than any model in scaled units."""
    if max_magnitude is None:
        return
    for name, array in _arrays(query):
        if np.isnan(array).any():
            raise GateError(f"agent {agent} refuses '{query.purpose}': '{name}' of the broadcast is not a number.")
    for name, array in _models(query):
        if array.size and not np.abs(array).max() <= max_magnitude:
            raise GateError(
                f"agent {agent} refuses '{query.purpose}': '{name}' of the broadcast exceeds {max_magnitude:g}, larger than "
                "any model its owner expects; standardise the columns."
            )
    if isinstance(query, ProximalStep) and query.recursion is None:
        raise GateError(f"agent {agent} refuses '{query.purpose}': it does not say what it follows from.")
    if isinstance(query, ProximalStep) and not (0.0 < query.damping <= 1.0 and 0.0 < query.sigma <= max_magnitude**2):
        raise GateError(f"agent {agent} refuses '{query.purpose}': damping or penalty are not those of Algorithm 1.")


def _arrays(part: Any) -> Iterator[tuple[str, Array]]:
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, (float, np.ndarray)):
            yield field.name, np.asarray(value)
        elif is_dataclass(value) and not isinstance(value, type):
            yield from _arrays(value)


def _models(query: Query) -> Iterator[tuple[str, Array]]:
    """Yield what is multiplied with rows: arrays whose last axis has one entry per coefficient."""
    if not isinstance(query, ModelQuery):
        return
    for field in fields(query):
        value = getattr(query, field.name)
        parts = [(field.name, value)]
        if is_dataclass(value) and not isinstance(value, (type, Preparation)):
            parts = list(_arrays(value))
        for name, array in parts:
            fits = isinstance(array, np.ndarray) and array.ndim and array.shape[-1] == width(query)
            if fits and name not in _NO_MODELS:
                yield name, array
