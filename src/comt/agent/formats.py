"""Files of tables, read in batches: CSV, Parquet and LIBSVM look alike to everybody else."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from comt.agent import libsvm
from comt.errors import InputError
from comt.problem import Array

#: pandas writes an unnamed row index into Parquet files under such a name: it is no feature
_PANDAS_INDEX = "__index_level_"
#: rows per batch read from disk
BATCH = 65_536
#: bytes of a CSV file that are parsed at a time; the kinds of the columns are guessed from the first of them
CSV_BLOCK = 4 * 2**20
#: how people and programs write "no value" (those that pandas knows, and the question mark of the UCI files)
NO_VALUE = [
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "?"),
]
#: columns that an error lists at most
SHOWN = 20
ENDINGS = (".parquet", ".csv", *libsvm.ENDINGS)


def read_schema(path: Path, target: str = libsvm.TARGET) -> pa.Schema:
    """Return names and types of the columns of a file (of CSV as far as its first rows tell).

    The target of a LIBSVM file has no name there; it gets the one given.
    """
    if not path.is_file():
        raise InputError(f"{path} is not a file; give the path of a .parquet or .csv file.")
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{path.name} has an unknown ending; give a {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} file.")
    if is_libsvm(path):
        return pa.schema([(name, pa.float64()) for name in (target, *libsvm.columns(path))])
    try:
        if path.suffix.lower() == ".parquet":
            schema = pa_parquet.read_schema(path)
        else:
            with _open_csv(path, pa_csv.ConvertOptions(null_values=NO_VALUE, strings_can_be_null=True)) as reader:
                schema = reader.schema
        return pa.schema([column for column in schema if not column.name.startswith(_PANDAS_INDEX)])
    except UnicodeDecodeError:
        reason = "its header is not UTF-8"
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        reason = _reason(error)
    raise InputError(f"{path.name} cannot be read ({reason}); write it again as Parquet or CSV.")


def is_libsvm(path: Path) -> bool:
    """Whether the file names no columns and leaves zeros out."""
    return path.suffix.lower() in libsvm.ENDINGS


def csv_types(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the columns to read as floats: a guess from the first rows takes them for integers or for empty."""
    return {
        column.name: pa.float64()
        for column in schema
        if pa.types.is_integer(column.type) or pa.types.is_null(column.type)
    }


def reading_types(schema: pa.Schema, numeric: Mapping[str, bool]) -> dict[str, pa.DataType]:
    """Return how to read columns of a CSV file of which it is known whether they hold numbers.

    Numbers that the first rows show as true and false, or as text, are left as they are for the reader to judge.
    """
    types: dict[str, pa.DataType] = {}
    for name, number in numeric.items():
        if name in schema.names and not number:
            types[name] = pa.string()
    return csv_types(schema) | types


def read_batches(
    path: Path, columns: Sequence[str], types: Mapping[str, pa.DataType], target: str = libsvm.TARGET
) -> Iterator[pa.RecordBatch]:
    """Read some columns of a file, batch by batch."""
    try:
        if is_libsvm(path):
            yield from libsvm.batches(path, columns, target)
        elif path.suffix.lower() == ".parquet":
            # pre-buffering would keep the whole file in memory
            with pa_parquet.ParquetFile(path, pre_buffer=False) as file:
                yield from file.iter_batches(batch_size=BATCH, columns=list(columns))
        else:
            convert = pa_csv.ConvertOptions(
                include_columns=list(columns),
                column_types=dict(types),
                null_values=NO_VALUE,
                strings_can_be_null=True,
            )
            with _open_csv(path, convert) as reader:
                yield from reader
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is not UTF-8 throughout; write it again as UTF-8.") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path.name} cannot be read ({_reason(error)}); repair that line or cell.") from None


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _open_csv(path: Path, convert: pa_csv.ConvertOptions) -> pa_csv.CSVStreamingReader:
    delimiter, decimal_point = _dialect(path)
    convert.decimal_point = decimal_point
    return pa_csv.open_csv(
        path,
        read_options=pa_csv.ReadOptions(block_size=CSV_BLOCK),
        parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=convert,
    )


def _dialect(path: Path) -> tuple[str, str]:
    """Return what separates columns (the header tells) and the decimal point (spreadsheets of some countries: ``,``)."""
    with open(path, "rb") as file:
        head = file.read(65_536).removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="replace")
    header, _, body = head.partition("\n")
    found = {mark: len(next(csv.reader([header], delimiter=mark), [])) for mark in (",", ";", "\t")}
    delimiter = max(found, key=found.__getitem__)
    comma = delimiter != "," and re.search(r"\d,\d", body) is not None and re.search(r"\d\.\d", body) is None
    return delimiter, "," if comma else "."


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


def check_names(path: Path, schema: pa.Schema, used: Mapping[str, str | None], drop: Collection[str]) -> None:
    """Refuse a file whose columns cannot be told apart or read; ``used`` says which option needs which column."""
    for option, name in used.items():
        if name is not None and name not in schema.names:
            raise InputError(f"{path.name} has no column '{name}' ({option}){_meant(name, schema.names)}")
    if "" in schema.names and "" not in drop:
        raise InputError(f'{path.name} has a column without a name (often row numbers); give it one, or add --drop "".')
    for column in schema:
        if pa.types.is_binary(column.type) and column.name not in drop:
            raise InputError(f"{path.name}: column '{column.name}' is not UTF-8 text; save the file as UTF-8.")
    names = [name for name in schema.names if name not in drop]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path.name}: columns {twice} occur twice; give every column one name and one use.")


def _meant(name: str, names: Sequence[str]) -> str:
    """Say which column may be meant, or which there are."""
    folded = {other.strip().casefold(): other for other in names}
    close = get_close_matches(name.strip().casefold(), folded, n=1)
    if close:
        return f"; the closest one is '{folded[close[0]]}'."
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    return f"; it has {shown}."


def rows_of(path: Path, wanted: Collection[int], *, target: str) -> pd.DataFrame:
    """Return some rows as the file has them, indexed by their number: for the owner's eyes."""
    schema = read_schema(path, target)
    names = list(dict.fromkeys(schema.names))
    chosen = np.array(sorted(wanted), dtype=np.intp)
    parts, start = [], 0
    for batch in read_batches(path, names, csv_types(schema), target):
        here = chosen[(chosen >= start) & (chosen < start + batch.num_rows)]
        if len(here):
            parts.append(batch.take(pa.array(here - start)).to_pandas().set_index(here))
        start += batch.num_rows
    return pd.concat(parts) if parts else pd.DataFrame(columns=names)
