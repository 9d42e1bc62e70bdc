"""Writes what came out of a training into a folder: the model for everybody, the rest for each owner alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from comt.cli.results import write_private
from comt.errors import InputError
from comt.runs import CHANGES, ISSUES, LEDGER, MODEL, REVIEWS, TRUSTED
from comt.spreadsheets import neutral, original
from comt.writing import write_whole

if TYPE_CHECKING:
    from comt.cli.changes import Changes
    from comt.cli.training import Trained
    from comt.reviews import Reviews
    from comt.runs import Run


def write_results(
    folder: Path, trained: Trained, run: Run, reviews: Mapping[str, Reviews], changes: Changes | None = None
) -> None:
    """Write everything into an empty folder."""
    _model(trained, run, reviews).save(folder / MODEL)
    run.save(folder)
    if changes is not None:
        write_whole(folder / CHANGES, neutral(changes.coefficients).to_csv(index=False))
    for agent in trained.agents:
        own = folder / agent.name
        own.mkdir(mode=0o700)
        issues = trained.issues[trained.issues["agent"] == agent.name].drop(columns="agent")
        write_private(issues, own / ISSUES)
        write_private(agent.ledger.to_frame(), own / LEDGER)
        suspects = trained.suspects(agent.name)
        if len(suspects):
            write_private(suspects, own / TRUSTED)
        if agent.name in reviews:
            reviews[agent.name].save(own / REVIEWS)
        if changes is not None:
            write_private(changes.rows[agent.name], own / CHANGES)


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
        return table[["row", "score", "flagged", "given", "suggested"]]
    except (OSError, KeyError, ValueError, AttributeError):
        raise InputError(f"{path} cannot be read; give a folder that `comt fit` wrote, unchanged.") from None


def read_lines(folder: Path) -> pd.DataFrame:
    """Read all rows of an agent about which something was suggested: unverified ones, and trusted ones that look wrong."""
    tables = [read_issues(folder)]
    if (folder / TRUSTED).exists():
        tables.append(read_issues(folder, TRUSTED))
    return pd.concat(tables, ignore_index=True)
