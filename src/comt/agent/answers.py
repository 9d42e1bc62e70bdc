"""How an agent computes each answer of the vocabulary: one function per question, blocks of rows in, sums out."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from comt import rows as row_maths
from comt.agent import histograms
from comt.agent.folds import trusted_folds
from comt.agent.proximal import proximal_step
from comt.errors import ProtocolError
from comt.problem import Array, TeachingProblem
from comt.queries import (
    Answer,
    CurvatureTimes,
    DirectSums,
    DualSums,
    Histogram,
    Keep,
    ProximalStep,
    Query,
    ResidualScale,
    ScoreHistogram,
    Spread,
    SubsetSum,
    TrustedScore,
)

if TYPE_CHECKING:
    from comt.agent.agent import Agent


@singledispatch
def compute(query: Query, agent: Agent) -> Answer:
    """Answer a query from the agent's rows; unknown questions are refused."""
    raise ProtocolError(f"agent {agent.name} does not know the question {type(query).__name__}; update its software.")


def zeros(query: Query) -> dict[str, Array]:
    """Return an answer of the right shapes to add to."""
    return {name: np.zeros(shape) for name, shape in query.shapes().items()}


def _counted(arrays: dict[str, Array], rows: int, trusted: int = 0) -> Answer:
    """Say how many rows each array sums, by its name."""
    return Answer(arrays, {name: trusted if name.startswith("trusted") else rows for name in arrays})


def _fewest(counts: Array) -> int:
    """Return the smallest number of rows that any sum of a batch has; sums over no row say nothing and do not count."""
    return int(counts[counts > 0].min()) if (counts > 0).any() else 0


@compute.register(Histogram)
def _histogram(query: Histogram, agent: Agent) -> Answer:
    counts = zeros(query)["counts"]
    rows = 0
    for features, targets in chain(agent.rows.blocks(), [agent.rows.trusted()]):
        rows += len(targets)
        counts += histograms.count_columns(query, features, targets)
    return Answer({"counts": counts}, {"counts": rows})


@compute.register(Spread)
def _spread(query: Spread, agent: Agent) -> Answer:
    arrays = zeros(query)
    rows = 0
    for features, targets in chain(agent.rows.blocks(), [agent.rows.trusted()]):
        rows += len(targets)
        for column, values in enumerate((*features.T, targets)[: len(query.center)]):
            centered = values - query.center[column]
            arrays["first"][column] += centered.sum()
            arrays["second"][column] += centered @ centered
    arrays["rows"] += rows
    return _counted(arrays, rows)


@compute.register(DualSums)
def _dual_sums(query: DualSums, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    arrays = zeros(query)
    problems = [query.problem(float(a), float(z)) for a, z in zip(query.lambda_alpha, query.lambda_z, strict=True)]
    # only a loss of constant curvature can use XᵀX itself
    whole = query.keep is None and query.thin == 1
    useful = whole and query.curvature == "full" and problems[0].loss.piecewise_quadratic
    blocks = prepared.blocks_with_gram() if useful else ((block, None) for block in prepared.part(query.thin))
    for (features, targets), gram in blocks:
        for index, problem in enumerate(problems):
            block = (features, targets)
            if query.keep is not None:
                taken = taken_rows(query.keep, index, problem, features, targets)
                block = (features[taken], targets[taken])
            _add(arrays, index, row_maths.buggy_sums(problem, *block, query.r[index], query.curvature, gram))
    arrays["size_sq"] += prepared.size_sq
    _add_trusted(arrays, query, problems, agent, query.curvature)
    answer = _counted(arrays, _fewest(arrays["rows"]), _fewest(arrays["trusted_rows"]))
    answer.rows["size_sq"] = prepared.n_rows
    return answer


def _add_trusted(
    arrays: dict[str, Array],
    query: DualSums | DirectSums,
    problems: list[TeachingProblem],
    agent: Agent,
    curvature: str,
) -> None:
    features, targets = agent.prepared(query.preparation).trusted
    folds = trusted_folds(agent.rows, features, targets, query.n_folds) if query.n_folds else None
    for index, problem in enumerate(problems):
        block = (features, targets)
        if folds is not None and query.held_out is not None and query.held_out[index] >= 0:
            kept = folds != query.held_out[index]
            block = (features[kept], targets[kept])
        _add(arrays, index, row_maths.trusted_sums(problem, *block, query.theta[index], curvature))


@compute.register(DirectSums)
def _direct_sums(query: DirectSums, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    arrays = zeros(query)
    problems = [replace(query.problem(lambda_z=float(z)), repair=True) for z in query.lambda_z]
    weights = query.weights_of(agent.name)
    counts = np.zeros(len(problems))
    for features, targets in prepared.part(query.thin):
        for index in np.flatnonzero(weights).tolist():
            block, problem = (features, targets), problems[index]
            if query.keep is not None:
                taken = taken_rows(query.keep, index, problem, features, targets)
                block = (features[taken], targets[taken])
            sums = row_maths.buggy_sums(problem, *block, query.theta[index])
            counts[index] += len(block[1])
            _add(arrays, index, {name: weights[index] * value for name, value in sums.items()})
            arrays["size_sq"][index] += weights[index] * np.einsum("ij,ij->", block[0], block[0])
    _add_trusted(arrays, query, problems, agent, "full")
    return _counted(arrays, _fewest(counts), _fewest(arrays["trusted_rows"]))


def _add(arrays: dict[str, Array], index: int, sums: dict[str, Any]) -> None:
    for name, value in sums.items():
        arrays[name][index] += value


def row_scores(by: str, model: Array, problem: TeachingProblem, features: Array, targets: Array) -> Array:
    """Return the scores by which rows are kept: losses under θ, or |α| under r."""
    if by == "loss":
        return row_maths.losses(problem, features, targets, model)
    return np.abs(row_maths.alphas(problem, features, targets, model))


def taken_rows(keep: Keep, index: int, problem: TeachingProblem, features: Array, targets: Array) -> NDArray[np.bool_]:
    """Return which rows of a block a member of the batch keeps."""
    scores = row_scores(keep.by, keep.model[index], problem, features, targets)
    threshold = float(keep.thresholds[index])
    return scores < threshold if keep.by == "loss" else scores >= threshold


@compute.register(CurvatureTimes)
def _curvature_times(query: CurvatureTimes, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    problem = query.problem(query.lambda_alpha, query.lambda_z)
    arrays = zeros(query)
    coupling = problem.coupling(query.r)
    for features, targets in prepared.blocks():
        alpha, _, weight = problem.loss.dual(features @ query.r, targets, query.lambda_alpha, coupling)
        if isinstance(weight, float) and query.lambda_alpha > 0:
            weight = weight * (alpha != 0)
        along = (features @ query.along_r) * weight
        arrays["buggy"] += along @ features
    features, targets = prepared.trusted
    bend = problem.loss.trusted_factor * problem.loss.bend(features @ query.theta, targets)
    arrays["trusted"] += (bend * (features @ query.along_theta)) @ features
    arrays["rows"] += prepared.n_rows
    arrays["trusted_rows"] += len(targets)
    return _counted(arrays, prepared.n_rows, len(targets))


@compute.register(ScoreHistogram)
def _score_histogram(query: ScoreHistogram, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    problem = query.problem(query.lambda_alpha, query.lambda_z)
    counts = zeros(query)["counts"]
    weights = query.weights_of(agent.name)
    for features, targets in prepared.part(query.thin):
        for index, (model, edges) in enumerate(zip(query.model, query.edges, strict=True)):
            scores = row_scores(query.by, model, problem, features, targets)
            bins = np.searchsorted(edges, scores, side="right")
            counts[index] += weights[index] * np.bincount(bins, minlength=counts.shape[1])
    return Answer({"counts": counts}, {"counts": prepared.n_rows})


@compute.register(SubsetSum)
def _subset_sum(query: SubsetSum, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    problem = query.problem(query.lambda_alpha, query.lambda_z)
    arrays = zeros(query)
    for features, targets in prepared.blocks():
        for index, (r, threshold) in enumerate(zip(query.r, query.thresholds, strict=True)):
            alpha = row_maths.alphas(problem, features, targets, r)
            chosen = np.abs(alpha) >= threshold
            alpha[~chosen] = 0.0
            arrays["vector"][index] += (alpha * problem.loss.signs(targets)) @ features
            arrays["vector"][index] += float(alpha @ alpha) * problem.crafting_direction(r)
            arrays["rows"][index] += np.count_nonzero(chosen)
    return _counted(arrays, _fewest(arrays["rows"]))


@compute.register(TrustedScore)
def _trusted_score(query: TrustedScore, agent: Agent) -> Answer:
    features, targets = agent.prepared(query.preparation).trusted
    loss = query.problem().loss
    arrays = zeros(query)
    folds = trusted_folds(agent.rows, features, targets, query.n_folds) if query.n_folds else None
    for index, theta in enumerate(query.theta):
        chosen: Any = slice(None)
        if folds is not None and query.fold is not None and query.fold[index] >= 0:
            chosen = folds == query.fold[index]
        scores, wanted = features[chosen] @ theta, targets[chosen]
        value = loss.value(scores, wanted)
        arrays["rows"][index] += len(wanted)
        arrays["loss"][index] += value.sum()
        arrays["loss_sq"][index] += value @ value
        arrays["hits"][index] += np.count_nonzero(np.sign(scores) == np.sign(wanted))
        arrays["target"][index] += wanted.sum()
        arrays["target_sq"][index] += wanted @ wanted
        if query.against is not None:
            other = loss.value(features[chosen] @ query.against[index], wanted)
            arrays["product"][index] += value @ other
            arrays["tenths"][index] += np.count_nonzero(value < 0.1 * other)
    rows = _fewest(arrays["rows"])
    return Answer(arrays, dict.fromkeys(arrays, rows))


@compute.register(ResidualScale)
def _residual_scale(query: ResidualScale, agent: Agent) -> Answer:
    prepared = agent.prepared(query.preparation)
    arrays = zeros(query)
    for features, targets in prepared.blocks():
        error = targets - features @ query.theta
        arrays["buggy"] += error @ error
    features, targets = prepared.trusted
    error = targets - features @ query.theta
    arrays["trusted"] += error @ error
    arrays["rows"] += prepared.n_rows
    arrays["trusted_rows"] += len(targets)
    return _counted(arrays, prepared.n_rows, len(targets))


@compute.register(ProximalStep)
def _proximal_step(query: ProximalStep, agent: Agent) -> Answer:
    return proximal_step(query, agent)
