"""Which single cells look wrong: far out, and with another value in that one place the row would be ordinary.

Every row is read in three ways, by their likelihoods:

    right    features and target as they come
    target   ordinary features, and a target (label) that is wrong
    cell j   a value far out in column j, and a target that would be right if that value were an ordinary one

A value in column j is ordinary where it is near what the other columns say. How far out ordinary values lie is not left
to the normal distribution: they are allowed the tails that the trusted rows have, falling no faster than Cauchy's do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from comt.agent.far_groups import trusted_outside
from comt.agent.suspect_cells import NORMAL_IQR
from comt.agent.target_reading import Reading
from comt.issue_context import IssueContext
from comt.preparation import Preparation, compress
from comt.problem import Array

STEPS = 40
#: spreads from what the other columns say at which a value is far out, and where ordinary tails begin
FAR = 3.0
#: spreads from it below which a cell is not called wrong whatever would explain the target
APART = 2.0
#: columns of fewer values are levels, none of which is far out
LEVELS = 10
#: wider rows are not looked at: every column is guessed from all the others
WIDEST = 512
#: wrong values are of any size, on a logarithmic scale from within one spread to some thousand: ln 3000
DECADES = 8.0
#: imagined rows behind the shares of right rows, wrong targets and wrong cells
PRIOR_ROWS = (4.0, 0.5, 0.5)


@dataclass(frozen=True, eq=False)
class Strays:
    """The cell of every row that is most likely wrong, in raw units."""

    column: NDArray[np.intp]
    #: probability that this cell is wrong, and that it is rather than the target if either is
    wrong: Array
    rather: NDArray[np.bool_]
    guess: Array


@dataclass(frozen=True, eq=False)
class StrayCells:
    """How ordinary values of an agent's columns go together, and how often a cell of each is wrong."""

    preparation: Preparation
    columns: NDArray[np.intp]
    center: Array  # raw, of the agent's own values
    scale: Array
    mean: Array  # of the compressed values, in spreads
    left: Array  # values less their mean, times this: what the other columns do not say
    variance: Array  # of that
    tails: Array  # share of ordinary values beyond FAR spreads
    slopes: Array  # what one spread moves the prediction by
    theta: Array
    shares: Array  # right, wrong target, wrong cell of each column
    counted: float  # rows that they were counted over, imagined ones included

    @classmethod
    def fitted(
        cls,
        raw: Array,
        reading: Reading,
        theta: Array,
        context: IssueContext,
        preparation: Preparation,
    ) -> StrayCells | None:
        """Learn from a sample of an agent's rows; None where no column is suited."""
        columns = _suited(raw, context)
        if not len(columns) or len(columns) > WIDEST or len(raw) < 2 * len(columns) + 8:
            return None
        center, scale = np.median(raw[:, columns], axis=0), _spread(raw[:, columns])
        width, known = len(columns), preparation.scale[columns]
        shares = np.concatenate([[0.9, 0.05], np.full(width, 0.05 / width)])
        found = cls(
            preparation=preparation,
            columns=columns,
            center=center,
            scale=scale,
            mean=np.zeros(width),
            left=np.eye(width),
            variance=np.ones(width),
            tails=_tails(columns, center, scale, context, preparation),
            theta=theta[columns],
            slopes=theta[columns] * scale / known,
            shares=shares,
            counted=len(raw) + sum(PRIOR_ROWS),
        )
        keep = np.ones(len(raw), dtype=np.bool_)
        for _ in range(2):  # the second time without the rows that hold wrong cells
            found = found._joined(raw[keep])._climbed(raw, reading)
            keep = found(raw, reading).wrong < 0.5
            if np.count_nonzero(keep) < 2 * width + 8:
                return None
        return found

    def __call__(self, raw: Array, reading: Reading, absurd: NDArray[np.bool_] | None = None) -> Strays:
        """Judge a block of raw rows; cells known to be ``absurd`` (n × all columns) come before all others."""
        value, away, shift = self._seen(raw)
        logs = self._logs(value, away, shift, reading)
        # what a row adds to the share of its own reading is no reason to read it so
        others = self.shares - _normalised(logs) / self.counted
        weights = _normalised(logs + np.log(np.maximum(others / self.shares, 1e-12)))
        cells = weights[:, 2:] + (0.0 if absurd is None else absurd[:, self.columns])
        best, row = cells.argmax(axis=1), np.arange(len(raw))
        wrong, variance = weights[row, 2 + best], self.variance[best]
        far = np.abs(away[row, best]) > APART * np.sqrt(variance)
        drawn = reading.drawn(shift[row, best], self.slopes[best], variance)
        guess = self.center[best] + (value[row, best] - away[row, best] + drawn) * self.scale[best]
        return Strays(self.columns[best], wrong, far & (wrong > weights[:, 1]), guess)

    def _joined(self, raw: Array) -> StrayCells:
        """Learn how the columns go together."""
        values = compress((raw[:, self.columns] - self.center) / self.scale)
        covariance = np.cov(values.T).reshape(len(self.columns), -1)
        few = len(self.columns) / (len(values) + len(self.columns))
        covariance = (1.0 - few) * covariance + (few + 1e-6) * np.diag(np.diag(covariance))
        precision = np.linalg.inv(covariance)
        left = precision / np.diag(precision)
        mean = values.mean(axis=0)
        # where tails are heavy the inverse promises another spread than most rows have
        usual = np.median(np.abs((values - mean) @ left), axis=0) / 0.6745
        return replace(self, mean=mean, left=left, variance=np.maximum(usual, 1e-3) ** 2)

    def _seen(self, raw: Array) -> tuple[Array, Array, Array]:
        """Return values in spreads, how far they are from what the others say, and what that guess does to predictions."""
        value = (raw[:, self.columns] - self.center) / self.scale
        squeezed = compress(value)
        guess = squeezed - (squeezed - self.mean) @ self.left
        known = self.preparation
        ordinary = (self.center + guess * self.scale - known.center[self.columns]) / known.scale[self.columns]
        return value, value - guess, self.theta * (ordinary - known.features(raw)[:, self.columns])

    def _logs(self, value: Array, away: Array, shift: Array, reading: Reading) -> Array:
        """Return the log-likelihood of every reading, n × (2 + d), relative to that of ordinary features."""
        near = -0.5 * (away**2 / self.variance + np.log(2.0 * np.pi * self.variance))
        beyond = np.log(self.tails * FAR / 2.0) - 2.0 * np.log(np.maximum(np.abs(value), FAR))
        strange = -np.log(2.0 * DECADES * np.maximum(np.abs(value), 1.0))
        cells = strange - np.logaddexp(near, beyond) + reading.moved(shift, self.slopes**2 * self.variance)
        logs = np.column_stack([reading.right, reading.wrong, cells])
        logs += np.log(self.shares)
        return logs

    def _climbed(self, raw: Array, reading: Reading) -> StrayCells:
        """Fit the shares by expectation-maximisation."""
        found, seen, width = self, self._seen(raw), len(self.columns)
        prior = np.concatenate([PRIOR_ROWS[:2], np.full(width, PRIOR_ROWS[2] / width)])
        for _ in range(STEPS):
            weights = _normalised(found._logs(*seen, reading))
            count = weights.sum(axis=0)
            found = replace(found, shares=(count + prior) / found.counted)
        return found


def _normalised(logs: Array) -> Array:
    weights: Array = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def _suited(raw: Array, context: IssueContext) -> NDArray[np.intp]:
    if len(raw) < 8:
        return np.empty(0, dtype=np.intp)
    levels = np.array([len(np.unique(values[:1000])) <= LEVELS for values in raw.T], dtype=np.bool_)
    return np.flatnonzero(~levels & np.isfinite(context.scale) & (_spread(raw) > 0))


def _spread(raw: Array) -> Array:
    low, high = np.quantile(raw, [0.25, 0.75], axis=0)
    spread: Array = (high - low) / NORMAL_IQR
    return spread


def _tails(
    columns: NDArray[np.intp], center: Array, scale: Array, context: IssueContext, preparation: Preparation
) -> Array:
    """Return an upper guess of the share of right values beyond FAR spreads: one more than the trusted rows show."""
    if context.trusted_columns is None:
        return np.full(len(columns), 0.5)
    low, high = np.tile(preparation.center, (2, 1))
    low[columns], high[columns] = center - FAR * scale, center + FAR * scale
    beyond = trusted_outside(low, high, context.trusted_columns, preparation)[columns]
    return np.minimum((beyond + 1.0) / (context.trusted_rows + 2.0), 0.5)
