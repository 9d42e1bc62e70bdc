"""The messages of secure summation: coordinator asks, site replies; four steps over any channel that carries bytes.

====================  ==================  =============================================================================
coordinator asks      site replies        what happens
====================  ==================  =============================================================================
:class:`Begin`        :class:`Advert`     the site makes a key for this epoch and signs it
:class:`Roster`       :class:`Dealt`      it checks all signatures, agrees on secrets, deals shares of its seeds
:class:`Deliver`      :class:`Ready`      it receives the others' shares
:class:`Ask`          :class:`Masked`     it answers a query under masks
:class:`Agree`        :class:`Signed`     only if somebody fell silent: it signs the one list of survivors
:class:`Unmask`       :class:`Revealed`   it opens its shares: a survivor's self-mask, a silent site's pair masks
====================  ==================  =============================================================================

A site that will not do what it is asked replies :class:`Refused`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from comt import declaration, preparation, queries, wire
from comt.errors import ProtocolError
from comt.masking.fixed_point import Words


@dataclass(frozen=True)
class Begin:
    """Start an epoch of ``window`` rounds, the first of which is ``first_round``."""

    training: str
    epoch: int
    first_round: int
    window: int


@dataclass(frozen=True)
class Terms:
    """On which terms a site takes part. All sites hold to the strictest: t of them can open a sum without the others."""

    min_rows: int = 1
    min_trusted_rows: int = 0  # COLUMNS: as many as there are columns
    min_participants: int = 3
    allow_leavers: bool = True
    max_close: int = -1  # ANY

    #: any number
    ANY: ClassVar[int] = -1
    #: stands for the number of columns
    COLUMNS: ClassVar[int] = -1

    def least_trusted(self, width: int) -> int:
        """Return the fewest trusted rows of a sum about models of this width."""
        return width if self.min_trusted_rows == self.COLUMNS else self.min_trusted_rows


@dataclass(frozen=True)
class Advert:
    """A site's key and terms for one epoch, signed."""

    site: str
    begin: Begin
    terms: Terms
    public: bytes
    credential: bytes
    signature: bytes

    def statement(self) -> bytes:
        """Return what is signed."""
        return b"comt advert\0" + wire.pack((self.site, self.begin, self.terms, self.public))


@dataclass(frozen=True)
class Roster:
    """All keys of an epoch, in the order of names; a holder's number is its place, from 1."""

    adverts: tuple[Advert, ...]

    def digest(self) -> bytes:
        """Identify the roster."""
        return hashlib.sha256(wire.pack([advert.statement() for advert in self.adverts])).digest()

    @property
    def sites(self) -> tuple[str, ...]:
        """Names, in order."""
        return tuple(advert.site for advert in self.adverts)


@dataclass(frozen=True)
class Dealt:
    """Shares of a site's seeds, sealed for each holder, and commitments by which recovered seeds are recognised."""

    sealed: dict[str, bytes]
    #: (sites, window, 32): in the site's own row its self-mask seeds, elsewhere those of the pair
    commitments: NDArray[np.uint8]


@dataclass(frozen=True)
class Deliver:
    """The shares that others have dealt to this site."""

    sealed: dict[str, bytes]


@dataclass(frozen=True)
class Ready:
    """The site holds the shares."""


@dataclass(frozen=True)
class Ask:
    """A query under masks. ``participants`` are those whose masks cancel; ``scales`` those that differ from the default."""

    training: str
    epoch: int
    round: int
    participants: tuple[str, ...]
    scales: dict[str, int]
    query: bytes


def round_context(roster: bytes, ask: bytes) -> bytes:
    """Identify a round by its roster and its packed :class:`Ask`: training, round, participants, scales, the query itself."""
    return hashlib.sha256(b"comt round\0" + roster + ask).digest()


@dataclass(frozen=True)
class Masked:
    """The answer under masks, and a note to every other participant: what was asked here, and of how many rows."""

    words: Words
    notes: dict[str, bytes]


@dataclass(frozen=True)
class Agree:
    """Somebody fell silent: these are the survivors."""

    round: int
    survivors: tuple[str, ...]


@dataclass(frozen=True)
class Signed:
    """The one list of survivors of a round, signed by a survivor."""

    signature: bytes


def survivors_statement(context: bytes, survivors: tuple[str, ...]) -> bytes:
    """Return what a survivor signs."""
    return b"comt survivors\0" + context + wire.pack(survivors)


@dataclass(frozen=True)
class Unmask:
    """Open the round. Signatures are needed only where somebody fell silent."""

    round: int
    survivors: tuple[str, ...]
    notes: dict[str, bytes]  # from each other survivor to the receiver
    signatures: dict[str, bytes]


@dataclass(frozen=True)
class Revealed:
    """Shares of one round's seeds: the self-masks of survivors; for silent sites their pair masks with survivors."""

    own: NDArray[np.uint8]  # (survivors, 32), in the order of the list
    pairs: NDArray[np.uint8]  # (silent, survivors, 32), in the order of participants


@dataclass(frozen=True)
class Refused:
    """Why a site does not answer, in words that tell nothing about its rows."""

    kind: Literal["gate", "range", "protocol", "equivocation", "input"]
    reason: str
    array: str = ""


MESSAGES = wire.vocabulary(
    (Begin, Terms, Advert, Roster, Dealt, Deliver, Ready, Ask, Masked, Agree, Signed, Unmask, Revealed, Refused)
)


@cache
def query_classes() -> wire.Classes:
    """Return what a query may be made of: every question of the vocabulary and its parts."""
    return wire.vocabulary(
        cls
        for module in (queries, preparation, declaration)
        for cls in vars(module).values()
        if isinstance(cls, type) and is_dataclass(cls) and cls.__module__.startswith(module.__name__)
    )


def read_query(message: bytes) -> queries.Query:
    """Return the query, or refuse what is not of the vocabulary."""
    query = wire.unpack(message, query_classes())
    if not isinstance(query, queries.Query):
        raise ProtocolError(
            f"a {type(query).__name__} arrived where a question of the vocabulary is due; it is refused."
        )
    return query
