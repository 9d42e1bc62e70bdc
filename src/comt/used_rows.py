"""Which rows a training learnt from: seen where rows and sums meet, at the data holder or in one process."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comt.agent import Agent
from comt.server.training import Training


def used_rows(agent: Agent, training: Training) -> NDArray[np.bool_]:
    """Return which of an agent's unverified rows were learnt from, in whichever reading.

    All, but for those that the rule of selection set aside, and those of agents that count next to nothing.
    """
    choice, selected = training.choice, training.selected
    if choice is not None and agent.name in choice.set_aside():
        return np.zeros(agent.rows.n_rows, dtype=bool)
    if selected is None:
        return np.ones(agent.rows.n_rows, dtype=bool)
    problem, preparation, solution = training.problem, training.preparation, training.solution
    if selected.rule == "alpha":
        large: NDArray[np.bool_] = np.abs(agent.alphas(problem, preparation, solution.r)) >= selected.threshold
        return large
    small: NDArray[np.bool_] = agent.losses(problem, preparation, solution.theta) < selected.threshold
    return small
