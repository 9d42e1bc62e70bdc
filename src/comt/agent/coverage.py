"""Which rows a sum rests on, so that two sums are never a few rows apart. Each question says so in one place: here.

Sums about the same model that cover different rows can be subtracted. For every question the site lists its *covers*, a
set of rows each, which ``comt.agent.memory`` compares. A question that is not listed here is refused wherever the owner has
set a minimum of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from comt.agent.answers import row_scores, taken_rows
from comt.agent.choosing import whole_rows
from comt.agent.folds import fold_of
from comt.errors import GateError
from comt.losses import get_loss
from comt.preparation import Preparation
from comt.queries import (
    BendingSums,
    CurvatureTimes,
    DirectSums,
    DualSums,
    ErrorCounts,
    ErrorsByPrediction,
    Histogram,
    MomentsByAgent,
    MultipliedSums,
    NoisyLabelSums,
    ProximalStep,
    Query,
    RankCounts,
    ResidualScale,
    RobustMoments,
    ScoreHistogram,
    ScoresByLabel,
    Spread,
    SubsetSum,
    TrustedLeftOut,
    TrustedScore,
    TrustedSums,
)

if TYPE_CHECKING:
    from comt.agent.agent import Agent
    from comt.agent.data import PreparedRows

Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class Cover:
    """The rows of one sum; None stands for all of them.

    Sums of one ``form`` for one ``model`` can be subtracted exactly; for nearby models, nearly. A sum that knows no model
    (the moments of rows that were chosen somehow) has none.
    """

    form: str
    model: bytes
    rows: Rows | None
    trusted: bool = False
    #: how many rows make the sum a smooth one, so that it shows no set of rows; None: none, it is a plain sum
    soft: int | None = None

    def among(self, kept: Rows) -> Cover:
        """Return the cover where only some of all unverified rows were looked at: a place for every row."""
        if self.trusted:
            return self
        rows = kept.copy()
        if self.rows is not None:
            rows[kept] = self.rows
        return replace(self, rows=rows)

    def size(self, n_rows: int, n_trusted: int) -> int:
        """Return on how many rows the sum rests, of all there are."""
        if self.soft is not None:
            return self.soft
        if self.rows is not None:
            return int(np.count_nonzero(self.rows))
        return n_trusted if self.trusted else n_rows


@singledispatch
def covers(query: Query, agent: Agent) -> list[Cover]:
    """Return the covers of a question's sums, one per sum that does not always rest on all rows."""
    raise GateError(
        f"agent {agent.name} cannot tell which rows '{query.purpose}' sums and keeps the answer inside; update its software."
    )


@covers.register(Histogram)
@covers.register(Spread)
@covers.register(ResidualScale)
@covers.register(ScoreHistogram)
@covers.register(ErrorCounts)
@covers.register(ErrorsByPrediction)
@covers.register(ScoresByLabel)
@covers.register(ProximalStep)
def _all_rows(query: Query, agent: Agent) -> list[Cover]:
    """All rows, whatever the model: nothing to compare. (Bins of histograms are merged, see ``cells``.)"""
    return []


@covers.register(DualSums)
def _dual_sums(query: DualSums, agent: Agent) -> list[Cover]:
    prepared = agent.prepared(query.preparation)
    part = query.keep is not None or query.thin > 1
    flat = get_loss(query.loss_name).piecewise_quadratic
    found = []
    for index, r in enumerate(query.r):
        sparse = flat and query.lambda_alpha[index] > 0
        rows = None
        if part or sparse:
            problem = query.problem(float(query.lambda_alpha[index]), float(query.lambda_z[index]))
            masks = []
            for features, targets in prepared.blocks():
                mask = _every(len(targets), query.thin)
                if query.keep is not None:
                    mask &= taken_rows(query.keep, index, problem, features, targets)
                if sparse:
                    mask &= row_scores("alpha", r, problem, features, targets) > 0
                masks.append(mask)
            rows = _joined(masks)
        found.append(Cover("buggy", r.tobytes(), rows))
        found.append(_without_fold(query, index, prepared))
    return found


def _without_fold(query: DualSums | DirectSums, index: int, prepared: PreparedRows) -> Cover:
    """Return the trusted rows of one member of a batch: all, or all but the fold it leaves out."""
    kept = None
    if query.n_folds and query.held_out is not None and query.held_out[index] >= 0:
        kept = _folds(prepared, query.n_folds) != query.held_out[index]
    return Cover("trusted", query.theta[index].tobytes(), kept, trusted=True)


@covers.register(DirectSums)
def _direct_sums(query: DirectSums, agent: Agent) -> list[Cover]:
    prepared = agent.prepared(query.preparation)
    weights = query.weights_of(agent.name)
    found = []
    for index, theta in enumerate(query.theta):
        rows = None
        if query.keep is not None or query.thin > 1 or query.weights is not None:  # the same at every site
            problem = query.problem()
            masks = []
            for features, targets in prepared.blocks():
                mask = _every(len(targets), query.thin) & (weights[index] != 0)
                if query.keep is not None:
                    mask &= taken_rows(query.keep, index, problem, features, targets)
                masks.append(mask)
            rows = _joined(masks)
        found.append(Cover("buggy", theta.tobytes(), rows))
        found.append(_without_fold(query, index, prepared))
    return found


@covers.register(CurvatureTimes)
def _curvature_times(query: CurvatureTimes, agent: Agent) -> list[Cover]:
    problem = query.problem(query.lambda_alpha, query.lambda_z)
    if not (problem.lambda_alpha > 0 and problem.loss.piecewise_quadratic):
        return []
    blocks = agent.prepared(query.preparation).blocks()
    masks = [row_scores("alpha", query.r, problem, features, targets) > 0 for features, targets in blocks]
    return [Cover("buggy", query.r.tobytes(), _joined(masks))]


@covers.register(SubsetSum)
def _subset_sum(query: SubsetSum, agent: Agent) -> list[Cover]:
    prepared = agent.prepared(query.preparation)
    problem = query.problem(query.lambda_alpha, query.lambda_z)
    found = []
    for r, threshold in zip(query.r, query.thresholds, strict=True):
        masks = [row_scores("alpha", r, problem, *block) >= threshold for block in prepared.blocks()]
        found.append(Cover("buggy", r.tobytes(), _joined(masks)))
    return found


@covers.register(TrustedScore)
def _trusted_score(query: TrustedScore, agent: Agent) -> list[Cover]:
    prepared = agent.prepared(query.preparation)
    found = []
    for index, theta in enumerate(query.theta):
        rows = None
        if query.n_folds and query.fold is not None and query.fold[index] >= 0:
            rows = _folds(prepared, query.n_folds) == query.fold[index]
        found.append(Cover("trusted", theta.tobytes(), rows, trusted=True))
    return found


@covers.register(TrustedSums)
@covers.register(TrustedLeftOut)
def _trusted_sums(query: TrustedSums | TrustedLeftOut, agent: Agent) -> list[Cover]:
    return [Cover("trusted", theta.tobytes(), None, trusted=True) for theta in query.theta]


@covers.register(MomentsByAgent)
def _moments_by_agent(query: MomentsByAgent, agent: Agent) -> list[Cover]:
    """All rows, those without a capped cell, and the folds of the trusted rows: moments know no model."""
    prepared = agent.prepared(query.preparation)
    key = _key(query.preparation)
    folds = _folds(prepared, query.n_folds)
    found = [Cover("moments", key, None)]
    if query.whole:
        whole = _joined([whole_rows(query.preparation, features) for features, _ in prepared.blocks()])
        found.append(Cover("moments", key, whole))
    return found + [Cover("trusted moments", key, folds == fold, trusted=True) for fold in range(query.n_folds)]


@covers.register(RankCounts)
def _rank_counts(query: RankCounts, agent: Agent) -> list[Cover]:
    prepared = agent.prepared(query.preparation)
    folds = _folds(prepared, query.n_folds)
    return [
        Cover("ranks", theta.tobytes(), folds == fold if fold >= 0 else None, trusted=True)
        for theta, fold in zip(query.theta, query.fold, strict=True)
    ]


@covers.register(RobustMoments)
def _robust_moments(query: RobustMoments, agent: Agent) -> list[Cover]:
    blocks = list(agent.prepared(query.preparation).blocks())
    key = _key(query.preparation)
    found = []
    for theta, limit, smooth in zip(query.theta, query.limit, query.smooth, strict=True):
        masks = []
        for features, targets in blocks:
            mask = np.abs(targets - features @ theta) < limit
            masks.append(mask & _every(len(targets), query.thin))
        # weighted moments belong to their model; the others are sums over a set of rows, whichever model has chosen it
        found.append(
            Cover("weighted moments", theta.tobytes(), _joined(masks))
            if smooth
            else Cover("moments", key, _joined(masks))
        )
    return found


@covers.register(MultipliedSums)
def _multiplied_sums(query: MultipliedSums, agent: Agent) -> list[Cover]:
    part = _joined([_every(len(y), query.thin) for _, y in agent.prepared(query.preparation).blocks()])
    return [Cover("multiplied", theta.tobytes(), part) for theta in query.theta]


@covers.register(NoisyLabelSums)
def _noisy_label_sums(query: NoisyLabelSums, agent: Agent) -> list[Cover]:
    weights = query.weights[:, query.slot(agent.name)]
    part = _part(query, agent)
    return [
        Cover("buggy", theta.tobytes(), part if weight != 0 else np.zeros_like(part))
        for theta, weight in zip(query.theta, weights, strict=True)
    ]


@covers.register(BendingSums)
def _bending_sums(query: BendingSums, agent: Agent) -> list[Cover]:
    """Products of other axes are combinations of the same ones: only the model tells two sums apart."""
    return [Cover("products", query.theta.tobytes(), _part(query, agent))]


def _part(query: NoisyLabelSums | BendingSums, agent: Agent) -> Rows:
    """Return every thin-th row, without those that have a capped cell if the question leaves them out."""
    blocks = list(agent.prepared(query.preparation).blocks())
    part = _joined([_every(len(targets), query.thin) for _, targets in blocks])
    if query.whole:
        part &= _joined([whole_rows(query.preparation, features) for features, _ in blocks])
    return part


def _key(preparation: Preparation) -> bytes:
    """Identify what moments are of; with and without copies they can be subtracted."""
    return replace(preparation, distinct=False).fingerprint.encode()


def _every(length: int, thin: int) -> Rows:
    """Return every thin-th row of a block, as the agent takes them."""
    mask = np.zeros(length, dtype=bool)
    mask[::thin] = True
    return mask


def _folds(prepared: PreparedRows, n_folds: int) -> NDArray[np.int64]:
    return fold_of(*prepared.trusted, n_folds)


def _joined(masks: list[Rows]) -> Rows:
    return np.concatenate(masks) if masks else np.empty(0, dtype=bool)
