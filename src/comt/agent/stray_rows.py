"""The wrong cells of all of an agent's rows: learnt from a sample, judged in blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comt.agent.agent import Agent
from comt.agent.far_groups import CONFIDENCE, FarGroups
from comt.agent.stray_cells import StrayCells
from comt.agent.suspect_cells import CellRepair
from comt.agent.target_reading import Reading
from comt.issue_context import IssueContext
from comt.preparation import Preparation
from comt.problem import Array

#: rows that are learnt from
SAMPLE = 5_000


@dataclass(frozen=True, eq=False)
class StrayRows:
    """Rows that look wrong because of one cell, by row; everything is 0 or false elsewhere."""

    rows: NDArray[np.bool_]
    column: NDArray[np.intp]
    given: Array
    suggested: Array
    #: how sure the cell alone makes us, whatever the target says
    confidence: Array

    @classmethod
    def none(cls, n_rows: int) -> StrayRows:
        """Nothing of the kind."""
        given, suggested, confidence = np.zeros((3, n_rows))
        return cls(np.zeros(n_rows, dtype=np.bool_), np.zeros(n_rows, dtype=np.intp), given, suggested, confidence)

    def repaired(self, raw: Array, places: slice | NDArray[np.intp]) -> Array:
        """Return raw rows with these cells as suggested."""
        mine = np.flatnonzero(self.rows[places])
        if not len(mine):
            return raw
        changed = raw.copy()
        changed[mine, self.column[places][mine]] = self.suggested[places][mine]
        return changed

    def cells(self, places: slice, width: int) -> NDArray[np.bool_]:
        """Mark these cells in a block of ``width`` columns."""
        marked: NDArray[np.bool_] = self.rows[places][:, None] & (self.column[places][:, None] == np.arange(width))
        return marked


def stray_rows(
    agent: Agent,
    cells: CellRepair,
    places: NDArray[np.intp],
    sample: Array,
    reading: Reading,
    flagged: NDArray[np.bool_],
    theta: Array,
    context: IssueContext,
    preparation: Preparation,
) -> StrayRows:
    """Look for wrong cells among rows whose target is ``flagged``, and for cells that are absurd whatever it says.

    ``sample`` are the raw rows at ``places``, ``reading`` is what the targets say of every row.
    """
    found = StrayRows.none(len(flagged))
    sound = cells(sample)[0]
    thin = max(1, -(-len(sound) // SAMPLE))
    learnt = StrayCells.fitted(sound[::thin], reading.at(places[::thin]), theta, context, preparation)
    if learnt is None:
        return found
    groups, start = FarGroups.found(sound, context, preparation), 0
    for raw, targets in agent.rows.blocks():
        here = slice(start, start + len(targets))
        start += len(targets)
        repaired, _ = cells(raw)
        absurd = groups(repaired)
        asked = np.flatnonzero(flagged[here] | absurd.any(axis=1))
        repaired, absurd, rows = repaired[asked], absurd[asked], asked + here.start
        strays = learnt(repaired, reading.at(rows), absurd)
        row = np.arange(len(rows))
        given, alone = repaired[row, strays.column], absurd[row, strays.column]
        # a cell that was repaired already is not wrong once more
        mine = (strays.rather & flagged[rows] | alone) & (given == raw[asked, strays.column])
        found.rows[rows[mine]], found.column[rows[mine]] = True, strays.column[mine]
        found.given[rows[mine]], found.suggested[rows[mine]] = given[mine], strays.guess[mine]
        found.confidence[rows[mine & alone]] = CONFIDENCE
    return found
