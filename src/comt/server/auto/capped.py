"""Rows with a capped cell (a value far beyond all others): rare, or wrong?

Missing-value codes and units a thousand times too large end at the cap of the compression. Two things tell them from rows that
are only rare: the targets of wrong cells are like everybody's, and a model of the other rows makes nonsense of them.
"""

from __future__ import annotations

import numpy as np

from comt.preparation import Preparation
from comt.server.auto.centres import target_mean, target_variance
from comt.server.auto.moments import Moments

#: fewest capped rows that are judged, and fewest rows per column that must be left without them
JUDGED, LEFT_PER_COLUMN = 10.0, 10.0
#: rare rows are special if their mean target lies so many standard deviations from everybody's, or their targets spread
#: (squared, around everybody's mean) so many times as wide
FAR, WIDE = 0.5, 1.5


def mislead(preparation: Preparation, everyone: Moments, whole: Moments) -> bool:
    """Tell whether rows with a capped cell are wrong: ordinary targets, but predicted worse than by a constant."""
    capped = Moments(everyone.joint - whole.joint, everyone.rows - whole.rows)
    if capped.rows < JUDGED or whole.rows < LEFT_PER_COLUMN * preparation.width:
        return False
    usual, variance = target_mean(preparation, whole), target_variance(preparation, whole)
    constant = np.zeros(preparation.width)
    if preparation.constant:
        constant[-1] = usual / preparation.constant
    around_mean = capped.squared_error(constant)
    far = abs(target_mean(preparation, capped) - usual) > FAR * np.sqrt(variance)
    if far or around_mean > WIDE * variance * capped.rows:
        return False
    return capped.squared_error(whole.ridge()) > around_mean
