"""``comt fit``: train from one file per agent; writes the model, and for every agent what concerns its rows."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from comt.cli import fit_options

if TYPE_CHECKING:
    from comt.reviews import Reviews
    from comt.runs import Plan, Run, Source


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "fit",
        help="train one model from one file per agent",
        description="Train one model from one CSV, Parquet or LIBSVM file per agent; the file's name is the agent's.",
    )
    fit_options.add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check everything, train, write everything, say what came out."""
    from comt.cli.summary import print_summary

    try:
        summary = _fit(options)
    except KeyboardInterrupt:
        print("comt fit: stopped; nothing was written.", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(summary))
    else:
        print_summary(summary)
    return 0


def _fit(options: argparse.Namespace) -> dict[str, Any]:
    fit_options.check(options)
    return _fit_again(options) if options.resume is not None else _fit_anew(options)


def _fit_anew(options: argparse.Namespace) -> dict[str, Any]:
    from comt.cli.progress import stage
    from comt.cli.results import check_out, draft
    from comt.cli.summary import summary_of
    from comt.cli.training import train_plan
    from comt.cli.write import write_results
    from comt.runs import Run

    parameters = fit_options.parameters(options)
    out: Path = options.out.resolve()
    check_out(out, options.out, options.files, replace=options.force)
    plan = fit_options.plan(options)
    with draft(out) as folder:
        trained = train_plan(plan, parameters, transcript=_transcript(options, folder))
        with stage("writing the results") as say:
            write_results(folder, trained, Run(_hashed(plan)), {}, say=say)
    return summary_of(trained, options.out)


def _fit_again(options: argparse.Namespace) -> dict[str, Any]:
    from comt.cli.changes import compare
    from comt.cli.progress import stage
    from comt.cli.results import check_out, draft
    from comt.cli.summary import summary_of
    from comt.cli.training import train_plan
    from comt.cli.write import read_issues, read_lines, write_results
    from comt.model_file import load
    from comt.runs import MODEL, Run, load_run

    folder_before: Path = options.resume
    earlier, before = load_run(folder_before), load(folder_before / MODEL)
    shown: Path = options.out or folder_before
    out = shown.resolve()
    same = out == folder_before.resolve()
    check_out(out, shown, [source.path for source in earlier.plan.sources], replace=options.force or same)
    for source in earlier.plan.sources:
        source.check()
    reviews = _reviews(options, earlier)
    issues = {source.agent: read_issues(folder_before / source.agent) for source in earlier.plan.sources}
    verdicts = {
        agent: review.verdicts(read_lines(folder_before / agent), before.classes) for agent, review in reviews.items()
    }
    decided = {agent: review.resolved(verdicts[agent]) for agent, review in reviews.items()}
    with draft(out) as folder:
        trained = train_plan(
            earlier.plan,
            before.parameters,
            verdicts=verdicts,
            before=before,
            transcript=_transcript(options, folder),
        )
        changes = compare(before, issues, trained, verdicts)
        following = Run(earlier.plan, ancestors=(*earlier.ancestors, earlier.id))
        with stage("writing the results") as say:
            write_results(folder, trained, following, decided, changes, say=say)
    return summary_of(trained, shown, changes)


def _transcript(options: argparse.Namespace, folder: Path) -> Path | None:
    from comt.federation.transcript import TRANSCRIPT

    return folder / TRANSCRIPT if options.transcript else None


def _reviews(options: argparse.Namespace, earlier: Run) -> dict[str, Reviews]:
    """Put together what experts decided for this run and the runs before it."""
    from comt.errors import InputError
    from comt.reviews import Reviews, of_agents
    from comt.runs import REVIEWS

    agents = [source.agent for source in earlier.plan.sources]
    stored = [options.resume / agent / REVIEWS for agent in agents]
    known = [Reviews.read(path) for path in stored if path.exists()]
    for path in options.reviews:
        review = Reviews.read(path)
        if review.agent not in agents:
            raise InputError(f"{path} is about agent '{review.agent}'; the run has {', '.join(agents)}.")
        if review.run not in ("", earlier.id, *earlier.ancestors):
            raise InputError(f"{path} is about another run ({review.run}); give a review of {options.resume}.")
        if not review.decisions:
            raise InputError(
                f"{path} holds no decision; write accept, reject or correct into the column 'decision' of some rows."
            )
        known.append(review)
    return of_agents(known)


def _hashed(plan: Plan) -> Plan:
    from comt.runs import hashed

    def known(source: Source) -> Source:
        extra = "" if source.trusted_path is None else hashed(source.trusted_path)
        return replace(source, sha256=hashed(source.path), trusted_sha256=extra)

    return replace(plan, sources=tuple(known(source) for source in plan.sources))
