"""Synthetic data: the paper's clusters, and data whose best score is known in advance."""

from __future__ import annotations

import numpy as np

from comt.datasets._types import Array, Indices, Task
from comt.datasets.corruptions import Corruption
from comt.datasets.federated import FederatedData
from comt.datasets.split import federate
from comt.datasets.table import Table, numbered
from comt.errors import InputError


def cluster_table(
    task: Task,
    *,
    n_rows: int = 50_000,
    n_features: int = 10,
    n_clusters: int = 10,
    spread: float = 1.5,
    seed: int = 0,
) -> Table:
    """Draw the paper's data: normal clusters, half of them positive; or a random linear function of the rows.

    Cluster centres have standard deviation ``spread`` in units of the clusters' own; the mixture is then
    shifted and scaled to mean 0 and variance 1 in every column, so that no model needs an intercept.
    Regression targets are free of noise, as in the paper. The paper gives neither the number of clusters nor
    their spread; with the defaults, logistic regression on clean rows has an AUC of 0.8 to 1 depending on
    where the centres fall, 0.92 on average.
    """
    if n_clusters < 2 or n_clusters % 2:
        raise InputError(f"n_clusters is {n_clusters}; give an even number, so that half can be positive.")
    rng = np.random.default_rng(seed)
    centres = spread * rng.standard_normal((n_clusters, n_features))
    # Centres are exchangeable, so the even ones are a random half. Equal sizes keep the classes balanced.
    cluster = rng.permutation(np.arange(n_rows) % n_clusters)
    features = centres[cluster] - centres.mean(axis=0) + rng.standard_normal((n_rows, n_features))
    features /= np.sqrt(1 + centres.var(axis=0))
    if task == "classification":
        targets = np.where(cluster % 2 == 0, 1.0, -1.0)
    else:
        targets = features @ rng.standard_normal(n_features)
    return Table(f"clusters ({task})", features, targets, task, numbered(n_features))


def noisy_table(
    task: Task,
    *,
    n_rows: int = 14_000,
    n_features: int = 10,
    oracle: float | None = None,
    heterogeneity: float = 0.0,
    n_agents: int = 5,
    seed: int = 0,
) -> Table:
    """Draw standard normal rows and targets of which even the true model leaves a part unexplained.

    ``oracle`` is the true model's score: R² (default 0.92) or AUC (default 0.87). With ``heterogeneity`` > 0
    the rows belong to ``n_agents`` agents whose means differ with that standard deviation per column, while
    the relation of target to row is common to all; the larger spread of the rows then raises that score.
    """
    low, top = (0.0, 1.0) if task == "regression" else (0.5, 1.0)
    best = oracle if oracle is not None else (0.92 if task == "regression" else 0.87)
    if not low < best < top:
        raise InputError(f"oracle is {best}; give a score between {low:g} and {top:g}, both excluded.")
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n_rows, n_features))
    sites: Indices | None = None
    names: tuple[str, ...] = ()
    if heterogeneity:
        sites = np.arange(n_rows) % n_agents
        names = tuple(f"agent {k}" for k in range(n_agents))
        features += heterogeneity * rng.standard_normal((n_agents, n_features))[sites]
    direction = rng.standard_normal(n_features)
    signal = features @ (direction / np.linalg.norm(direction))
    targets = _noisy_targets(signal, best, rng) if task == "regression" else _labels(signal, best, rng)
    return Table(
        f"noisy linear ({task})",
        features,
        targets,
        task,
        numbered(n_features),
        sites=sites,
        site_names=names,
    )


def paper_federation(
    task: Task,
    *,
    corruption: str | Corruption,
    eta: float = 0.5,
    n_rows: int = 50_000,
    trusted_at: int | None = None,
    seed: int = 0,
    data_seed: int | None = None,
) -> FederatedData:
    """Return the paper's experiment: 40 % of the rows buggy, ``eta`` percent trusted, the rest for tests.

    The paper repeats the sampling and the noise 20 times: fix ``data_seed`` to keep the clusters meanwhile.
    """
    table = cluster_table(task, n_rows=n_rows, seed=seed if data_seed is None else data_seed)
    return federate(
        table,
        corruption=corruption,
        train=0.4,
        trusted=eta / 100,
        trusted_at=trusted_at,
        n_agents=5,
        seed=seed,
    )


def noisy_federation(
    task: Task,
    *,
    corruption: str | Corruption,
    n_rows: int = 4_000,
    n_trusted: int = 50,
    n_test: int = 10_000,
    n_features: int = 10,
    oracle: float | None = None,
    heterogeneity: float = 0.0,
    n_agents: int = 5,
    trusted_at: int | None = None,
    seed: int = 0,
) -> FederatedData:
    """Return ``n_rows`` buggy and ``n_trusted`` trusted rows over all agents of ``noisy_table``."""
    table = noisy_table(
        task,
        n_rows=n_rows + n_trusted + n_test,
        n_features=n_features,
        oracle=oracle,
        heterogeneity=heterogeneity,
        n_agents=n_agents,
        seed=seed,
    )
    return federate(
        table,
        corruption=corruption,
        train=n_rows,
        trusted=n_trusted,
        trusted_at=trusted_at,
        n_agents=n_agents,
        seed=seed,
    )


def _noisy_targets(signal: Array, r2: float, rng: np.random.Generator) -> Array:
    # signal has variance 1: R² = 1 / (1 + noise variance)
    noise = rng.standard_normal(len(signal))
    return signal + float(np.sqrt(1 / r2 - 1)) * noise


def _labels(signal: Array, auc: float, rng: np.random.Generator) -> Array:
    positive = 1 / (1 + np.exp(-logistic_slope(auc) * signal))
    return np.where(rng.random(len(signal)) < positive, 1.0, -1.0)


def logistic_slope(auc: float) -> float:
    """Return the slope at which P(+1 | z) = 1 / (1 + exp(-slope z)), z standard normal, has this AUC."""
    from scipy.optimize import brentq

    z = np.linspace(-8, 8, 2001)
    weight = np.exp(-(z**2) / 2)

    def reached(slope: float) -> float:
        positive = weight / (1 + np.exp(-slope * z))
        negative = positive[::-1]
        # P(a negative scores lower), a tie counting half
        below = np.cumsum(negative) - negative / 2
        return float(positive @ below / (positive.sum() * negative.sum()))

    # in the logarithm, because useful slopes span orders of magnitude
    log_slope = brentq(lambda t: reached(float(np.exp(t))) - auc, np.log(1e-6), np.log(80))
    return float(np.exp(log_slope))
