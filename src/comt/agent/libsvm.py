"""LIBSVM files: a target, then ``index:value`` for what is not zero. Read a piece at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from comt.errors import InputError

ENDINGS = (".libsvm", ".svmlight", ".svm")
#: what the target is called unless the user says otherwise
TARGET = "target"
#: bytes of text that are parsed at a time
PIECE = 8 * 2**20
#: one column per index is written out: far more of them than this is a job for a sparse solver
MAX_COLUMNS = 20_000


def columns(path: Path) -> tuple[str, ...]:
    """Return x1, x2, … up to the largest index of the file."""
    stat = path.stat()
    return tuple(f"x{index}" for index in range(1, _width(path, stat.st_mtime_ns, stat.st_size) + 1))


@lru_cache(maxsize=64)
def _width(path: Path, changed: int, size: int) -> int:
    """Find the largest index; ``changed`` and ``size`` say which state of the file was looked at."""
    del changed, size
    width = max((features.shape[1] for features, _ in _pieces(path)), default=0)
    if width > MAX_COLUMNS:
        raise InputError(f"{path.name} has {width:,} columns where at most {MAX_COLUMNS:,} are taken; choose some.")
    return width


def batches(path: Path, wanted: Sequence[str], target: str) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns; one that the file never mentions is zero."""
    places = [None if name == target else int(name.removeprefix("x")) - 1 for name in wanted]
    for features, targets in _pieces(path):
        dense = features.toarray()
        zeros = np.zeros(len(targets))
        arrays = [
            targets if place is None else dense[:, place] if place < dense.shape[1] else zeros for place in places
        ]
        yield pa.RecordBatch.from_arrays([pa.array(np.ascontiguousarray(a)) for a in arrays], names=list(wanted))


def _pieces(path: Path) -> Iterator[tuple[Any, Any]]:
    from sklearn.datasets import load_svmlight_file

    size = os.path.getsize(path)
    for start in range(0, size, PIECE):
        try:
            # a piece begins after the first line end from its start on and ends with the line that holds its end
            features, targets = load_svmlight_file(str(path), zero_based=False, offset=start, length=PIECE)
        except (ValueError, OverflowError) as error:
            reason = (str(error).splitlines() or ["unknown"])[0]
            raise InputError(
                f"{path.name} is no LIBSVM file ({reason}); write lines such as '1.5 1:0.2 7:3', indices from 1."
            ) from None
        if len(targets):
            yield features, targets
