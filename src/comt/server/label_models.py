"""Two models that labels are judged by: the one that was taught, and the one that all labels ask for if flips are random.

If labels were flipped at random, at rates that differ from agent to agent, the unverified rows know the right model better
than a few trusted rows do: θ is fitted to them once more, given the rates. If they were not (they follow a rule of thumb),
that model is wrong, and the trusted rows say so: it loses likelihood on them. It counts as much as they allow, and what then
remains of the taught model rests on the trusted rows alone, and is as uncertain as so few rows leave it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from comt.federation.base import Federation
from comt.issue_context import LabelModel
from comt.problem import Array
from comt.queries import NoisyLabelSums, ScoresByLabel, TrustedSums
from comt.server.label_noise import LabelNoise, fit_label_noise

STEPS = 8
#: log-likelihood on the trusted rows that the taught model may gain by having been fitted to them
FITTED_GAIN = 3.0
#: precision of the refitted model around the taught one: a row's worth or so
PRECISION = 1.0


def label_models(
    federation: Federation, common: dict[str, Any], theta: Array, *, refit: bool = True
) -> tuple[LabelModel, ...]:
    """Return what labels are judged by; ``refit=False`` (for wide rows) leaves it at the taught model."""
    noise = _noise(federation, common, theta)
    if not refit:
        return (_model(federation, theta, noise, 1.0),)
    again, bend = refitted(federation, common, theta, noise.flips)
    seen = federation.sum(TrustedSums(**common, theta=np.stack([theta, again])))
    gain = float(seen["value"][1] - seen["value"][0])
    weight = float(expit(FITTED_GAIN - gain))
    known = seen["bend"] + np.eye(len(theta)) * (len(theta) / max(float(theta @ theta), 1e-12))
    # a label that is flipped half of the time tells nothing
    told = float(np.mean((1.0 - noise.flips.sum(axis=1)) ** 2)) * bend
    taught = _model(federation, theta, noise, 1.0 - weight, (1.0 - weight) * np.linalg.inv(known[0]))
    believed = _noise(federation, common, again)
    return (taught, _model(federation, again, believed, weight, np.linalg.inv(known[1] + told)))


def _noise(federation: Federation, common: dict[str, Any], theta: Array) -> LabelNoise:
    scores = federation.sum(ScoresByLabel(**common, agents=federation.agents, theta=theta))
    return fit_label_noise(scores["counts"], scores["trusted"], len(theta))


def _model(
    federation: Federation, theta: Array, noise: LabelNoise, weight: float, covariance: Array | None = None
) -> LabelModel:
    pairs = zip(federation.agents, noise.flips, strict=True)
    flips = {name: (float(pair[0]), float(pair[1])) for name, pair in pairs}
    return LabelModel(theta, noise.slope, noise.shift, flips, weight, covariance)


def refitted(federation: Federation, common: dict[str, Any], theta: Array, flips: Array) -> tuple[Array, Array]:
    """Return the model near θ that explains all labels best if agent k flips at rates ``flips[k]``, and the rows' bend."""
    agents = federation.agents
    at, trial, step, lowest = theta, theta, np.zeros_like(theta), np.inf
    bend = np.zeros((len(theta), len(theta)))
    for _ in range(STEPS):
        query = NoisyLabelSums(
            **common, agents=agents, theta=trial[None], weights=np.ones((1, len(agents))), flips=flips[None]
        )
        sums = federation.sum(query)
        value = float(sums["value"][0]) + 0.5 * PRECISION * float((trial - theta) @ (trial - theta))
        if value < lowest:
            at, lowest = trial, value
            slope = sums["slope"][0] + PRECISION * (at - theta)
            # the bend is that of known labels, more than that of flipped ones: steps are short rather than wild
            bend = sums["bend"][0]
            step = -np.linalg.solve(bend + PRECISION * np.eye(len(at)), slope)
        else:
            step = 0.25 * step
        if np.linalg.norm(step) <= 1e-3 * (1.0 + np.linalg.norm(at)):
            break
        trial = at + step
    return at, bend
