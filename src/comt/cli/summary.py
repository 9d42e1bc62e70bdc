"""What ``comt fit`` says at the end: one object for machines, a few lines for people."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from comt.runs import ISSUES, LEDGER, MODEL, REPORT

if TYPE_CHECKING:
    from comt.cli.changes import Changes
    from comt.cli.training import Trained

#: coefficients that changed most are shown up to this number
SHOWN = 5


def summary_of(trained: Trained, out: Path, changes: Changes | None = None) -> dict[str, Any]:
    """Return the machine-readable object."""
    model, held, schema = trained.model, trained.held_out, trained.schema
    flagged = trained.issues.loc[trained.issues["flagged"], "agent"].value_counts()
    agents = []
    for agent in trained.agents:
        table = trained.tables[agent.name]
        entry: dict[str, Any] = {
            "name": agent.name,
            "rows": table.n_rows + table.n_trusted,
            "trusted_rows": table.n_trusted,
            "flagged": int(flagged.get(agent.name, 0)),
            "trusted_rows_that_look_wrong": len(trained.suspects(agent.name)),
            "missing": {name: scan.missing for name, scan in table.scans.items() if scan.missing},
            "bytes_sent": agent.ledger.total_bytes,
        }
        agents.append(entry | ({"changes": changes.counts(agent.name)} if changes is not None else {}))
    return {
        "task": trained.task,
        "task_reason": trained.reason,
        "target": schema.target,
        "columns": list(schema.names),
        "categories": {column.name: len(column.levels) for column in schema.columns if column.kind == "category"},
        "features": len(schema.features),
        "agents": agents,
        "choice": "" if model.choice_ is None else model.choice_.sentence,
        "rounds": model.n_rounds_,
        "certificate": model.certificate_,
        "tol": model.tol,
        "held_out": None if held is None else {"metric": held.metric, "score": held.score, "rows": held.rows},
        "changes": None if changes is None else _changes(changes),
        "notes": trained.notes,
        "out": str(out),
        "model": str(out / MODEL),
        "report": str(out / REPORT),
    }


def _changes(changes: Changes) -> dict[str, Any]:
    table = changes.coefficients
    order = np.argsort(-np.abs(table["after"].to_numpy() - table["before"].to_numpy()), kind="stable")[:SHOWN]
    return {
        "reviewed": changes.reviewed,
        "score_before": changes.score_before,
        "score_after": changes.score_after,
        "coefficients": table.iloc[order].to_dict("records"),
    }


def print_summary(summary: dict[str, Any]) -> None:
    """Print it for people."""
    chosen = "" if summary["task_reason"] == "given" else f" ({summary['task_reason']}; --task chooses otherwise)"
    print(f"Task: {summary['task']} of '{summary['target']}' on {len(summary['columns'])} columns{chosen}.")
    if summary["categories"]:
        kinds = ", ".join(f"'{name}' ({levels})" for name, levels in summary["categories"].items())
        print(f"Categories, with the number of agreed levels; rarer ones count as other: {kinds}.")
    for note in summary["notes"]:
        print(f"Note: {note}")
    for agent in summary["agents"]:
        _print_agent(agent)
    if summary["choice"]:
        print(f"Trained in {summary['rounds']} rounds (certificate of the fits: {summary['certificate']:.0e}).")
        print(f"Chosen by the trusted rows: {summary['choice']}")
    else:
        print(
            f"Trained in {summary['rounds']} rounds to certificate {summary['certificate']:.0e} "
            f"(solved: at most {summary['tol']:.0e})."
        )
    if summary["held_out"] is not None:
        held = summary["held_out"]
        print(f"On trusted rows left out of training: {held['metric']} {held['score']:.3f} ({held['rows']} rows).")
    if summary["changes"] is not None:
        _print_changes(summary["changes"])
    out = Path(summary["out"])
    print(f"Model: {summary['model']}; report for everybody, without any row: {out / REPORT}")
    print(f"Private to each agent: {out / '<agent>'} with {REPORT}, {ISSUES} (worst rows first) and {LEDGER}")
    first = out / summary["agents"][0]["name"]
    print(
        f"Next: open {first / REPORT} in a browser, or write a review to fill in: comt review {shlex.quote(str(first))}"
    )


def _print_agent(agent: dict[str, Any]) -> None:
    print(
        f"Agent {agent['name']}: {agent['rows']:,} rows, {agent['trusted_rows']:,} of them trusted; "
        f"{agent['flagged']:,} look wrong; {agent['bytes_sent'] / 1e3:,.1f} kB of sums sent."
    )
    if agent["missing"]:
        print("  missing values: " + ", ".join(f"{count:,} in '{name}'" for name, count in agent["missing"].items()))
    if agent["trusted_rows_that_look_wrong"]:
        count = agent["trusted_rows_that_look_wrong"]
        print(f"  {count} trusted {'row looks' if count == 1 else 'rows look'} wrong: see trusted.csv")
    if "changes" in agent:
        print("  " + ", ".join(f"{count:,} {name}" for name, count in agent["changes"].items()))


def _print_changes(changes: dict[str, Any]) -> None:
    reviewed = ", ".join(f"{count} of {agent}" for agent, count in changes["reviewed"].items()) or "none"
    print(f"Reviewed rows, trusted from now on: {reviewed}.")
    before, after = changes["score_before"], changes["score_after"]
    if before is not None and after is not None:
        print(f"Score on rows left out (originally trusted and randomly drawn ones only): {before:.3f} → {after:.3f}.")
    print("Coefficients that changed most:")
    for entry in changes["coefficients"]:
        print(f"  {entry['feature']}: {entry['before']:.4g} → {entry['after']:.4g}")
