"""One agent's table: numbers, categories and gaps in a file, encoded as agreed with the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from comt.agent.columns import ColumnScan, cells_of, is_number, is_text
from comt.agent.data import Block
from comt.agent.files import FileRows
from comt.agent.formats import check_names, is_libsvm, read_batches, read_schema
from comt.declaration import Declaration, Declare
from comt.errors import InputError, ProtocolError
from comt.schema import Cells, Schema, as_text, cell_text

if TYPE_CHECKING:
    from comt.problem import Array

#: encoded rows up to this size are kept: parsing a file again costs more than the sums
KEPT_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Verdict:
    """What an expert said about a row: its right target (None: as given) and the cells that were wrong."""

    target: Any = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    #: whether the row was drawn at random; rows that were shown because they looked bad are no fair sample
    random: bool = False


class TableRows(FileRows):
    """One agent's file with columns of numbers and of categories, in which cells may be missing.

    The file is scanned once when opened. It can be read after the federation has agreed on a schema
    (:func:`comt.server.schema.agree_on_schema`) and :meth:`use_schema` has been called.

    Parameters
    ----------
    path, target, trusted:
        As in :class:`~comt.agent.FileRows`.
    drop:
        Columns that are no features.
    categorical:
        Columns of numbers that are codes of categories.
    trusted_path:
        Another file with the same columns, all of whose rows are trusted.
    verdicts:
        By row number: rows that an expert has reviewed; they are trusted, with the expert's values.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        target: str,
        trusted: str | None = None,
        drop: Collection[str] = (),
        categorical: Collection[str] = (),
        trusted_path: str | Path | None = None,
        verdicts: Mapping[int, Verdict] | None = None,
    ) -> None:
        self.path = Path(path)
        self.trusted_path = None if trusted_path is None else Path(trusted_path)
        self._target, self._trusted_column = target, trusted
        self._drop, self._categorical = frozenset(drop), frozenset(categorical)
        self._verdicts = dict(verdicts or {})
        self._trusted_before: set[int] = set()  # reviewed rows that were trusted already
        self._classes = None
        self.schema: Schema | None = None
        self._encoding: Schema
        self._hidden: list[int] = []
        self._kept: list[Block] | None = None
        self._types, self._csv_types = self._kinds(self.path, trusted)
        self.names = tuple(self._types)
        if self.trusted_path is not None:
            others, _ = self._kinds(self.trusted_path, None)
            differing = sorted(set(others) ^ set(self._types) - {trusted})
            if differing and not self.sparse:
                raise InputError(
                    f"{self.trusted_path.name} and {self.path.name} differ in the columns {', '.join(differing)}; give "
                    "both the same columns."
                )
        self._scan()

    @property
    def sparse(self) -> bool:
        """Whether columns that the file does not have are 0."""
        return is_libsvm(self.path)

    def _kinds(self, path: Path, trusted: str | None) -> tuple[dict[str, bool], dict[str, pa.DataType]]:
        """Return whether each feature column holds numbers, and how to read the columns of a CSV file."""
        schema = read_schema(path, self._target)
        check_names(path, schema, {"--target": self._target, "--trusted": trusted}, self._drop)
        special = {self._target, self._trusted_column, *self._drop}
        kinds: dict[str, bool] = {}
        types: dict[str, pa.DataType] = {}
        for column in schema:
            if column.name == trusted:
                types[column.name] = pa.string()  # words of any kind, also where the first rows have none
                continue
            if is_number(column.type) and not pa.types.is_boolean(column.type):
                types[column.name] = pa.float64()
            elif is_text(column.type):
                types[column.name] = pa.string()
            if column.name not in special:
                if not (is_number(column.type) or is_text(column.type)):
                    raise InputError(
                        f"{path.name}: column '{column.name}' is of type {column.type}, neither numbers nor text; turn "
                        f"it into one of these, or leave it out with --drop {column.name}."
                    )
                kinds[column.name] = is_number(column.type)
        if not kinds:
            raise InputError(f"{path.name} has no feature column beside '{self._target}'; give at least one.")
        return kinds, types

    def _scan(self) -> None:
        """Check every value; count levels and missing cells."""
        self.scans = {
            name: ColumnScan(name, numeric=numeric, category=not numeric or name in self._categorical)
            for name, numeric in self._types.items()
        }
        self.labels = set()
        places, rows = [], 0
        for cells, target, trusted, known in self._raw(self.path):
            if not known.all():
                raise InputError(
                    f"{self.path.name} has rows without a finite target, the first is row {rows + int(np.argmin(known))}, "
                    f"column '{self._target}'; fill or drop them."
                )
            self._add_labels(self.labels, target)
            places.append(rows + np.flatnonzero(trusted))
            rows += len(target)
            for name, scan in self.scans.items():
                scan.add(cells[name])
        if rows == 0:
            raise InputError(f"{self.path.name} holds no rows; give a file with at least one.")
        self._trusted_places = np.concatenate(places).astype(np.intp)
        self.n_rows = rows - len(self._trusted_places)
        self.n_trusted = len(self._trusted_places)
        beyond = [row for row in self._verdicts if not 0 <= row < rows]
        if beyond:
            raise InputError(f"a review is about row {beyond[0]} of {self.path.name}, which has {rows} rows.")
        if self.trusted_path is not None:
            for cells, target, _, known in self._raw(self.trusted_path):
                if not known.all():
                    raise InputError(f"{self.trusted_path.name} has rows without a finite target; fill or drop them.")
                self._add_labels(self.labels, target)
                self.n_trusted += len(target)
                for name, scan in self.scans.items():
                    scan.add(cells[name])
        for scan in self.scans.values():
            if scan.infinite is not None:
                raise InputError(
                    f"{self.path.name} is infinite in row {scan.infinite}, column '{scan.name}'; CoMT needs finite "
                    "numbers: correct the cell, or empty it."
                )

    def _raw(self, path: Path) -> Iterator[tuple[dict[str, Cells], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]]:
        """Yield cells, targets, whether rows are trusted and whether their target is known, batch by batch."""
        own = path == self.path
        mark = [self._trusted_column] if own and self._trusted_column is not None else []
        kinds = self._types
        if self.schema is not None:
            kinds = {column.name: column.numeric for column in self.schema.columns}
        start = 0
        for batch in read_batches(path, [*kinds, self._target, *mark], self._csv_types, self._target):
            cells = {
                name: cells_of(batch.column(name), numeric=numeric, name=name, file=path.name)
                for name, numeric in kinds.items()
            }
            target = self._raw_targets(batch)
            known = self._known(batch, target)
            trusted = self._marks(batch) if own else np.ones(batch.num_rows, dtype=bool)
            if own and self._verdicts:
                cells, target = self._reviewed(cells, target, trusted, start)
            start += batch.num_rows
            yield cells, target, trusted, known

    def _reviewed(
        self, cells: dict[str, Cells], target: NDArray[Any], trusted: NDArray[np.bool_], start: int
    ) -> tuple[dict[str, Cells], NDArray[Any]]:
        """Put the expert's values in the place of those of the file."""
        here = [row for row in self._verdicts if start <= row < start + len(target)]
        if here:
            cells, target = {name: column.copy() for name, column in cells.items()}, target.copy()
        for row in here:
            verdict = self._verdicts[row]
            if trusted[row - start]:
                self._trusted_before.add(row)
            trusted[row - start] = True
            if verdict.target is not None:
                target[row - start] = verdict.target
            for name, value in verdict.changes.items():
                if name in cells:
                    cells[name][row - start] = self._cell(name, value, cells[name])
        return cells, target

    def _cell(self, name: str, value: Any, cells: Cells) -> Any:
        if cells.dtype.kind != "f":
            return None if value is None else cell_text(value)
        try:
            return np.nan if value is None or value == "" else float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"a review puts {value!r} into column '{name}' of {self.path.name}, which holds numbers; give a number."
            ) from None

    def declaration(self, agent: str, question: Declare) -> Declaration:
        """Return what may be said about the table."""
        columns = tuple(scan.declared(question.min_count) for scan in self.scans.values())
        return Declaration(agent, columns, sparse=self.sparse)

    def missing(self, names: Sequence[str]) -> list[int]:
        """Return how many cells are missing, per column; a sparse file misses none."""
        return [self.scans[name].missing if name in self.scans else 0 for name in names]

    def present(self, names: Sequence[str]) -> Iterator[list[Array]]:
        """Yield the values that are there, per column of numbers, batch by batch."""
        for path in (self.path, *([] if self.trusted_path is None else [self.trusted_path])):
            for cells, target, _, _ in self._raw(path):
                zeros = np.zeros(len(target))
                yield [column[~np.isnan(column)] for column in (cells.get(name, zeros) for name in names)]

    def use_schema(self, schema: Schema, least: int = 1) -> None:
        """Encode rows as the federation agreed to; what fewer than ``least`` rows here share is not told apart.

        Whoever names a rare level in a schema would see sums over the rows that have it.
        """
        self.schema, self.names, self._kept = schema, schema.features, None
        self._encoding, self._hidden = self._filled(schema), self._rare(schema, least)
        if not schema.features:
            raise InputError("no column is left to learn from; give one with numbers, or a category that rows share.")
        features: list[Array] = []
        targets: list[NDArray[Any]] = []
        for path in (self.path, *([] if self.trusted_path is None else [self.trusted_path])):
            for cells, target, trusted, _ in self._raw(path):
                if trusted.any():
                    features.append(self._encode({name: column[trusted] for name, column in cells.items()}))
                    targets.append(target[trusted])
        empty = np.empty((0, len(schema.features))), np.empty(0)
        self._trusted = (np.concatenate(features), np.concatenate(targets)) if features else empty

    def _encode(self, cells: Mapping[str, Cells]) -> Array:
        features = self._encoding.encode(cells)
        features[:, self._hidden] = 0.0
        return features

    def _rare(self, schema: Schema, least: int) -> list[int]:
        """Return the features that say "is this level" or "is missing" of too few rows of this table."""
        found, place = [], 0
        for column in schema.columns:
            scan = self.scans.get(column.name)
            counts = {} if scan is None else {as_text(level): n for level, n in scan.counts.items()}
            rows = [counts.get(as_text(level), 0) for level in column.levels] if column.kind == "category" else [least]
            rows += [self.missing([column.name])[0]] if column.missing_feature else []
            found += [place + index for index, n in enumerate(rows) if n < least]
            place += len(rows)
        return found

    def _filled(self, schema: Schema) -> Schema:
        """Return the schema with own medians where this agent has gaps of which it told nobody."""
        secret = [
            c.name for c in schema.columns if c.kind == "number" and c.fill is None and any(self.missing([c.name]))
        ]
        if not secret:
            return schema
        parts = zip(*self.present(secret), strict=True)
        medians = {name: float(np.median(np.concatenate(part))) for name, part in zip(secret, parts, strict=True)}
        columns = tuple(replace(c, fill=medians[c.name]) if c.name in medians else c for c in schema.columns)
        return replace(schema, columns=columns)

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Which trusted rows are a fair sample to score models on; those reviewed because they looked bad are not."""
        fair = np.ones(self.n_trusted, dtype=bool)
        for place, row in enumerate(self._trusted_places.tolist()):
            verdict = self._verdicts.get(row)
            fair[place] = verdict is None or verdict.random or row in self._trusted_before
        return fair

    @property
    def trusted_places(self) -> NDArray[np.intp]:
        """Row numbers of the trusted rows; those of the file of trusted rows count on from −1 downwards."""
        extra = self.n_trusted - len(self._trusted_places)
        return np.concatenate([self._trusted_places, -1 - np.arange(extra, dtype=np.intp)])

    def blocks(self) -> Iterator[Block]:
        """Read (or remember) the buggy rows, batch by batch."""
        if self._kept is None:
            kept: list[Block] = []
            width = len(self._agreed().features)
            small = self.n_rows * (width + 1) * 8 <= KEPT_BYTES
            for block in self._encoded():
                if small:
                    kept.append(block)
                yield block
            if small:
                self._kept = kept
            return
        yield from self._kept

    def _encoded(self) -> Iterator[Block]:
        self._agreed()
        for cells, target, trusted, _ in self._raw(self.path):
            features = self._encode(cells)
            if trusted.any():
                features, target = features[~trusted], target[~trusted]
            if len(target):
                yield features, self._targets(target)

    def trusted(self) -> Block:
        """Return the trusted rows."""
        self._agreed()
        return super().trusted()

    def _agreed(self) -> Schema:
        if self.schema is None:
            raise ProtocolError(
                f"{self.path.name} was asked for rows before the columns were agreed on; call use_schema."
            )
        return self.schema

    def use_classes(self, classes: tuple[Any, Any]) -> None:
        """Read targets as labels: the second class becomes +1, the first −1."""
        super().use_classes(classes)
        self._kept = None
