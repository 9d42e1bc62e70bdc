"""What the tests of the method share: random rows, a solver over rows in one place, a check of messages."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from comt.agent import Agent, ArrayRows, Policy
from comt.federation import LocalFederation
from comt.optimize import frozen, saddle
from comt.optimize.points import Points, Solution, drive
from comt.problem import Sums, TeachingProblem
from comt.rows import sums_at
from comt.server.auto.moments import Moments

LOSSES = ["squared", "logistic"]


@dataclass(frozen=True)
class Data:
    """Buggy rows and trusted rows, pooled."""

    features: np.ndarray
    targets: np.ndarray
    trusted_features: np.ndarray
    trusted_targets: np.ndarray

    @property
    def buggy(self) -> tuple[np.ndarray, np.ndarray]:
        return self.features, self.targets

    @property
    def trusted(self) -> tuple[np.ndarray, np.ndarray]:
        return self.trusted_features, self.trusted_targets


def random_data(loss_name, n=60, d=4, m=8, *, seed=0, condition=1.0, noise=0.5, bugs=0.2, constant=0.0) -> Data:
    """Draw rows of one linear model; a share of the buggy ones has its target negated."""
    rng = np.random.default_rng(seed)
    model = rng.normal(size=d)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    stretch = turn * np.geomspace(1.0, 1.0 / condition, d)
    features = rng.normal(size=(n + m, d)) @ stretch
    targets = features @ model + noise * rng.normal(size=n + m)
    if loss_name == "logistic":
        targets = np.where(targets > 0, 1.0, -1.0)
    targets[:n] *= np.where(rng.random(n) < bugs, -1.0, 1.0)
    if constant:
        features = np.column_stack([features, np.full(n + m, constant)])
    return Data(features[:n], targets[:n], features[n:], targets[n:])


def solve_pooled(problem: TeachingProblem, data: Data, *, start=None, tol=1e-8) -> tuple[Solution, int]:
    """Solve with all rows in one place; return the solution and the number of exchanges."""
    exchanges = 0

    def answer(points: Points) -> list[Sums]:
        nonlocal exchanges
        exchanges += 1
        asked = problem if points.lambda_alpha is None else replace(problem, lambda_alpha=points.lambda_alpha)
        return [
            sums_at(asked, data.buggy, data.trusted, r, theta, points.curvature)
            for r, theta in zip(points.r, points.theta, strict=True)
        ]

    zero = np.zeros(data.features.shape[1])
    r, theta = (zero, zero) if start is None else start
    if problem.loss.piecewise_quadratic:
        return drive(frozen.solve(problem, r, tol=tol), answer), exchanges
    return drive(saddle.solve(problem, r, theta, tol=tol), answer), exchanges


def split_agents(data: Data, n_agents: int, *, seed: int = 0, policy: Policy | None = None) -> list[Agent]:
    """Deal shuffled rows out to agents; some may get none."""
    rng = np.random.default_rng(seed)
    owner, trusted_owner = (rng.integers(n_agents, size=len(y)) for y in (data.targets, data.trusted_targets))
    agents = []
    for k in range(n_agents):
        mine = rng.permutation(np.flatnonzero(owner == k))
        trusted = rng.permutation(np.flatnonzero(trusted_owner == k))
        rows = ArrayRows(
            data.features,
            data.targets,
            data.trusted_features[trusted],
            data.trusted_targets[trusted],
            index=mine,
        )
        agents.append(Agent(f"agent-{k}", rows, policy))
    return agents


def federate(data: Data, n_agents: int = 1, *, seed: int = 0, policy: Policy | None = None) -> LocalFederation:
    """Return a federation over the rows, dealt out to agents."""
    return LocalFederation(split_agents(data, n_agents, seed=seed, policy=policy), threads=1)


def is_one_sentence(error: BaseException) -> bool:
    """Whether the message is what users are promised: one sentence on one line."""
    message = str(error)
    return message.endswith(".") and ". " not in message and "\n" not in message


def stacked(data):
    """Return a federation's rows as an estimator takes them: X, y, agents, trusted; trusted rows last at every agent."""
    X = np.vstack([np.vstack([a.features, a.trusted_features]) for a in data.agents])
    y = np.concatenate([np.concatenate([a.targets, a.trusted_targets]) for a in data.agents])
    agents = np.concatenate([[a.name] * (len(a.targets) + len(a.trusted_targets)) for a in data.agents])
    trusted = np.concatenate(
        [np.arange(len(a.targets) + len(a.trusted_targets)) >= len(a.targets) for a in data.agents]
    )
    return X, y, agents, trusted


def moments(X, y):
    """Second moments of rows as they are."""
    joint = np.column_stack([X, y])
    return Moments(joint.T @ joint, float(len(y)))
