"""What a site remembers on disk of Algorithm 1: (α_k, q_k, round) and the round's answer, for its own eyes only."""

from __future__ import annotations

import hashlib
import os
import struct
from contextlib import suppress
from pathlib import Path

from comt import wire
from comt.agent.proximal import BEFORE, LATEST, AdmmState
from comt.errors import ProtocolError
from comt.masking.receipts import Receipt
from comt.optimize.algorithm1 import State
from comt.queries import Answer

_ARRAYS = ("alpha", "direction", "price")
_HEAD = struct.Struct("<QQ32s")  # number of the write, length, digest


class Latest:
    """The latest two contents of something that changes in every round, in two files that are overwritten in turn.

    A write that a crash cuts short damages the older of the two, and no round waits for a file system that renames.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._paths = tuple(folder / f"algorithm1.{slot}.{name}" for slot in range(2))
        found = sorted(write for path in self._paths if (write := _read(path)) is not None)
        self._number = found[-1][0] if found else 0
        #: as they were found, the newest first
        self.found = [content for _, content in reversed(found)]

    def write(self, content: bytes) -> None:
        """Take the place of the older one."""
        self._number += 1
        head = _HEAD.pack(self._number, len(content), hashlib.sha256(content).digest())
        file = os.open(self._paths[self._number % 2], os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, head + content, 0)
        finally:
            os.close(file)


class DiskStore(dict[str, object]):
    """An agent's store whose states of Algorithm 1, the latest two, survive the process; written before the answer leaves.

    Parameters
    ----------
    folder:
        A folder of the site's own.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._states, self._receipts = Latest(folder, "state"), Latest(folder, "receipt")
        for content in self._receipts.found[:1]:
            with suppress(ProtocolError, TypeError):  # without it the next step is refused by name
                super().__setitem__("receipt", Receipt(**wire.unpack(content, {})))
        for name, content in zip((LATEST, BEFORE), self._states.found, strict=False):
            try:
                super().__setitem__(name, _state(wire.unpack(content, {})))
            except (ProtocolError, KeyError, TypeError):
                continue  # of other software: as good as none, the round will be refused by name

    def __setitem__(self, name: str, value: object) -> None:
        super().__setitem__(name, value)
        if name == LATEST and isinstance(value, AdmmState):
            content = {
                "training": value.training,
                "round": value.round,
                **{field: getattr(value, field) for field in _ARRAYS},
                "arrays": value.answer.arrays,
                "rows": value.answer.rows,
                "constants": value.constants,
                "public": None if value.public is None else vars(value.public),
            }
            self._states.write(wire.pack(content))
        elif isinstance(value, Receipt):
            self._receipts.write(wire.pack(vars(value)))


def _read(path: Path) -> tuple[int, bytes] | None:
    """Return the number and content of a write, or nothing if it was cut short."""
    data = path.read_bytes() if path.exists() else b""
    if len(data) < _HEAD.size:
        return None
    number, length, digest = _HEAD.unpack_from(data)
    body = data[_HEAD.size : _HEAD.size + length]
    return (number, body) if hashlib.sha256(body).digest() == digest else None


def _state(content: dict[str, object]) -> AdmmState:
    arrays, rows, public = content.pop("arrays"), content.pop("rows"), content.pop("public")
    state = None if public is None else State(**public)  # type: ignore[arg-type]
    return AdmmState(**content, answer=Answer(arrays, rows), public=state)  # type: ignore[arg-type]
