"""The options of ``comt fit``, and what they mean: a plan of what to train on, and an estimator's parameters."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comt.runs import Plan

TASKS = ("regression", "classification")
LAMBDAS = {
    "lambda_w": "weight of the model's size",
    "lambda_trusted": "weight of trusted rows",
    "lambda_alpha": "sparsity of the rows' weights",
    "lambda_z": "price of changed features",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add every option; numbers are read by us, not by argparse: a wrong one gets one sentence."""
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="one .csv, .parquet or .libsvm file per agent"
    )
    data = parser.add_argument_group("the data")
    data.add_argument("--target", metavar="COLUMN", help="the column to predict")
    data.add_argument("--trusted", metavar="COLUMN", help="the column that is true (1, yes, x) in verified rows")
    data.add_argument(
        "--trusted-file",
        action="append",
        default=[],
        metavar="[AGENT=]FILE",
        help="a file of verified rows; once per agent in the order of the files, or with the agent's name before it",
    )
    data.add_argument("--task", metavar="|".join(TASKS), help="by default what the target column suggests")
    data.add_argument(
        "--drop", nargs="+", action="extend", default=[], metavar="COLUMN", help="columns that are no features"
    )
    data.add_argument(
        "--categorical", nargs="+", action="extend", default=[], metavar="COLUMN", help="numbers that are only codes"
    )
    data.add_argument(
        "--min-count", default="5", metavar="N", help="a category is told from so many rows of one agent on (default 5)"
    )
    method = parser.add_argument_group("the method")
    method.add_argument("--teaching", default="auto", help="auto (default), direct, or dual: the paper's objective")
    for name, text in LAMBDAS.items():
        method.add_argument(_flag(name), default="auto", metavar="L", help=f"{text} (default auto)")
    method.add_argument("--select", default="auto", metavar="F", help="learn from a fraction F, all, or auto (default)")
    method.add_argument("--select-by", metavar="alpha|loss", help="which rows: the paper's rule, or the best fitting")
    method.add_argument("--solver", default="newton", help="newton (default), newton-cg or admm")
    again = parser.add_argument_group("again, after a review")
    again.add_argument("--resume", type=Path, metavar="FOLDER", help="results to start from, instead of files")
    again.add_argument(
        "--reviews", nargs="+", action="extend", default=[], type=Path, metavar="FILE", help="what experts decided"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where the results go (--resume: the same folder)")
    parser.add_argument("--force", action="store_true", help="replace earlier results in --out")
    parser.add_argument(
        "--transcript",
        action="store_true",
        help="keep what a coordinator would see of the training, for `comt audit`",
    )
    parser.add_argument("--json", action="store_true", help="print one machine-readable object")


def parameters(options: argparse.Namespace) -> dict[str, Any]:
    """Return the estimator's parameters."""
    found: dict[str, Any] = {name: getattr(options, name) for name in ("teaching", "solver", "select_by")}
    for name in (*LAMBDAS, "select"):
        found[name] = _number_or_word(name, getattr(options, name))
    return found


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot be meant, before anything is opened."""
    from comt.errors import InputError

    if options.task not in (None, *TASKS):
        raise InputError(f"--task {options.task} is unknown; choose {' or '.join(TASKS)}.")
    if options.resume is not None:
        if options.files:
            raise InputError(f"--resume {options.resume} knows its files; leave {options.files[0]} out, or fit anew.")
        return
    if options.reviews:
        raise InputError(f"--reviews {options.reviews[0]} needs the results that were reviewed; add --resume FOLDER.")
    if not options.files:
        raise InputError(
            "no file was given; name one file per agent, such as: comt fit A.csv B.csv --target price --out run."
        )
    if options.target is None:
        raise InputError("--target is missing; name the column to predict.")
    if options.out is None:
        raise InputError("--out is missing; name a folder for the results.")
    if options.trusted == options.target:
        raise InputError(f"--trusted {options.trusted} is also the --target; name two different columns.")
    for option, name in (("--target", options.target), ("--trusted", options.trusted)):
        if name in options.drop:
            raise InputError(f"--drop {name} is also the {option} column; name other columns to drop.")
        if name in options.categorical:
            raise InputError(f"--categorical {name} is the {option} column; name feature columns.")


def plan(options: argparse.Namespace) -> Plan:
    """Return what to train on; names of agents are those of their files."""
    from comt.agent.formats import read_schema
    from comt.errors import InputError
    from comt.runs import Plan, Source

    names = agent_names(options.files)
    trusted_files = _trusted_files(options.trusted_file, names)
    columns = {column for file in options.files for column in read_schema(file, options.target).names}
    for option, wanted in (("--drop", options.drop), ("--categorical", options.categorical)):
        unknown = [name for name in wanted if name not in columns]
        if unknown:
            raise InputError(f"{option} {unknown[0]}: no file has such a column; leave it out or correct its name.")
    return Plan(
        sources=tuple(
            Source(name, file.absolute(), trusted_files.get(name))
            for name, file in zip(names, options.files, strict=True)
        ),
        target=options.target,
        trusted=options.trusted,
        drop=tuple(options.drop),
        categorical=tuple(options.categorical),
        min_count=_count(options.min_count),
        task=options.task,
    )


def agent_names(files: list[Path]) -> list[str]:
    """Return one name per file; it will name a folder, too."""
    from comt.errors import InputError
    from comt.runs import MODEL, REPORT, RUN

    names: list[str] = []
    for file in files:
        name = file.stem
        if name.casefold() in (other.casefold() for other in names):
            raise InputError(f"two files are named '{name}', which names their agents; rename one of them.")
        if name in (".", "..") or not name.isprintable():
            raise InputError(f"the file name {file.name!a} cannot name an agent; rename the file.")
        if name.casefold() in (MODEL, RUN, REPORT):
            raise InputError(f"{file.name} would name its agent '{name}', as a file of the results; rename the file.")
        names.append(name)
    return names


def _trusted_files(given: list[str], names: list[str]) -> dict[str, Path]:
    from comt.errors import InputError

    named: dict[str, Path] = {}
    in_order: list[Path] = []
    for text in given:
        name, mark, path = text.partition("=")
        if mark and name in named:
            raise InputError(f"--trusted-file {text}: agent '{name}' has one already; give one per agent.")
        if mark and name in names:
            named[name] = Path(path).absolute()
        else:
            in_order.append(Path(text).absolute())
    if in_order and (named or len(in_order) != len(names)):
        raise InputError(
            f"--trusted-file was given {len(in_order)} times without the name of an agent, for {len(names)} agents; give it "
            f"once per agent, or as {names[0]}={in_order[0].name}."
        )
    return named or dict(zip(names, in_order, strict=False))


def _number_or_word(name: str, text: str) -> float | str | None:
    from comt.errors import InputError

    if text == "auto":
        return text
    if name == "select" and text == "all":
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{_flag(name)} {text} is not a number; give one, such as 1 or 0.5.") from None


def _count(text: str) -> int:
    from comt.errors import InputError

    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"--min-count {text} is not a positive whole number; give one, such as 5.")
    return int(text)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
