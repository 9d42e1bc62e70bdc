"""From the folder of a finished training to the coordinator's report: rounds, certificate, who took part, what was chosen."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comt.model_file import TaughtModel
    from comt.report.aggregate import ColumnSummary
    from comt.report.federation import Asked

REPORT = "report.html"


def write_report(folder: Path, result: dict[str, Any], out: Path) -> None:
    """Read what the coordinator left in a training's folder, and write the page."""
    from comt.model_file import load
    from comt.report.aggregate import Choice
    from comt.report.federation import FederationReport, write_federation_report
    from comt.server.coordinator import MODEL, PROGRESS

    model = load(folder / MODEL)
    lines = (folder / PROGRESS).read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    choice = result.get("choice") or {"said": "", "lines": []}
    write_federation_report(
        out / REPORT,
        FederationReport(
            run=folder.name,
            task="regression" if model.classes is None else "classification",
            target="" if model.schema is None else model.schema.target,
            sites=result["sites"],
            left=result["left"],
            not_informed=result["not_informed"],
            masked=result["masked"],
            rows=result["rows"],
            trusted_rows=result["trusted_rows"],
            rounds=result["rounds"],
            replayed=result["replayed_rounds"],
            certificate=result["certificate"],
            tol=result["tol"],
            certificates=_certificates(events),
            seconds=result["seconds"],
            sent=result["bytes_sent"],
            received=result["bytes_received"],
            asked=_asked(events),
            choices=[Choice(choice=c["candidate"], score=-c["loss"], weight=c["share"]) for c in choice["lines"]],
            choice_reason=choice["said"],
            columns=_columns(model),
            privacy=result.get("privacy"),
            settings={name: str(value) for name, value in model.parameters.items() if value is not None},
        ),
    )


def _certificates(events: list[dict[str, Any]]) -> list[float]:
    """Return the certificates of the last attempt."""
    found: list[float] = []
    for event in events:
        if event["event"] == "attempt":
            found = []
        elif event["event"] == "solver" and "certificate" in event:
            found.append(event["certificate"])
    return found


def _asked(events: list[dict[str, Any]]) -> list[Asked]:
    from comt.report.federation import Asked

    times: dict[str, list[float]] = {}
    for event in events:
        if event["event"] == "round":
            times.setdefault(event["purpose"], []).append(event["seconds"])
    return [Asked(purpose=name, rounds=len(found), seconds=median(found)) for name, found in times.items()]


def _columns(model: TaughtModel) -> list[ColumnSummary]:
    from comt.report.aggregate import ColumnSummary
    from comt.schema import as_text

    coef = dict(zip(model.columns or (), model.coef.tolist(), strict=True))
    if model.schema is None:
        return [ColumnSummary(column=name, kind="number", coefficient=value) for name, value in coef.items()]
    return [
        ColumnSummary(
            column=column.name,
            kind="number" if column.kind == "number" else "categories",
            missing=model.schema.missing.get(column.name, 0),
            categories=[as_text(level) for level in column.levels],
            coefficient=coef.get(column.name),
        )
        for column in model.schema.columns
    ]
