"""Posterior mode and evidence of logistic models of the trusted rows, a batch of them side by side.

A hypothesis says θ = μ + L u with u ~ N(0, I). Its evidence is taken by Laplace's approximation; its mode is moderated by
its uncertainty (scores that are hardly known are drawn to zero), so that a vague hypothesis cannot outshout a sure one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

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


@dataclass
class _Search:
    hypothesis: Hypothesis
    u: Array
    anchor: Array
    step: Array
    length: float = 1.0
    best: float = np.inf
    theta: Array = field(default_factory=lambda: np.empty(0))
    log_posterior: float = -np.inf
    done: bool = False

    def advance(self, value: float, slope: Array, bend: Array, features: Array) -> None:
        """Take in the sums at the present point and move on."""
        spread = self.hypothesis.spread
        objective = value + 0.5 * float(self.u @ self.u)
        if objective > self.best + 1e-9 * abs(self.best):
            self.length *= 0.5
            self.u = self.anchor + self.length * self.step
            return
        hessian = spread.T @ bend @ spread + np.eye(spread.shape[1])
        uncertain = float(np.trace(features @ spread @ np.linalg.solve(hessian, spread.T)))
        mode = self.hypothesis.mean + spread @ self.u
        self.theta = np.asarray(mode / np.sqrt(1.0 + np.pi / 8.0 * uncertain))
        self.log_posterior = self.hypothesis.log_prior - objective - 0.5 * float(np.linalg.slogdet(hessian)[1])
        gradient = spread.T @ slope + self.u
        self.anchor, self.best, self.length = self.u, objective, 1.0
        self.step = np.asarray(-np.linalg.solve(hessian, gradient), dtype=np.float64)
        if float(-gradient @ self.step) <= DECREMENT:
            self.done = True
        self.u = self.u + self.step


def weigh(
    federation: Federation, preparation: Preparation, hypotheses: Sequence[Hypothesis], features: Array
) -> tuple[Array, Array]:
    """Return moderated modes (H, p) and log prior + log evidence (H,); ``features`` is the covariance of the rows."""
    searches = []
    for hypothesis in hypotheses:
        zero = np.zeros(hypothesis.spread.shape[1])
        searches.append(_Search(hypothesis, zero, zero, zero))
    for _ in range(MAX_ROUNDS):
        running = [search for search in searches if not search.done]
        if not running:
            break
        at = np.stack([s.hypothesis.mean + s.hypothesis.spread @ s.u for s in running])
        totals = federation.sum(TrustedSums(loss_name="logistic", preparation=preparation, theta=at))
        for index, search in enumerate(running):
            search.advance(float(totals["value"][index]), totals["slope"][index], totals["bend"][index], features)
    return np.stack([s.theta for s in searches]), np.array([s.log_posterior for s in searches])
