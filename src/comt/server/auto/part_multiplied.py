"""Rows of which part have targets in another unit: what follows for the model, whichever part is the right one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import RankCounts, rank_edges
from comt.server.auto.exchangeability import SIGNED_ERROR
from comt.server.auto.mixtures import Mixture, Mixtures

#: smallest factor that is no matter of taste
SMALLEST = 2.0
#: share of the smaller part that may have one value
MOSTLY = 0.5
#: share of right rows with errors so many times larger than the others': no error is quite normal
FAR_OUT, LARGER = 0.05, 3.0
#: most that one row can say against a part, in nats
LOUDEST = 6.0


@dataclass(frozen=True)
class Multiplied:
    """One of the two parts is right: the model it follows, and what the unverified rows say about its errors."""

    name: str
    theta: Array
    #: squared error of a row
    error: float
    #: how many of the unverified rows are of this part
    share: float
    #: whether it is the part with the larger targets
    larger: bool
    #: nats by which the trusted rows look like rows of this part only, not like rows of both
    belong: float = 0.0


def _in_two_units(mixtures: Mixtures, common: float) -> Mixture | None:
    """Return the mixture of two units if the rows clearly speak for it.

    A part that is mostly one value says nothing: zero is zero in any unit.
    """
    found = mixtures.multiplied
    if found.factor < SMALLEST or common > MOSTLY * found.share:
        return None
    return found if mixtures.stands_out(found, mixtures.uneven) else None


def part_multiplied(
    federation: Federation, preparation: Preparation, mixtures: Mixtures, common: float
) -> list[Multiplied]:
    """Return both readings of rows in two units, and how far trusted rows belong to either part; one exchange.

    None if the rows do not clearly speak for two units. ``common`` is the share of targets that are one value.
    """
    found = _in_two_units(mixtures, common)
    if found is None:
        return []
    told = f"{found.factor:.3g}"
    name = "unverified rows, part of the targets"
    parts = (
        Multiplied(f"{name} divided by {told}", found.theta, found.noise, found.share, larger=False),
        Multiplied(
            f"{name} times {told}",
            preparation.multiplied(found.theta, found.factor),
            found.noise * found.factor**2,
            1.0 - found.share,
            larger=True,
        ),
    )
    models = np.stack([part.theta for part in parts])
    ranks = federation.sum(
        RankCounts(
            loss_name="squared",
            preparation=preparation,
            agents=federation.agents,
            theta=models,
            towards=np.zeros_like(models),
            weights=np.ones((len(models), len(federation.agents))),
            fold=np.full(len(models), -1),
            n_folds=1,
        )
    )
    errors = (ranks[rows][:, SIGNED_ERROR] for rows in ("buggy", "trusted"))
    return [
        replace(part, belong=belong(every, verified, part.error, part.share))
        for part, every, verified in zip(parts, *errors, strict=True)
    ]


def belong(every: Array, verified: Array, error: float, share: float) -> float:
    """Return the log likelihood ratio of verified rows being of one part, not of both (counts of errors under its model).

    A row of the part says no more than −log ``share`` for it, one far off speaks against it: this holds whatever the
    other part looks like, because all rows' own histogram tells how often both together have such errors.
    """
    edges, width = np.concatenate([[-np.inf], rank_edges(), [np.inf]]), np.sqrt(error)
    of_part = (1.0 - FAR_OUT) * np.diff(norm.cdf(edges / width)) + FAR_OUT * np.diff(norm.cdf(edges / (LARGER * width)))
    rows = max(float(every.sum()), 1.0)
    of_both = np.maximum(np.maximum(every / rows, share * of_part), 0.05 / rows)
    ratio = np.log(np.maximum(of_part, 1e-300) / of_both)
    return float(verified @ np.maximum(ratio, -LOUDEST))
