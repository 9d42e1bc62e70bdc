"""Algorithm 1 of the paper exactly as printed: a demonstration that it diverges. Do not build on it.

For ridge regression without crafting (β = 0) and with λ_α = 0 each agent's step, as printed, is

    min over α_k   (1/2λ_w)‖X_kᵀα_k‖² + ½‖α_k‖² − α_k·y_k + (ρ/2)‖θ̃ − τ_k + u‖²,     τ_k = (1/λ_w) X_kᵀα_k

in which every agent tries to explain the whole of θ̃ + u by its own τ_k alone (erratum E1; the first term is
its share of E2). The θ̃-step is the mean of the agents' own minimisers (erratum E4). Two switches repair them,
so that their effects can be told apart. The package's own Algorithm 1 is in ``comt.server.admm`` and shares
nothing with this file.

All rows are in one place and in memory: this is NumPy for a page of the documentation, not a federation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comt.problem import Array

#: features, targets, trusted features, trusted targets of one agent
Rows = tuple[Array, Array, Array, Array]


@dataclass(frozen=True)
class Parameters:
    """What the printed algorithm takes; the defaults for ρ and γ are the paper's."""

    lambda_w: float = 1.0
    lambda_trusted: float = 1.0
    rho: float = 100.0
    gamma: float = 1.0


def run(
    agents: Sequence[Rows],
    parameters: Parameters,
    rounds: int,
    *,
    others_fixed: bool = False,
    summed_trusted: bool = False,
    stop_at: float = 1e12,
) -> list[Array]:
    """Return θ = τ after every round; the run ends early once ‖θ‖ exceeds ``stop_at``.

    ``others_fixed`` repairs E1 and E2: an agent counts the others' contributions, held fixed, with its own.
    ``summed_trusted`` repairs E4: one problem over all trusted rows instead of a mean of minimisers.
    """
    lambda_w, rho, share = parameters.lambda_w, parameters.rho, parameters.gamma / len(agents)
    width = agents[0][0].shape[1]
    identity = np.eye(width)
    curve = 1.0 / lambda_w + rho / lambda_w**2  # of both quadratic terms together, in X_kᵀα_k
    inverses = [np.linalg.inv(identity + curve * features.T @ features) for features, *_ in agents]
    alphas = [np.zeros(len(targets)) for _, targets, *_ in agents]
    tau, theta, u = np.zeros(width), np.zeros(width), np.zeros(width)
    path: list[Array] = []
    for _ in range(rounds):
        parts = [features.T @ alpha / lambda_w for (features, *_), alpha in zip(agents, alphas, strict=True)]
        for index, (features, targets, *_) in enumerate(agents):
            others = tau - parts[index] if others_fixed else np.zeros(width)
            # stationarity reads α_k = moved − curve X_k t with t = X_kᵀα_k: d unknowns
            pull = (rho * (theta + u - others) - lambda_w * others) / lambda_w
            moved = targets + features @ pull
            total = inverses[index] @ (features.T @ moved)
            alphas[index] = alphas[index] + share * (moved - curve * (features @ total) - alphas[index])
        tau = sum((f.T @ a for (f, *_), a in zip(agents, alphas, strict=True)), np.zeros(width)) / lambda_w
        path.append(tau)
        if not np.linalg.norm(tau) <= stop_at:
            break
        theta = _trusted_step(agents, parameters, tau - u, summed_trusted)
        u = u + theta - tau
    return path


def _trusted_step(agents: Sequence[Rows], parameters: Parameters, around: Array, summed: bool) -> Array:
    """Minimise λ_trusted‖X̃θ − ỹ‖² + (ρ/2)‖θ − around‖²: over all rows at once, or averaged over agents."""
    blocks = [(features, targets) for *_, features, targets in agents]
    if summed:
        blocks = [(np.concatenate([f for f, _ in blocks]), np.concatenate([t for _, t in blocks]))]
    weight, rho = 2.0 * parameters.lambda_trusted, parameters.rho
    minimisers = [
        np.linalg.solve(
            rho * np.eye(len(around)) + weight * features.T @ features,
            rho * around + weight * features.T @ targets,
        )
        for features, targets in blocks
    ]
    mean: Array = np.mean(minimisers, axis=0)
    return mean


def example(
    n_rows: int = 1000, n_features: int = 10, n_agents: int = 5, n_trusted: int = 50, seed: int = 0
) -> list[Rows]:
    """Draw a small federation with a linear target: noise in the buggy rows, none in the trusted ones."""
    rng = np.random.default_rng(seed)
    model = rng.standard_normal(n_features)

    def rows(count: int, noise: float) -> tuple[Array, Array]:
        clean = rng.standard_normal((count, n_features))
        targets = clean @ model + noise * rng.standard_normal(count)
        return clean + noise * rng.standard_normal(clean.shape), targets

    each, few = n_rows // n_agents, n_trusted // n_agents
    return [(*rows(each, 0.5), *rows(few, 0.0)) for _ in range(n_agents)]


def norms(rounds: int = 100, parameters: Parameters | None = None, seed: int = 0) -> Array:
    """Return ‖θ‖ per round of the printed algorithm on the example; it passes 10⁶ well within 100 rounds."""
    path = run(example(seed=seed), parameters or Parameters(), rounds)
    return np.array([float(np.linalg.norm(theta)) for theta in path])
