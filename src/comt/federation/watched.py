"""A federation that tells somebody of every exchange."""

from __future__ import annotations

from collections.abc import Callable

from comt.federation.base import Federation
from comt.queries import Query, Totals


class Watched:
    """A federation that tells somebody of every exchange."""

    def __init__(self, federation: Federation, watch: Callable[[dict[str, float]], None] | None = None) -> None:
        self._federation, self._watch = federation, watch

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents."""
        return self._federation.agents

    @property
    def rounds(self) -> int:
        """Exchanges so far."""
        return self._federation.rounds

    def declare(self) -> tuple[str, ...]:
        """Agree on the columns."""
        return self._federation.declare()

    def sum(self, query: Query) -> Totals:
        """Ask all agents, and tell."""
        totals = self._federation.sum(query)
        if self._watch is not None:
            self._watch({"exchange": float(self._federation.rounds)})
        return totals

    def each(self, query: Query) -> dict[str, Totals]:
        """Return every agent's own answer."""
        return self._federation.each(query)
