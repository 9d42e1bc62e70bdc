"""Agents that contradict each other: some have negated all their targets, or have them in another unit.

Whoever adds up the rows of both camps mixes two models. Put into one unit they all speak for the same one, and the only
question left, which camp is right, is a factor: few trusted rows answer it. The rows tell what it acts about, too: a scale
from one to five that was read the other way round is negated about three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comt.preparation import Preparation
from comt.problem import Array
from comt.server.auto.centres import feature_spread
from comt.server.auto.choice import multiplied_by
from comt.server.auto.labels import reliability
from comt.server.auto.moments import Moments, total
from comt.server.auto.signs import compare_agents, odds_of_smaller

#: by so many nats the rows of an agent must speak for the leading camp's model in another unit
CLEARLY = 8.0
#: smallest factor between two units, and how much larger than the leading camp's errors may be in an agent's own unit
SMALLEST, LARGER = 2.0, 2.0
#: how often units are looked for anew, in the model of all agents in one unit
STEPS = 5


@dataclass(frozen=True)
class Camps:
    """Two camps of agents: what the targets of the smaller one are multiplied by, compared with the leading one's."""

    #: who is of the smaller camp, or of the less likely one
    smaller: NDArray[np.bool_]
    factor: float
    #: the model that predicts what both camps call the same: the factor acts about it
    origin: Array
    #: odds beforehand that the smaller camp is the right one
    odds: float

    @property
    def leading(self) -> Array:
        """1 for agents of the leading camp, 0 for the others."""
        return np.where(self.smaller, 0.0, 1.0)

    def within(self, weights: Array) -> Array:
        """Return weights relative to the best agent of the same camp: which camp is right is a question of its own."""
        best = np.where(self.smaller, weights[self.smaller].max(), weights[~self.smaller].max())
        relative: Array = weights / best
        return relative

    def in_one_unit(self, per_agent: Sequence[Moments]) -> list[Moments]:
        """Return everybody's moments with all targets in the unit of the leading camp."""
        return [
            part.multiplied(1.0 / self.factor, self.origin) if other else part
            for part, other in zip(per_agent, self.smaller, strict=True)
        ]

    def of_smaller(self, theta: Array) -> Array:
        """Return the model in the unit of the smaller camp."""
        return self.origin + self.factor * (theta - self.origin)

    def believed(self, weights: Array, smaller_right: float) -> Array:
        """Return how far agents are believed if the smaller camp is right with this probability."""
        right: Array = weights * np.where(self.smaller, smaller_right, 1.0 - smaller_right)
        return right

    def led_by_the_likelier(self, per_agent: Sequence[Moments], trusted: Moments) -> Camps:
        """Return the camps, turned round if trusted rows speak more for the smaller one's sign than is against it beforehand.

        What speaks for rows as they are, in all that follows, then speaks for its rows. A unit is no such question: one
        trusted row far out speaks for the larger one.
        """
        if self.factor > 0.0:
            return self
        model = total(self.in_one_unit(per_agent)).ridge()
        errors = [max(trusted.squared_error(theta), 1e-300) for theta in (model, self.of_smaller(model))]
        if np.log(self.odds) + 0.5 * trusted.rows * np.log(errors[0] / errors[1]) <= 0.0:
            return self
        return Camps(~self.smaller, 1.0 / self.factor, self.origin, 1.0 / self.odds)

    def names(self, agents: Sequence[str]) -> tuple[str, str]:
        """Say what becomes of the rows if the leading camp is right, and if the smaller one is."""
        smaller, larger = (
            ", ".join(name for name, other in zip(agents, self.smaller, strict=True) if other == camp)
            for camp in (True, False)
        )
        return (
            f"unverified rows, targets of {smaller} {multiplied_by(1.0 / self.factor)}",
            f"unverified rows, targets of {larger} {multiplied_by(self.factor)}",
        )


def find_camps(preparation: Preparation, per_agent: Sequence[Moments], fits: Array) -> Camps | None:
    """Compare the agents' own ``fits`` (K, p); no exchange. None where nobody clearly contradicts the others."""
    _, spread = feature_spread(preparation, total(per_agent))
    sure = np.array([_reliability(part, fit, spread) for part, fit in zip(per_agent, fits, strict=True)])
    signs = compare_agents(fits, sure, spread)
    if signs.reversed.any():
        found: _Parted | None = _Parted(signs.reversed, -1.0, signs.larger_wrong / (1.0 - signs.larger_wrong))
    else:
        found = _by_unit(preparation, per_agent)
    return None if found is None else _that_stand_out(preparation, per_agent, found)


class _Parted(NamedTuple):
    smaller: NDArray[np.bool_]
    factor: float
    odds: float


def _by_unit(preparation: Preparation, per_agent: Sequence[Moments]) -> _Parted | None:
    """Part the agents where the units of their targets differ most, wherever these have their zero."""
    rows = np.array([part.rows for part in per_agent])
    speaking, factors = rows > 0, np.ones(len(per_agent))
    if speaking.sum() < 2:
        return None
    centred = [_centred(preparation, part) for part in per_agent]
    nothing = np.zeros(preparation.width)
    for _ in range(STEPS):
        pairs = zip(centred, factors.tolist(), strict=True)
        model = total([part.multiplied(1.0 / factor, nothing) for part, factor in pairs]).ridge()
        found = np.array([model @ part.cross / max(float(model @ part.gram @ model), 1e-12) for part in centred])
        if found[speaking].min() <= 0.0:
            return None
        factors = np.where(speaking, found / np.median(found[speaking]), 1.0)
    order = np.argsort(factors)
    steps = np.diff(np.log(factors[order]))
    if steps.max() < np.log(SMALLEST):
        return None
    smaller = np.isin(np.arange(len(factors)), order[: int(steps.argmax()) + 1])
    if 2 * smaller.sum() > len(factors):
        smaller = ~smaller
    apart = [np.average(np.log(factors[camp]), weights=rows[camp]) for camp in (smaller, ~smaller)]
    return _Parted(smaller, float(np.exp(apart[0] - apart[1])), odds_of_smaller(len(factors), float(smaller.mean())))


def _that_stand_out(preparation: Preparation, per_agent: Sequence[Moments], found: _Parted) -> Camps | None:
    """Return the camps if the smaller one's rows clearly follow the leading model times a factor, not a shifted one."""
    pairs = list(zip(per_agent, found.smaller, strict=True))
    leading, others = (total([part for part, other in pairs if other == camp]) for camp in (False, True))
    model = leading.ridge()
    usual = leading.squared_error(model) / max(leading.rows, 1e-12)
    origin = np.zeros(preparation.width)
    if preparation.constant:
        # what remains beside the factor belongs to the value that it leaves as it is
        origin[-1] = (
            _mean_error(preparation, others, found.factor * model) / (1.0 - found.factor) / preparation.constant
        )
    camps = Camps(found.smaller, found.factor, origin, found.odds)
    in_their_unit = camps.of_smaller(model)
    for part in (part for part, other in pairs if other):
        left = max(part.squared_error(in_their_unit), 1e-12)
        shifted = part.squared_error(model) - part.rows * _mean_error(preparation, part, model) ** 2
        if 0.5 * part.rows * np.log(max(shifted, 1e-12) / left) < CLEARLY:
            return None
        if left > LARGER * usual * camps.factor**2 * part.rows:
            return None
    return camps


def _centred(preparation: Preparation, part: Moments) -> Moments:
    """Return the moments about the means of features and targets (as they are without a constant column)."""
    if not preparation.constant or part.rows <= 0:
        return part
    sums = part.joint[-2] / preparation.constant
    return Moments(part.joint - np.outer(sums, sums) / part.rows, part.rows)


def _mean_error(preparation: Preparation, part: Moments, model: Array) -> float:
    """Return the mean of y − x·θ (0 without a constant column: it cannot be told)."""
    if not preparation.constant:
        return 0.0
    return float(part.cross[-1] - part.gram[-1] @ model) / (preparation.constant * max(part.rows, 1e-12))


def _reliability(moments: Moments, fit: Array, spread: Array) -> float:
    """Return how reliable a fit of an agent's rows is."""
    if moments.rows <= 0 or not fit.any():
        return 0.0
    width = len(moments.gram)
    noise = moments.squared_error(fit) / moments.rows
    firm = moments.gram + 1e-6 * max(float(np.trace(moments.gram)), 1e-12) / width * np.eye(width)
    covariance = np.asarray(noise * np.linalg.inv(firm), dtype=np.float64)
    return reliability(fit, covariance, spread)
