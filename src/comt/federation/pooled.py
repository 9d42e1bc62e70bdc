"""A federation whose agents share one slot: what is asked agent by agent is asked of all of them together."""

from __future__ import annotations

from comt.federation.watched import Watched
from comt.queries import EVERYBODY


class Pooled(Watched):
    """A federation as one agent: questions with a slot per agent get one slot, so that no sum shows an agent by itself.

    It is how the automatic choice works where data holders do not allow ``by_agent``; it cannot tell agents apart then.
    """

    @property
    def agents(self) -> tuple[str, ...]:
        """The one name that stands for all agents."""
        return (EVERYBODY,)
