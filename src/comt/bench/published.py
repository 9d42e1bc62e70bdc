"""The numbers the paper prints, as tables: for comparison only, nothing is trained on them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

TableName = Literal["table_regression_r2", "table_features_auc", "table_flips_auc"]
TABLES: tuple[TableName, ...] = ("table_regression_r2", "table_features_auc", "table_flips_auc")
REPEATS = 20  # of every cell, as the paper says
N_ROWS = 50_000  # synthetic rows in all: 40 % buggy, eta % trusted, the rest for tests
N_BUGGY = 20_000
N_AGENTS = 5


@dataclass(frozen=True)
class Cell:
    """One method at one noise level and one share of trusted rows."""

    noise: float
    eta_percent: float
    method: str
    mean: float
    variance: float
    seconds: float

    @property
    def n_trusted(self) -> int:
        """Trusted rows over all agents."""
        return round(N_ROWS * self.eta_percent / 100)


def table(name: TableName) -> list[Cell]:
    """Return the cells of one of the three synthetic tables, in the printed order."""
    return [
        Cell(
            float(line["noise"]),
            float(line["eta_percent"]),
            line["method"],
            float(line["mean"]),
            float(line["variance"]),
            float(line["seconds"]),
        )
        for line in _lines(name)
    ]


def real_and_scaling() -> list[dict[str, str]]:
    """Return what the text reports on real data, run times and rounds."""
    return _lines("scaling_and_real")


def _lines(name: str) -> list[dict[str, str]]:
    text = (files("comt.bench") / "paper_tables" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
