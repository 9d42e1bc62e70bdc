"""Wrong cells: a column in another unit, codes where values are missing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comt.datasets.corruptions.base import Corruption, Draft, draw_rows, pick, require_share
from comt.errors import InputError


@dataclass(frozen=True)
class UnitError(Corruption):
    """One agent records one column in another unit."""

    factor: float = 1000.0
    agent: int | None = None
    column: int | None = None

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        return f"one column multiplied by {self.factor:g} at one agent"

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Multiply the column."""
        rows = draft.features[pick("agent", self.agent, len(draft.features), rng)]
        column = self.column
        if column is None:
            # a column of zeros reads the same in every unit
            filled = np.flatnonzero(rows.any(axis=0))
            column = int(rng.choice(filled if len(filled) else rows.shape[1]))
        rows[:, pick("column", column, rows.shape[1], rng)] *= self.factor


@dataclass(frozen=True)
class MissingCodes(Corruption):
    """Missing values of some columns are recorded as a number, at every agent."""

    code: float = -999.0
    fraction: float = 0.2
    columns: int = 3

    def __post_init__(self) -> None:
        require_share("fraction", self.fraction)
        if self.columns < 0:
            raise InputError(f"columns is {self.columns}; give the number of columns with missing values.")

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        return f"{self.fraction:.0%} of the cells of {self.columns} columns replaced by {self.code:g}"

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Write the codes."""
        columns = rng.permutation(draft.features[0].shape[1])[: self.columns]
        for x in draft.features:
            for j in columns:
                x[draw_rows(len(x), self.fraction, rng), j] = self.code
