"""The ledger: every array that left an agent, when, for what, and how many rows it sums. Append-only and hash-chained.

On disk it is one JSON object per line. Each line carries the digest of the line before, so that a line changed, removed or
inserted later breaks the chain from there on; the newest digest (the *head*) stands for the whole ledger.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from comt.agent.private import append_private
from comt.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

#: what the first line is chained to
START = hashlib.sha256(b"comt ledger 1").hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """One array that left."""

    agent: str
    round: int
    purpose: str
    array: str
    shape: tuple[int, ...]
    bytes: int
    rows: int  # the smallest number of rows that any number of the array sums
    individual: bool = False
    masked: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """One question that was not answered, and why."""

    agent: str
    round: int
    purpose: str
    reason: str


class Ledger:
    """Append-only list of entries with totals, kept in a file if one is given."""

    def __init__(self, path: Path | None = None) -> None:
        self._entries: list[Entry] = []
        self.refusals: list[Refusal] = []
        self.path = path
        self._head = START
        if path is not None and path.exists():
            lines = read_lines(path)
            self._entries = [entry for line in lines if (entry := _entry(line)) is not None]
            self._head = lines[-1]["digest"] if lines else START

    @property
    def head(self) -> str:
        """Digest of the newest line; it changes with every entry."""
        return self._head

    def append(self, *entries: Entry) -> None:
        """Enter the arrays of one answer."""
        self._entries += entries
        if self.path is not None:
            self._write("left", *map(_fields, entries))

    def refuse(self, agent: str, round_number: int, purpose: str, reason: str) -> None:
        """Enter a question that was refused."""
        refusal = Refusal(agent, round_number, purpose, reason)
        self.refusals.append(refusal)
        self._write("refused", _fields(refusal))

    def note(self, event: str, **details: Any) -> None:
        """Enter something else the owner should be able to check later, such as the digest of a message."""
        self._write(event, details)

    def _write(self, event: str, *lines: dict[str, Any]) -> None:
        if self.path is None:
            return
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        written = b""
        for details in lines:
            content = _canonical({"event": event, "time": when, **details, "previous": self._head})
            self._head = hashlib.sha256(content).hexdigest()
            written += content[:-1] + f', "digest": "{self._head}"}}\n'.encode()
        append_private(self.path, written)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def total_bytes(self) -> int:
        """Bytes of all arrays that left."""
        return sum(entry.bytes for entry in self._entries)

    def to_frame(self) -> pd.DataFrame:
        """Return the entries as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([_fields(entry) for entry in self._entries])


def _fields(entry: Entry | Refusal) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in entry.__dataclass_fields__}


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, ensure_ascii=False).encode()


def digest_of(line: dict[str, Any]) -> str:
    """Return the digest of a line: of everything in it but the digest itself."""
    content = {name: value for name, value in line.items() if name != "digest"}
    return hashlib.sha256(_canonical(content)).hexdigest()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a ledger and verify its chain; a broken one is refused with the line at which it breaks."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"the ledger {path} cannot be read ({error.strerror}); name an existing file.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a ledger; name a file that an agent has written.") from None
    lines: list[dict[str, Any]] = []
    head = START
    for number, row in enumerate(text.splitlines(), start=1):
        try:
            line = json.loads(row)
            intact = isinstance(line, dict) and line["previous"] == head and digest_of(line) == line["digest"]
        except (ValueError, KeyError, RecursionError):
            intact = False
        if not intact:
            raise InputError(
                f"the ledger {path} was changed: line {number} does not follow from the one before; compare it with a backup."
            )
        head = line["digest"]
        lines.append(line)
    return lines


def _entry(line: dict[str, Any]) -> Entry | None:
    if line["event"] != "left":
        return None
    values = {name: line[name] for name in Entry.__dataclass_fields__}
    return Entry(**(values | {"shape": tuple(line["shape"])}))
