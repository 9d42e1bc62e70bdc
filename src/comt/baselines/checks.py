"""What every baseline asks of its input before it starts, and which rows it trains on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from comt.baselines.base import AgentRows, Array, Baseline, Task, pooled
from comt.errors import InputError

UseTrusted = Literal["append", "ignore"]


def check_positive(**values: float) -> None:
    """Refuse parameters that are not finite numbers above zero."""
    for name, value in values.items():
        if not 0 < value < np.inf:
            raise InputError(f"{name}={value!r} must be a finite number above 0; pass a positive {name}.")


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a word that is not one of the choices."""
    if value not in choices:
        expected = " or ".join(map(repr, choices))
        raise InputError(f"{name}={value!r} must be {expected}; choose one of them.")


def check_agents(method: Baseline, agents: Sequence[AgentRows], task: Task) -> None:
    """Refuse a task the method is not made for, an empty federation, unlike columns, labels other than ±1."""
    if task not in method.tasks:
        raise InputError(
            f"{method.name} does not solve {task!r}, only {sorted(method.tasks)}; choose another baseline."
        )
    if not agents:
        raise InputError(f"{method.name} got no agents and needs at least one; pass a sequence of AgentRows.")
    widths = {block.shape[1] for a in agents for block in (a.features, a.trusted_features)}
    if len(widths) > 1:
        raise InputError(
            f"the agents have {sorted(widths)} columns but must agree on one number; align their features."
        )
    if task == "classification":
        for agent in agents:
            labels = np.unique(np.concatenate([agent.targets, agent.trusted_targets]))
            if not np.isin(labels, (-1.0, 1.0)).all():
                raise InputError(
                    f"agent {agent.name!r} has labels {labels[:5].tolist()} where -1 and +1 are expected; recode them."
                )


def training_rows(agent: AgentRows, use_trusted: UseTrusted) -> tuple[Array, Array]:
    """Return the rows an agent trains on: the buggy ones, and its trusted ones when they are appended."""
    check_choice("use_trusted", use_trusted, ("append", "ignore"))
    features, targets = agent.features, agent.targets
    if use_trusted == "append":
        features = np.concatenate([features, agent.trusted_features])
        targets = np.concatenate([targets, agent.trusted_targets])
    if not targets.size:
        raise InputError(f"agent {agent.name!r} has no rows to train on but needs one; leave that agent out.")
    return features, targets


def trusted_rows(method: Baseline, agents: Sequence[AgentRows]) -> tuple[Array, Array]:
    """Return all agents' trusted rows together; a method that calls this cannot do without any."""
    _, _, features, targets = pooled(agents)
    if not targets.size:
        raise InputError(f"{method.name} got 0 trusted rows and needs at least one; add trusted rows.")
    return features, targets
