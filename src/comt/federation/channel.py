"""How bytes get to sites and back: the one thing a transport has to do for secure summation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol

from threadpoolctl import ThreadpoolController

from comt.errors import InputError


class Handling(Protocol):
    """A site as a channel sees it: a name, columns, and a door for messages."""

    @property
    def name(self) -> str:
        """How the federation calls it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Its feature columns."""

    def check_columns(self, columns: tuple[str, ...]) -> None:
        """Refuse to join if its columns are others."""

    def handle(self, message: bytes) -> bytes:
        """Answer one message."""


class Channel(Protocol):
    """Carries one message to each of some sites and brings back the replies of those that answered in time."""

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites, in order."""

    def declare(self) -> tuple[str, ...]:
        """Agree on the columns before anything else, and return them."""

    def ask(self, messages: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Send every site its message; a site that is silent beyond the channel's deadline is missing from the replies."""


class LocalChannel:
    """Sites in this process, one after the other or in threads; for tests, for trying out, and as the transports' model."""

    def __init__(self, sites: Sequence[Handling], threads: int = 1) -> None:
        self._sites = {site.name: site for site in sorted(sites, key=lambda site: site.name)}
        if len(self._sites) != len(sites) or not sites:
            raise InputError("the sites of a channel must have names of their own; give every site another name.")
        self._threads = min(threads, len(sites))
        self._pool: ThreadPoolExecutor | None = None

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites, in order."""
        return tuple(self._sites)

    @contextmanager
    def open(self) -> Iterator[LocalChannel]:
        """Keep threads alive, and BLAS at one thread, for the duration of a training."""
        with ThreadpoolController().limit(limits=1), ThreadPoolExecutor(self._threads) as pool:
            self._pool = pool if self._threads > 1 else None
            try:
                yield self
            finally:
                self._pool = None

    def declare(self) -> tuple[str, ...]:
        """Take the first site's columns and have all others check theirs against them."""
        first, *others = self._sites.values()
        for site in others:
            site.check_columns(first.columns)
        return first.columns

    def ask(self, messages: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Hand the messages over; nobody is ever silent here."""
        if self._pool is None:
            return {name: self._sites[name].handle(message) for name, message in messages.items()}
        replies = self._pool.map(lambda item: self._sites[item[0]].handle(item[1]), messages.items())
        return dict(zip(messages, replies, strict=True))
