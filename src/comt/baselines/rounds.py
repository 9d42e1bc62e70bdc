"""The loop of all methods in which agents send one update each and the server combines them by a rule.

Agent k holds F_k(w) = (1/n_k) sum_i loss(x_i.w, y_i) + (decay/2) |w|^2 with decay = lambda_w / n and
n = sum_k n_k, so that sum_k (n_k/n) F_k is the common objective divided by n. Its update g_k is the sum of
the gradients of its local steps; with one local step that is the gradient of F_k. The server sets
w <- w - step * rule(g_1, ..., g_K).

Means per row are sent, not sums: a rule that compares updates would take a large agent for a bad one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from comt.baselines.base import AgentRows, Array, Baseline, LinearModel, Task
from comt.baselines.checks import UseTrusted, check_agents, check_positive, training_rows
from comt.baselines.linear import largest_curvature
from comt.baselines.logistic import chance
from comt.errors import ConvergenceError, InputError

Attack = Callable[[int, Array], Array]

# beyond this the squares in distances and norms are no longer finite numbers
_DIVERGED = 1e100


@dataclass(frozen=True)
class BoostedUpdate:
    """g_k <- factor * g_k for one agent k: the boosted malicious update of Bhagoji et al. (2018).

    With ``factor`` = K the agent's own goal outweighs a plain mean over K agents; a negative factor ascends.
    """

    agent: int
    factor: float

    def __call__(self, agent: int, update: Array) -> Array:
        """Return the update that arrives at the server."""
        return self.factor * update if agent == self.agent else update


@dataclass(frozen=True)
class LocalObjective:
    """F(w) = (1/n) sum_i loss(x_i.w, y_i) + (decay/2) |w|^2 over the rows of one agent."""

    features: Array
    targets: Array
    task: Task
    decay: float

    @cached_property
    def gram(self) -> Array:
        """Return (1/n) X'X."""
        return np.asarray(self.features.T @ self.features / len(self.targets), dtype=np.float64)

    @cached_property
    def moment(self) -> Array:
        """Return (1/n) X'y."""
        return np.asarray(self.features.T @ self.targets / len(self.targets), dtype=np.float64)

    @cached_property
    def signed(self) -> Array:
        """Return the rows y_i x_i, column by column, in which products with a vector are fastest."""
        return np.asfortranarray(self.features * self.targets[:, None])

    def gradient(self, coef: Array) -> Array:
        """Return the gradient of F."""
        if self.task == "regression":  # hundreds of rounds over the same rows: their sums are enough
            return self.gram @ coef - self.moment + self.decay * coef
        return self.decay * coef - self.signed.T @ chance(-(self.signed @ coef)) / len(self.targets)

    def lipschitz(self) -> float:
        """Return the Lipschitz constant of the gradient of F."""
        return largest_curvature(self.task) * float(np.linalg.eigvalsh(self.gram)[-1]) + self.decay

    def update(self, coef: Array, step: float, n_steps: int = 1, proximal: float = 0.0) -> Array:
        """Return the summed gradients of ``n_steps`` on F(w) + (proximal/2) |w - coef|^2, from ``coef``."""
        total = np.zeros_like(coef)
        for _ in range(n_steps):
            # the local model is coef - step * total, so the proximal gradient is -proximal * step * total
            total = total + self.gradient(coef - step * total) - proximal * step * total
        return total


@dataclass(frozen=True)
class Round:
    """What the server knows, besides the updates, when it aggregates."""

    coef: Array  # the model from which the agents started
    previous: Array  # the aggregate of the round before, zero at first
    shares: Array  # n_k / n


Rule = Callable[[Array, Round], Array]


def safe_step(objectives: Sequence[LocalObjective], proximal: float = 0.0) -> float:
    """Return 1/L with the largest L of all objectives, with which no single agent can overshoot."""
    largest = max(objective.lipschitz() for objective in objectives)
    return 1.0 / (largest + proximal)


def run_rounds(
    objectives: Sequence[LocalObjective],
    rule: Rule,
    *,
    step: float,
    n_rounds: int,
    local_steps: int = 1,
    proximal: float = 0.0,
    attack: Attack | None = None,
) -> LinearModel:
    """Run ``n_rounds`` of update and aggregation from w = 0; ``attack`` replaces updates on their way."""
    n_rows = np.array([len(objective.targets) for objective in objectives], dtype=np.float64)
    shares = n_rows / n_rows.sum()
    coef = np.zeros(objectives[0].features.shape[1])
    aggregate = np.zeros_like(coef)
    for number in range(n_rounds):
        updates = [objective.update(coef, step, local_steps, proximal) for objective in objectives]
        if attack is not None:
            updates = [attack(agent, update) for agent, update in enumerate(updates)]
        aggregate = rule(np.stack(updates), Round(coef, aggregate, shares))
        coef = coef - step * aggregate
        if not (np.abs(coef) < _DIVERGED).all():
            raise ConvergenceError(
                f"the model left the range of numbers in round {number + 1} of {n_rounds}, "
                f"with step {step:.3g}; pass a smaller step or a weaker attack."
            )
    return LinearModel(coef, found={"rounds": n_rounds, "update_norm": float(np.linalg.norm(aggregate))})


@dataclass(frozen=True, kw_only=True)
class UpdateBaseline(Baseline):
    """w <- w - step * rule(g_1, ..., g_K), a fixed number of rounds from w = 0."""

    lambda_w: float = 1.0
    use_trusted: UseTrusted = "append"
    n_rounds: int = 500
    local_steps: int = 1
    step: float | None = None  # 1/L of the agent with the largest L unless given
    attack: Attack | None = None

    tasks: ClassVar[frozenset[Task]] = frozenset({"regression", "classification"})

    def __post_init__(self) -> None:
        check_positive(lambda_w=self.lambda_w, n_rounds=self.n_rounds, local_steps=self.local_steps)
        if self.step is not None:
            check_positive(step=self.step)

    def objectives(self, agents: Sequence[AgentRows], task: Task) -> list[LocalObjective]:
        """Return every agent's F_k."""
        check_agents(self, agents, task)
        rows = [training_rows(agent, self.use_trusted) for agent in agents]
        decay = self.lambda_w / sum(len(targets) for _, targets in rows)
        return [LocalObjective(features, targets, task, decay) for features, targets in rows]

    def run(
        self,
        objectives: Sequence[LocalObjective],
        rule: Rule,
        *,
        step: float | None = None,
        proximal: float = 0.0,
    ) -> LinearModel:
        """Run the rounds with this baseline's settings."""
        return run_rounds(
            objectives,
            rule,
            step=step or self.step or safe_step(objectives, proximal),
            n_rounds=self.n_rounds,
            local_steps=self.local_steps,
            proximal=proximal,
            attack=self.attack,
        )


def check_n_bad(n_bad: int, largest: int, n_agents: int) -> None:
    """Refuse more bad agents than the rule can stand."""
    if not 0 <= n_bad <= largest:
        raise InputError(
            f"n_bad={n_bad} must lie between 0 and {largest} for {n_agents} agents; lower n_bad or add agents."
        )
