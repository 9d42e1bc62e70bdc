"""The coordinator's checkpoint: every total it received, in order. Sums over sites only; no site's own answer, no row.

A training is a deterministic function of the totals, so that whoever replays them stands where the first one stopped,
whatever solver, tuning or selection was running. An append-only file of records, each with its length and its hash; a
record that a crash cut short is dropped when the file is opened again.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from comt import messages, wire
from comt.problem import Array
from comt.queries import Query, Totals

_HEAD = struct.Struct("<Q32s")


@dataclass(frozen=True)
class Round:
    """One exchange: what was asked and the sum of the answers."""

    question: str  # fingerprint of the query
    totals: dict[str, Array]
    #: sites whose owners' policies refused the question, and what was said; there are no totals then
    refused: dict[str, str] = field(default_factory=dict)


@dataclass
class Attempt:
    """The sites whose sums one attempt adds up, those that left before it, and its exchanges so far."""

    sites: tuple[str, ...]
    left: dict[str, str]
    start: int  # exchanges before it
    rounds: list[Round] = field(default_factory=list)


class Journal:
    """The totals of one training, written before anybody uses them.

    They outlive this process at once. That they outlive a power cut is seen to while the next round is under way: it
    costs the last round at most, which is asked for again.

    Parameters
    ----------
    path:
        The file; None keeps nothing, for trainings that need no resume.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._disk = ThreadPoolExecutor(1, "journal")
        self._flushed: Future[None] | None = None
        self.attempt: Attempt | None = None
        if path is not None and path.exists():
            self._load(path)

    def _load(self, path: Path) -> None:
        whole = 0
        for content, end in _records(path.read_bytes()):
            whole = end
            if "sites" in content:
                self.attempt = Attempt(tuple(content["sites"]), content["left"], content["start"])
            elif self.attempt is not None:
                self.attempt.rounds.append(Round(content["question"], content["totals"], content.get("refused", {})))
        if whole < path.stat().st_size:
            os.truncate(path, whole)

    def begin(self, sites: tuple[str, ...], left: dict[str, str], start: int) -> None:
        """Start an attempt: sums of another set of sites do not mix with earlier ones."""
        self.attempt = Attempt(sites, dict(left), start)
        self._append({"sites": list(sites), "left": left, "start": start})

    def replayed(self, position: int, query: Query) -> Round | None:
        """Return what came of this very question at this position, if it was asked.

        Where the question is another (other software, another processor's rounding), what follows is not used.
        """
        assert self.attempt is not None
        if position >= len(self.attempt.rounds):
            return None
        known = self.attempt.rounds[position]
        if known.question != messages.fingerprint(query):
            rounds = self.attempt.rounds[:position]
            self.begin(self.attempt.sites, self.attempt.left, self.attempt.start)
            for kept in rounds:
                self._write(kept)
            return None
        return known

    def record(self, query: Query, totals: Totals, refused: Mapping[str, str] | None = None) -> None:
        """Keep the totals of one exchange, or who refused it; on return they outlive this process."""
        self._write(Round(messages.fingerprint(query), dict(totals), dict(refused or {})))

    def _write(self, done: Round) -> None:
        assert self.attempt is not None
        self.attempt.rounds.append(done)
        refused = {"refused": done.refused} if done.refused else {}
        self._append({"question": done.question, "totals": done.totals, **refused})

    def _append(self, content: dict[str, Any]) -> None:
        if self._path is None:
            return
        body = wire.pack(content)
        if self._flushed is not None:
            self._flushed.result()
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        record = _HEAD.pack(len(body), hashlib.sha256(body).digest()) + body
        while record:
            record = record[os.write(file, record) :]
        self._flushed = self._disk.submit(_flush, file)


def _flush(file: int) -> None:
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _records(data: bytes) -> Iterator[tuple[dict[str, Any], int]]:
    position = 0
    while position + _HEAD.size <= len(data):
        length, digest = _HEAD.unpack_from(data, position)
        start = position + _HEAD.size
        body = data[start : start + length]
        if len(body) < length or hashlib.sha256(body).digest() != digest:
            return
        position = start + length
        yield wire.unpack(body, {}), position
