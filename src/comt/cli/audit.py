"""``comt audit``: known attacks run against ourselves, on a recorded transcript and where the truth is known."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "audit",
        help="run known attacks on what a coordinator sees",
        description="Run known attacks on a coordinator's transcript and say what each one gets; and in a laboratory with "
        "known rows, with protection off and on.",
    )
    parser.add_argument(
        "run_folder",
        nargs="?",
        type=Path,
        metavar="RUN",
        help="a transcript, or the results of `comt fit` or `comt train` with --transcript",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the laboratory's rows (default 0)")
    parser.add_argument("--json", action="store_true", help="print one machine-readable object instead of a table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Attack, and show what was found."""
    from comt.audit import laboratory
    from comt.audit.recorded import findings
    from comt.errors import InputError
    from comt.federation.transcript import TRANSCRIPT, read_transcript

    recorded: dict[str, Any] = {}
    rounds = masked = 0
    if options.run_folder is not None:
        path = options.run_folder / TRANSCRIPT if options.run_folder.is_dir() else options.run_folder
        if options.run_folder.is_dir() and not path.exists():
            raise InputError(
                f"{options.run_folder} holds no {TRANSCRIPT}; run `comt fit` or `comt train` with --transcript to keep one."
            )
        transcript = read_transcript(path)
        rounds, masked = len(transcript.rounds), sum(seen.masked for seen in transcript.rounds)
        recorded = {finding.attack: {"number": finding.number, "of": finding.of} for finding in findings(transcript)}
    outcomes = [vars(outcome) for outcome in laboratory.run(options.seed)]
    if options.json:
        print(json.dumps({"rounds": rounds, "masked_rounds": masked, "recorded": recorded, "laboratory": outcomes}))
    else:
        _print(outcomes, recorded, rounds, masked)
    return 0


def _print(outcomes: Sequence[Mapping[str, Any]], recorded: Mapping[str, Any], rounds: int, masked: int) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    if recorded:
        console.print(f"Transcript of {rounds} rounds, {masked} of them masked. What each attack gets from it:")
        table = Table("attack", "gets", "", box=None)
        for attack, finding in recorded.items():
            table.add_row(attack, f"{finding['number']:g}", finding["of"])
        console.print(table)
        console.print()
    console.print("Laboratory, five sites, rows known (0: nothing, 1: exact; a guess reaches the chance level):")
    table = Table("attack", "off", "on", "chance", "what is measured", box=None)
    for outcome in outcomes:
        table.add_row(
            outcome["attack"],
            f"{outcome['off']:.3f}",
            f"{outcome['on']:.3f}" + ("" if not outcome["refusal"] else " *"),
            f"{outcome['chance']:.2f}",
            outcome["meaning"],
        )
    console.print(table)
    console.print("* the gate refused the question on which the attack works best.")
