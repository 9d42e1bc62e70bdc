"""Logistic sums at models so large that most rows are decided: such a sum is one over a set of rows, whatever it is called.

α = σ(−s) of a row with score s = y·x·r is 0 or 1 up to 1e-6 once |s| reaches 14, and its weight α(1 − α) is 0. If only a few
rows are *soft* (less decided than that), curvature sums rest on those few; if none is, slopes are sums over the rows on the
wrong side, and two models show the rows between them. So soft rows are counted like rows, and where there are none, the
set on the wrong side is remembered and compared like any other (``comt.agent.memory``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logit

from comt.agent.choosing import flip_chances
from comt.agent.coverage import Cover
from comt.problem import Array
from comt.queries import (
    CurvatureTimes,
    DirectSums,
    DualSums,
    ModelQuery,
    NoisyLabelSums,
    Query,
    TrustedLeftOut,
    TrustedScore,
    TrustedSums,
)

if TYPE_CHECKING:
    from comt.agent.agent import Agent

#: scores beyond which a row is decided: σ(−14) = 8e-7
DECIDED = 14.0
#: least chance that is told from none
LEAST = 1e-12


def saturated(query: Query, agent: Agent) -> list[Cover]:
    """Return a cover for every model of a logistic question: the rows on its wrong side, and how many are soft."""
    if not isinstance(query, ModelQuery) or query.loss_name != "logistic":
        return []
    prepared = agent.prepared(query.preparation)
    found = []
    for models, trusted in _models(query):
        blocks = [prepared.trusted] if trusted else list(prepared.blocks())
        parts = [(features @ models.T) * targets[:, None] for features, targets in blocks]
        scores = np.concatenate(parts) if parts else np.empty((0, len(models)))
        for index, model in enumerate(models):
            own = scores[:, index]
            soft = int(np.count_nonzero(np.abs(own) < DECIDED))
            name = f"decided {'trusted' if trusted else 'buggy'} rows"
            found.append(Cover(name, model.tobytes(), own < 0.0, trusted, soft))
    return found + (_flips(query, agent) if isinstance(query, NoisyLabelSums) else [])


def _flips(query: NoisyLabelSums, agent: Agent) -> list[Cover]:
    """Return a cover for flips that follow the features, of either right label: steep ones decide rows as large models do."""
    if query.axes is None or query.leans is None:
        return []
    slot = query.slot(agent.name)
    rows = np.concatenate([features for features, _ in agent.prepared(query.preparation).blocks()])
    found = []
    for index in np.flatnonzero(query.leans.any(axis=1)).tolist():
        (chances,) = flip_chances(query, np.array([index]), slot, rows)
        for kind, chance in enumerate(chances):
            own = logit(np.clip(chance, LEAST, 1.0 - LEAST))
            model = np.append(query.leans[index, kind] * query.axes[index], kind).tobytes()
            found.append(Cover("flipped rows", model, own < 0.0, False, int(np.count_nonzero(np.abs(own) < DECIDED))))
    return found


def _models(query: ModelQuery) -> Iterator[tuple[Array, bool]]:
    """Yield models at which slopes or curvatures are summed, over buggy or trusted rows; those of Algorithm 1 are given."""
    if isinstance(query, (DualSums, CurvatureTimes)):
        yield np.atleast_2d(query.r), False
        yield np.atleast_2d(query.theta), True
    elif isinstance(query, DirectSums):
        yield query.theta, False
        yield query.theta, True
    elif isinstance(query, NoisyLabelSums):
        yield query.theta, False
    elif isinstance(query, (TrustedSums, TrustedScore, TrustedLeftOut)):
        yield query.theta, True
        if isinstance(query, TrustedScore) and query.against is not None:
            yield query.against, True
