"""``comt fit``: train from one file per agent; writes the model, and for every agent its issues and its ledger."""

from __future__ import annotations

import argparse
import io
import json
import os
import secrets
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from comt.agent import Agent, FileRows

TASKS = ("regression", "classification")
MODEL = "model.json"
PRIVATE = ("issues.csv", "ledger.csv")
#: a text cell that begins with one of these is run as a formula by spreadsheets
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "fit",
        help="train one model from one file per agent",
        description="Train one model from one CSV or Parquet file per agent; the file's name is the agent's.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="one .csv or .parquet file per agent")
    parser.add_argument("--target", required=True, metavar="COLUMN", help="the column to predict")
    parser.add_argument("--trusted", metavar="COLUMN", help="the column that is true (or 1) in verified rows")
    parser.add_argument("--task", metavar="|".join(TASKS), help="by default what the target column suggests")
    parser.add_argument(
        "--drop", nargs="+", action="extend", default=[], metavar="COLUMN", help="columns that are no features"
    )
    # numbers are read by us, not by argparse: a wrong one gets one sentence
    parser.add_argument("--lambda-w", default="1", metavar="L", help="weight of the model's size (default 1)")
    parser.add_argument("--lambda-trusted", default="1", metavar="L", help="weight of trusted rows (default 1)")
    parser.add_argument("--lambda-alpha", default="0", metavar="L", help="sparsity of the rows' weights (default 0)")
    parser.add_argument("--lambda-z", default="inf", metavar="L", help="price of changed features (default inf: none)")
    parser.add_argument("--select", metavar="F|auto", help="learn from this fraction of the rows (default: all)")
    parser.add_argument("--select-by", metavar="alpha|loss", help="which rows: the paper's rule, or the best fitting")
    parser.add_argument("--solver", default="newton", help="newton (default), newton-cg or admm")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="where the results go")
    parser.add_argument("--force", action="store_true", help="replace the results of an earlier run in --out")
    parser.add_argument("--json", action="store_true", help="print one machine-readable object instead of sentences")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check everything, train, write everything, say what came out."""
    try:
        summary = _fit(options)
    except KeyboardInterrupt:
        print("comt fit: stopped; nothing was written.", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(summary))
    else:
        _print(summary)
    return 0


def _fit(options: argparse.Namespace) -> dict[str, Any]:
    parameters = _parameters(options)
    out: Path = options.out.resolve()
    _check_out(out, options)
    agents = _agents(options)
    task, reason = _task(options, [agent.rows for agent in agents])
    from comt import CoMTClassifier, CoMTRegressor

    model = (CoMTRegressor if task == "regression" else CoMTClassifier)(**parameters, verbose=1)
    with _draft(out) as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with _progress():
            model.fit_agents(agents)
        issues = model.issues()
        model.save(folder / MODEL)
        for agent in agents:
            own = issues[issues["agent"] == agent.name].drop(columns="agent")
            (folder / agent.name).mkdir(mode=0o700)
            for name, table in zip(PRIVATE, (own, agent.ledger.to_frame()), strict=True):
                _write_private(table, folder / agent.name / name)
    notes = [str(warning.message) for warning in caught]
    if options.trusted is None:
        notes.insert(0, "no trusted column was given (--trusted), so the model learns from buggy rows alone.")
    flagged = issues.loc[issues["flagged"], "agent"].value_counts()
    return {
        "task": task,
        "task_reason": reason,
        "target": options.target,
        "columns": list(agents[0].columns),
        "agents": [
            {
                "name": agent.name,
                "rows": agent.rows.n_rows + len(agent.rows.trusted()[1]),
                "trusted_rows": len(agent.rows.trusted()[1]),
                "flagged": int(flagged.get(agent.name, 0)),
                "bytes_sent": agent.ledger.total_bytes,
            }
            for agent in agents
        ],
        "rounds": model.n_rounds_,
        "certificate": model.certificate_,
        "tol": model.tol,
        "notes": notes,
        "out": str(options.out),
        "model": str(options.out / MODEL),
    }


def _parameters(options: argparse.Namespace) -> dict[str, Any]:
    from comt.errors import InputError

    if options.task not in (None, *TASKS):
        raise InputError(f"--task {options.task} is unknown; choose {' or '.join(TASKS)}.")
    parameters: dict[str, Any] = {"solver": options.solver, "select_by": options.select_by}
    for name in ("lambda_w", "lambda_trusted", "lambda_alpha", "lambda_z"):
        parameters[name] = _number(name, getattr(options, name))
    if options.select is not None:
        parameters["select"] = options.select if options.select == "auto" else _number("select", options.select)
    return parameters


def _number(name: str, text: str) -> float:
    from comt.errors import InputError

    try:
        return float(text)
    except ValueError:
        raise InputError(f"--{name.replace('_', '-')} {text} is not a number; give one, such as 1 or 0.5.") from None


def _check_out(out: Path, options: argparse.Namespace) -> None:
    """Refuse a place that cannot take the results, before any work."""
    from comt.errors import InputError
    from comt.model_file import load

    if not out.parent.is_dir():
        raise InputError(f"--out {options.out}: the folder {out.parent} does not exist; create it first.")
    if any(file.resolve().is_relative_to(out) for file in options.files):
        raise InputError(f"--out {options.out} holds one of the files to learn from; give another folder.")
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"--out {options.out} is a file; give a folder.")
    if not any(out.iterdir()):
        return
    if not options.force:
        raise InputError(
            f"--out {options.out} is not empty; give another folder, or --force to replace earlier results."
        )
    try:
        load(out / MODEL)
        ours = all(_is_ours(entry) for entry in out.iterdir())
    except (InputError, OSError):
        ours = False
    if not ours:
        raise InputError(
            f"--out {options.out} holds more or other things than results of comt fit, so --force does not replace it; "
            "give another folder."
        )


def _is_ours(entry: Path) -> bool:
    return entry.name == MODEL or (entry.is_dir() and {file.name for file in entry.iterdir()} <= set(PRIVATE))


def _agents(options: argparse.Namespace) -> list[Agent]:
    """Open every file, in the order given; columns are in the order of the first."""
    from comt.agent import Agent, FileRows
    from comt.errors import InputError

    names: list[str] = []
    for file in options.files:
        if file.stem.casefold() in (name.casefold() for name in names):
            raise InputError(f"two files are named '{file.stem}', which names their agents; rename one of them.")
        if file.stem in (".", "..") or not file.stem.isprintable():
            raise InputError(f"the file name {file.name!a} cannot name an agent; rename the file.")
        if file.stem.casefold() == MODEL:
            raise InputError(f"{file.name} would name its agent '{file.stem}', the name of the model; rename the file.")
        names.append(file.stem)
    columns = _shared_columns(options)
    agents = [
        Agent(name, FileRows(file, target=options.target, trusted=options.trusted, columns=columns))
        for name, file in zip(names, options.files, strict=True)
    ]
    if not any(agent.rows.n_rows for agent in agents):
        raise InputError(f"every row is trusted ('{options.trusted}'), so there is none to teach; add unverified rows.")
    return agents


def _shared_columns(options: argparse.Namespace) -> list[str]:
    """Return the feature columns, once all files are found to have the same."""
    import pyarrow.types as kinds

    from comt.agent.files import read_schema
    from comt.errors import InputError

    if options.trusted == options.target:
        raise InputError(f"--trusted {options.trusted} is also the --target; name two different columns.")
    used = {"--target": options.target, "--trusted": options.trusted}
    for option, name in used.items():
        if name in options.drop:
            raise InputError(f"--drop {name} is also the {option} column; name other columns to drop.")
    schemas = {file: read_schema(file) for file in options.files}
    unknown = [name for name in options.drop if not any(name in schema.names for schema in schemas.values())]
    if unknown:
        raise InputError(f"--drop {unknown[0]}: no file has such a column; leave it out or correct its name.")
    features: dict[Path, list[str]] = {}
    for file, schema in schemas.items():
        for option, name in used.items():
            if name is not None and name not in schema.names:
                raise InputError(f"{file.name} has no column '{name}' ({option}); it has {', '.join(schema.names)}.")
        wanted = [column for column in schema if column.name not in (*used.values(), *options.drop)]
        for column in wanted:
            if column.name == "":
                raise InputError(
                    f'{file.name} has a column without a name (often row numbers); give it one, or add --drop "".'
                )
            if not (kinds.is_integer(column.type) or kinds.is_floating(column.type) or kinds.is_null(column.type)):
                raise InputError(
                    f"{file.name}: column '{column.name}' holds no numbers (its type is {column.type}); encode it as "
                    f"numbers, or leave it out with --drop {column.name}."
                )
        features[file] = [column.name for column in wanted]
    first, *others = options.files
    for file in others:
        differing = sorted(set(features[first]) ^ set(features[file]))
        if differing:
            raise InputError(
                f"{file.name} and {first.name} differ in the columns {', '.join(differing)}; give every file the same "
                "columns, or leave these out with --drop."
            )
    return features[first]


def _task(options: argparse.Namespace, sources: Sequence[Any]) -> tuple[str, str]:
    """Return the task and why it is that one."""
    from comt.errors import InputError

    target, labels = options.target, set()
    kinds: dict[type, FileRows] = {}
    for rows in sources:
        labels |= rows.labels
        for label in rows.labels:
            kinds.setdefault(type(label), rows)
    if len(kinds) > 1:
        names = " and ".join(f"{kind.__name__} in {rows.path.name}" for kind, rows in kinds.items())
        raise InputError(f"the target '{target}' is of different kinds ({names}); write it alike in all files.")
    (kind,) = kinds
    if kind not in (str, bool, float):
        raise InputError(f"the target '{target}' is of type {kind.__name__}; give numbers, or two labels as text.")
    if len(labels) == 1:
        raise InputError(f"the target '{target}' is {labels.pop()!r} in every row; give rows that differ in it.")
    numeric = kind is float
    if options.task == "regression" and not numeric:
        raise InputError(f"the target '{target}' holds no numbers, as --task regression needs; give numbers.")
    if options.task == "regression" or (options.task is None and numeric and len(labels) > 2):
        return "regression", "given" if options.task else f"'{target}' holds more than two different numbers"
    if len(labels) > 2:
        found = f"{len(labels)} labels" if not numeric else "more than two different numbers"
        raise InputError(f"the target '{target}' holds {found} where a classification needs two; merge them into two.")
    return "classification", "given" if options.task else f"'{target}' holds two different values"


class _RoundLines(io.TextIOBase):
    """Shows the lines that an estimator prints per round in a spinner, each in place of the one before."""

    def __init__(self, status: Any) -> None:
        self._status = status

    def write(self, text: str) -> int:
        """Show one line."""
        if text.strip() and self._status is not None:
            self._status.update(f"training: {text.strip()}")
        return len(text)


@contextmanager
def _progress() -> Iterator[None]:
    from rich.console import Console

    console = Console(stderr=True, markup=False, highlight=False)
    if not console.is_terminal:
        with redirect_stdout(_RoundLines(None)):
            yield
        return
    with console.status("training: agreeing on scales") as status, redirect_stdout(_RoundLines(status)):
        yield


@contextmanager
def _draft(out: Path) -> Iterator[Path]:
    """Give a folder beside ``out`` that takes its place at the end, or leaves no trace."""
    from comt.errors import InputError

    mark = secrets.token_hex(4)
    draft, old = (out.with_name(f".{out.name}-{mark}-{kind}") for kind in ("new", "old"))
    try:
        draft.mkdir()
    except OSError as error:
        raise InputError(f"nothing can be written beside {out} ({error.strerror}); give another --out.") from None
    try:
        yield draft
        if out.exists():
            out.rename(old)
        try:
            draft.rename(out)
        except BaseException:
            if old.exists():
                old.rename(out)
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        if out.exists():
            shutil.rmtree(old, ignore_errors=True)


def neutral(table: pd.DataFrame) -> pd.DataFrame:
    """Put an apostrophe before text that a spreadsheet would run as a formula; numbers stay numbers."""

    def safe(cell: Any) -> Any:
        return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell

    text = table.select_dtypes(include=["object", "str"]).columns
    return table.assign(**{name: table[name].map(safe) for name in text})


def _write_private(table: pd.DataFrame, path: Path) -> None:
    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    with open(path, "x", encoding="utf-8", newline="", opener=opener) as file:
        neutral(table).to_csv(file, index=False)


def _print(summary: dict[str, Any]) -> None:
    chosen = "" if summary["task_reason"] == "given" else f" ({summary['task_reason']}; --task chooses otherwise)"
    print(f"Task: {summary['task']} of '{summary['target']}' on {len(summary['columns'])} columns{chosen}.")
    for note in summary["notes"]:
        print(f"Note: {note}")
    for agent in summary["agents"]:
        print(
            f"Agent {agent['name']}: {agent['rows']:,} rows, {agent['trusted_rows']:,} of them trusted; "
            f"{agent['flagged']:,} look wrong; {agent['bytes_sent'] / 1e3:,.1f} kB of sums sent."
        )
    print(
        f"Trained in {summary['rounds']} rounds to certificate {summary['certificate']:.0e} "
        f"(solved: at most {summary['tol']:.0e})."
    )
    print(f"Model: {summary['model']}")
    print(
        f"Private to each agent: {Path(summary['out']) / '<agent>'} with issues.csv (worst rows first) and ledger.csv"
    )
