"""How an agent answers the questions about columns that still have gaps, before rows are encoded."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from comt.agent import histograms
from comt.agent.answers import compute
from comt.agent.bins import BINNED
from comt.agent.coverage import Cover, covers
from comt.agent.tables import TableRows
from comt.declaration import MissingCells, PresentHistogram
from comt.errors import ProtocolError
from comt.noise import Noise, sensitivities
from comt.problem import Array
from comt.queries import Answer

if TYPE_CHECKING:
    from comt.agent.agent import Agent


def table_of(agent: Agent) -> TableRows:
    """Return the agent's table."""
    if not isinstance(agent.rows, TableRows):
        raise ProtocolError(f"agent {agent.name} holds plain numbers and declares no table; train without a schema.")
    return agent.rows


@compute.register(MissingCells)
def _missing_cells(query: MissingCells, agent: Agent) -> Answer:
    """Count; a count of fewer rows than the owner's minimum becomes none (such gaps are filled at home)."""
    table = table_of(agent)
    rows = table.n_rows + table.n_trusted
    missing = np.array(table.missing(query.columns), dtype=np.float64)
    missing[missing < agent.gate.min_rows] = 0.0
    arrays = {"missing": missing, "rows": np.array(float(rows))}
    return Answer(arrays, dict.fromkeys(arrays, rows))


@covers.register(MissingCells)
def _all_rows(query: MissingCells, agent: Agent) -> list[Cover]:
    """All rows, always."""
    return []


@sensitivities.register(MissingCells)
def _missing_sensitivity(query: MissingCells, noise: Noise) -> dict[str, Array | float]:
    """One row has at most one cell per column."""
    return {"missing": sqrt(len(query.columns)), "rows": 1.0}


BINNED[PresentHistogram] = ("counts",)


@compute.register(PresentHistogram)
def _present_histogram(query: PresentHistogram, agent: Agent) -> Answer:
    table = table_of(agent)
    counts = np.zeros(query.shapes()["counts"])
    for columns in table.present(query.columns):
        counts += histograms.count_each(query, columns)
    return Answer({"counts": counts}, {"counts": table.n_rows + table.n_trusted})
