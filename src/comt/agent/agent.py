"""An agent: rows, a gate, a ledger. It answers queries and tells its owner, and nobody else, about single rows."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from comt import rows as row_maths
from comt.agent import bending, choosing, issue_answers  # noqa: F401 (register their answers)
from comt.agent.answers import compute
from comt.agent.bins import BINNED, cells
from comt.agent.broadcast import shows_agents
from comt.agent.coverage import covers
from comt.agent.data import PreparedRows, RowSource
from comt.agent.gaps import table_of
from comt.agent.gate import Gate, Weight
from comt.agent.ledger import Entry, Ledger
from comt.agent.memory import Memory
from comt.agent.noise import Accountant, ClippedPreparation, add_noise
from comt.agent.policy import Policy
from comt.agent.record import FILE, Record
from comt.agent.sampling import FewerTrusted, SampledRows
from comt.agent.saturation import saturated
from comt.agent.suspect_copies import DistinctRows
from comt.declaration import Declaration, Declare, DeclaredColumn
from comt.errors import GateError, InputError
from comt.noise import Noise
from comt.preparation import Preparation
from comt.problem import Array, TeachingProblem
from comt.queries import Answer, ModelQuery, Query
from comt.schema import Schema, as_text


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
    ledger:
        Where it is entered; by default in memory.
    """

    def __init__(self, name: str, rows: RowSource, policy: Policy | None = None, ledger: Ledger | None = None) -> None:
        self.name = name
        self.rows = rows
        self.ledger = Ledger() if ledger is None else ledger
        #: what the gate remembers, beside the ledger if that is on disk
        record = Record(None if self.ledger.path is None else self.ledger.path.with_name(FILE))
        self.gate = Gate(name, policy or Policy(), record)
        self._memory = Memory(record)
        #: what was spent of the privacy budget; None: no noise is added
        self.accountant: Accountant | None = None
        if self.gate.policy.noise is not None:
            spent = (event[1] for event in record.events if event[0] == "noise")
            self.accountant = Accountant(self.gate.policy.noise, spent)
        self._record = record
        self._prepared: PreparedRows | None = None
        self._distinct: DistinctRows | None = None
        self._lock = threading.Lock()
        self.store: dict[str, object] = {}

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the feature columns, in order."""
        return self.rows.names

    @property
    def noise(self) -> Noise | None:
        """The noise its owner has decided on; no secret, because the others need to know."""
        return self.gate.policy.noise

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
        return self.weighed_answer(query, round_number, individual=individual)[0]

    def weighed_answer(
        self,
        query: Query,
        round_number: int,
        *,
        individual: bool = False,
        masked: bool = False,
        training: str = "",
        sharers: int = 1,
    ) -> tuple[Answer, Weight]:
        """Answer, and say how many rows the answer rests on; under masks the gate weighs the sum over sites later."""
        with self._lock:  # engines call from several threads; an answer must not see half a state
            kept = dict(self.store)
            try:
                self.gate.admit(query, individual=individual, masked=masked)
                noise, epsilon = self.gate.policy.noise, 0.0
                if self.accountant is not None and noise is not None:
                    epsilon = self.accountant.spend(self.name)
                    self._record.add("noise", noise.multiplier)
                answer = compute(query, self)
                weight = self._weigh(query, answer, masked, training)
                answer = self._merged_cells(query, answer)
                if noise is not None:
                    answer = add_noise(query, answer, noise, sharers)
                self.gate.check(query, answer, weight, masked=masked)
                self._memory.keep()
            except GateError as refusal:
                self._take_back(kept)
                self.gate.refused()
                self.ledger.refuse(self.name, round_number, query.purpose, str(refusal))
                raise
            shown = individual or shows_agents(query)
            self.ledger.append(
                *(
                    Entry(
                        agent=self.name,
                        round=round_number,
                        purpose=query.purpose,
                        array=name,
                        shape=array.shape,
                        bytes=array.nbytes,
                        rows=answer.rows[name],
                        individual=shown,
                        masked=masked,
                    )
                    for name, array in answer.arrays.items()
                )
            )
            if noise is not None:
                self.ledger.note("noise", round=round_number, epsilon=epsilon, delta=noise.delta)
            return answer, weight

    def _take_back(self, kept: dict[str, object]) -> None:
        """Keep what was known before: a refused step of Algorithm 1 was not taken, on disk neither."""
        if any(self.store.get(name) is not kept.get(name) for name in {*self.store, *kept}):
            self.store.clear()
            for name, value in kept.items():
                self.store[name] = value

    def _weigh(self, query: Query, answer: Answer, masked: bool, training: str) -> Weight:
        """Count the rows behind every sum; others rely on it under masks, so there it does not depend on own policy."""
        if not masked and self.gate.policy.min_rows <= 1 and self.gate.policy.min_trusted_rows == 0:
            return Weight.of_arrays(answer.rows)
        found = [*covers(query, self), *saturated(query, self)]
        if isinstance(query, ModelQuery) and query.preparation.distinct:
            kept = self._rows_left(query.preparation)
            found = [cover.among(kept) for cover in found]
        if not found:
            return Weight.of_arrays(answer.rows)
        n_rows, n_trusted = self.rows.n_rows, len(self.rows.trusted()[1])
        return Weight(
            tuple(cover.size(n_rows, n_trusted) for cover in found if not cover.trusted),
            tuple(cover.size(n_rows, n_trusted) for cover in found if cover.trusted),
            self._memory.weigh(found, n_rows, n_trusted, training),
            training,
        )

    def _merged_cells(self, query: Query, answer: Answer) -> Answer:
        least = self.gate.policy.min_rows
        binned = BINNED.get(type(query), ()) if least > 1 else ()
        merged = {name: cells(answer.arrays[name], least) for name in binned}
        return Answer(answer.arrays | merged, answer.rows)

    def declare(self, question: Declare, round_number: int) -> Declaration:
        """Say which columns the table has and which levels enough of its rows share; gate and ledger see it, too."""
        with self._lock:
            table = table_of(self)
            least = max(question.min_count, self.gate.min_rows)
            declaration = table.declaration(self.name, Declare(min_count=least))
            if self.gate.policy.noise is not None:
                declaration = declaration.without_levels()  # no noise can cover the name of a level
            sizes = {column.name: _told_bytes(column) for column in declaration.columns}
            self.gate.check_declaration(question, sum(sizes.values()))
            for column in declaration.columns:
                self.ledger.append(
                    Entry(
                        agent=self.name,
                        round=round_number,
                        purpose=question.purpose,
                        array=column.name,
                        shape=(len(column.levels),),
                        bytes=sizes[column.name],
                        rows=column.fewest_rows,
                        individual=True,
                    )
                )
            return declaration

    def use_schema(self, schema: Schema) -> None:
        """Read the table as the federation agreed to; what too few of its rows share stays inside."""
        with self._lock:
            table_of(self).use_schema(schema, self.gate.min_rows)
            self._prepared = self._distinct = None

    def prepared(self, preparation: Preparation) -> PreparedRows:
        """Return the rows under a preparation; the latest one is kept."""
        if self._prepared is None or self._prepared.preparation.fingerprint != preparation.fingerprint:
            noise = self.gate.policy.noise
            own = preparation if noise is None else ClippedPreparation.of(preparation, noise)
            self._prepared = PreparedRows(self._counted_rows(preparation), own)
        return self._prepared

    def _counted_rows(self, preparation: Preparation) -> RowSource:
        # under noise every row counts: one row more could make many others copies, which no noise of ours would cover
        if not preparation.distinct or self.gate.policy.noise is not None:
            return self.rows
        if self._distinct is None:
            self._distinct = DistinctRows(self.rows, self.gate.policy.min_rows)
        return self.rows if self._distinct.kept.all() else self._distinct

    def _rows_left(self, preparation: Preparation) -> NDArray[np.bool_]:
        """Return which rows of the source a preparation counts."""
        rows = self._counted_rows(preparation)
        return rows.kept if isinstance(rows, DistinctRows) else np.ones(rows.n_rows, dtype=bool)

    def with_trusted(self, kept: NDArray[np.bool_]) -> Agent:
        """Return the same agent, ledger and policy with only some of its trusted rows, as cross-validation needs it."""
        return self._with_rows(FewerTrusted(self.rows, kept))

    def with_sample(self, most: int) -> Agent:
        """Return the same agent, ledger and policy with at most so many of its unverified rows, spread evenly."""
        return self if self.rows.n_rows <= most else self._with_rows(SampledRows(self.rows, most))

    def _with_rows(self, rows: RowSource) -> Agent:
        return Agent(self.name, rows, self.gate.policy, self.ledger)

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


def _told_bytes(column: DeclaredColumn) -> int:
    return sum(len(as_text(word).encode()) for word in (column.name, column.kind, *column.levels))


def _joined(parts: list[Array]) -> Array:
    return np.concatenate(parts) if parts else np.empty(0)
