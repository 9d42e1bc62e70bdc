"""Rows in Parquet or CSV files larger than memory: read in batches, every time they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

from comt.agent.data import Block
from comt.errors import InputError
from comt.problem import Array

#: pandas writes an unnamed row index into Parquet files under such a name: it is no feature
_PANDAS_INDEX = "__index_level_"
#: rows per batch read from disk
BATCH = 65_536


def read_schema(path: Path) -> pa.Schema:
    """Return names and types of the columns of a Parquet or CSV file (of CSV as far as its first rows tell)."""
    if not path.is_file():
        raise InputError(f"{path} is not a file; give the path of a .parquet or .csv file.")
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise InputError(f"{path.name} has an unknown ending; give a .parquet or .csv file.")
    try:
        if path.suffix.lower() == ".parquet":
            schema = pa_parquet.read_schema(path)
        else:
            with pa_csv.open_csv(path) as reader:
                schema = reader.schema
        return pa.schema([column for column in schema if not column.name.startswith(_PANDAS_INDEX)])
    except UnicodeDecodeError:
        reason = "its header is not UTF-8"
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        reason = str(error).splitlines()[0]
    raise InputError(f"{path.name} cannot be read ({reason}); write it again as Parquet or CSV.")


def csv_types(schema: pa.Schema, exact: str | None = None) -> dict[str, pa.DataType]:
    """Return the columns to read as floats: a guess from the first rows takes them for integers or for empty."""
    return {
        column.name: pa.float64()
        for column in schema
        if column.name != exact and (pa.types.is_integer(column.type) or pa.types.is_null(column.type))
    }


def read_batches(path: Path, columns: list[str], types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    """Read some columns of a file, batch by batch."""
    try:
        if path.suffix.lower() == ".parquet":
            # pre-buffering would keep the whole file in memory
            with pa_parquet.ParquetFile(path, pre_buffer=False) as file:
                yield from file.iter_batches(batch_size=BATCH, columns=columns)
        else:
            convert = pa_csv.ConvertOptions(include_columns=columns, column_types=types)
            with pa_csv.open_csv(path, convert_options=convert) as reader:
                yield from reader
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path.name} cannot be read ({reason}); repair the file.") from None


def numbers(batch: pa.RecordBatch, names: Sequence[str], path: Path) -> Array:
    """Return the named columns of a batch as one array of floats; missing values become NaN."""
    block = np.empty((batch.num_rows, len(names)), order="F")
    for position, name in enumerate(names):
        column = batch.column(name)
        if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
            block[:, position] = column.to_numpy(zero_copy_only=False)
        elif pa.types.is_null(column.type):
            block[:, position] = np.nan
        else:
            raise InputError(
                f"{path.name}: column '{name}' is of type {column.type} where numbers are needed; "
                "encode it as numbers or leave it out."
            )
    return block


class FileRows:
    """One agent's file: numeric feature columns, a target column, and optionally a boolean column of trusted rows.

    The file is scanned once when opened: every value is checked, the trusted rows (few) are kept, the rest is read again
    in batches whenever sums are wanted, so memory stays bounded whatever the size of the file.

    Parameters
    ----------
    path:
        A ``.parquet`` or ``.csv`` file with a header.
    target:
        Name of the target column: numbers for regression, any two labels for classification.
    trusted:
        Name of the boolean column that marks trusted rows; None: there are none.
    columns:
        The feature columns; by default all others, in the file's order.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        target: str,
        trusted: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        self.path = Path(path)
        self._target, self._trusted_column = target, trusted
        self.names = self._feature_names(columns)
        self._classes: tuple[Any, Any] | None = None
        self._trusted: tuple[Array, NDArray[Any]]
        self._scan()

    def _feature_names(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        schema = read_schema(self.path)
        present = list(schema.names)
        self._csv_types = csv_types(schema, exact=self._trusted_column)
        for name in (self._target, self._trusted_column, *(columns or ())):
            if name is not None and name not in present:
                raise InputError(f"{self.path.name} has no column '{name}'; it has {', '.join(present)}.")
        special = {self._target, self._trusted_column}
        usual = (name for name in present if name not in special)
        names = tuple(columns) if columns is not None else tuple(usual)
        if not names:
            raise InputError(f"{self.path.name} has no feature column beside '{self._target}'; give at least one.")
        wanted = [*names, *(name for name in special if name is not None)]
        twice = sorted({name for name in wanted if wanted.count(name) > 1 or present.count(name) > 1})
        if twice:
            raise InputError(f"{self.path.name}: columns {twice} occur twice; give every column one name and one use.")
        return names

    def _batches(self) -> Iterator[pa.RecordBatch]:
        wanted = [*self.names, self._target]
        if self._trusted_column is not None:
            wanted.append(self._trusted_column)
        return read_batches(self.path, wanted, self._csv_types)

    def _scan(self) -> None:
        """Check every value, count, and keep the trusted rows."""
        self.n_rows = rows = bad = 0
        first_bad: tuple[int, str] | None = None
        labels: set[Any] = set()
        features: list[Array] = []
        targets: list[NDArray[Any]] = []
        places: list[NDArray[np.intp]] = []
        for batch in self._batches():
            block, target, trusted = self._read(batch)
            known = batch.column(self._target).is_valid().to_numpy(zero_copy_only=False)
            if target.dtype.kind == "f":
                known &= np.isfinite(target)
            elif target.dtype.kind == "O":
                known &= target != ""  # an empty cell of a text column in CSV
            if target.dtype.kind != "f" or len(labels) < 3:  # a third number is enough to see that it is no label
                labels.update(np.unique(target[known]).tolist())
            # one sum tells whether a whole block is finite; only a bad block is looked at cell by cell
            with np.errstate(over="ignore", invalid="ignore"):
                clean = bool(known.all()) and bool(np.isfinite(block.sum()))
            if not clean:
                finite = np.isfinite(block)
                wrong = ~(finite.all(axis=1) & known)
                bad += int(wrong.sum())
                if first_bad is None and wrong.any():
                    row = int(np.argmax(wrong))
                    column = self._target if finite[row].all() else self.names[int(np.argmin(finite[row]))]
                    first_bad = (rows + row, column)
            if trusted.any():
                places.append(rows + np.flatnonzero(trusted))
            rows += len(target)
            self.n_rows += int(np.count_nonzero(~trusted))
            if trusted.any():
                features.append(block[trusted])
                targets.append(target[trusted])
        if rows == 0:
            raise InputError(f"{self.path.name} holds no rows; give a file with at least one.")
        if first_bad is not None:
            raise InputError(
                f"{self.path.name} has {bad} rows with missing or infinite values, the first in row {first_bad[0]}, "
                f"column '{first_bad[1]}'; CoMT needs finite numbers: fill or drop them."
            )
        self.labels = labels
        self._trusted_places = np.concatenate(places) if places else np.empty(0, dtype=np.intp)
        empty = np.empty((0, len(self.names))), np.empty(0)
        self._trusted = (np.concatenate(features), np.concatenate(targets)) if features else empty

    def _read(self, batch: pa.RecordBatch) -> tuple[Array, NDArray[Any], NDArray[np.bool_]]:
        block = numbers(batch, self.names, self.path)
        target = batch.column(self._target).to_numpy(zero_copy_only=False)
        if target.dtype.kind in "iu":
            target = target.astype(np.float64)
        trusted = np.zeros(batch.num_rows, dtype=bool)
        if self._trusted_column is not None:
            mark = batch.column(self._trusted_column)
            numeric = mark.to_numpy(zero_copy_only=False)
            if mark.null_count or (numeric.dtype != bool and not np.isin(numeric, (0, 1)).all()):
                raise InputError(
                    f"{self.path.name}: column '{self._trusted_column}' must be true or false in every row; "
                    "write 1 or 0 for every row."
                )
            trusted = numeric.astype(bool)
        return block, target, trusted

    def positions(self) -> NDArray[np.intp]:
        """Return where the buggy rows stand among all rows of the file, the first row being 0."""
        return np.delete(np.arange(self.n_rows + len(self._trusted_places)), self._trusted_places)

    def use_classes(self, classes: tuple[Any, Any]) -> None:
        """Read targets as labels: the second class becomes +1, the first −1."""
        self._classes = classes

    def _targets(self, raw: NDArray[Any]) -> Array:
        if self._classes is not None:
            positive, negative = raw == self._classes[1], raw == self._classes[0]
            if not (positive | negative).all():
                raise InputError(
                    f"{self.path.name} holds a label other than {self._classes[0]!r} and {self._classes[1]!r}; "
                    "the file has changed since it was opened: open it again."
                )
            return np.where(positive, 1.0, -1.0)
        if raw.dtype.kind != "f":
            raise InputError(
                f"{self.path.name}: the target '{self._target}' is not numeric; use CoMTClassifier for labels."
            )
        return raw

    def blocks(self) -> Iterator[Block]:
        """Read the buggy rows again, batch by batch."""
        for batch in self._batches():
            features, targets, trusted = self._read(batch)
            if trusted.any():
                features, targets = features[~trusted], targets[~trusted]
            if len(targets):
                yield features, self._targets(targets)

    def trusted(self) -> Block:
        """Return the trusted rows."""
        features, targets = self._trusted
        return features, self._targets(targets)
