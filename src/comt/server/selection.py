"""Which fraction ϱ of the rows to learn from: thresholds found by summed counts, no row's value leaving its owner.

Two rules. ``"alpha"`` is the paper's: keep the largest |α| and cut the sum that makes the model down to them; |α| is
the misfit, so it keeps the worst rows (erratum E13). ``"loss"`` is the usable one: keep the smallest losses and refit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from comt.federation.base import Federation
from comt.optimize.points import Solution
from comt.preparation import Preparation
from comt.problem import Array, TeachingProblem
from comt.queries import ScoreHistogram, SubsetSum, TrustedScore
from comt.server import dual

Rule = Literal["alpha", "loss"]
#: candidates of select="auto" and of the curve
FRACTIONS = tuple(np.round(np.arange(0.1, 1.01, 0.1), 2).tolist())
_FIRST_EDGES = 2.0 ** np.arange(-60.0, 60.25, 0.25)
_EDGES = 512
_AWAY = np.geomspace(1e-8, 0.5, 256)


@dataclass(frozen=True)
class Selected:
    """One fraction, the threshold that realises it, and the model it gives."""

    rule: Rule
    fraction: float
    threshold: float
    rows: float
    theta: Array


@dataclass(frozen=True)
class CurvePoint:
    """How well a fraction does on trusted rows: mean loss and its standard error; R² or the share of right labels."""

    rule: Rule
    fraction: float
    loss: float
    loss_error: float
    score: float


def thresholds(
    federation: Federation,
    preparation: Preparation,
    problem: TeachingProblem,
    rule: Rule,
    models: Array,
    fractions: Array,
    *,
    near: Array | None = None,
    exact: bool = True,
    weights: Array | None = None,
    thin: int = 1,
) -> Array:
    """Return, per model, the threshold that keeps the given fraction of all buggy rows (ties are kept together).

    A federated quantile: histograms of the row scores, refined until the count is met, or if not ``exact`` read off the
    first one. The closer a threshold lies to where it is looked for (``near``), the fewer exchanges it takes. With
    ``weights`` (models × agents, at most 1) rows count as much as their agent does.
    """
    found = np.full(len(models), np.inf if rule == "loss" else 0.0)
    open_ = fractions < 1.0
    edges = _edges_around(near, len(models))
    for _ in range(8):
        if not open_.any():
            break
        live = np.flatnonzero(open_)
        query = ScoreHistogram(
            loss_name=problem.loss_name,
            preparation=preparation,
            by=rule,
            model=models[live],
            edges=edges[live],
            lambda_alpha=problem.lambda_alpha,
            lambda_z=problem.lambda_z,
            agents=() if weights is None else federation.agents,
            weights=None if weights is None else weights[live],
            thin=thin,
        )
        counts = federation.sum(query)["counts"]
        for row, index in enumerate(live):
            total = counts[row].sum()
            if total == 0:
                open_[index] = False
                continue
            below = np.round(total * (fractions[index] if rule == "loss" else 1.0 - fractions[index]))
            running = counts[row].cumsum()[:-1]  # rows strictly below each edge
            place = min(int(np.searchsorted(running, below)), len(running) - 1)
            upper = found[index] = edges[index, place]
            lower = edges[index, place - 1] if place else 0.0
            # less than a row beyond the count: no set of rows comes closer
            if running[place] - below < 1.0 or np.nextafter(lower, np.inf) >= upper:
                open_[index] = False
            elif not exact:
                inside = max(counts[row, place], 1.0)
                found[index] = upper - (upper - lower) * min(max(running[place] - below, 0.0) / inside, 1.0)
                open_[index] = False
            else:
                edges[index] = np.resize(np.linspace(lower, upper, _EDGES), edges.shape[1])
                edges[index, _EDGES:] = edges[index, _EDGES - 1]
                edges[index].sort()
    return found


def _edges_around(near: Array | None, count: int) -> Array:
    """Return the first grids: powers of two, and (relative) distances of every size from where the threshold may be."""
    known = np.full(count, np.nan) if near is None else np.where(np.isfinite(near) & (near > 0), near, np.nan)
    if np.isnan(known).all():
        edges = np.tile(_FIRST_EDGES, (count, 1))
    else:
        around = np.where(np.isnan(known), 1.0, known)[:, None] * np.concatenate([1.0 - _AWAY, 1.0 + _AWAY])
        edges = np.sort(np.column_stack([np.tile(_FIRST_EDGES, (count, 1)), around]), axis=1)
    missing = max(_EDGES - edges.shape[1], 0)  # grids of later exchanges need this many places
    return np.column_stack([edges, np.repeat(edges[:, -1:], missing, axis=1)])


def select(
    federation: Federation,
    preparation: Preparation,
    tasks: Sequence[dual.Task],
    solutions: Sequence[Solution],
    rule: Rule,
    fractions: Sequence[float],
    *,
    tol: float,
    max_rounds: int,
    n_folds: int = 0,
) -> list[list[Selected]]:
    """Return, for every solved task, the models that the given fractions lead to; all in one batch of exchanges."""
    problem = tasks[0].problem
    pairs = [
        (task, solution, fraction) for task, solution in zip(tasks, solutions, strict=True) for fraction in fractions
    ]
    wanted = np.array([fraction for _, _, fraction in pairs])
    base = np.stack([solution.theta if rule == "loss" else solution.r for _, solution, _ in pairs])
    cuts = thresholds(federation, preparation, problem, rule, base, wanted)
    if rule == "alpha":
        totals = federation.sum(
            SubsetSum(
                loss_name=problem.loss_name,
                preparation=preparation,
                r=base,
                lambda_alpha=problem.lambda_alpha,
                lambda_z=problem.lambda_z,
                thresholds=cuts,
            )
        )
        models, rows = totals["vector"] / problem.lambda_w, totals["rows"]
    else:
        refits = [
            dual.Task(task.problem, solution.r, solution.theta, model, float(cut), task.held_out)
            for (task, solution, _), model, cut in zip(pairs, base, cuts, strict=True)
        ]
        refitted = dual.solve(federation, preparation, refits, tol=tol, max_rounds=max_rounds, n_folds=n_folds)
        models, rows = np.stack([s.theta for s in refitted]), np.array([s.sums.rows for s in refitted])
    chosen = [
        Selected(rule, float(fraction), float(cut), float(count), model)
        for fraction, cut, count, model in zip(wanted, cuts, rows, models, strict=True)
    ]
    return [chosen[start : start + len(fractions)] for start in range(0, len(chosen), len(fractions))]


def held_out_curve(
    federation: Federation,
    preparation: Preparation,
    problem: TeachingProblem,
    start: Solution,
    rules: Sequence[Rule],
    fractions: Sequence[float],
    *,
    n_folds: int,
    tol: float,
    max_rounds: int,
) -> list[CurvePoint]:
    """Score every rule and fraction on trusted rows that were left out of training: the curve of score against ϱ."""
    folds = range(n_folds)
    tasks = [dual.Task(problem, start.r, start.theta, held_out=fold) for fold in folds]
    solutions = dual.solve(federation, preparation, tasks, tol=tol, max_rounds=max_rounds, n_folds=n_folds)
    points: list[CurvePoint] = []
    for rule in rules:
        chosen = select(
            federation,
            preparation,
            tasks,
            solutions,
            rule,
            fractions,
            tol=tol,
            max_rounds=max_rounds,
            n_folds=n_folds,
        )
        models = np.stack([item.theta for per_fold in chosen for item in per_fold])
        fold = np.repeat(np.arange(n_folds), len(fractions))
        points += _scores(federation, preparation, problem, rule, fractions, models, fold, n_folds)
    return points


def _scores(
    federation: Federation,
    preparation: Preparation,
    problem: TeachingProblem,
    rule: Rule,
    fractions: Sequence[float],
    models: Array,
    fold: NDArray[np.int64],
    n_folds: int,
) -> list[CurvePoint]:
    query = TrustedScore(loss_name=problem.loss_name, preparation=preparation, theta=models, fold=fold, n_folds=n_folds)
    totals = {name: array.reshape(n_folds, len(fractions)).sum(axis=0) for name, array in federation.sum(query).items()}
    rows = np.maximum(totals["rows"], 1.0)
    mean = totals["loss"] / rows
    error = np.sqrt(np.maximum(totals["loss_sq"] / rows - mean**2, 0.0) / rows)
    spread = totals["target_sq"] - totals["target"] ** 2 / rows
    if problem.loss_name == "squared":
        score = 1.0 - 2.0 * totals["loss"] / np.maximum(spread, np.finfo(np.float64).tiny)
    else:
        score = totals["hits"] / rows
    return [
        CurvePoint(rule, float(f), float(mean[i]), float(error[i]), float(score[i])) for i, f in enumerate(fractions)
    ]


def best_fraction(curve: Sequence[CurvePoint]) -> float:
    """Return the largest fraction within one standard error of the best: drop rows only if trusted rows ask for it."""
    best = min(curve, key=lambda point: point.loss)
    return max(point.fraction for point in curve if point.loss <= best.loss + best.loss_error)
