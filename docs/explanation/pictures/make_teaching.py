"""Draw the figures of the page on teaching: ``python docs/explanation/pictures/make_teaching.py``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

mpl.use("Agg")
import matplotlib.pyplot as plt

from comt import CoMTRegressor, rows
from comt.agent import Agent, ArrayRows
from comt.federation import LocalFederation
from comt.preparation import Preparation
from comt.server.auto.flips import flipped, starts
from comt.server.auto.labels import BuggyLabels
from comt.server.auto.vague_labels import flip_rate

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


def shares(axis: plt.Axes, score: np.ndarray, positive: np.ndarray) -> None:
    """Draw which share of the labels is +1 along a score."""
    bins = np.round(np.clip(score, -2.8, 2.8) / 0.7).astype(int)
    for each in np.unique(bins):
        inside = positive[bins == each]
        share, unsure = inside.mean(), 2.0 * inside.std() / np.sqrt(len(inside))
        axis.errorbar(score[bins == each].mean(), share, unsure, color="black", fmt="o", ms=4, capsize=2)


def bent_labels() -> None:
    """Clear labels of a matter that is not straight: vague along the best linear score, clear along a product."""
    rng = np.random.default_rng(3)
    first, second, third = rng.normal(size=(3, 20_000))
    positive = rng.random(20_000) < expit(first + 4.0 * second * third)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
    shares(axes[0], first, positive)
    shares(axes[1], second * third, positive)
    axes[0].set_title("vague along the best linear score …")
    axes[1].set_title("… clear along a product of features")
    axes[0].set_xlabel("linear score, in standard deviations")
    axes[1].set_xlabel("product of two features")
    axes[0].set_ylabel("share of labels +1")
    axes[0].set_ylim(-0.03, 1.03)
    figure.tight_layout()
    figure.savefig(HERE / "bent-labels.png", dpi=110)


def vague_labels() -> None:
    """Labels that follow the score vaguely, because the matter is uncertain or because clear ones were flipped."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
    for axis, (title, slope, share) in zip(
        axes,
        (("right labels of an uncertain matter", 0.5, 0.0), ("clear labels, 36 % flipped", 3.0, 0.36)),
        strict=True,
    ):
        rng = np.random.default_rng(2)
        score = rng.normal(size=20_000)
        positive = (rng.random(len(score)) < expit(slope * score)) ^ (rng.random(len(score)) < share)

        def loss(
            parameters: np.ndarray, rate: float, score: np.ndarray = score, positive: np.ndarray = positive
        ) -> float:
            likely = rate + (1.0 - 2.0 * rate) * expit(parameters[0] * score)
            return -float(np.log(np.where(positive, likely, 1.0 - likely)).sum())

        size = float(minimize(loss, [1.0], args=(0.0,)).x[0])
        line, rate = np.linspace(-3.2, 3.2, 200), flip_rate(size)
        steep = float(minimize(loss, [1.5], args=(rate,)).x[0])
        axis.plot(line, expit(size * line), color=BLUE, lw=1.5, label="right as they are")
        flips = rate + (1.0 - 2.0 * rate) * expit(steep * line)
        axis.plot(line, flips, color=ORANGE, lw=1.5, ls="--", label="flipped at random")
        shares(axis, score, positive)
        axis.set_title(title)
        axis.set_xlabel("score, in standard deviations")
    axes[0].set_ylabel("share of labels +1")
    axes[0].legend(frameon=False, loc="upper left")
    figure.tight_layout()
    figure.savefig(HERE / "vague-labels.png", dpi=110)


def leaning_flips() -> None:
    """Labels by a rule on one column, and labels turned where a column is large: what either model makes of them."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.0), sharey=True)
    for axis, (title, rule) in zip(
        axes,
        (("a rule: labels overruled by the column", True), ("flips where the column is large", False)),
        strict=True,
    ):
        rng = np.random.default_rng(8)
        features = rng.normal(size=(700, 2))
        right = np.where(rng.random(700) < expit(5.0 * features @ np.array([0.4, 1.0])), 1.0, -1.0)
        column = features[:, 0]
        given = (
            np.where(np.abs(column) > 0.7, -np.sign(column), right) if rule else np.where(column > 0.6, -right, right)
        )
        people = LocalFederation([Agent("a", ArrayRows(features, given, features[:0], given[:0]))])
        with people.open():
            labels = BuggyLabels(people, Preparation.identity(2, 1.0), 1)
            (plain,) = labels.fits(np.ones((1, 1)))
            tried = starts(plain.theta, np.cov(features.T), None)
            _, (behind, *_) = flipped(labels, plain.theta, np.full((1, 2), 0.2), plain.theta, 0.2, tried)
        for label, colour in ((1.0, BLUE), (-1.0, ORANGE)):
            of_label = given == label
            axis.scatter(*features[of_label & (right == label)].T, s=9, color=colour)
            axis.scatter(*features[of_label & (right != label)].T, s=16, color=colour, marker="x", lw=1)
        line = np.array([-3.0, 3.0])
        for theta, style, name in ((plain.theta, ":", "linear fit"), (behind.theta, "-", "model with flips that lean")):
            axis.plot(line, -(theta[0] * line + theta[2]) / theta[1], color="black", ls=style, lw=1.6, label=name)
        axis.set(title=title, xlabel="the column", xlim=(-3, 3), ylim=(-3, 3))
    axes[0].set_ylabel("another column")
    axes[0].legend(frameon=True, loc="lower left", fontsize=8)
    figure.tight_layout()
    figure.savefig(HERE / "leaning-flips.png", dpi=110)


if __name__ == "__main__":
    what_happens_to_a_row()
    which_rows_are_used()
    vague_labels()
    bent_labels()
    leaning_flips()
