"""Rows whose targets follow a model, or its negative: a sign convention, a reversed scale. Few trusted rows tell the sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import f as f_distribution

from comt.preparation import Preparation
from comt.server.auto.centres import Centre
from comt.server.auto.mixtures import Mixtures
from comt.server.auto.moments import Moments
from comt.server.auto.ranks import bayes_bound

#: most that the unverified rows may say against a model, in nats: no model of errors is that right
MOST = 15.0
#: degrees of freedom of the noise that unverified rows tell: few, for errors are seldom normal
NOISE_ROWS = 8.0


def either_sign(
    preparation: Preparation, mixtures: Mixtures, rivals: Sequence[Centre], trusted: Moments
) -> list[Centre]:
    """Return the two models, the sign of most rows first, and ``rivals`` weighed against them.

    Nothing changes if the rows do not clearly speak for two models. A rival calls the rows it does not fit wrong in
    any way; if that explains the rows better than two signs do, the two models lose weight, otherwise the rival does.
    A model also loses weight where the ``trusted`` rows have larger errors than it says.
    """
    found = mixtures.negated
    if not mixtures.stands_out(found):
        return list(rivals)
    both = np.stack([found.theta, preparation.multiplied(found.theta, -1.0)])
    models = both if found.share >= 0.5 else both[::-1]
    kept = max(found.share, 1.0 - found.share)
    ahead = found.value - mixtures.far_out
    own = mixtures.agrees * float(np.exp(np.clip(ahead.min(initial=0.0), -MOST, 0.0)))
    theirs = np.exp(-np.clip(ahead, 0.0, MOST)).tolist()
    larger = trusted.squared_errors(models) / (max(trusted.rows, 1.0) * found.noise)
    bearable = [bayes_bound(p) for p in f_distribution.sf(larger, max(trusted.rows, 1.0), NOISE_ROWS).tolist()]
    name = "unverified rows, targets of either sign"
    return [
        *(replace(rival, weight=rival.weight * factor) for rival, factor in zip(rivals, theirs, strict=True)),
        Centre(name, "either sign", models[0], weight=2.0 * own * bearable[0] * kept),
        Centre(f"{name}, negated", "either sign", models[1], weight=2.0 * own * bearable[1] * (1.0 - kept)),
    ]
