"""Whose labels or targets are reversed? Agents' own models are compared before any trusted row is looked at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comt.problem import Array

#: an agent is called reversed only if its own model is reliable and points clearly away from the leading agent's
RELIABLE, OPPOSED = 0.5, -0.3
#: probability that one agent's labels are reversed, where some are
REVERSED = 1.0 / 3.0


@dataclass(frozen=True)
class Signs:
    """Which agents point the other way than the leading ones, and how likely it is that these are the wrong ones."""

    reversed: NDArray[np.bool_]
    #: prior probability that the larger camp is the wrong one
    larger_wrong: float


def compare_agents(models: Array, reliability: Array, spread: Array) -> Signs:
    """Compare the agents' own models (K, p) by the leading eigenvector of their agreement, weighted by reliability."""
    d = len(spread)
    models = models[:, :d]
    size = np.sqrt(np.maximum(np.einsum("kd,de,ke->k", models, spread, models), 1e-300))
    cosine = (models @ spread @ models.T) / np.outer(size, size)
    weight = np.sqrt(reliability)
    leading = np.linalg.eigh(np.outer(weight, weight) * cosine)[1][:, -1]
    # the larger camp leads, not the agent whose labels are the clearest: that may be the one who reverses all of them
    if (leading[leading > 0] ** 2).sum() < 0.5:
        leading = -leading
    leader = int(np.argmax(leading))
    opposed = (leading < 0) & (reliability > RELIABLE) & (cosine[leader] < OPPOSED)
    smaller = float((leading[leading < 0] ** 2).sum())
    odds = odds_of_smaller(len(models), smaller)
    return Signs(opposed, odds / (1.0 + odds) if smaller > 0 else 0.0)


def odds_of_smaller(agents: int, share: float) -> float:
    """Return the odds beforehand that the camp with this share of the agents is the right one."""
    # so many more agents would have to be wrong
    return float((1.0 / REVERSED - 1.0) ** (-agents * (1.0 - 2.0 * share)))
