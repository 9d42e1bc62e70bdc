"""How an agent answers the questions about columns that still have gaps, before rows are encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from comt.agent import histograms
from comt.agent.answers import compute
from comt.agent.tables import TableRows
from comt.declaration import MissingCells, PresentHistogram
from comt.errors import ProtocolError
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
    table = table_of(agent)
    rows = table.n_rows + table.n_trusted
    arrays = {"missing": np.array(table.missing(query.columns), dtype=np.float64), "rows": np.array(float(rows))}
    return Answer(arrays, dict.fromkeys(arrays, rows))


@compute.register(PresentHistogram)
def _present_histogram(query: PresentHistogram, agent: Agent) -> Answer:
    table = table_of(agent)
    counts = np.zeros(query.shapes()["counts"])
    for columns in table.present(query.columns):
        counts += histograms.count_each(query, columns)
    return Answer({"counts": counts}, {"counts": table.n_rows + table.n_trusted})
