"""How an agent answers how labels bend along products of features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from comt.agent.answers import compute, zeros
from comt.agent.choosing import asked_rows
from comt.queries import Answer, BendingSums

if TYPE_CHECKING:
    from comt.agent.agent import Agent


@compute.register(BendingSums)
def _bending_sums(query: BendingSums, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    arrays, rows = zeros(query), 0
    for features, targets in asked_rows(query, prepared):
        rows += len(targets)
        errors = targets - features @ query.theta[0]
        along = features @ query.axes.T
        if query.bend is None:
            arrays["bent"] += (along * errors[:, None]).T @ along
            continue
        product = np.einsum("ir,ir->i", along @ query.bend, along)
        arrays["square"] += product @ product
        arrays["along"] += product @ features
        arrays["own"] += errors**2 @ (along**2).sum(axis=1) ** 2
    return Answer(arrays, dict.fromkeys(arrays, rows))
