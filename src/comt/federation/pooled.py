"""A federation whose agents share one slot: what is asked agent by agent is asked of all of them together."""

from __future__ import annotations

from comt.federation.base import Federation
from comt.queries import EVERYBODY, Query, Totals


class Pooled:
    """A federation as one agent: questions with a slot per agent get one slot, so that no sum shows an agent by itself.

    It is how the automatic choice works where data holders do not allow ``by_agent``; it cannot tell agents apart then.
    """

    def __init__(self, federation: Federation) -> None:
        self._federation = federation

    @property
    def agents(self) -> tuple[str, ...]:
        """The one name that stands for all agents."""
        return (EVERYBODY,)

    @property
    def rounds(self) -> int:
        """Exchanges so far."""
        return self._federation.rounds

    def declare(self) -> tuple[str, ...]:
        """Agree on the columns."""
        return self._federation.declare()

    def sum(self, query: Query) -> Totals:
        """Ask all agents and return the sum of their answers."""
        return self._federation.sum(query)

    def each(self, query: Query) -> dict[str, Totals]:
        """Return every agent's own answer; agents refuse unless their owner allows it."""
        return self._federation.each(query)
