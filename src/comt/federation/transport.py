"""How messages get to sites and back: what a transport has to do, and reading what it brought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from comt import messages, wire
from comt.errors import ProtocolError

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Replies:
    """What came back from a group of sites: bytes from some, the reason why nothing came from others."""

    answers: dict[str, bytes]
    failures: dict[str, str] = field(default_factory=dict)


class Transport(Protocol):
    """Carries one message to some sites and brings back what they say within a deadline. It understands nothing."""

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites that can be reached."""

    def ask(self, sites: Sequence[str], message: bytes, seconds: float) -> Replies:
        """Send the message to every named site and wait, at most so many seconds, for all of them."""


@dataclass(frozen=True)
class Traffic:
    """How much has travelled so far, in bytes of messages."""

    sent: int = 0
    received: int = 0


class Line:
    """A transport whose messages are packed, read and counted."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.traffic = Traffic()

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites that can be reached."""
        return self._transport.sites

    def ask(self, sites: Sequence[str], message: Any, expected: type[Kind]) -> tuple[dict[str, Kind], dict[str, str]]:
        """Send a message; return what could be read, and why nothing could be from the other sites."""
        if not sites:
            return {}, {}
        data = wire.pack(message)
        replies = self._transport.ask(sites, data, message.seconds)
        received = sum(len(answer) for answer in replies.answers.values() if isinstance(answer, bytes))
        self.traffic = Traffic(self.traffic.sent + len(data) * len(sites), self.traffic.received + received)
        read: dict[str, Kind] = {}
        silent: dict[str, str] = {}
        for site in sites:
            if site in replies.failures:
                silent[site] = replies.failures[site]
                continue
            try:
                read[site] = messages.parse(replies.answers.get(site), expected)
            except ProtocolError:
                silent[site] = "sent a message that cannot be read"
        return read, silent
