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
#: what an index may be while the largest one is looked for
MAX_INDEX = 2**31 - 1


def is_index(name: str) -> bool:
    """Whether a column is called as the columns of such files are: then it is 0 where a file does not mention it."""
    return name[:1] == "x" and name[1:].isdecimal() and name[1:2] != "0"


def columns(path: Path) -> tuple[str, ...]:
    """Return x1, x2, … up to the largest index of the file."""
    stat = path.stat()
    return tuple(f"x{index}" for index in range(1, _width(path, stat.st_mtime_ns, stat.st_size) + 1))


@lru_cache(maxsize=64)
def _width(path: Path, changed: int, size: int) -> int:
    """Find the largest index; ``changed`` and ``size`` say which state of the file was looked at."""
    del changed, size
    width = max((int(features.indices.max(initial=-1)) + 1 for features, _ in _pieces(path)), default=0)
    if width > MAX_COLUMNS:
        raise InputError(f"{path.name} has {width:,} columns where at most {MAX_COLUMNS:,} are taken; choose some.")
    return width


def batches(path: Path, wanted: Sequence[str], target: str) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns; one that the file never mentions is zero."""
    named = [name for name in wanted if name != target]
    places = [int(name.removeprefix("x")) - 1 for name in named]
    width = max(len(columns(path)), max(places, default=0) + 1)
    for features, targets in _pieces(path):
        features.resize(len(targets), width)
        dense = np.asfortranarray(features[:, places].toarray())
        arrays = {name: dense[:, index] for index, name in enumerate(named)} | {target: targets}
        yield pa.RecordBatch.from_arrays([pa.array(arrays[name]) for name in wanted], names=list(wanted))


def _pieces(path: Path) -> Iterator[tuple[Any, Any]]:
    from sklearn.datasets import load_svmlight_file

    size = os.path.getsize(path)
    for start in range(0, size, PIECE):
        try:
            # a piece begins after the first line end from its start on and ends with the line that holds its end
            features, targets = load_svmlight_file(
                str(path), n_features=MAX_INDEX, zero_based=False, offset=start, length=PIECE
            )
        except (ValueError, OverflowError) as error:
            reason = (str(error).splitlines() or ["unknown"])[0]
            raise InputError(
                f"{path.name} is no LIBSVM file ({reason}); write lines such as '1.5 1:0.2 7:3', indices from 1."
            ) from None
        if len(targets):
            yield features, targets
