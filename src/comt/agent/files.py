"""Rows of numbers in files larger than memory: read in batches, every time they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from comt.agent.data import Block
from comt.agent.formats import csv_types, numbers, read_batches, read_schema
from comt.agent.marks import read_marks
from comt.errors import InputError
from comt.problem import Array


class FileRows:
    """One agent's file: numeric feature columns, a target column, and optionally a boolean column of trusted rows.

    The file is scanned once when opened: every value is checked, the trusted rows (few) are kept, the rest is read again
    in batches whenever sums are wanted, so memory stays bounded whatever the size of the file.

    Parameters
    ----------
    path:
        A ``.parquet`` or ``.csv`` file with a header, or a LIBSVM file, whose columns are called x1, x2, …
    target:
        Name of the target column (any name for LIBSVM): numbers for regression, any two labels for classification.
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
        schema = read_schema(self.path, self._target)
        present = list(schema.names)
        self._csv_types = csv_types(schema)
        if self._trusted_column is not None:
            self._csv_types[self._trusted_column] = (
                pa.string()
            )  # words of any kind, also where the first rows have none
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
        return read_batches(self.path, wanted, self._csv_types, self._target)

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
            known = self._known(batch, target)
            self._add_labels(labels, target[known])
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
        return numbers(batch, self.names, self.path), self._raw_targets(batch), self._marks(batch)

    def _raw_targets(self, batch: pa.RecordBatch) -> NDArray[Any]:
        target: NDArray[Any] = batch.column(self._target).to_numpy(zero_copy_only=False)
        return target.astype(np.float64) if target.dtype.kind in "iu" else target

    def _known(self, batch: pa.RecordBatch, target: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which rows have a target."""
        known = batch.column(self._target).is_valid().to_numpy(zero_copy_only=False)
        if target.dtype.kind == "f":
            known = known & np.isfinite(target)
        elif target.dtype.kind == "O":
            known = known & (target != "")
        return np.asarray(known, dtype=bool)

    @staticmethod
    def _add_labels(labels: set[Any], target: NDArray[Any]) -> None:
        if target.dtype.kind != "f" or len(labels) < 3:  # a third number is enough to see that it is no label
            labels.update(np.unique(target).tolist())

    def _marks(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return which rows are trusted."""
        if self._trusted_column is None:
            return np.zeros(batch.num_rows, dtype=bool)
        return read_marks(batch.column(self._trusted_column), self._trusted_column, self.path.name)

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
