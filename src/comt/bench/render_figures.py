"""Figures of the results pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from comt.errors import MissingExtraError


def _pyplot() -> Any:
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError(
            "the results page needs matplotlib; install it with `pip install 'comt[plot]'`."
        ) from None
    return plt


def convergence(history: pd.DataFrame, path: Path) -> None:
    """Draw the distance of the objective from its optimum against rounds, one line per solver."""
    plt = _pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axis, (name, part) in zip(axes, history.groupby("data", sort=False), strict=True):
        final = float(part.loc[part["solver"] == "newton", "objective"].iloc[-1])
        for solver, run in part.groupby("solver", sort=False):
            gap = np.maximum(np.abs(run["objective"] - final) / abs(final), 1e-16)
            axis.loglog(run["round"], gap, marker="o" if solver == "newton" else None, markersize=3, label=solver)
        axis.set(title=str(name), xlabel="round", ylabel="relative distance to the optimum")
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def fractions(curves: pd.DataFrame, path: Path) -> None:
    """Draw the test score against the fraction kept, one line per rule."""
    plt = _pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    labels = {"alpha": "printed rule: largest |α|", "loss": "smallest loss, refit"}
    for axis, (name, part) in zip(axes, curves.groupby("data", sort=False), strict=True):
        for rule, run in part.groupby("rule", sort=False):
            by = run.groupby("fraction")["score"]
            mean, spread = by.mean(), by.std()
            axis.plot(mean.index, mean, marker="o", markersize=3, label=labels[str(rule)])
            axis.fill_between(mean.index, mean - spread, mean + spread, alpha=0.2)
        metric = "R²" if name == "regression" else "AUC"
        title = "regression, noise 1.2" if name == "regression" else "40 % flipped labels"
        axis.set(title=title, xlabel="fraction ϱ of rows kept", ylabel=metric, ylim=(-0.05, 1.05))
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def reliability(shares: dict[str, tuple[Any, Any]], path: Path) -> None:
    """Draw the share of wrong rows against the score, one line per group; the diagonal is a probability that is right."""
    plt = _pyplot()
    figure, axis = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
    axis.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--", label="score = share of wrong rows")
    middle = np.arange(10) / 10 + 0.05
    for (name, (share, rows)), marker in zip(shares.items(), "osD", strict=False):
        enough = rows >= 20
        axis.plot(middle[enough], share[enough], marker=marker, markersize=5, label=name)
    axis.axvline(0.8, color="0.8", linewidth=1)
    axis.annotate("flagged", (0.81, 0.02), color="0.4", fontsize=8)
    axis.set(xlabel="score", ylabel="share of wrong rows", xlim=(0, 1), ylim=(-0.02, 1.02))
    axis.legend(fontsize=8, loc="upper left")
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)
