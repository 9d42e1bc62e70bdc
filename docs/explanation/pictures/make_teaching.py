"""Draw the two figures of the page on dual and direct teaching: ``python docs/explanation/pictures/make_teaching.py``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

from comt import CoMTRegressor, rows

HERE = Path(__file__).parent
BLUE, ORANGE, GREY = "#2563a8", "#c2571a", "#8a8f98"
PLAIN = {"fit_intercept": False, "standardize": False, "lambda_alpha": 0.0}


def what_happens_to_a_row() -> None:
    """Rows with noisy features, and where either teaching moves them."""
    rng = np.random.default_rng(4)
    clean = rng.uniform(-2, 2, 24)
    y = 1.2 * clean + 0.1 * rng.normal(size=24)
    noisy = clean + 0.8 * rng.normal(size=24)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
    for axis, teaching in zip(axes, ("dual", "direct"), strict=True):
        model = CoMTRegressor(teaching=teaching, lambda_w=0.1, lambda_trusted=1.0, lambda_z=1.3, select=None, **PLAIN)
        trusted = np.arange(30) >= 24
        right = np.linspace(-2, 2, 6)
        model.fit(np.append(noisy, right)[:, None], np.append(y, 1.2 * right), trusted=trusted)
        problem = model._training.problem
        at = model.r_ if teaching == "dual" else model.theta_
        change = rows.betas(replace(problem), noisy[:, None], y, at)[:, 0]
        line = np.array([-3, 3])
        axis.plot(line, model.coef_[0] * line, color=GREY, lw=1.5, label="model")
        axis.scatter(noisy, y, s=18, color=BLUE, label="given row", zorder=3)
        for x, target, move in zip(noisy, y, change, strict=True):
            axis.annotate(
                "",
                (x + move, target),
                (x, target),
                arrowprops={"arrowstyle": "->", "color": ORANGE, "lw": 1.2, "shrinkA": 0, "shrinkB": 0},
            )
        axis.set_title("dual: away from the model (erratum E5)" if teaching == "dual" else "direct: towards the model")
        axis.set_xlabel("feature")
    axes[0].set_ylabel("target")
    axes[0].legend(frameon=False, loc="upper left")
    figure.tight_layout()
    figure.savefig(HERE / "what-happens-to-a-row.png", dpi=110)


def which_rows_are_used() -> None:
    """Half of the targets negated: everything used, or the half that fits."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=160)
    y = 1.5 * x + 0.25 * rng.normal(size=160)
    y[:80] *= -1
    trusted = np.append(np.zeros(160, dtype=bool), np.ones(6, dtype=bool))
    right = np.linspace(-1.5, 1.5, 6)
    X, targets = np.append(x, right)[:, None], np.append(y, 1.5 * right)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
    settings = {
        "dual: every row pulls": {"teaching": "dual", "select": None},
        "direct, half of the rows: those that fit": {"teaching": "direct", "select": 0.5},
    }
    for axis, (title, options) in zip(axes, settings.items(), strict=True):
        model = CoMTRegressor(lambda_w=1.0, lambda_trusted=1.0, lambda_z=np.inf, **options, **PLAIN)
        model.fit(X, targets, trusted=trusted)
        used = model.selected_[:160]
        axis.scatter(x[used], y[used], s=14, color=BLUE, label="used")
        axis.scatter(x[~used], y[~used], s=14, color=GREY, alpha=0.5, label="set aside")
        axis.scatter(right, 1.5 * right, s=40, marker="D", color=ORANGE, label="trusted", zorder=3)
        line = np.array([-2.5, 2.5])
        axis.plot(line, model.coef_[0] * line, color="black", lw=1.5, label="model")
        axis.set_title(title)
        axis.set_xlabel("feature")
    axes[0].set_ylabel("target")
    axes[1].legend(frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(HERE / "which-rows-are-used.png", dpi=110)


if __name__ == "__main__":
    what_happens_to_a_row()
    which_rows_are_used()
