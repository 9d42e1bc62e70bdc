"""Long tails that are right: where rows follow the straight line far out, too, nothing is to be compressed.

Compression keeps one absurd cell from deciding a model, and most tails bend or are wrong. Some follow the line: a large firm
has large costs. A model of compressed columns then misses just the rows that matter most. Both ways of preparing rows are
tried. Unverified rows speak for straight tails if they leave clearly smaller errors, trusted rows by their evidence.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from comt.federation.base import Federation
from comt.preparation import CAP, KNEE, Preparation
from comt.queries import Totals, rank_middles
from comt.server.auto.agents import ask_moments, moments_of
from comt.server.auto.moments import TRUSTED_PENALTIES, Moments, total

#: where long tails are right, values count as they are up to where compressed ones stop to grow, 60 scales; targets are
#: believed up to fewer, which part of them may exceed by a wrong unit
FAR, FAR_TARGETS = KNEE * float(np.exp(CAP / KNEE - 1.0)), 30.0
#: share of a column beyond the knee from which there are tails to ask about (of normal values .003 are)
TAILS = 0.01
#: unverified rows must leave so much smaller errors (as the log of a ratio of squares): noise alone makes .01 of it
CLEARLY = 0.015
#: nats by which trusted rows must agree to straight tails by themselves, and by which they may object to them
SURE, OBJECTION = 3.0, 5.0


def straight_tails(
    federation: Federation, preparation: Preparation, moments: Totals, n_folds: int, *, whole: bool
) -> tuple[Preparation, Totals] | None:
    """Return a preparation without compression and its moments, if rows speak for it; no exchange or two."""
    if not preparation.compressed or not _has_tails(preparation, moments):
        return None
    straight = preparation.tamed(FAR, FAR_TARGETS)
    found = ask_moments(federation, straight, n_folds=n_folds, whole=whole)
    # errors are compared on the same targets: those that are cut off otherwise may be what the tails explain
    bent = ask_moments(federation, replace(preparation, target_limit=FAR_TARGETS), n_folds=n_folds, whole=whole)
    gain = np.log(_error(_unverified(bent)) / _error(_unverified(found)))
    agreed = _trusted(found).evidence(TRUSTED_PENALTIES).max() - _trusted(bent).evidence(TRUSTED_PENALTIES).max()
    if agreed > SURE or (gain > CLEARLY and agreed > -OBJECTION):
        return straight, found
    return None


def _has_tails(preparation: Preparation, moments: Totals) -> bool:
    columns = moments["columns"].sum(axis=0)[: len(preparation.center)]
    beyond = columns[:, np.abs(rank_middles()) > KNEE].sum(axis=1)
    return bool((beyond > TAILS * columns.sum(axis=1)).any())


def _unverified(answer: Totals) -> Moments:
    return total(moments_of(answer["moments"], answer["rows"]))


def _trusted(answer: Totals) -> Moments:
    return total(moments_of(answer["trusted"], answer["trusted_rows"]))


def _error(rows: Moments) -> float:
    """Return the squared error that a ridge fit leaves."""
    return max(rows.squared_error(rows.ridge()), 1e-300)
