"""Small helpers for Markdown tables made from stored results."""

from __future__ import annotations

import pandas as pd


def markdown(header: list[str], lines: list[list[str]]) -> str:
    """Return a table."""
    parts = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(parts + ["| " + " | ".join(line) + " |" for line in lines]) + "\n"


def origin(results: pd.DataFrame) -> str:
    """Say which seeds and which version the results stem from."""
    seeds = results.groupby(["data", "corruption", "noise", "trusted", "method"], dropna=False)["seed"].nunique()
    versions = ", ".join(sorted(results["version"].astype(str).unique()))
    fewest = seeds.groupby(level="method", sort=False).min()
    fewer = ", ".join(f"{method} {count}" for method, count in fewest.items() if count < seeds.max())
    said = f"Seeds per cell: {seeds.min()} to {seeds.max()} (0, 1, 2, …). CoMT version {versions}.\n"
    return said + (f"Fewest seeds in a cell where that is not {seeds.max()}: {fewer}.\n" if fewer else "")
