"""``comt ledger``: what left a data holder, when, for what, and how many rows each number sums; the chain is verified."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

NAME = "ledger.jsonl"


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "ledger",
        help="show what left a data holder",
        description="Show what left a data holder, verify that nothing was changed afterwards, and compare it with what the "
        "coordinator says it received.",
    )
    parser.add_argument("path", type=Path, metavar="FILE|FOLDER", help=f"a ledger, or a folder that holds {NAME}")
    parser.add_argument("--transcript", type=Path, metavar="FILE", help="the coordinator's transcript, to compare with")
    parser.add_argument("--rounds", action="store_true", help="one line per round instead of one per purpose")
    parser.add_argument("--json", action="store_true", help="print one machine-readable object instead of a table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Verify, add up, show; 1 if the coordinator's transcript disagrees."""
    from comt.agent.check import disagreements
    from comt.agent.ledger import START, read_lines
    from comt.errors import InputError
    from comt.federation.transcript import read_transcript

    path = options.path / NAME if options.path.is_dir() else options.path
    lines = read_lines(path)
    left = [line for line in lines if line["event"] == "left"]
    refused = [line for line in lines if line["event"] == "refused"]
    names = sorted({line["agent"] for line in left + refused})
    if len(names) > 1:
        raise InputError(f"the ledger {path} is of several agents ({', '.join(names)}); give every agent its own file.")
    summary: dict[str, Any] = {
        "ledger": str(path),
        "agent": names[0] if names else None,
        "head": lines[-1]["digest"] if lines else START,
        "lines": len(lines),
        "bytes": sum(line["bytes"] for line in left),
        "numbers": sum(line["bytes"] // 8 for line in left),
        "rounds": len({(line["round"], line["purpose"]) for line in left}),
        "individual": sum(line["individual"] for line in left),
        "unmasked": sum(not line["masked"] for line in left),
        "purposes": _grouped(left, by_round=options.rounds),
        "refused": [{name: line[name] for name in ("time", "round", "purpose", "reason")} for line in refused],
    }
    noisy = [line for line in lines if line["event"] == "noise"]
    if noisy:
        summary |= {"epsilon": noisy[-1]["epsilon"], "delta": noisy[-1]["delta"]}
    if options.transcript is not None:
        transcript = read_transcript(options.transcript)
        summary["disagreements"] = disagreements(lines, transcript.rounds, names[0] if names else "")
        summary["signed_by"] = transcript.seal.name if transcript.seal is not None else None
    if options.json:
        print(json.dumps(summary))
    else:
        _print(summary)
    return 1 if summary.get("disagreements") else 0


def _grouped(left: Iterable[Mapping[str, Any]], *, by_round: bool) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for line in left:
        groups.setdefault((line["round"], line["purpose"]) if by_round else (line["purpose"],), []).append(line)
    return [
        {
            "first": lines[0]["time"],
            "last": lines[-1]["time"],
            "purpose": key[-1],
            "rounds": len({line["round"] for line in lines}),
            "round": lines[-1]["round"],
            "arrays": sorted({line["array"] for line in lines}),
            "bytes": sum(line["bytes"] for line in lines),
            "fewest_rows": min(line["rows"] for line in lines),
            "masked": all(line["masked"] for line in lines),
        }
        for key, lines in groups.items()
    ]


def _print(summary: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    table = Table("when", "for what", "rounds", "arrays", "kB", "fewest rows per number", "under masks", box=None)
    for part in summary["purposes"]:
        table.add_row(
            part["last"][:19].replace("T", " "),
            part["purpose"],
            str(part["rounds"]),
            ", ".join(part["arrays"]),
            f"{part['bytes'] / 1e3:,.1f}",
            f"{part['fewest_rows']:,}",
            "yes" if part["masked"] else "NO",
        )
    console.print(f"Agent {summary['agent']}: what left, from {summary['ledger']}")
    console.print(table)
    console.print(
        f"In all {summary['numbers']:,} numbers ({summary['bytes'] / 1e3:,.1f} kB) in {summary['rounds']} rounds; "
        f"{summary['unmasked']} arrays without masks, {summary['individual']} shown individually; "
        f"{len(summary['refused'])} questions refused."
    )
    if "epsilon" in summary:
        console.print(f"With noise: ε = {summary['epsilon']:.3g} at δ = {summary['delta']:g} was spent in all.")
    for refusal in summary["refused"]:
        console.print(f"Refused in round {refusal['round']}: {refusal['reason']}")
    console.print(f"The chain of {summary['lines']} lines is intact; its head is {summary['head'][:16]}….")
    if "disagreements" in summary:
        for sentence in summary["disagreements"]:
            console.print(sentence)
        if not summary["disagreements"]:
            console.print(
                f"It agrees with the coordinator's transcript (signed by {summary['signed_by'] or 'nobody'})."
            )
