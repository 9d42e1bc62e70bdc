"""Whose labels are reversed? Agents' own models are compared with one another, before any trusted row is looked at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comt.problem import Array
from comt.server.auto.labels import LabelFit

#: an agent is called reversed only if its own model is reliable and points clearly away from the leading agent's
RELIABLE, OPPOSED = 0.5, -0.3


@dataclass(frozen=True)
class Signs:
    """Which agents point the other way than the leading one, and how much of the agreement is theirs."""

    reversed: NDArray[np.bool_]
    #: share of the smaller camp: the prior probability that the leading camp is the wrong one
    minority: float


def compare_agents(fits: list[LabelFit], spread: Array) -> Signs:
    """Compare the agents' own models by the leading eigenvector of their agreement, weighted by reliability."""
    d = len(spread)
    models = np.stack([fit.theta[:d] for fit in fits])
    reliability = np.array([fit.reliability(spread) for fit in fits])
    size = np.sqrt(np.maximum(np.einsum("kd,de,ke->k", models, spread, models), 1e-300))
    cosine = (models @ spread @ models.T) / np.outer(size, size)
    weight = np.sqrt(reliability)
    leading = np.linalg.eigh(np.outer(weight, weight) * cosine)[1][:, -1]
    leader = int(np.argmax(np.abs(leading)))
    leading = leading * np.sign(leading[leader])
    opposed = (leading < 0) & (reliability > RELIABLE) & (cosine[leader] < OPPOSED)
    minority = min(float((leading[leading > 0] ** 2).sum()), float((leading[leading < 0] ** 2).sum()))
    return Signs(opposed, minority)
