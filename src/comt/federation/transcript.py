"""The coordinator's transcript: everything it saw of a training, chained and signed, so that others can check and attack it.

One record per round: the question, what came from every site (its answer, or the masked words that hide it), and the sum.
Each record carries the digest of the one before; the last one is signed. A data holder checks its ledger against it; an
auditor runs attacks on it (``comt audit``).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comt import wire
from comt.errors import InputError, ProtocolError
from comt.masking.identity import Directory, Identity
from comt.masking.messages import read_query
from comt.problem import Array
from comt.queries import Query, Totals

#: its name in a folder of results
TRANSCRIPT = "transcript.comt"
_START = hashlib.sha256(b"comt transcript 1").digest()
_SIZE = 8


@dataclass(frozen=True)
class Seen:
    """One round as the coordinator saw it. Of a masked round it has ``words`` per site, otherwise ``answers``."""

    previous: bytes
    training: str
    round: int
    context: bytes
    query: bytes
    answers: dict[str, dict[str, NDArray[np.float64]]]
    words: dict[str, NDArray[np.uint64]]
    totals: dict[str, NDArray[np.float64]]

    def question(self) -> Query:
        """Return the question."""
        return read_query(self.query)

    @property
    def masked(self) -> bool:
        """Whether single answers were hidden."""
        return bool(self.words)


@dataclass(frozen=True)
class Seal:
    """The end: who kept the transcript, signed over the digest of all records."""

    previous: bytes
    name: str
    credential: bytes
    signature: bytes


_RECORDS = wire.vocabulary((Seen, Seal))


def _statement(head: bytes) -> bytes:
    return b"comt transcript\0" + head


@dataclass
class Transcript:
    """Records rounds, in memory and (if a path is given) in a file readable by its owner only."""

    path: Path | None = None
    rounds: list[Seen] = field(default_factory=list)
    seal: Seal | None = None
    head: bytes = _START

    def record(
        self,
        query: Query,
        totals: Totals,
        *,
        training: str = "",
        round_number: int,
        context: bytes = b"",
        answers: Mapping[str, Mapping[str, Array]] | None = None,
        words: Mapping[str, NDArray[np.uint64]] | None = None,
    ) -> None:
        """Add one round."""
        seen = Seen(
            self.head,
            training,
            round_number,
            context,
            wire.pack(query),
            {site: dict(arrays) for site, arrays in (answers or {}).items()},
            dict(words or {}),
            dict(totals),
        )
        self.rounds.append(seen)
        self._append(seen)

    def sign(self, identity: Identity) -> None:
        """Close the transcript with a signature over everything in it."""
        self.seal = Seal(self.head, identity.name, identity.credential, identity.sign(_statement(self.head)))
        self._append(self.seal)

    def _append(self, record: Any) -> None:
        packed = wire.pack(record)
        self.head = hashlib.sha256(packed).digest()
        if self.path is not None:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(len(packed).to_bytes(_SIZE, "little") + packed)

    def check_seal(self, directory: Directory) -> str:
        """Return who signed; raise if nobody did, or not with that name's key."""
        if self.seal is None:
            raise ProtocolError("the transcript is not signed; have the coordinator close it.")
        directory.check(self.seal.name, self.seal.credential, _statement(self.seal.previous), self.seal.signature)
        return self.seal.name


def read_transcript(path: Path) -> Transcript:
    """Read a transcript and verify its chain."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"the transcript {path} cannot be read ({error.strerror}); name an existing file.") from None
    transcript = Transcript()
    place = 0
    while place < len(content):
        size = int.from_bytes(content[place : place + _SIZE], "little")
        packed = content[place + _SIZE : place + _SIZE + size]
        place += _SIZE + size
        broken = f"the transcript {path} was changed or cut off at record {len(transcript.rounds) + 1}; compare with a backup."
        try:
            record = wire.unpack(packed, _RECORDS)
        except ProtocolError:
            raise InputError(broken) from None
        known = isinstance(record, (Seen, Seal))
        if not known or record.previous != transcript.head or transcript.seal is not None:
            raise InputError(broken)
        transcript.head = hashlib.sha256(packed).digest()
        if isinstance(record, Seal):
            transcript.seal = record
        else:
            transcript.rounds.append(record)
    return transcript
