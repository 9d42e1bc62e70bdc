"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from comt.errors import InputError


def write_whole(path: Path, text: str, *, private: bool = False) -> None:
    """Write a file beside its place and rename it, so that nobody ever sees half of it; ``private``: owner only."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(4)}")

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600 if private else 0o666)

    try:
        with open(draft, "x", encoding="utf-8", newline="", opener=opener) as file:
            file.write(text)
        os.replace(draft, path)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); give another path.") from None
    finally:
        draft.unlink(missing_ok=True)
