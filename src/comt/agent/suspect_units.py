"""Whether values far out are in another unit, or merely wrong: a unit is right where it makes targets fit."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from comt.agent.suspect_cells import ColumnIssue
from comt.issue_context import IssueContext
from comt.preparation import Preparation
from comt.problem import Array

#: standard errors of a difference from which on it is believed
SURE = 2.0
STEPS = 10


def units_that_explain(
    found: list[ColumnIssue],
    sample: Array,
    targets: Array,
    theta: Array,
    context: IssueContext,
    preparation: Preparation,
) -> list[ColumnIssue]:
    """Leave out units of some rows under which those rows' targets fit neither as well as others' nor better than before.

    Noise of thirty spreads looks like a factor of thirty, but the values it hides under are lost.
    """
    return [
        issue
        for issue in found
        if issue.kind != "unit" or issue.reach < 0 or not _refuted(issue, sample, targets, theta, context, preparation)
    ]


def _refuted(
    issue: ColumnIssue, sample: Array, targets: Array, theta: Array, context: IssueContext, preparation: Preparation
) -> bool:
    column, mine = issue.column, issue.cells(sample[:, issue.column])
    given = preparation.targets(targets) if context.classes is None else targets
    undone = sample.copy()
    undone[mine, column] /= issue.factor
    ready = preparation.features(undone)
    ordinary = float(np.median(ready[~mine, column]))
    rest = _rest(ready, column, theta, context)
    # the column's own slope among its ordinary values: the model's may have been spoilt by the others
    slope, level = _slope(ready[~mine, column], rest[~mine], given[~mine], context)
    misfit = _misfit(rest + level + slope * ready[:, column], given, context)
    gained = _misfit(rest[mine] + level + slope * ordinary, given[mine], context) - misfit[mine]
    apart = np.sqrt(misfit[mine].var() / np.count_nonzero(mine) + misfit[~mine].var() / np.count_nonzero(~mine))
    as_well_as_others = misfit[mine].mean() - misfit[~mine].mean() <= SURE * apart
    better = gained.mean() > SURE * gained.std() / np.sqrt(len(gained))
    return not as_well_as_others and not better


def _rest(ready: Array, column: int, theta: Array, context: IssueContext) -> Array:
    """Return the prediction (log-odds) of prepared rows without one column's part."""
    other = ready.copy()
    other[:, column] = 0.0
    if context.classes is None:
        return other @ theta
    return context.main_label_model.plain(other)


def _slope(values: Array, rest: Array, given: Array, context: IssueContext) -> tuple[float, float]:
    """Fit targets ≈ rest + level + slope · values by Newton's method, one step of which is least squares."""
    design, best = np.column_stack([values, np.ones(len(values))]), np.zeros(2)
    for _ in range(1 if context.classes is None else STEPS):
        at = rest + design @ best
        if context.classes is None:
            slack, curve = given - at, np.ones(len(at))
        else:
            chance = expit(at)
            slack, curve = (given > 0) - chance, np.maximum(chance * (1.0 - chance), 1e-3)
        best = best + np.linalg.solve(design.T @ (design * curve[:, None]) + 1e-6 * np.eye(2), design.T @ slack)
    return float(best[0]), float(best[1])


def _misfit(predicted: Array, given: Array, context: IssueContext) -> Array:
    if context.classes is None:
        size: Array = np.abs(given - predicted)
        return size
    return np.logaddexp(0.0, -given * predicted)
