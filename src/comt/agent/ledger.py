"""The ledger: every array that left an agent, when, for what, and how many rows it sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


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


class Ledger:
    """Append-only list of entries with totals."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def append(self, entry: Entry) -> None:
        """Enter one array."""
        self._entries.append(entry)

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

        return pd.DataFrame([asdict(entry) for entry in self._entries])
