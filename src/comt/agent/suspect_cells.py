"""Which cells of an agent look wrong as a column: a number that stands for "missing", or a column in another unit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from comt.agent.folds import content_hash
from comt.issue_context import IssueContext
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import rank_edges

NORMAL_IQR = 1.349
#: a code is written at least this often, and in at least this share of the rows
FEWEST_CODES, LEAST_SHARE = 3, 0.005
#: a far-out code is this many spreads away from the middle, and half the range of all other values beyond them
FAR = 6.0
#: agents' spreads may differ by this factor without being in different units
HETEROGENEOUS = 5.0
#: numbers that people write for "missing": −1, and nines; not 0, which is as often a measurement
CUSTOMARY = frozenset({-1.0} | {sign * float("9" * digits) for digits in range(1, 7) for sign in (-1.0, 1.0)})
#: believed of codes inside the range of the values where no trusted row tells whether that number is a natural one
UNCONFIRMED, UNCONFIRMED_CUSTOMARY = 0.7, 0.85
#: log-odds below which a number inside the range of the values is no natural one
SURE, SURE_CUSTOMARY = -4.0, -1.0
#: log-odds above which even a customary code in a column whose other numbers hardly repeat is a natural number
NATURAL = 3.0


@dataclass(frozen=True)
class ColumnIssue:
    """A number that stands for missing values (``code``), or the factor by which a column is too large."""

    column: int
    kind: str
    confidence: float
    code: float = np.nan
    factor: float = 1.0
    #: a factor concerns the values further than ``reach`` from ``center`` only; −1: all of them
    center: float = 0.0
    reach: float = -1.0

    def cells(self, values: Array) -> NDArray[np.bool_]:
        """Mark the wrong ones among the column's values."""
        code = self.kind == "missing code"
        marked: NDArray[np.bool_] = values == self.code if code else np.abs(values - self.center) > self.reach
        return marked


def suspect_columns(
    sample: Array, targets: Array, trusted: Array, context: IssueContext, preparation: Preparation
) -> list[ColumnIssue]:
    """Look at a sample of an agent's raw rows column by column; ``trusted`` are its own trusted rows."""
    found: list[ColumnIssue] = []
    if len(sample) < 2 * FEWEST_CODES:
        return found
    # one row copied many times is not a code in every one of its columns
    _, first = np.unique(content_hash(sample, targets), return_index=True)
    distinct = sample[np.sort(first)]
    for column, values in enumerate(distinct.T):
        if not np.isfinite(context.scale[column]):
            continue
        codes = _codes(column, values, trusted[:, column], context, preparation)
        found += codes
        rest = values[~np.isin(values, [issue.code for issue in codes])]
        found += _unit(column, rest, trusted[:, column], context, preparation)
    return found


def _spread(values: Array) -> float:
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low) / NORMAL_IQR or float(values.std())


def _codes(
    column: int, values: Array, trusted: Array, context: IssueContext, preparation: Preparation
) -> list[ColumnIssue]:
    numbers, counts = np.unique(values, return_counts=True)
    least = max(FEWEST_CODES, LEAST_SHARE * len(values))
    found: list[ColumnIssue] = []
    ranked = np.argsort(-counts)
    for place in dict.fromkeys([*ranked[:3].tolist(), *np.flatnonzero(np.isin(numbers, list(CUSTOMARY))).tolist()]):
        code, count = float(numbers[place]), int(counts[place])
        rest = values[~np.isin(values, [code, *(issue.code for issue in found)])]
        if count < least or len(rest) < FEWEST_CODES:
            continue
        outside = max(float(rest.min()) - code, code - float(rest.max()))
        far = abs(code - float(np.median(rest))) > FAR * _spread(rest) and outside > 0.5 * float(np.ptp(rest)) > 0
        ties = len(rest) / len(np.unique(rest))  # 1: the column is continuous, and no number should occur twice
        if not far and count <= 10.0 * ties:
            continue
        odds = _natural(column, code, count / len(values), rest, trusted, context, preparation)
        customary = code in CUSTOMARY
        if (far and not odds > 0) or odds < (SURE_CUSTOMARY if customary else SURE):
            found.append(ColumnIssue(column, "missing code", 1.0 - 1.0 / (count + 1.0), code=code))
        elif ties < 2.0 and customary and not odds > NATURAL:
            found.append(ColumnIssue(column, "missing code", UNCONFIRMED_CUSTOMARY, code=code))
        elif ties < 2.0 and np.isnan(odds):
            found.append(ColumnIssue(column, "missing code", UNCONFIRMED, code=code))
    return found


def _natural(
    column: int,
    code: float,
    share: float,
    rest: Array,
    trusted: Array,
    context: IssueContext,
    preparation: Preparation,
) -> float:
    """Return the log-odds that trusted rows hold the number about as often; NaN where they are too few to tell."""
    if np.count_nonzero(trusted == code) > 0.25 * share * len(trusted):
        return np.inf
    m = context.trusted_rows
    if context.trusted_columns is None or m * share < 2.0:
        return np.nan
    # in the histogram of the federation's trusted rows the number shares its bin with its neighbours
    ready = preparation.features(_in_column(np.append(rest, code), column, preparation))[:, column]
    bins = np.searchsorted(rank_edges(), ready, side="right")
    beside = min((np.count_nonzero(bins[:-1] == bins[-1]) + 0.5) / (len(rest) + 1.0), 0.98)
    seen = float(context.trusted_columns[column, int(bins[-1])])
    as_often = min(beside + share, 0.99)
    return float(seen * np.log(as_often / beside) + (m - seen) * np.log((1.0 - as_often) / (1.0 - beside)))


def _in_column(values: Array, column: int, preparation: Preparation) -> Array:
    block = np.tile(preparation.center, (len(values), 1))
    block[:, column] = values
    return block


def _unit(
    column: int, values: Array, trusted: Array, context: IssueContext, preparation: Preparation
) -> list[ColumnIssue]:
    if len(np.unique(values[:1000])) <= 10:
        return []
    spread = _spread(values)
    ratio = spread / float(context.scale[column])
    if not ratio > 0 or abs(np.log(ratio)) < np.log(HETEROGENEOUS):
        return _unit_of_some(column, values, context)
    own = _spread(trusted) if len(trusted) >= 5 else 0.0
    if own > 0 and abs(np.log(spread / own)) < 0.5 * abs(np.log(ratio)):
        return []  # this agent's verified rows are like that too: it is different, not wrong
    tens = round(float(np.log10(ratio)))
    factor = 10.0**tens if abs(np.log10(ratio) - tens) < 0.3 else float(f"{ratio:.2g}")
    if not _looks_trusted(column, values / factor, context, preparation):
        return []  # it varies more, but not as a multiple of the right values would
    return [ColumnIssue(column, "unit", 0.99, factor=factor)]


def _unit_of_some(column: int, values: Array, context: IssueContext) -> list[ColumnIssue]:
    """Look for another unit in part of the rows: values far out that, divided by a power of ten, are like the others."""
    center, scale = float(context.center[column]), float(context.scale[column])
    out = np.abs(values - center) > FAR * scale
    far, rest = values[out], np.sort(values[~out])
    if len(far) < max(2 * FEWEST_CODES, LEAST_SHARE * len(values)) or len(rest) < len(far):
        return []
    if np.median(np.abs(far - center)) < 3.0 * FAR * scale:
        return []  # most of a long tail lies where it begins
    best, factor = np.inf, 1.0
    for tens in (-4, -3, -2, -1, 1, 2, 3, 4, 5, 6):
        undone = np.sort(far / 10.0**tens)
        both = np.concatenate([undone, rest])
        shares = [np.searchsorted(part, both, side="right") / len(part) for part in (undone, rest)]
        distance = float(np.abs(shares[0] - shares[1]).max())
        if distance < best:
            best, factor = distance, 10.0**tens
    if best > 0.1 + 1.6 / np.sqrt(len(far)) or not _as_large(far, rest, factor, center, FAR * scale):
        return []
    return [ColumnIssue(column, "unit", 0.95, factor=factor, center=center, reach=FAR * scale)]


def _as_large(far: Array, rest: Array, factor: float, center: float, reach: float) -> bool:
    """Tell whether far values, undone, lie as far from the centre as ordinary ones whose multiples would be far out."""
    alike = rest[np.abs(rest * factor - center) > reach]
    sizes = [np.log(np.maximum(np.abs(part - center), 1e-300)) for part in (far / factor, alike)]
    if len(alike) < FEWEST_CODES:
        return False
    low, middle, high = np.quantile(sizes[1], [0.25, 0.5, 0.75])
    error = 1.25 * (high - low) / NORMAL_IQR / np.sqrt(len(far))
    return bool(abs(np.median(sizes[0]) - middle) < 0.1 + 3.0 * error)


def _looks_trusted(column: int, values: Array, context: IssueContext, preparation: Preparation) -> bool:
    """Tell whether values spread like those of the federation's trusted rows, by the largest distance of the two shares."""
    m = context.trusted_rows
    if context.trusted_columns is None or m < 10:
        return True
    ready = preparation.features(_in_column(values, column, preparation))[:, column]
    own = np.searchsorted(np.sort(ready), rank_edges(), side="left") / len(ready)
    seen = context.trusted_columns[column].cumsum()[:-1] / m
    return bool(np.abs(own - seen).max() < 0.1 + 1.6 / np.sqrt(m))


@dataclass(frozen=True, eq=False)
class CellRepair:
    """Rewrites the wrong cells of raw blocks: other units are undone, codes replaced by what the other columns suggest."""

    issues: tuple[ColumnIssue, ...]
    preparation: Preparation
    mean: Array  # of sound prepared rows
    covariance: Array | None

    @classmethod
    def fitted(cls, issues: list[ColumnIssue], sample: Array, preparation: Preparation) -> CellRepair:
        """Learn from the sound rows of a sample how the columns go together."""
        n_features = sample.shape[1]
        plain = cls(tuple(issues), preparation, np.zeros(n_features), None)
        codes = [issue for issue in issues if issue.kind == "missing code"]
        if not codes:
            return plain
        units, _ = replace(plain, issues=tuple(i for i in issues if i.kind == "unit"))(sample)
        sound = np.ones(len(sample), dtype=np.bool_)
        for issue in codes:
            sound &= ~issue.cells(sample[:, issue.column])
        ready = preparation.features(units[sound])[:, :n_features]
        if len(ready) < 2 * n_features + 2:
            return plain
        return replace(plain, mean=ready.mean(axis=0), covariance=np.cov(ready.T).reshape(n_features, n_features))

    def __call__(self, raw: Array) -> tuple[Array, dict[int, NDArray[np.bool_]]]:
        """Return the repaired block and, by the issue's position, which rows it concerns."""
        if not self.issues:
            return raw, {}
        repaired = raw.copy()
        marks = {place: issue.cells(raw[:, issue.column]) for place, issue in enumerate(self.issues)}
        missing = np.zeros(raw.shape, dtype=np.bool_)
        for place, issue in enumerate(self.issues):
            if issue.kind == "missing code":
                missing[:, issue.column] |= marks[place]
        for place, issue in enumerate(self.issues):
            if issue.kind == "unit":
                marks[place] &= ~missing[:, issue.column]
                repaired[marks[place], issue.column] /= issue.factor
        self._fill(repaired, missing)
        return repaired, marks

    def _fill(self, repaired: Array, missing: NDArray[np.bool_]) -> None:
        n_features = repaired.shape[1]
        known_scale = np.where(np.isfinite(self.preparation.scale), self.preparation.scale, 0.0)
        repaired[missing] = np.broadcast_to(self.preparation.center + self.mean * known_scale, missing.shape)[missing]
        if self.covariance is None or not missing.any():
            return
        patterns, which = np.unique(missing, axis=0, return_inverse=True)
        ready = self.preparation.features(repaired)[:, :n_features] - self.mean
        for number, pattern in enumerate(patterns):
            if not pattern.any() or pattern.all():
                continue
            rows = np.flatnonzero(np.ravel(which) == number)
            inside = self.covariance[np.ix_(~pattern, ~pattern)]
            inside = inside + 1e-6 * np.trace(inside) / len(inside) * np.eye(len(inside)) + 1e-12 * np.eye(len(inside))
            gain = np.linalg.solve(inside, self.covariance[np.ix_(~pattern, pattern)])
            guess = ready[np.ix_(rows, ~pattern)] @ gain + self.mean[pattern]
            center, scale = self.preparation.center[pattern], known_scale[pattern]
            repaired[np.ix_(rows, pattern)] = center + np.clip(guess, -3.0, 3.0) * scale
