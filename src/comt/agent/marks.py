"""Which rows are trusted: a column of marks, as people write them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from comt.errors import InputError

#: how people write that a row was verified, and that it was not; an empty cell says that nobody has verified it
YES = frozenset({"true", "t", "yes", "y", "x", "1", "1.0"})
NO = frozenset({"false", "f", "no", "n", "", "0", "0.0"})


def read_marks(cells: pa.Array, column: str, file: str) -> NDArray[np.bool_]:
    """Read marks of any type; anything but a yes or a no is refused.

    Examples
    --------
    >>> read_marks(pa.array(["Yes", "no", None, "x", " TRUE "]), "checked", "a.csv").tolist()
    [True, False, False, True, True]
    """
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_null(cells.type):
        return np.zeros(len(cells), dtype=bool)
    if pa.types.is_boolean(cells.type):
        return np.asarray(cells.fill_null(False).to_numpy(zero_copy_only=False), dtype=bool)
    encoded = cells.dictionary_encode()
    meanings = [_meaning(word) for word in encoded.dictionary.to_pylist()]
    if None in meanings:
        wrong = encoded.dictionary[meanings.index(None)].as_py()
        raise InputError(
            f"{file}: column '{column}' (--trusted) holds {wrong!r}, neither yes nor no; write 1 or 0, true or false, yes or "
            "no, or x or nothing."
        )
    known = np.append(np.array(meanings, dtype=bool), False)  # the last one: no cell
    places = encoded.indices.fill_null(len(meanings)).to_numpy(zero_copy_only=False)
    return np.asarray(known[places], dtype=bool)


def _meaning(cell: object) -> bool | None:
    word = str(cell).strip().lower()
    if cell is None or word in NO or cell != cell:
        return False
    return True if word in YES else None
