"""What a server may do with a federation, and what a federation needs of an agent."""

from __future__ import annotations

from typing import Protocol

from comt.declaration import Declaration, Declare
from comt.queries import Answer, Query, Totals


class Answering(Protocol):
    """An agent as seen from outside: it has a name, checks what it joins, and answers queries."""

    @property
    def name(self) -> str:
        """How the federation calls it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Its feature columns."""

    def check_columns(self, columns: tuple[str, ...]) -> None:
        """Refuse to join if its columns are others."""

    def answer(self, query: Query, round_number: int, *, individual: bool = False) -> Answer:
        """Answer one query with sums over its rows."""


class Declaring(Answering, Protocol):
    """An agent that holds a table and says which columns it has."""

    def declare(self, question: Declare, round_number: int) -> Declaration:
        """Say which columns the table has and which levels enough of its rows share."""


class Federation(Protocol):
    """Three verbs: declare, sum, each. Solvers use ``sum`` only, as if the data were in one place."""

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, in the fixed order of summation."""

    @property
    def rounds(self) -> int:
        """Exchanges so far."""

    def declare(self) -> tuple[str, ...]:
        """Agree on the columns before anything else, and return them."""

    def sum(self, query: Query) -> Totals:
        """Ask all agents and return the sum of their answers."""

    def each(self, query: Query) -> dict[str, Totals]:
        """Return every agent's own answer; agents refuse unless their owner allows it."""


class TableFederation(Federation, Protocol):
    """A federation whose agents hold tables, about which they have to agree first."""

    def declarations(self, question: Declare) -> list[Declaration]:
        """Return every agent's declaration, in the order of names."""
