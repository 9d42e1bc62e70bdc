"""Which agents contradict the trusted rows more than the others do? For direct teaching, which weighs whole agents.

Errors that all agents make alike are no agent's fault: then every agent's own fit contradicts the trusted rows, and which
one does so least is chance. So an agent's fit θ_k is compared with the fit θ_o of the others, on the trusted rows:

    D = ½ Σ_j [(y_j − x_j·θ_k)² − (y_j − x_j·θ_o)²] = Σ_j x_j·δ (y_j − x_j·(θ_k + θ_o)/2),    δ = θ_o − θ_k

Chance moves D by the errors of the m trusted rows, variance s² Σ (x_j·δ)², and by those of the rows that either fit was made
of. An agent loses weight if D is larger than chance explains for as many agents as there are, and matters besides;
and only if the fit of the others does not explain its rows either: an agent whose patients are all ill has no fit of its
own worth the name, but its rows agree with everybody's. Labels ±1 are taken as targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from comt.federation.base import Federation
from comt.losses import LossName
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import RankCounts, rank_middles
from comt.server.auto.agents import AgentWeights
from comt.server.auto.moments import MOST_PARAMETERS, Moments, total
from comt.server.auto.ranks import bayes_bound

#: probability, over all agents, that one of those that are alike loses weight
CHANCE = 0.05
#: an agent's fit may lose this share of what the others' fit explains of the trusted rows: less does not matter
MATTERS = 0.1
#: rows of which the others' fit explains this share of what it explains of trusted rows agree with it
AGREES = 0.5
#: penalty of the fits, in prepared units: a larger one, chosen by each agent's rows, would make fits of like rows unlike
PENALTY = 1.0
#: how often the agents that are compared with are chosen anew
PASSES = 10


@dataclass(frozen=True)
class _Fit:
    """A least-squares fit θ, how far chance may have moved it, and how many rows beyond its parameters tell its noise."""

    theta: Array
    covariance: Array
    freedom: float

    @classmethod
    def of(cls, moments: Moments, ratio: float = 1.0) -> _Fit:
        inverse = np.linalg.inv(moments.gram + PENALTY * np.eye(len(moments.gram)))
        theta = inverse @ moments.cross
        parameters = min(float(np.sum(inverse * moments.gram)), MOST_PARAMETERS * moments.rows)
        freedom = moments.rows - parameters
        covariance = np.asarray(ratio * moments.squared_error(theta) / freedom * inverse, dtype=np.float64)
        return cls(theta, covariance, max(freedom, 1.0))

    def pull(self, trusted: Moments) -> Array:
        """Return how the trusted rows would change the fit: minus the gradient of half their squared error."""
        return trusted.cross - trusted.gram @ self.theta


def weigh_by_contradiction(
    federation: Federation,
    preparation: Preparation,
    per_agent: Sequence[Moments],
    trusted: Moments,
    loss_name: LossName,
) -> AgentWeights:
    """Weigh every agent: 1, or towards 0 where its rows contradict the trusted rows more than the others'; one exchange."""
    count = len(per_agent)
    speaking = [k for k, moments in enumerate(per_agent) if moments.rows > 0]
    p_values, weights = np.ones(count), np.ones(count)
    if len(speaking) < 2 or trusted.rows < 2:
        return AgentWeights(federation.agents, weights, p_values)
    ratios = _uneven_noise(federation, preparation, per_agent, trusted, loss_name)
    p_values[speaking] = _p_values([per_agent[k] for k in speaking], ratios[speaking], trusted)
    at_chance = bayes_bound(CHANCE)
    clearly = p_values < CHANCE
    weights[clearly] = [bayes_bound(p) / at_chance for p in p_values[clearly].tolist()]
    return AgentWeights(federation.agents, weights, p_values)


def _p_values(per_agent: Sequence[Moments], ratios: Array, trusted: Moments) -> Array:
    """Return how likely chance makes an agent contradict so much, over all agents; judged by those that do not."""
    own = [_Fit.of(moments, ratio) for moments, ratio in zip(per_agent, ratios.tolist(), strict=True)]
    # the fit that trusted rows speak for most, chance set against it
    surest = [
        0.5 * trusted.squared_error(fit.theta) + np.sqrt(fit.pull(trusted) @ fit.covariance @ fit.pull(trusted))
        for fit in own
    ]
    believed = {int(np.argmin(surest))}
    found = np.ones(len(own))
    for _ in range(PASSES):
        for k, fit in enumerate(own):
            others = sorted(believed - {k})
            if others:
                pooled = _Fit.of(total([per_agent[o] for o in others]), float(ratios[others].max()))
                found[k] = min(1.0, len(own) * _contradicts(per_agent[k], fit, pooled, trusted))
            else:
                found[k] = 1.0
        again = {k for k, p in enumerate(found.tolist()) if p >= CHANCE}
        if again in (believed, set()):
            break
        believed = again
    return found


def _contradicts(moments: Moments, own: _Fit, others: _Fit, trusted: Moments) -> float:
    """Return the p-value that trusted rows prefer the others' fit to an agent's own by more than chance and what matters."""
    nothing = np.zeros_like(own.theta)
    explained = trusted.squared_error(nothing) - trusted.squared_error(others.theta)
    of_own_rows = moments.squared_error(nothing) - moments.squared_error(others.theta)
    agreeing = AGREES * explained / max(trusted.squared_error(nothing), 1e-300) * moments.squared_error(nothing)
    if explained <= 0 or of_own_rows >= agreeing:
        return 1.0
    matter = 0.5 * MATTERS * explained
    freedom = min(trusted.rows - 1.0, own.freedom)
    preferred = _preference(own, others, trusted)
    if preferred.p_value(matter, freedom) > CHANCE:
        return 1.0
    return _refutation(own, others, trusted).p_value(matter, freedom)


@dataclass(frozen=True)
class _Sum:
    """A sum over the trusted rows, what chance adds to it on average, and its variance by chance."""

    value: float
    expected: float
    variance: float

    def p_value(self, least: float, freedom: float) -> float:
        """Return how likely the sum is so large by chance if in truth it is ``least``."""
        beyond = self.value - self.expected - least
        return float(student.sf(beyond / np.sqrt(max(self.variance, 1e-300)), freedom))


def _preference(own: _Fit, others: _Fit, trusted: Moments) -> _Sum:
    """Return D: by how much the trusted rows prefer the others' fit."""
    pulls = own.pull(trusted), others.pull(trusted)
    gram_own, gram_others = trusted.gram @ own.covariance, trusted.gram @ others.covariance
    return _Sum(
        0.5 * (trusted.squared_error(own.theta) - trusted.squared_error(others.theta)),
        0.5 * float(np.trace(gram_own) - np.trace(gram_others)),
        _by_trusted_rows(own, others, trusted)
        + float(pulls[0] @ own.covariance @ pulls[0] + pulls[1] @ others.covariance @ pulls[1])
        + 0.5 * float(np.sum(gram_own * gram_own.T) + np.sum(gram_others * gram_others.T)),
    )


def _refutation(own: _Fit, others: _Fit, trusted: Moments) -> _Sum:
    """Return Σ x·δ (y − x·θ_k): 0 if the trusted rows follow the agent's fit, twice D if they follow the others'."""
    towards, pull = others.theta - own.theta, own.pull(trusted)
    both = pull + trusted.gram @ towards
    gram_own, gram_others = trusted.gram @ own.covariance, trusted.gram @ others.covariance
    return _Sum(
        float(towards @ pull),
        float(np.trace(gram_own)),
        _by_trusted_rows(own, others, trusted)
        + float(both @ own.covariance @ both + pull @ others.covariance @ pull)
        + float(2.0 * np.sum(gram_own * gram_own.T) + np.sum(gram_own * gram_others.T)),
    )


def _by_trusted_rows(own: _Fit, others: _Fit, trusted: Moments) -> float:
    """Return the variance of Σ x·δ (y − x·θ) by the errors of the trusted rows around the best fit on the line along δ."""
    towards = others.theta - own.theta
    length = max(float(towards @ trusted.gram @ towards), 1e-300)
    left = trusted.squared_error(own.theta) - float(towards @ own.pull(trusted)) ** 2 / length
    return max(left, 0.0) / (trusted.rows - 1.0) * length


def _uneven_noise(
    federation: Federation,
    preparation: Preparation,
    per_agent: Sequence[Moments],
    trusted: Moments,
    loss_name: LossName,
) -> Array:
    """Return how many times more chance moves every agent's fit, the way that matters, than if all errors were alike.

    Where some targets are negated, rows with large predictions have the largest errors, and decide the fit.
    """
    own = [_Fit.of(moments) if moments.rows > 0 else None for moments in per_agent]
    theta = np.zeros((len(own), preparation.width))
    towards = np.zeros_like(theta)
    for k, (fit, moments) in enumerate(zip(own, per_agent, strict=True)):
        if fit is None:
            continue
        theta[k] = fit.theta
        direction = fit.covariance @ fit.pull(trusted)
        noise = moments.squared_error(fit.theta) / moments.rows
        expected = noise * float(direction @ moments.gram @ direction) / moments.rows
        # so that the products would have a variance of one
        towards[k] = direction / np.sqrt(max(expected, 1e-300))
    counts = federation.sum(
        RankCounts(
            loss_name=loss_name,
            preparation=preparation,
            agents=federation.agents,
            theta=theta,
            towards=towards,
            weights=np.eye(len(own)),
            fold=np.full(len(own), -1),
            n_folds=1,
        )
    )["buggy"][:, -1]
    squares = counts @ rank_middles() ** 2
    ratios: Array = np.maximum(squares / np.maximum(counts.sum(axis=1), 1.0), 1.0)
    return ratios
