"""How an agent answers the questions of the automatic choice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from comt.agent.answers import compute, zeros
from comt.agent.folds import fair_rows, fold_of
from comt.agent.rank_bins import counted
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import (
    Answer,
    BendingSums,
    ErrorCounts,
    ErrorsByPrediction,
    MomentsByAgent,
    MultipliedSums,
    NoisyLabelSums,
    RankCounts,
    RobustMoments,
    TrustedLeftOut,
    TrustedSums,
)
from comt.rows import weighted_gram

if TYPE_CHECKING:
    from comt.agent.agent import Agent
    from comt.agent.data import Block, PreparedRows

#: rows that many models are asked about at once: numbers of so many rows stay in the processor's cache
ROWS_AT_A_TIME = 4_096
#: least share of a row's uncertainty that is said to come from the others: none is left out so sharply that it stands out
LEAST_FROM_OTHERS = 0.05


def _joint(features: Array, targets: Array) -> Array:
    return np.column_stack([features, targets])


def _inside(preparation: Preparation, features: Array) -> Array:
    """Return the features without the constant column."""
    return features[:, : len(preparation.center)]


def whole_rows(preparation: Preparation, features: Array) -> NDArray[np.bool_]:
    """Return which rows have no capped cell."""
    return np.asarray((np.abs(_inside(preparation, features)) < preparation.cap).all(axis=1))


def asked_rows(query: NoisyLabelSums | BendingSums, prepared: PreparedRows) -> Iterator[Block]:
    """Yield every thin-th row, without those that have a capped cell if the question leaves them out, some at a time."""
    for block, block_targets in prepared.part(query.thin):
        for first in range(0, len(block_targets), ROWS_AT_A_TIME):
            part = slice(first, first + ROWS_AT_A_TIME)
            features, targets = block[part], block_targets[part]
            whole = whole_rows(query.preparation, features) if query.whole else slice(None)
            yield features[whole], targets[whole]


def _both_signs(values: Array) -> Array:
    return np.hstack([values, np.abs(values)])


@compute.register(MomentsByAgent)
def _moments_by_agent(query: MomentsByAgent, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    arrays = zeros(query)
    slot = query.slot(agent.name)
    for features, targets in prepared.blocks():
        joint, inside = _joint(features, targets), _inside(query.preparation, features)
        moments = joint.T @ joint
        arrays["moments"][slot] += moments
        if query.whole:
            capped = ~whole_rows(query.preparation, features)
            arrays["whole"][slot] += moments - joint[capped].T @ joint[capped] if capped.any() else moments
            arrays["whole_rows"][slot] += len(targets) - np.count_nonzero(capped)
        arrays["columns"][slot] += counted(_both_signs(_joint(inside, targets)))
    arrays["rows"][slot] += prepared.n_rows
    features, targets = prepared.trusted
    inside = _inside(query.preparation, features)
    folds = fold_of(features, targets, query.n_folds)
    for fold in range(query.n_folds):
        joint = _joint(features, targets)[folds == fold]
        arrays["trusted"][fold] += joint.T @ joint
        arrays["trusted_rows"][fold] += len(joint)
    fair = fair_rows(agent.rows)  # whether trusted rows are like the others is asked of a fair sample only
    if query.whole:
        arrays["trusted_whole_rows"] += np.count_nonzero(whole_rows(query.preparation, features) | ~fair)
    arrays["trusted_columns"] += counted(_both_signs(_joint(inside, targets))[fair])
    trusted = int(arrays["trusted_rows"][arrays["trusted_rows"] > 0].min(initial=len(targets)))
    return Answer(arrays, {name: trusted if name.startswith("trusted") else prepared.n_rows for name in arrays})


def _statistics(query: RankCounts, index: int, features: Array, targets: Array, inflation: float = 1.0) -> Array:
    predicted = features @ query.theta[index]
    error = inflation * (targets - predicted)
    size = np.abs(_inside(query.preparation, features)).mean(axis=1)
    return np.column_stack([np.abs(error), error * predicted, size, error, error * (features @ query.towards[index])])


@compute.register(RankCounts)
def _rank_counts(query: RankCounts, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    arrays = zeros(query)
    weights = query.weights[:, query.slot(agent.name)]
    inflation = np.ones(len(weights)) if query.inflation is None else query.inflation
    for index in np.flatnonzero(weights).tolist():
        for features, targets in prepared.blocks():
            found = _statistics(query, index, features, targets, inflation[index])
            arrays["buggy"][index] += weights[index] * counted(found)
    features, targets = prepared.trusted
    folds, fair = fold_of(features, targets, query.n_folds), fair_rows(agent.rows)
    for index, fold in enumerate(query.fold):
        chosen = fair & (folds == fold) if fold >= 0 else fair
        arrays["trusted"][index] += counted(_statistics(query, index, features[chosen], targets[chosen]))
    return Answer(arrays, {"buggy": prepared.n_rows, "trusted": len(prepared.trusted[1])})


@compute.register(RobustMoments)
def _robust_moments(query: RobustMoments, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    arrays = zeros(query)
    for features, targets in prepared.part(query.thin):
        joint = _joint(features, targets)
        errors = np.abs(targets[:, None] - features @ query.theta.T) / query.limit
        for index, error in enumerate(errors.T):
            fitting = error < 1.0
            kept = joint[fitting]
            weight = (1.0 - error[fitting] ** 2) ** 2 if query.smooth[index] else np.ones(len(kept))
            arrays["moments"][index] += (kept * weight[:, None]).T @ kept
            arrays["rows"][index] += weight.sum()
    fewest = int(arrays["rows"][arrays["rows"] > 0].min(initial=prepared.n_rows))
    return Answer(arrays, dict.fromkeys(arrays, fewest))


@compute.register(ErrorCounts)
def _error_counts(query: ErrorCounts, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    counts = zeros(query)["counts"]
    for features, targets in prepared.part(query.thin):
        counts += counted(np.abs(targets[:, None] - features @ query.theta.T))
    return Answer({"counts": counts}, {"counts": prepared.n_rows})


@compute.register(ErrorsByPrediction)
def _errors_by_prediction(query: ErrorsByPrediction, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    counts = zeros(query)["counts"]
    for features, targets in prepared.part(query.thin):
        predicted = features @ query.theta.T
        errors = targets[:, None] - predicted
        for index, edges in enumerate(query.edges):
            ranges = np.searchsorted(edges, predicted[:, index])
            for range_ in np.unique(ranges):
                counts[index, range_] += counted(errors[ranges == range_, index, None])[0]
    counts *= query.weights[query.slot(agent.name)]
    return Answer({"counts": counts}, {"counts": prepared.n_rows})


@compute.register(MultipliedSums)
def _multiplied_sums(query: MultipliedSums, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    arrays = zeros(query)
    factor, noise = query.factor, query.noise
    left, multiplied = np.log(query.share), np.log1p(-query.share) - np.log(np.abs(factor))
    for features, centred in prepared.part(query.thin):
        targets = (centred - query.preparation.target_zero)[:, None]
        scores = features @ query.theta.T
        as_it_is = left - 0.5 * (targets - scores) ** 2 / noise
        otherwise = multiplied - 0.5 * (targets / factor - scores) ** 2 / noise
        # log(eᵃ + eᵇ) and σ(a − b) share an exponential, which is what takes the time
        apart = as_it_is - otherwise
        smaller = np.exp(-np.abs(apart))
        arrays["value"] += (np.maximum(as_it_is, otherwise) + np.log1p(smaller)).sum(axis=0)
        arrays["value"] -= 0.5 * len(targets) * np.log(2.0 * np.pi * noise)
        kept = np.where(apart > 0.0, 1.0, smaller) / (1.0 + smaller)
        arrays["kept"] += kept.sum(axis=0)
        for name, weight in (("kept", kept), ("multiplied", 1.0 - kept)):
            arrays[f"{name}_cross"] += (weight * targets).T @ features
            arrays[f"{name}_square"] += targets[:, 0] ** 2 @ weight
    return Answer(arrays, dict.fromkeys(arrays, prepared.n_rows))


@compute.register(NoisyLabelSums)
def _noisy_label_sums(query: NoisyLabelSums, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    arrays = zeros(query)
    slot = query.slot(agent.name)
    asked = np.flatnonzero(query.weights[:, slot])
    weights = query.weights[asked, slot]
    sizes, turns = np.abs(weights), np.sign(weights)[:, None]
    loss = query.problem().loss
    for features, targets in asked_rows(query, prepared):
        scores = query.theta[asked] @ features.T
        labels, positive = turns * targets, expit(scores)
        given = labels > 0
        if query.flips is None:
            value, right = loss.value(scores, labels), given
        else:
            flips = flip_chances(query, asked, slot, features)
            value, right = _posterior(positive, given, flips)
            wrong = 1.0 - right
            counts = (right, np.where(given, 0.0, right), wrong, np.where(given, wrong, 0.0))
            arrays["right"][asked, slot] += np.stack([count.sum(axis=1) for count in counts], axis=1)
            if query.axes is not None:
                along = query.axes[asked] @ features.T
                for kind, (chance, flipped) in enumerate(((right, ~given), (wrong, given))):
                    rate = flips[:, kind]
                    none, once, _ = _powers(chance * (rate - flipped), along)
                    arrays["lean_slope"][asked, kind] += sizes[:, None] * np.stack([none, once], axis=1)
                    none, once, twice = _powers(chance * rate * (1.0 - rate), along)
                    bend = np.stack([none, once, once, twice], axis=1).reshape(-1, 2, 2)
                    arrays["lean_bend"][asked, kind] += sizes[:, None, None] * bend
        arrays["value"][asked] += sizes * value.sum(axis=1)
        arrays["slope"][asked] += sizes[:, None] * ((positive - right) @ features)
        for index, size, bend in zip(asked.tolist(), sizes.tolist(), positive * (1.0 - positive), strict=True):
            arrays["bend"][index] += size * weighted_gram(features, bend)
        arrays["rows"][asked] += sizes * len(targets)
    return Answer(arrays, dict.fromkeys(arrays, prepared.n_rows))


def _powers(values: Array, along: Array) -> tuple[Array, Array, Array]:
    """Return Σ v, Σ v·u and Σ v·u² over the rows (last axis)."""
    times = values * along
    return values.sum(axis=-1), times.sum(axis=-1), (times * along).sum(axis=-1)


def flip_chances(query: NoisyLabelSums, asked: NDArray[np.intp], slot: int, features: Array) -> Array:
    """Return how likely a right +1, and a right −1, is flipped under models: (T, 2, 1), or (T, 2, n) where rows matter."""
    assert query.flips is not None
    chances: Array = query.flips[asked, slot][..., None]
    if query.axes is None or query.leans is None:
        return chances
    along = query.axes[asked] @ features.T
    return np.asarray(expit(logit(chances) + query.leans[asked][..., None] * along[:, None]))


def _posterior(positive: Array, given: NDArray[np.bool_], flips: Array) -> tuple[Array, Array]:
    """Return −log P(given label) and P(right label is +1 | given label) under flip rates, per model and row."""
    of_plus, of_minus = flips[:, 0], flips[:, 1]
    right_positive = positive * np.where(given, 1.0 - of_plus, of_plus)
    right_negative = (1.0 - positive) * np.where(given, of_minus, 1.0 - of_minus)
    total = np.maximum(right_positive + right_negative, 1e-300)
    return -np.log(total), right_positive / total


@compute.register(TrustedSums)
def _trusted_sums(query: TrustedSums, agent: Agent) -> Answer:
    features, targets = agent.prepared(query.preparation).trusted
    loss = query.problem().loss
    arrays = zeros(query)
    scores = query.theta @ features.T
    arrays["value"] += loss.value(scores, targets).sum(axis=1)
    arrays["slope"] += loss.slope(scores, targets) @ features
    for index, bend in enumerate(loss.bend(scores, targets)):
        arrays["bend"][index] += weighted_gram(features, bend)
    arrays["rows"] += len(targets)
    return Answer(arrays, dict.fromkeys(arrays, len(targets)))


@compute.register(TrustedLeftOut)
def _trusted_left_out(query: TrustedLeftOut, agent: Agent) -> Answer:
    features, targets = agent.prepared(query.preparation).trusted
    loss = query.problem().loss
    scores = query.theta @ features.T
    # the variance of every score, with the row and without
    with_row = np.array([((features @ each) * features).sum(axis=1) for each in query.covariance]).reshape(scores.shape)
    from_others = 1.0 - loss.bend(scores, targets) * np.maximum(with_row, 0.0)
    without = np.maximum(with_row, 0.0) / np.maximum(from_others, LEAST_FROM_OTHERS)
    left_out = scores + loss.slope(scores, targets) * without
    return Answer({"value": loss.value(left_out, targets).sum(axis=1)}, {"value": len(targets)})
