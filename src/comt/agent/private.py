"""Files for their owner's eyes only: written whole or not at all, mode 0600, no cell that a spreadsheet would run."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from comt.spreadsheets import neutral

if TYPE_CHECKING:
    import pandas as pd


def private_folder(path: Path) -> Path:
    """Create a folder that only its owner can open."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def write_private(path: Path, content: bytes) -> None:
    """Write a file beside its place and rename it; nobody else can read it at any moment."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with open(draft, "xb", opener=_owner_only) as file:
            file.write(content)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def append_private(path: Path, content: bytes) -> None:
    """Add to a file; on return it outlives this process."""
    with open(path, "ab", opener=_owner_only) as file:
        file.write(content)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a private table as CSV."""
    write_private(path, neutral(table).to_csv(index=False).encode())


def _owner_only(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
