"""FLTrust: trust an agent as far as its update points where the server's own does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from comt.baselines.base import AgentRows, Array, LinearModel, Task
from comt.baselines.checks import trusted_rows
from comt.baselines.rounds import LocalObjective, Round, UpdateBaseline, safe_step


def trust_scores(updates: Array, server_update: Array) -> Array:
    """Return max(cos(g_k, g_0), 0) for each row g_k, and 0 for an update of length zero."""
    lengths = np.linalg.norm(updates, axis=1) * np.linalg.norm(server_update)
    cosines = (updates @ server_update) / np.where(lengths > 0, lengths, 1.0)
    return np.maximum(cosines, 0.0)


def fltrust(updates: Array, server_update: Array) -> Array:
    """Return sum_k TS_k (|g_0|/|g_k|) g_k / sum_k TS_k, or zero when no agent is trusted.

    >>> fltrust(np.array([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]]), np.array([1.0, 0.0]))
    array([1., 0.])
    """
    scores = trust_scores(updates, server_update)
    total = float(scores.sum())
    if total == 0:
        return np.zeros_like(server_update)
    lengths = np.linalg.norm(updates, axis=1)
    factors = scores * np.linalg.norm(server_update) / np.where(lengths > 0, lengths, 1.0)
    return np.asarray((factors / total) @ updates, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class FLTrust(UpdateBaseline):
    """rule(g) = sum_k TS_k (|g_0|/|g_k|) g_k / sum_k TS_k, TS_k = max(cos(g_k, g_0), 0) (Cao et al. 2021).

    g_0 is the server's own update from its root data. The root data are the trusted rows of ALL agents,
    which therefore leave their owners: the strongest form of this rival, and one that CoMT's setting does
    not allow. The model stands still where g_0 = 0 or where no agent agrees with g_0. ``found["trust"]``
    holds the scores at the final model.
    """

    name: ClassVar[str] = "FLTrust"
    sends: ClassVar[str] = "all trusted ROWS to the server, once; then d numbers per agent and round, each in the clear"

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Run the rounds with trust scores from the pooled trusted rows."""
        objectives = self.objectives(agents, task)
        root = LocalObjective(*trusted_rows(self, agents), task, objectives[0].decay)
        # few root rows can be steeper than any agent, and the server takes local steps on them too
        step = self.step or safe_step([*objectives, root])

        def rule(updates: Array, now: Round) -> Array:
            return fltrust(updates, root.update(now.coef, step, self.local_steps))

        model = self.run(objectives, rule, step=step)
        last = np.stack([objective.update(model.coef, step, self.local_steps) for objective in objectives])
        trust = trust_scores(last, root.update(model.coef, step, self.local_steps))
        return replace(model, found={**model.found, "trust": trust})
