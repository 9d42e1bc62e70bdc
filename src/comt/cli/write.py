"""Writes what came out of a training into a folder: the model for everybody, the rest for each owner alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from comt.cli.results import write_private
from comt.errors import InputError
from comt.runs import CHANGES, ISSUES, LEDGER, MODEL, REVIEWS, TRUSTED
from comt.schema import as_text
from comt.spreadsheets import neutral, original
from comt.writing import write_whole

if TYPE_CHECKING:
    from comt.cli.changes import Changes
    from comt.cli.training import Trained
    from comt.report import ColumnSummary
    from comt.reporting import Told
    from comt.reviews import Reviews
    from comt.runs import Run
    from comt.schema import Column

#: what an agent's issues.csv has
ISSUE_COLUMNS = ("row", "score", "flagged", "given", "suggested", "kind", "column")


def write_results(
    folder: Path,
    trained: Trained,
    run: Run,
    reviews: Mapping[str, Reviews],
    changes: Changes | None = None,
    *,
    say: Callable[[str], None] = lambda now: None,
) -> None:
    """Write everything into an empty folder, and say what is being written."""
    from comt.reporting import write_reports

    _model(trained, run, reviews).save(folder / MODEL)
    run.save(folder)
    if changes is not None:
        write_whole(folder / CHANGES, neutral(changes.coefficients).to_csv(index=False))
    for agent in trained.agents:
        own = folder / agent.name
        own.mkdir(mode=0o700)
        say(f"writing the issue table of {agent.name}")
        issues = trained.issues.loc[trained.issues["agent"] == agent.name, list(ISSUE_COLUMNS)]
        write_private(issues, own / ISSUES)
        suspects = trained.suspects(agent.name)
        if len(suspects):
            write_private(suspects, own / TRUSTED)
        if agent.name in reviews:
            reviews[agent.name].save(own / REVIEWS)
        if changes is not None:
            write_private(changes.rows[agent.name], own / CHANGES)
    write_reports(
        trained.model,
        folder,
        _told(trained, run),
        held=trained.held_out,
        validate=False,
        issues=trained.issues,
        say=say,
    )
    for agent in trained.agents:  # last: comparing models in the reports asks for sums, too
        write_private(agent.ledger.to_frame(), folder / agent.name / LEDGER)


def _told(trained: Trained, run: Run) -> Told:
    """Say what only the command line knows: names, rows as the files have them, what columns became."""
    from comt.agent.formats import rows_of
    from comt.reporting import Told

    paths = {source.agent: source.path for source in run.plan.sources}

    def rows_as_given(agent: str, rows: NDArray[np.int64]) -> pd.DataFrame:
        found = rows_of(paths[agent], rows.tolist(), target=run.plan.target)
        return found.loc[rows]

    return Told(
        run=run.id,
        target=run.plan.target,
        rows=rows_as_given,
        columns=[_column(column, trained) for column in trained.schema.columns],
        missing={name: sum(scan.missing for scan in table.scans.values()) for name, table in trained.tables.items()},
        seconds=trained.seconds,
        notes=trained.notes,
    )


def _column(column: Column, trained: Trained) -> ColumnSummary:
    from comt.report import ColumnSummary

    coef = dict(zip(trained.schema.features, np.ravel(trained.model.coef_).tolist(), strict=True))
    missing = trained.schema.missing.get(column.name, 0)
    if column.kind == "number":
        return ColumnSummary(column=column.name, kind="number", missing=missing, coefficient=coef[column.name])
    scans = [table.scans[column.name] for table in trained.tables.values() if column.name in table.scans]
    shared = {as_text(level) for level in column.levels}
    told = sum(n for scan in scans for level, n in scan.counts.items() if as_text(level) in shared)
    rare = sum(scan.rows for scan in scans) - missing - told
    return ColumnSummary(
        column=column.name,
        kind="categories",
        missing=missing,
        categories=[as_text(level) for level in column.levels],
        rare=rare if rare >= trained.schema.min_count else 0,  # a count of very few rows is about those rows
    )


def _model(trained: Trained, run: Run, reviews: Mapping[str, Reviews]) -> Any:
    from comt.model_file import TaughtModel

    model = TaughtModel.of(trained.model, trained.model._training, trained.agents)
    held = trained.held_out
    scored = (
        None if held is None else {"metric": held.metric, "score": held.score, "rows": held.rows, "folds": held.folds}
    )
    more = {
        "run": run.id,
        "resumed_from": run.ancestors[-1] if run.ancestors else None,
        "reviewed_rows": {name: len(review.decisions) for name, review in reviews.items()},
        "held_out_trusted_rows": scored,
    }
    return replace(model, provenance=model.provenance | more)


def read_issues(folder: Path, name: str = ISSUES) -> pd.DataFrame:
    """Read an agent's issue table back; text that was neutralised is itself again."""
    path = folder / name
    try:
        table = pd.read_csv(path, keep_default_na=False)
        for column in table.select_dtypes(include=["object", "str"]).columns:
            table[column] = table[column].map(original)
        wanted = ["row", "score", "flagged", "given", "suggested"]
        return table[[*wanted, *(extra for extra in ("kind", "column") if extra in table)]]
    except (OSError, KeyError, ValueError, AttributeError):
        raise InputError(f"{path} cannot be read; give a folder that `comt fit` wrote, unchanged.") from None


def read_lines(folder: Path) -> pd.DataFrame:
    """Read all rows of an agent about which something was suggested: unverified ones, and trusted ones that look wrong."""
    tables = [read_issues(folder)]
    if (folder / TRUSTED).exists():
        tables.append(read_issues(folder, TRUSTED))
    return pd.concat(tables, ignore_index=True)
