"""What a gate must not forget when its process ends: a private, append-only file beside the ledger.

One record per event, on disk before the answer it is about leaves. A record that a crash cut short is dropped: its answer
has not left. A file that is damaged otherwise stops the agent.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

from comt import wire
from comt.agent.private import append_private
from comt.errors import InputError, ProtocolError

FILE = "gate.memory"
_SIZE = 4


class Record:
    """Events in the order in which they happened, each a tuple of texts, numbers and bytes; on disk if a path is given."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.events: list[tuple[Any, ...]] = []
        if path is not None and path.exists():
            self._load(path)

    def _load(self, path: Path) -> None:
        content, place = path.read_bytes(), 0
        while place + _SIZE <= len(content):
            end = place + _SIZE + int.from_bytes(content[place : place + _SIZE], "little")
            if end > len(content):
                break
            try:
                self.events.append(wire.unpack(zlib.decompress(content[place + _SIZE : end]), {}))
            except (ProtocolError, zlib.error):
                raise InputError(
                    f"{path} is damaged, and without it the gate may answer what it must not; restore it from a backup, "
                    "or move it away if nothing has left since."
                ) from None
            place = end
        if place < len(content):
            os.truncate(path, place)

    def add(self, *event: Any) -> None:
        """Enter one event."""
        self.events.append(event)
        if self._path is not None:
            packed = zlib.compress(wire.pack(event), 1)
            append_private(self._path, len(packed).to_bytes(_SIZE, "little") + packed)
