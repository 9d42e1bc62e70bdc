"""Which columns of an agent's own rows look corrupted, against all agents' rows and against its own trusted ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from comt.problem import Array
from comt.report.kinds import columns_named
from comt.report.private import ColumnFinding

if TYPE_CHECKING:
    import pandas as pd

#: scales from the centre at which a cell cannot be an ordinary value, or an agent's median an ordinary median
FAR_CELL, FAR_MEDIAN = 10.0, 5.0
#: a code for "missing" is one far value in at least this share of the rows, and in at least this many
CODE_SHARE, CODE_ROWS = 0.005, 5
#: spread of an agent's column, in the federation's scale, from which it looks noisy
NOISY = 3.0
#: own trusted rows from which they are a reference as well
FEWEST_TRUSTED = 8
#: factors between units that people mix up: powers of ten, inches, square feet, pounds, gallons, calories, psi, minutes
UNIT_FACTORS = (1000.0, 100.0, 10.0, 2.54, 25.4, 10.764, 2.2046, 3.785, 4.184, 14.504, 60.0)
#: how near to one of them a ratio of medians must be, in logarithms
NEAR = 0.1
#: far values are in another unit if divided by a factor this share of them is this many scales from the centre at most
ORDINARY_SHARE, ORDINARY = 0.9, 3.0


@dataclass(frozen=True)
class Reference:
    """What a column is compared with: a median, a spread, and whose they are in words."""

    center: float
    scale: float
    whose: str


def column_findings(
    features: Array,
    names: Sequence[str],
    center: Array,
    scale: Array,
    issues: pd.DataFrame | None = None,
    trusted: Array | None = None,
) -> list[ColumnFinding]:
    """Return what stands out column by column, most rows first; what the issue table says of a column comes first.

    Parameters
    ----------
    features, names:
        The agent's raw rows and the names of their columns.
    center, scale:
        Median and spread over all agents (:class:`comt.preparation.Preparation`); infinite scales are skipped.
    issues:
        The agent's issue table; its ``kind`` and ``column`` are used if it has them.
    trusted:
        The agent's own trusted rows: where many rows of all agents are wrong, only they tell what is right.
    """
    found = {} if issues is None else _from_issues(issues, names)
    for index, name in enumerate(names):
        values = features[:, index]
        # a column of yes and no has no unit and no outliers
        if name in found or not len(values) or np.isin(values, (0.0, 1.0)).all():
            continue
        references = [Reference(float(center[index]), float(scale[index]), "all agents")]
        if trusted is not None and len(trusted) >= FEWEST_TRUSTED:
            references.append(_own_reference(trusted[:, index]))
        for reference in references:
            if 0 < reference.scale < np.inf and name not in found:
                finding = _from_values(name, values, reference)
                if finding is not None:
                    found[name] = finding
    return sorted(found.values(), key=lambda finding: -finding.rows)


def _own_reference(trusted: Array) -> Reference:
    low, median, high = (float(q) for q in np.percentile(trusted, [25, 50, 75]))
    # of few rows the quartiles may lie together by chance
    return Reference(median, max((high - low) / 1.349, float(np.std(trusted))), "your trusted rows")


def _from_issues(issues: pd.DataFrame, names: Sequence[str]) -> dict[str, ColumnFinding]:
    if not {"kind", "column", "flagged"} <= set(issues.columns):
        return {}
    named = issues[issues["flagged"].astype(bool) & (issues["column"].fillna("") != "")]
    found: dict[str, ColumnFinding] = {}
    counts: dict[tuple[str, str], int] = {}
    for (text, kind), lines in named.groupby(["column", "kind"], sort=False):
        for column in columns_named(str(text), names):
            counts[column, str(kind)] = counts.get((column, str(kind)), 0) + len(lines)
    for (column, kind), rows in sorted(counts.items(), key=lambda item: item[1]):  # the kind of most rows comes last
        sentence = f"{rows:,} of {len(issues):,} rows ({rows / len(issues):.0%}) look wrong because of this column."
        found[column] = ColumnFinding(column=column, kind=kind, rows=rows, sentence=sentence)
    return found


def _from_values(name: str, values: Array, reference: Reference) -> ColumnFinding | None:
    center, scale, whose = reference.center, reference.scale, reference.whose
    distance = np.abs(values - center) / scale
    low, median, high = np.percentile(values, [25, 50, 75])
    if abs(median - center) > FAR_MEDIAN * scale:
        apart, factor = abs(median - center) / scale, _factor(median, center)
        sentence = f"Your median is {median:.4g} where that of {whose} is {center:.4g}: "
        sentence += f"{apart:.0f} spreads apart." if factor is None else f"{factor}, as if in another unit."
        kind = "shift" if factor is None else "unit"
        return ColumnFinding(column=name, kind=kind, rows=len(values), sentence=sentence)
    far = distance > FAR_CELL
    if far.any():
        codes, counts = np.unique(values[far], return_counts=True)
        most = int(counts.max())
        if most >= max(CODE_ROWS, CODE_SHARE * len(values)):
            code = float(codes[counts.argmax()])
            sentence = f"{most:,} rows hold exactly {code:.6g}, far from all other values: a code for “missing”?"
            return ColumnFinding(column=name, kind="missing code", rows=most, sentence=sentence)
        part = _in_another_unit(values[far], center, scale)
        if part is not None and far.sum() >= max(CODE_ROWS, CODE_SHARE * len(values)):
            sentence = f"{far.sum():,} of {len(values):,} values would be ordinary if {part}: another unit?"
            return ColumnFinding(column=name, kind="unit", rows=int(far.sum()), sentence=sentence)
    if high - low > NOISY * 1.349 * scale:
        times = (high - low) / (1.349 * scale)
        sentence = f"Your values vary {times:.1f} times as much as those of {whose} together."
        return ColumnFinding(column=name, kind="noise", rows=len(values), sentence=sentence)
    if far.sum() >= max(CODE_ROWS, CODE_SHARE * len(values)):
        rows = int(far.sum())
        sentence = f"{rows:,} rows lie more than {FAR_CELL:.0f} spreads from the median of {whose}."
        return ColumnFinding(column=name, kind="outliers", rows=rows, sentence=sentence)
    return None


def _in_another_unit(far: Array, center: float, scale: float) -> str | None:
    """Say by which factor far values become ordinary ones; None if no factor between units does it."""
    best: tuple[float, str] | None = None
    for factor in UNIT_FACTORS:
        for words, values in (("divided", far / factor), ("multiplied", far * factor)):
            near = np.abs(values - center) <= ORDINARY * scale
            distance = abs(float(np.median(values)) - center)
            if near.mean() >= ORDINARY_SHARE and (best is None or distance < best[0]):
                best = distance, f"{words} by about {factor:.4g}"
    return None if best is None else best[1]


def _factor(median: float, center: float) -> str | None:
    """Name the factor between two medians if it is one between units."""
    if median == 0 or center == 0 or (median > 0) != (center > 0):
        return None
    ratio = float(np.log(median / center))
    factor = min(UNIT_FACTORS, key=lambda factor: abs(abs(ratio) - np.log(factor)))
    if abs(abs(ratio) - np.log(factor)) > NEAR:
        return None
    return f"about {factor:.4g} times as large" if ratio > 0 else f"about 1/{factor:.4g} of that"
