"""Masked federations for tests: real agents and keys, and a channel on which sites can die and messages be changed."""

from __future__ import annotations

from collections.abc import Callable

from comt import wire
from comt.agent import Agent
from comt.agent.site import Site
from comt.federation.channel import LocalChannel
from comt.federation.masked import MaskedFederation
from comt.masking.identity import KeyIdentity, KnownKeys
from comt.masking.messages import MESSAGES


def make_sites(agents: list[Agent]) -> list[Site]:
    """Give every agent a key, and everybody everybody's public key."""
    identities = {agent.name: KeyIdentity(agent.name) for agent in agents}
    directory = KnownKeys({name: identity.credential for name, identity in identities.items()})
    return [Site(agent, identities[agent.name], directory) for agent in agents]


def mask_federation(agents: list[Agent], **kwargs) -> MaskedFederation:
    """Return a masked federation over agents in this process."""
    return MaskedFederation(LocalChannel(make_sites(agents)), **kwargs)


class BadChannel(LocalChannel):
    """A channel that loses and changes messages, as a coordinator may.

    ``dies_at[site]`` is the kind of request at which a site falls silent for good; ``request`` and ``reply`` may return
    another message than the one they are given.
    """

    def __init__(self, sites, dies_at=None, request=None, reply=None):
        super().__init__(sites)
        self.dies_at = dies_at or {}
        self.request: Callable | None = request
        self.reply: Callable | None = reply
        self.dead: set[str] = set()
        #: everything the coordinator saw: (site, request, reply)
        self.seen: list[tuple[str, object, object]] = []

    def ask(self, messages):
        replies = {}
        for name, packed in messages.items():
            message = wire.unpack(packed, MESSAGES)
            if self.dies_at.get(name) == type(message).__name__:
                self.dead.add(name)
            if name in self.dead:
                continue
            if self.request is not None:
                message = self.request(name, message)
            answer = wire.unpack(self._sites[name].handle(wire.pack(message)), MESSAGES)
            if self.reply is not None:
                answer = self.reply(name, answer)
            self.seen.append((name, message, answer))
            replies[name] = wire.pack(answer)
        return replies
