"""What every question has in common, and what an answer is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from comt.errors import ProtocolError
from comt.losses import LossName
from comt.preparation import Preparation
from comt.problem import Array, TeachingProblem

Totals = Mapping[str, Array]

#: limits of one message; more is a mistake or an attempt to wear an agent down
MAX_BATCH = 4096
MAX_FEATURES = 100_000
MAX_ANSWER_BYTES = 256 * 2**20


@dataclass(frozen=True, kw_only=True)
class Query(ABC):
    """A question to every agent. ``purpose`` is what the data holder reads in its ledger."""

    purpose: ClassVar[str]

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return name and exact shape of every array of the answer."""

    def check_answer(self, arrays: Totals, sender: str) -> None:
        """Refuse an answer that is not exactly what was asked for."""
        shapes = self.shapes()
        if set(arrays) != set(shapes):
            raise ProtocolError(
                f"agent {sender} answered {sorted(arrays)} to '{self.purpose}' where {sorted(shapes)} was asked; "
                "update its software to the federation's version."
            )
        for name, shape in shapes.items():
            array = arrays[name]
            if array.shape != shape or array.dtype != np.float64:
                raise ProtocolError(
                    f"agent {sender} answered '{name}' of shape {array.shape} and type {array.dtype} to "
                    f"'{self.purpose}' where float64 {shape} was asked; update its software."
                )
            if not np.isfinite(array).all():
                raise ProtocolError(
                    f"agent {sender} answered '{name}' with values that are not finite to '{self.purpose}'; "
                    "have it check its rows for values too large to square."
                )


def check_batch(vectors: Array, what: str) -> None:
    """Refuse a batch of models that is too large or not finite."""
    if vectors.ndim != 2 or vectors.shape[0] > MAX_BATCH or vectors.shape[1] > MAX_FEATURES:
        raise ProtocolError(
            f"{what} has shape {vectors.shape}; a query takes at most {MAX_BATCH} models of {MAX_FEATURES} features."
        )
    if not np.isfinite(vectors).all():
        raise ProtocolError(f"{what} holds values that are not finite; the training has diverged.")


#: a question that names this agent has one slot, which all agents share: its sum shows none of them by itself
EVERYBODY = "all agents together"


def slot_of(agents: tuple[str, ...], agent: str, purpose: str) -> int:
    """Return the slot of an agent in a question that names the agents one by one, or all of them together."""
    if agents == (EVERYBODY,):
        return 0
    if agent not in agents:
        raise ProtocolError(f"agent {agent} has no slot in the question '{purpose}'; start the training again.")
    return agents.index(agent)


@dataclass(frozen=True, kw_only=True)
class ModelQuery(Query):
    """What all questions about models share: the loss and how rows are prepared."""

    loss_name: LossName
    preparation: Preparation

    def problem(self, lambda_alpha: float = 0.0, lambda_z: float = np.inf, lambda_w: float = 1.0) -> TeachingProblem:
        """Return the problem an agent has to know: λ_w and λ_trusted act at the server only."""
        return TeachingProblem(
            self.loss_name, lambda_w, 1.0, lambda_alpha, lambda_z, intercept=self.preparation.constant != 0.0
        )


@dataclass(frozen=True)
class Answer:
    """What an agent lets out: named arrays and, for each, the number of rows it sums."""

    arrays: dict[str, Array]
    rows: dict[str, int] = field(default_factory=dict)
