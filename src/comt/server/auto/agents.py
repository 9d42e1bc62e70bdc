"""Which agents contradict everybody's trusted rows? Each agent is judged by ranks inside its own distributions.

A ridge fit of agent k's rows gives every row an error; if the trusted rows (of everybody) are like the agent's rows, they
rank uniformly among them. A fit meets its own rows too well, which matters where they are few: their errors are taken as
large as those of other rows would be. A p-value p_k leaves at least B(p_k) = −e·p·ln p of the odds that they are, and an
agent counts in proportion to it: the best agents count once, an agent that contradicts hardly at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comt.federation.base import Federation
from comt.losses import LossName
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import MomentsByAgent, RankCounts, Totals
from comt.server.auto.moments import Moments
from comt.server.auto.ranks import bayes_bound, combine, mean_rank_p

#: statistics of RankCounts that judge an agent: |e|, e·(x·θ), mean |z|, e
JUDGED_BY = 4
#: no agent falls below this share of the best one's odds: where all are refuted, the least refuted still speak
FLOOR = 1e-3
#: an agent that counts less than this is reported as contradicting the trusted rows
DOUBTED = 0.1


@dataclass(frozen=True)
class AgentWeights:
    """How much each agent's rows count (1: fully, towards 0: they contradict the trusted rows), and why."""

    agents: tuple[str, ...]
    weights: Array  # (K,)
    p_values: Array  # (K,)

    @property
    def doubted(self) -> tuple[str, ...]:
        """Names of the agents that hardly count."""
        return tuple(name for name, weight in zip(self.agents, self.weights, strict=True) if weight < DOUBTED)

    def sentence(self) -> str:
        """Say which agents contradict the trusted rows."""
        if not self.doubted:
            return f"No agent of {len(self.agents)} contradicts the trusted rows more than the others do."
        told = [
            f"{name} (p = {p:.1e}, weight {weight:.3f})"
            for name, p, weight in zip(self.agents, self.p_values, self.weights, strict=True)
            if weight < DOUBTED
        ]
        count = f"{len(told)} of {len(self.agents)}"
        return f"{count} agents contradict the trusted rows more than the others do: {', '.join(told)}."


def moments_of(joints: Array, rows: Array) -> list[Moments]:
    """Return the moments of every slot of an answer (of every agent, or of every fold)."""
    return [Moments(joint, float(count)) for joint, count in zip(joints, rows, strict=True)]


def ask_moments(
    federation: Federation,
    preparation: Preparation,
    loss_name: LossName = "squared",
    n_folds: int = 1,
    *,
    whole: bool = False,
) -> Totals:
    """Ask for the moments agent by agent; one exchange."""
    return federation.sum(
        MomentsByAgent(
            loss_name=loss_name, preparation=preparation, agents=federation.agents, n_folds=n_folds, whole=whole
        )
    )


def weigh_agents(
    federation: Federation, preparation: Preparation, per_agent: Sequence[Moments], fits: Array, n_trusted: float
) -> AgentWeights:
    """Weigh every agent by rank tests of everybody's trusted rows inside its distributions; one exchange.

    ``fits`` (K, p) are the agents' own ridge fits.
    """
    agents = federation.agents
    count = len(agents)
    if n_trusted == 0:
        return AgentWeights(agents, np.ones(count), np.ones(count))
    ranks = federation.sum(
        RankCounts(
            loss_name="squared",
            preparation=preparation,
            agents=agents,
            theta=fits,
            towards=np.zeros_like(fits),
            weights=np.eye(count),
            fold=np.full(count, -1),
            n_folds=1,
            inflation=np.array([moments.optimism for moments in per_agent]),
        )
    )
    p_values = np.array([combine(p) for p in mean_rank_p(ranks["buggy"], ranks["trusted"])[:, :JUDGED_BY]])
    speaking = np.array([moments.rows > 0 for moments in per_agent])
    # a fit of fewer rows than columns meets them all: how it does on others says nothing about them
    p_values[[moments.rows < preparation.width for moments in per_agent]] = 1.0
    odds = np.array([bayes_bound(p) for p in p_values])
    best = float(odds[speaking].max(initial=0.0))
    weights = np.where(speaking, (odds + FLOOR) / (best + FLOOR), 1.0)
    return AgentWeights(agents, weights, p_values)
