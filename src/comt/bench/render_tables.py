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
    return f"Seeds per cell: {seeds.min()} to {seeds.max()} (0, 1, 2, …). CoMT version {versions}.\n"
