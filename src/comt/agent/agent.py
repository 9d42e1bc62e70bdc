"""An agent: rows, a gate, a ledger. It answers queries and tells its owner, and nobody else, about single rows."""

from __future__ import annotations

import threading

import numpy as np

from comt import rows as row_maths
from comt.agent import choosing, issue_answers  # noqa: F401 (register their answers)
from comt.agent.answers import compute
from comt.agent.data import PreparedRows, RowSource
from comt.agent.gate import Gate, Policy
from comt.agent.ledger import Entry, Ledger
from comt.errors import InputError
from comt.preparation import Preparation
from comt.problem import Array, TeachingProblem
from comt.queries import Answer, Query


class Agent:
    """A data holder's side of the training.

    Parameters
    ----------
    name:
        How the federation calls it.
    rows:
        Where its rows come from.
    policy:
        What may leave.
    """

    def __init__(self, name: str, rows: RowSource, policy: Policy | None = None) -> None:
        self.name = name
        self.rows = rows
        self.ledger = Ledger()
        self._gate = Gate(name, policy or Policy())
        self._prepared: PreparedRows | None = None
        self._lock = threading.Lock()
        self.store: dict[str, object] = {}

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the feature columns, in order."""
        return self.rows.names

    def check_columns(self, columns: tuple[str, ...]) -> None:
        """Refuse to join a federation whose columns are not this agent's."""
        if self.columns != columns:
            differing = sorted(set(self.columns) ^ set(columns)) or "the same names in another order"
            raise InputError(
                f"agent {self.name} has {len(self.columns)} columns where the federation has {len(columns)} "
                f"(differing: {differing}); give every agent the same columns in the same order."
            )

    def answer(self, query: Query, round_number: int, *, individual: bool = False) -> Answer:
        """Compute the answer, pass it through the gate, enter it in the ledger, let it out."""
        with self._lock:  # engines call from several threads; an answer must not see half a state
            answer = compute(query, self)
            self._gate.check(query, answer, individual=individual)
            for name, array in answer.arrays.items():
                self.ledger.append(
                    Entry(
                        agent=self.name,
                        round=round_number,
                        purpose=query.purpose,
                        array=name,
                        shape=array.shape,
                        bytes=array.nbytes,
                        rows=answer.rows[name],
                        individual=individual,
                    )
                )
            return answer

    def prepared(self, preparation: Preparation) -> PreparedRows:
        """Return the rows under a preparation; the latest one is kept."""
        if self._prepared is None or self._prepared.preparation.fingerprint != preparation.fingerprint:
            self._prepared = PreparedRows(self.rows, preparation)
        return self._prepared

    # What follows is for the owner: values per row, which never pass the gate because they never go there.

    def alphas(self, problem: TeachingProblem, preparation: Preparation, r: Array) -> Array:
        """α of every buggy row, in the order of the source."""
        blocks = self.prepared(preparation).blocks()
        return _joined([row_maths.alphas(problem, features, targets, r) for features, targets in blocks])

    def losses(self, problem: TeachingProblem, preparation: Preparation, theta: Array) -> Array:
        """Loss of every buggy row under θ, in the order of the source."""
        blocks = self.prepared(preparation).blocks()
        return _joined([row_maths.losses(problem, features, targets, theta) for features, targets in blocks])

    def scores(self, preparation: Preparation, theta: Array) -> Array:
        """x·θ of every buggy row, in prepared units."""
        return _joined([features @ theta for features, _ in self.prepared(preparation).blocks()])


def _joined(parts: list[Array]) -> Array:
    return np.concatenate(parts) if parts else np.empty(0)
