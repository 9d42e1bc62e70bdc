"""What both forms of DUTI end with: repairs for a falling price gamma of changing a target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comt.baselines.base import Array


@dataclass(frozen=True)
class RepairPath:
    """Repairs of one data set at T prices ``gammas``, dearest first."""

    gammas: Array  # T
    repaired: Array  # T x n: the suggested targets at each price
    flagged: NDArray[np.bool_]  # T x n
    rank: Array  # n: small is suspicious, never flagged is the largest

    def first_flagging(self) -> int:
        """Return the first path point that flags a row, or 0, the point without repairs, if none does."""
        return int(np.argmax(self.flagged.any(axis=1)))


def rank_by_entry(flagged: NDArray[np.bool_], strength: Array, path_points: int) -> Array:
    """Rank rows by the path point t = 1, 2, ... that first flags them: t + 1 - strength, or path_points + 1.

    ``strength`` (T x n, in [0, 1]) orders the rows that enter at the same point.
    """
    entry = flagged.argmax(axis=0)
    rank = entry + 2.0 - np.take_along_axis(strength, entry[None, :], axis=0)[0]
    return np.where(flagged.any(axis=0), rank, path_points + 1.0)
