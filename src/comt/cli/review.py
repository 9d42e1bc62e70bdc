"""``comt review``: write the rows that an expert should look at first, or take what the expert decided."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comt.runs import Run, Source


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "review",
        help="let an expert judge the rows that look wrong",
        description="Write a review file of one agent's rows to fill in (decision: accept, reject or correct), or check a "
        "filled-in one or the report's export. Then: comt fit --resume RUN --reviews FILE.",
    )
    parser.add_argument("folder", type=Path, metavar="RUN/AGENT", help="an agent's folder in the results of comt fit")
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="a filled-in review (.csv) or export (.json)"
    )
    parser.add_argument("--budget", default="40", metavar="N", help="how many rows to look at (default 40)")
    parser.add_argument("--seed", default="0", metavar="N", help="another number draws other random rows (default 0)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the review goes (default: into the folder)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write a review file, or take one."""
    from comt.errors import InputError
    from comt.runs import RUN, load_run

    folder: Path = options.folder.resolve()
    if (folder / RUN).exists() and not (folder.parent / RUN).exists():
        agents = [source.agent for source in load_run(folder).plan.sources]
        raise InputError(
            f"{options.folder} holds the results of {len(agents)} agents ({', '.join(agents)}); give the folder of one, such "
            f"as {shlex.quote(str(options.folder / agents[0]))}."
        )
    earlier = load_run(folder.parent)
    source = next((source for source in earlier.plan.sources if source.agent == folder.name), None)
    if source is None:
        names = ", ".join(source.agent for source in earlier.plan.sources)
        raise InputError(f"{options.folder} is no agent of that run; it has {names}.")
    if options.file is not None:
        return _take(options, folder, earlier)
    return _write(options, folder, earlier, source)


def _write(options: argparse.Namespace, folder: Path, earlier: Run, source: Source) -> int:
    from comt.agent.formats import rows_of
    from comt.agent.inspection import inspect_first
    from comt.cli.write import read_issues
    from comt.errors import InputError
    from comt.reviews import review_table
    from comt.runs import REVIEW
    from comt.spreadsheets import neutral
    from comt.writing import write_whole

    for name in ("budget", "seed"):
        if not getattr(options, name).isdecimal():
            raise InputError(f"--{name} {getattr(options, name)} is not a whole number; give one, such as 40.")
    out: Path = options.out or options.folder / REVIEW
    if out.exists():
        raise InputError(f"{out} exists already and may hold decisions; move it away, or give another --out.")
    source.check()
    inspected = inspect_first(read_issues(folder), int(options.budget), int(options.seed))
    plan = earlier.plan
    rows = rows_of(source.path, inspected["row"].tolist(), target=plan.target)
    table = review_table(inspected, rows, agent=source.agent, run=earlier.id)
    write_whole(out, neutral(table).to_csv(index=False), private=True)
    drawn = table["drawn"].value_counts()
    print(
        f"{out}: {drawn.get('worst', 0)} rows that look worst and {drawn.get('random', 0)} drawn at random. Write accept, "
        "reject or correct into the column 'decision'; to correct, change 'correct target' or the values of the row."
    )
    print(_then(options, out))
    return 0


def _then(options: argparse.Namespace, out: Path) -> str:
    return f"Then: comt fit --resume {shlex.quote(str(options.folder.parent))} --reviews {shlex.quote(str(out))}"


def _take(options: argparse.Namespace, folder: Path, earlier: Run) -> int:
    from comt.cli.write import read_lines
    from comt.errors import InputError
    from comt.model_file import load
    from comt.reviews import Reviews
    from comt.runs import MODEL

    reviews = Reviews.read(options.file)
    if reviews.agent != folder.name:
        raise InputError(
            f"{options.file} is about agent '{reviews.agent}', not '{folder.name}'; give that agent's folder."
        )
    if reviews.run not in ("", earlier.id, *earlier.ancestors):
        raise InputError(f"{options.file} is about another run ({reviews.run}); review the rows of this one.")
    lines = read_lines(folder)
    unknown = {decision.row for decision in reviews.decisions} - set(lines["row"])
    if unknown:
        raise InputError(
            f"{options.file} is about row {min(unknown)}, of which nothing was said; review rows of this run."
        )
    reviews.verdicts(lines, load(folder.parent / MODEL).classes)
    out: Path = options.out or options.folder / "review.json"
    reviews.save(out)
    kinds = [decision.decision for decision in reviews.decisions]
    print(", ".join(f"{kinds.count(kind)} {kind}ed" for kind in ("accept", "reject", "correct")) + f"; kept in {out}.")
    print(_then(options, out))
    return 0
