"""Posterior mode and evidence of logistic models of the trusted rows, a batch of them side by side.

A hypothesis says θ = μ + L u with u ~ N(0, I). Its evidence is taken by Laplace's approximation; its mode is moderated by
its uncertainty (scores that are hardly known are drawn to zero), so that a vague hypothesis cannot outshout a sure one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import TrustedSums

MAX_ROUNDS, DECREMENT = 12, 1e-5


@dataclass(frozen=True)
class Hypothesis:
    """A model of the trusted rows, before they are looked at."""

    name: str
    mean: Array  # (p,)
    spread: Array  # (p, q)
    log_prior: float


class _Batch:
    """Newton's method for the modes of hypotheses with equally many unknowns; a step that makes things worse is halved."""

    def __init__(self, hypotheses: Sequence[Hypothesis]) -> None:
        self._mean = np.stack([each.mean for each in hypotheses])
        self._spread = np.stack([each.spread for each in hypotheses])
        self._log_prior = np.array([each.log_prior for each in hypotheses])
        count, unknowns = len(hypotheses), self._spread.shape[2]
        self._u, self._anchor, self._step = (np.zeros((count, unknowns)) for _ in range(3))
        self._length, self._best = np.ones(count), np.full(count, np.inf)
        self.running = np.arange(count)
        self.theta, self.log_posterior = np.zeros_like(self._mean), np.full(count, -np.inf)

    @property
    def points(self) -> Array:
        """The models (running, p) at which sums are asked for next."""
        return np.asarray(self._models_of(self.running))

    def advance(self, value: Array, slope: Array, bend: Array, features: Array) -> None:
        """Take in the sums at ``points`` and move on."""
        at, u = self.running, self._u[self.running]
        objective = value + 0.5 * (u * u).sum(axis=1)
        worse = objective > self._best[at] + 1e-9 * np.abs(self._best[at])
        halved = at[worse]
        self._length[halved] *= 0.5
        self._u[halved] = self._anchor[halved] + self._length[halved, None] * self._step[halved]
        better = at[~worse]
        spread, objective = self._spread[better], objective[~worse]
        across = spread.swapaxes(1, 2)
        hessian = across @ bend[~worse] @ spread + np.eye(spread.shape[2])
        gradient = (across @ slope[~worse, :, None])[..., 0] + self._u[better]
        solved = np.linalg.solve(hessian, np.concatenate([across, gradient[..., None]], axis=2))
        uncertain = np.trace(features @ spread @ solved[..., :-1], axis1=1, axis2=2)
        self.theta[better] = self._models_of(better) / np.sqrt(1.0 + np.pi / 8.0 * uncertain)[:, None]
        self.log_posterior[better] = self._log_prior[better] - objective - 0.5 * np.linalg.slogdet(hessian)[1]
        step = -solved[..., -1]
        self._anchor[better], self._best[better], self._length[better] = self._u[better], objective, 1.0
        self._step[better] = step
        self._u[better] += step
        self.running = np.setdiff1d(at, better[-(gradient * step).sum(axis=1) <= DECREMENT])

    def _models_of(self, which: NDArray[np.intp]) -> Array:
        return np.asarray(self._mean[which] + (self._spread[which] @ self._u[which, :, None])[..., 0])


def weigh(
    federation: Federation, preparation: Preparation, hypotheses: Sequence[Hypothesis], features: Array
) -> tuple[Array, Array]:
    """Return moderated modes (H, p) and log prior + log evidence (H,); ``features`` is the covariance of the rows."""
    unknowns = np.array([hypothesis.spread.shape[1] for hypothesis in hypotheses])
    places = [np.flatnonzero(unknowns == count) for count in np.unique(unknowns)]
    batches = [_Batch([hypotheses[place] for place in which.tolist()]) for which in places]
    for _ in range(MAX_ROUNDS):
        running = [batch for batch in batches if len(batch.running)]
        if not running:
            break
        at = np.vstack([batch.points for batch in running])
        totals = federation.sum(TrustedSums(loss_name="logistic", preparation=preparation, theta=at))
        ends = np.cumsum([len(batch.running) for batch in running])[:-1]
        sums = (np.split(totals[name], ends) for name in ("value", "slope", "bend"))
        for batch, value, slope, bend in zip(running, *sums, strict=True):
            batch.advance(value, slope, bend, features)
    thetas, log_posteriors = np.zeros((len(hypotheses), len(features))), np.zeros(len(hypotheses))
    for which, batch in zip(places, batches, strict=True):
        thetas[which], log_posteriors[which] = batch.theta, batch.log_posterior
    return thetas, log_posteriors
