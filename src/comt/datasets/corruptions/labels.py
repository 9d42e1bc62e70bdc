"""Wrong labels: at random, in one class only, or where a column says so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comt.datasets._types import Array, Indices, Task
from comt.datasets.corruptions.base import (
    CLASSIFICATION,
    Corruption,
    Draft,
    draw_rows,
    pick,
    require_share,
)
from comt.errors import InputError


@dataclass(frozen=True)
class LabelFlips(Corruption):
    """Symmetric flips: every row of an agent is equally likely to be wrong."""

    fraction: float = 0.4

    def __post_init__(self) -> None:
        require_share("fraction", self.fraction)

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        return f"{self.fraction:.0%} of the labels flipped at random"

    @property
    def tasks(self) -> frozenset[Task]:
        """Return classification."""
        return CLASSIFICATION

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Flip labels at every agent."""
        for y in draft.targets:
            y[draw_rows(len(y), self.fraction, rng)] *= -1


@dataclass(frozen=True)
class AsymmetricFlips(Corruption):
    """Only rows of one class are mislabelled."""

    fraction: float = 0.7
    label: float = -1.0

    def __post_init__(self) -> None:
        require_share("fraction", self.fraction)
        if self.label not in (-1.0, 1.0):
            raise InputError(f"label is {self.label}; give -1 or +1.")

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        return f"{self.fraction:.0%} of the labels {self.label:+g} flipped, the others right"

    @property
    def tasks(self) -> frozenset[Task]:
        """Return classification."""
        return CLASSIFICATION

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Flip labels of the one class at every agent."""
        for y in draft.targets:
            rows = np.flatnonzero(y == self.label)
            y[rows[draw_rows(len(rows), self.fraction, rng)]] *= -1


@dataclass(frozen=True)
class FeatureDependentFlips(Corruption):
    """Systematic flips: the rows with the largest values of one column are mislabelled, at every agent.

    With ``columns`` = 2 or more it is the sum of that many columns, drawn like the one, that decides.
    """

    fraction: float = 0.3
    column: int | None = None
    columns: int = 1

    def __post_init__(self) -> None:
        require_share("fraction", self.fraction)

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        which = "one column" if self.column is None else f"column {self.column}"
        which = which if self.columns == 1 else f"the sum of {self.columns} columns"
        return f"labels of the {self.fraction:.0%} of rows with the largest values of {which} flipped"

    @property
    def tasks(self) -> frozenset[Task]:
        """Return classification."""
        return CLASSIFICATION

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Flip labels beyond one threshold for all agents."""
        values = _column(draft, self.column, rng)
        for _ in range(self.columns - 1):
            values = values + _column(draft, None, rng)
        # ties are broken at random so that exactly the asked share is flipped
        order = np.lexsort((rng.random(len(values)), -values))
        _flip(draft, order[: round(self.fraction * len(values))])


@dataclass(frozen=True)
class RuleOfThumb(Corruption):
    """Labels given by a rule on one column: the clearest disagreements are overruled, at every agent.

    Unlike flips beyond a threshold, which mostly cancel in a linear model, these teach it a wrong weight.
    """

    fraction: float = 0.3
    column: int | None = None

    def __post_init__(self) -> None:
        require_share("fraction", self.fraction)

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        which = "one column" if self.column is None else f"column {self.column}"
        return f"up to {self.fraction:.0%} of the labels overruled by the sign of {which} about its median"

    @property
    def tasks(self) -> frozenset[Task]:
        """Return classification."""
        return CLASSIFICATION

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Overrule the labels that disagree most, by one rule for all agents."""
        values = _column(draft, self.column, rng)
        # positive where label and rule disagree, the larger the clearer
        disagreement = -np.concatenate(draft.targets) * (values - np.median(values))
        order = np.argsort(-disagreement, kind="stable")[: round(self.fraction * len(values))]
        _flip(draft, order[disagreement[order] > 0])


def _column(draft: Draft, column: int | None, rng: np.random.Generator) -> Array:
    """Return one column of all agents' rows."""
    features = np.concatenate(draft.features)
    if column is None:
        # neither constant nor binary, if there is such a column: its largest values should mean something
        distinct = np.array([len(np.unique(values)) for values in features.T])
        graded = np.flatnonzero(distinct > 2)
        column = int(rng.choice(graded if len(graded) else len(distinct)))
    return features[:, pick("column", column, features.shape[1], rng)]


def _flip(draft: Draft, rows: Indices) -> None:
    """Flip labels by their position among all agents' rows."""
    flip = np.zeros(sum(len(y) for y in draft.targets), dtype=np.bool_)
    flip[rows] = True
    ends = np.cumsum([len(y) for y in draft.targets])[:-1]
    for y, wrong in zip(draft.targets, np.split(flip, ends), strict=True):
        y[wrong] *= -1
