"""``comt predict``: apply a saved model to the rows of a file."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comt.model_file import TaughtModel
    from comt.problem import Array


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "predict",
        help="apply a saved model to a file",
        description="Apply a saved model to a CSV, Parquet or LIBSVM file; columns are found by name, others are ignored.",
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="a model.json")
    parser.add_argument("file", type=Path, metavar="FILE", help="a file with the model's columns")
    parser.add_argument("--out", type=Path, metavar="FILE", help="a CSV file to write (default: print)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read everything, predict, then write: a wrong row leaves nothing half-written."""
    import pandas as pd

    from comt.errors import InputError
    from comt.model_file import load
    from comt.spreadsheets import neutral
    from comt.writing import write_whole

    model = load(options.model)
    if options.out is not None:
        if options.out.is_dir() or not options.out.absolute().parent.is_dir():
            raise InputError(f"--out {options.out} is no path of a file in an existing folder; give such a path.")
        if options.out.resolve() in (options.file.resolve(), options.model.resolve()):
            raise InputError(f"--out {options.out} is one of the files to read; give another path.")
    scores = _scores(model, options.file)
    table = pd.DataFrame({"prediction": model.labels(scores)})
    if model.classes is not None:
        table["probability"] = model.probabilities(scores)[:, 1]
    text = neutral(table).to_csv(index=False, lineterminator="\n")
    if options.out is not None:
        write_whole(options.out, text)
        return 0
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _scores(model: TaughtModel, path: Path) -> Array:
    """Return the value of ``decision_function`` of every row of a file, read in batches."""
    import numpy as np

    from comt.agent import libsvm
    from comt.agent.columns import cells_of
    from comt.agent.formats import is_libsvm, read_batches, read_schema, reading_types
    from comt.errors import InputError

    if model.columns is None:
        raise InputError("the model was trained on arrays without column names; use comt.load(...).predict in Python.")
    kinds = dict.fromkeys(model.columns, True)
    if model.schema is not None:
        kinds = {column.name: column.numeric for column in model.schema.columns}
    schema = read_schema(path)
    absent = [name for name in kinds if name not in schema.names]
    missing = [name for name in absent if not (is_libsvm(path) and libsvm.is_index(name))]
    if missing:
        raise InputError(f"{path.name} lacks the columns {', '.join(missing)} that the model needs; add them.")
    twice = [name for name in kinds if schema.names.count(name) > 1]
    if twice:
        raise InputError(f"{path.name} has the column '{twice[0]}' twice; give every column one name.")
    parts: list[Array] = [np.empty(0)]
    rows = 0
    for batch in read_batches(path, list(kinds), reading_types(schema, kinds)):
        cells = {
            name: cells_of(batch.column(name), numeric=numeric, name=name, file=path.name)
            for name, numeric in kinds.items()
        }
        parts.append(model.decision_of(cells, first_row=rows))
        rows += batch.num_rows
    if rows == 0:
        raise InputError(f"{path.name} holds no rows; give a file with at least one.")
    return np.concatenate(parts)
