"""The recipe for labels: evidence averaging around models of the buggy rows.

0. Features are clipped at ±5 (the rows come scaled).
1. Models of the buggy labels: of all rows, of all rows with reversed agents turned round, with flip rates, of each agent.
2. Every model b, with either sign, is a hypothesis about the trusted rows: θ = c·b + t·e0 + δ. First δ = 0 for all; then the
   best three, and none at all (b = 0), with δ ~ N(0, I/λ) for λ of all sizes.
3. θ is the mean of the modes, weighted by prior and Laplace's evidence.

Where the notes are silent, these readings were compared on the cells of ``comt bench choice`` (six seeds, mean AUC and cells
lost), one at a time, not in combination; differences of the mean were below .003:

* rLR has the penalty of the fit it starts from (rather than 1, 10, 30 or the root of it: with less it takes flips that depend
  on a feature for a model), and the reliability that its own Fisher information gives (rather than that of its start);
* priors are used as they stand in the notes, models' times 1 − P(null), not scaled to a sum of one: fewest cells lost. That
  P(null) looks at the fit of all rows only had as good a mean (.8845 against .8844) and was not taken;
* "the best three" are three of the models with a sign (rather than three models with both);
* an agent's own model is reversed with one minus the probability of the others if the agent looks reversed (as good as not).

These were set without a comparison:

* penalties of buggy fits: eleven from 10⁴ to .1; the intercept has as good as none;
* the larger camp of agents, by v², leads; its member of largest v is the leader;
* P(δ ≠ 0) = ½ is shared by the seven λ, and the null, which has no form without δ, gives them all of its prior;
* the modes are averaged as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from comt.baselines.base import AgentRows, Array, pooled
from comt.bench.prototypes.labels import LabelModel, by_evidence, compare_signs, with_flip_rates
from comt.bench.prototypes.laplace import laplace

CLIP = 5.0
#: prior of the slope on a model's score and of the intercept's shift
SLOPE, SLOPE_SD, SHIFT_SD = 1.5, 1.0, 2.5
PULLS = 300.0 * 10.0 ** (-0.5 * np.arange(7))
CORRECTED = 3
LEAST_REVERSED, LEAST_NULL, UNCORRECTED = 0.1, 0.05, 0.5


def tame(features: Array) -> Array:
    """Clip scaled features at ±5."""
    return np.clip(features, -CLIP, CLIP)


@dataclass(frozen=True)
class _Hypothesis:
    """What a model of the buggy rows, with a sign, says of the trusted rows: θ = mean + spread·u, u ~ N(0, I)."""

    name: str
    mean: Array
    spread: Array
    log_prior: float


def choose(agents: Sequence[AgentRows]) -> tuple[Array, dict[str, Any]]:
    """Return θ (intercept last) and the shares of the models it was averaged from."""
    features, labels, trusted_features, trusted_labels = pooled(agents)
    covariance = np.atleast_2d(np.cov(features[:, :-1], rowvar=False))
    together = by_evidence(features, labels, covariance)
    if not len(trusted_labels):
        return together.theta, {}
    simple, null = _hypotheses(agents, together, covariance)
    signed = trusted_features * trusted_labels[:, None]
    modes = [laplace(signed, h.mean, h.spread) for h in simple]
    likely = np.argsort([-h.log_prior - mode.log_evidence for h, mode in zip(simple, modes, strict=True)])
    free = np.eye(len(together.theta))[:, :-1] / np.sqrt(max(1.0, float(np.trace(covariance)) / 10.0))
    corrected = [
        _Hypothesis(
            h.name if h is null else f"{h.name}, corrected",
            h.mean,
            np.hstack([h.spread, free / np.sqrt(pull)]),
            h.log_prior + float(np.log((1.0 if h is null else 1.0 - UNCORRECTED) / len(PULLS))),
        )
        for h in (*(simple[i] for i in likely[:CORRECTED]), null)
        for pull in PULLS.tolist()
    ]
    modes += [laplace(signed, h.mean, h.spread) for h in corrected]
    priors = [h.log_prior + np.log(UNCORRECTED) for h in simple] + [h.log_prior for h in corrected]
    log_weights = np.array(priors) + np.array([mode.log_evidence for mode in modes])
    weights = np.exp(log_weights - logsumexp(log_weights))
    shares: dict[str, float] = {}
    for h, weight in zip(simple + corrected, weights.tolist(), strict=True):
        shares[h.name] = shares.get(h.name, 0.0) + weight
    return weights @ np.stack([mode.theta for mode in modes]), {"shares": shares}


def _hypotheses(
    agents: Sequence[AgentRows], together: LabelModel, covariance: Array
) -> tuple[list[_Hypothesis], _Hypothesis]:
    """Return every model of the buggy rows with either sign, and the null: no such model is of use."""
    own = [by_evidence(agent.features, agent.targets, covariance) for agent in agents]
    signs = compare_signs(own, covariance)
    reversed_ = max(LEAST_REVERSED, signs.minority)
    models = [("all rows", together, 1.0, LEAST_REVERSED)]
    if signs.reversed.any():
        turned = [-a.targets if turn else a.targets for a, turn in zip(agents, signs.reversed, strict=True)]
        features = np.concatenate([agent.features for agent in agents])
        models.append(("agents turned", by_evidence(features, np.concatenate(turned), covariance), 1.0, reversed_))
    flips = with_flip_rates(agents, models[-1][1], signs.reversed, covariance)
    models.append(("flip rates", flips, 1.0, reversed_))
    models += [
        (f"{agent.name} alone", model, 0.5 / len(own), 1.0 - reversed_ if turn else reversed_)
        for agent, model, turn in zip(agents, own, signs.reversed, strict=True)
    ]
    nothing = max(LEAST_NULL, 1.0 - max(model.reliability for _, model, *_ in models))
    shift = np.zeros((len(together.theta), 1))
    shift[-1] = SHIFT_SD
    hypotheses = []
    for name, model, prior, turned_prior in models:
        slope = model.theta[:-1]
        unit = model.theta / np.sqrt(max(float(slope @ covariance @ slope), 1e-12))
        expected = SLOPE * np.sqrt(model.reliability) * unit
        spread = np.hstack([SLOPE_SD * unit[:, None], shift])
        for sign, probability in ((1.0, 1.0 - turned_prior), (-1.0, turned_prior)):
            log_prior = float(np.log((1.0 - nothing) * prior * probability))
            hypotheses.append(
                _Hypothesis(name if sign > 0 else f"{name}, reversed", sign * expected, spread, log_prior)
            )
    return hypotheses, _Hypothesis("trusted rows alone", np.zeros_like(shift[:, 0]), shift, float(np.log(nothing)))
