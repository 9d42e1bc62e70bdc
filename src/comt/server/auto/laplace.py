"""Posterior mode and evidence of logistic models of the trusted rows, a batch of them side by side.

A hypothesis says θ = μ + L u with u ~ N(0, I). Its evidence is taken by Laplace's approximation; its mode is moderated by
its uncertainty (scores that are hardly known are drawn to zero), so that a vague hypothesis cannot outshout a sure one.
Where columns outnumber the trusted rows, rows left out count besides the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import TrustedLeftOut, TrustedSums

MAX_ROUNDS, DECREMENT = 12, 1e-5
#: so many nats behind the likeliest hypothesis nobody asks how one does on rows left out
UNLIKELY = 20.0
#: share of rows left out in a weight where columns outnumber trusted rows, and how many columns per row that takes, from where
#: on and altogether; with FEW rows, of which each tells little, so many times as many
LEFT_OUT, OUTNUMBERED = 0.7, (1.25, 2.0)
FEW, TIMES = (10.0, 20.0), (4.0, 1.0)


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
        count, unknowns = len(hypotheses), self._spread.shape[2]
        self._u, self._anchor, self._step = (np.zeros((count, unknowns)) for _ in range(3))
        self._length, self._best = np.ones(count), np.full(count, np.inf)
        self.running = np.arange(count)
        self.mode, self.log_evidence = np.zeros_like(self._mean), np.full(count, -np.inf)
        self.covariance = np.zeros((count, *2 * self._mean.shape[1:]))

    @property
    def points(self) -> Array:
        """The models (running, p) at which sums are asked for next."""
        return np.asarray(self._models_of(self.running))

    def advance(self, value: Array, slope: Array, bend: Array) -> None:
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
        self.mode[better], self.covariance[better] = self._models_of(better), spread @ solved[..., :-1]
        self.log_evidence[better] = -objective - 0.5 * np.linalg.slogdet(hessian)[1]
        step = -solved[..., -1]
        self._anchor[better], self._best[better], self._length[better] = self._u[better], objective, 1.0
        self._step[better] = step
        self._u[better] += step
        self.running = np.setdiff1d(at, better[-(gradient * step).sum(axis=1) <= DECREMENT])

    def _models_of(self, which: NDArray[np.intp]) -> Array:
        return np.asarray(self._mean[which] + (self._spread[which] @ self._u[which, :, None])[..., 0])


def share_left_out(rows: float, columns: int) -> float:
    """Return how much trusted rows left out count in a weight, beside the evidence.

    Evidence is what labels foretell of the next ones, from the first on, when nothing was learned yet. Where columns
    outnumber the rows, that is mostly the prior, and what all other rows foretell of one says more about the model that
    they end with.
    """
    per_row = columns / max(rows, 1.0) / float(np.interp(rows, FEW, TIMES))
    return float(np.interp(per_row, OUTNUMBERED, (0.0, LEFT_OUT)))


def weigh(
    federation: Federation,
    preparation: Preparation,
    hypotheses: Sequence[Hypothesis],
    features: Array,
    left_out: float = 0.0,
) -> tuple[Array, Array]:
    """Return moderated modes (H, p) and log weights (H,); ``features`` is the covariance of the rows.

    A weight is prior times evidence; ``left_out`` is the share of the evidence that trusted rows left out stand in for.
    """
    unknowns = np.array([hypothesis.spread.shape[1] for hypothesis in hypotheses])
    places = [np.flatnonzero(unknowns == count) for count in np.unique(unknowns)]
    batches = [_Batch([hypotheses[place] for place in which.tolist()]) for which in places]
    common: dict[str, Any] = {"loss_name": "logistic", "preparation": preparation}
    for _ in range(MAX_ROUNDS):
        running = [batch for batch in batches if len(batch.running)]
        if not running:
            break
        at = np.vstack([batch.points for batch in running])
        totals = federation.sum(TrustedSums(**common, theta=at))
        ends = np.cumsum([len(batch.running) for batch in running])[:-1]
        sums = (np.split(totals[name], ends) for name in ("value", "slope", "bend"))
        for batch, value, slope, bend in zip(running, *sums, strict=True):
            batch.advance(value, slope, bend)
    order = np.argsort(np.concatenate(places))
    mode, covariance, evidence = (
        np.concatenate([getattr(batch, name) for batch in batches])[order]
        for name in ("mode", "covariance", "log_evidence")
    )
    log_prior = np.array([hypothesis.log_prior for hypothesis in hypotheses])
    weight = log_prior + evidence
    if left_out > 0.0:
        likely = np.flatnonzero(weight > weight.max() - UNLIKELY)
        asked = TrustedLeftOut(**common, theta=mode[likely], covariance=covariance[likely])
        weight[likely] -= left_out * (evidence[likely] + federation.sum(asked)["value"])
    uncertain = np.einsum("ij,hji->h", features, covariance)
    return mode / np.sqrt(1.0 + np.pi / 8.0 * uncertain)[:, None], weight
