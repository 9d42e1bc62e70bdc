"""Agents with known truth, for the tests of the baselines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comt.baselines.base import AgentRows, Array, Task


def simulate(
    task: Task,
    *,
    sizes: Sequence[int] = (60, 25, 40),
    trusted: Sequence[int] = (6, 0, 9),
    n_features: int = 4,
    bad_agents: Sequence[int] = (),
    flips: float = 0.0,
    slope: float = 2.0,
    noise: float = 0.3,
    seed: int = 0,
) -> tuple[list[AgentRows], Array]:
    """Return agents and the true model; bad agents negate all their buggy targets, others a share of them."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n_features)
    truth *= slope / np.linalg.norm(truth)
    agents = []
    for k, (n, m) in enumerate(zip(sizes, trusted, strict=True)):
        features = rng.normal(size=(n + m, n_features))
        scores = features @ truth
        if task == "regression":
            targets = scores + noise * rng.normal(size=n + m)
        else:
            targets = np.where(rng.random(n + m) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)
        # drawn for bad agents too, so that all other rows are the same with and without them
        wrong = (rng.random(n) < flips) | (k in bad_agents)
        buggy = np.where(wrong, -targets[:n], targets[:n])
        agents.append(AgentRows(f"agent {k}", features[:n], buggy, features[n:], targets[n:]))
    return agents, truth


def angle(coef: Array, truth: Array) -> float:
    """Return the angle between two models in degrees."""
    cosine = coef @ truth / (np.linalg.norm(coef) * np.linalg.norm(truth))
    return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))
