"""The folder of results: appears whole or not at all; what is private in it is readable by its owner only."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from comt.errors import InputError
from comt.runs import CHANGES, ISSUES, LEDGER, MODEL, REPORT, REVIEW, REVIEWS, RUN, TRUSTED
from comt.spreadsheets import neutral

if TYPE_CHECKING:
    import pandas as pd

SHARED = frozenset({MODEL, RUN, REPORT, CHANGES})
PRIVATE = frozenset({ISSUES, LEDGER, TRUSTED, REVIEWS, REVIEW, "review.json", CHANGES, REPORT})


def check_out(out: Path, shown: Path, inputs: Iterable[Path], *, replace: bool) -> None:
    """Refuse a place that cannot take the results, before any work; ``shown`` is how the user wrote it."""
    from comt.model_file import load

    if not out.parent.is_dir():
        raise InputError(f"--out {shown}: the folder {out.parent} does not exist; create it first.")
    if any(file.resolve().is_relative_to(out) for file in inputs):
        raise InputError(f"--out {shown} holds one of the files to learn from; give another folder.")
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"--out {shown} is a file; give a folder.")
    if not any(out.iterdir()):
        return
    if not replace:
        raise InputError(f"--out {shown} is not empty; give another folder, or --force to replace earlier results.")
    try:
        load(out / MODEL)
        ours = all(_is_ours(entry) for entry in out.iterdir())
    except (InputError, OSError):
        ours = False
    if not ours:
        raise InputError(
            f"--out {shown} holds more or other things than results of comt fit, so --force does not replace it; give "
            "another folder."
        )


def _is_ours(entry: Path) -> bool:
    return entry.name in SHARED or (entry.is_dir() and {file.name for file in entry.iterdir()} <= PRIVATE)


@contextmanager
def draft(out: Path) -> Iterator[Path]:
    """Give a folder beside ``out`` that takes its place at the end, or leaves no trace."""
    mark = secrets.token_hex(4)
    new, old = (out.with_name(f".{out.name}-{mark}-{kind}") for kind in ("new", "old"))
    try:
        new.mkdir()
    except OSError as error:
        raise InputError(f"nothing can be written beside {out} ({error.strerror}); give another --out.") from None
    try:
        yield new
        if out.exists():
            out.rename(old)
        try:
            new.rename(out)
        except BaseException:
            if old.exists():
                old.rename(out)
            raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
        if out.exists():
            shutil.rmtree(old, ignore_errors=True)


def write_private(table: pd.DataFrame, path: Path) -> None:
    """Write a table that only its owner can read and in which nothing is a formula."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    with open(path, "x", encoding="utf-8", newline="", opener=opener) as file:
        neutral(table).to_csv(file, index=False)
