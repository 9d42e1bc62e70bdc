"""Models of buggy labels: ridge logistic fits tuned by evidence, whose labels are reversed, and flip rates per agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from comt.baselines.base import AgentRows, Array
from comt.baselines.logistic import chance
from comt.baselines.rlr import noisy_loss
from comt.bench.prototypes.laplace import laplace

#: penalties tried, the strongest first: every fit starts from the one before
PENALTIES = np.logspace(4, -1, 11)
#: the intercept's penalty: as good as none
INTERCEPT_PENALTY = 1e-2
RELIABLE, OPPOSED = 0.5, -0.3
START, START_REVERSED = 0.2, 0.8


@dataclass(frozen=True)
class LabelModel:
    """A model of labels (intercept last) and its reliability ρ² = b'Sb / (b'Sb + tr(S H⁻¹))."""

    theta: Array
    reliability: float
    penalty: float


def by_evidence(features: Array, labels: Array, covariance: Array) -> LabelModel:
    """Fit a ridge logistic model with the penalty of largest evidence; ``covariance`` is S, that of the features."""
    signed = features * labels[:, None]
    width = features.shape[1]
    best, best_evidence, theta = None, -np.inf, np.zeros(width)
    for penalty in PENALTIES.tolist():
        scales = 1.0 / np.sqrt(_precisions(width, penalty))
        mode = laplace(signed, np.zeros(width), np.diag(scales), theta / scales)
        theta = mode.theta
        if mode.log_evidence > best_evidence:
            best, best_evidence, chosen = mode, mode.log_evidence, penalty
    assert best is not None
    hessian = best.curvature + np.diag(_precisions(width, chosen))
    return LabelModel(best.theta, _reliability(best.theta, hessian, covariance), chosen)


@dataclass(frozen=True)
class Signs:
    """Which agents point the other way than most, and the share of the agreement's leading direction that does."""

    reversed: NDArray[np.bool_]
    minority: float


def compare_signs(models: Sequence[LabelModel], covariance: Array) -> Signs:
    """Compare the agents' own models by the leading eigenvector of ρ_k ρ_l cos_S(b_k, b_l)."""
    slopes = np.stack([model.theta[:-1] for model in models])
    reliability = np.array([model.reliability for model in models])
    inner = slopes @ covariance @ slopes.T
    size = np.sqrt(np.maximum(np.diag(inner), 1e-300))
    cosine = inner / np.outer(size, size)
    leading = np.linalg.eigh(np.sqrt(np.outer(reliability, reliability)) * cosine)[1][:, -1]
    if (leading[leading > 0] ** 2).sum() < 0.5:
        leading = -leading
    leader = int(np.argmax(leading))
    opposed = (leading < 0) & (reliability > RELIABLE) & (cosine[leader] < OPPOSED)
    return Signs(opposed, float((leading[leading < 0] ** 2).sum()))


def with_flip_rates(
    agents: Sequence[AgentRows], start: LabelModel, reversed_: NDArray[np.bool_], covariance: Array
) -> LabelModel:
    """Fit rLR with one model for all agents and two flip rates for each."""
    width, count = len(start.theta), len(agents)
    positive = [(agent.targets > 0).astype(np.float64) for agent in agents]
    precisions = _precisions(width, start.penalty)

    def objective(parameters: Array) -> tuple[float, Array]:
        theta, rates = parameters[:width], expit(parameters[width:]).reshape(count, 2)
        value, by_theta = 0.5 * float(precisions @ theta**2), precisions * theta
        by_rates = np.empty((count, 2))
        for k, agent in enumerate(agents):
            loss, slope, by_rates[k] = noisy_loss(theta, rates[k], agent.features, positive[k], 0.0)
            value, by_theta = value + loss, by_theta + slope
        return value, np.concatenate([by_theta, (by_rates * rates * (1.0 - rates)).ravel()])

    first = np.where(reversed_, START_REVERSED, START)
    found = minimize(
        objective,
        np.concatenate([start.theta, logit(np.repeat(first, 2))]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None)] * width + [(-6.0, 6.0)] * (2 * count),
        options={"maxiter": 200},
    )
    theta, rates = np.asarray(found.x[:width]), expit(found.x[width:]).reshape(count, 2)
    hessian = np.diag(precisions)
    for (up, down), agent in zip(rates, agents, strict=True):
        high = chance(agent.features @ theta)
        seen = np.clip(up * (1.0 - high) + (1.0 - down) * high, 1e-12, 1.0 - 1e-12)
        weight = ((1.0 - up - down) * high * (1.0 - high)) ** 2 / (seen * (1.0 - seen))
        hessian += (agent.features.T * weight) @ agent.features
    return LabelModel(theta, _reliability(theta, hessian, covariance), start.penalty)


def _precisions(width: int, penalty: float) -> Array:
    return np.append(np.full(width - 1, penalty), INTERCEPT_PENALTY)


def _reliability(theta: Array, hessian: Array, covariance: Array) -> float:
    signal = float(theta[:-1] @ covariance @ theta[:-1])
    unsure = float(np.trace(covariance @ np.linalg.inv(hessian)[:-1, :-1]))
    return signal / max(signal + unsure, 1e-300)
