"""How far should trusted rows correct a centre? Every pull of a grid, weighed by evidence and by cross-validation.

θ = c + δ with δ ~ N(0, σ²/pull): a large pull keeps the centre, a small one is a fit of the trusted rows alone. Noise hides
what columns that nearly repeat each other differ in, and a model of noisy rows is wrong in just that: many trusted rows may
also correct predictions alike in all directions, δ ~ N(0, σ²/pull·S⁻¹) with S = Σ x xᵀ/m of the trusted rows. Or the
centre is right but for the chance that made its rows: then the trusted rows are more of them, δ ~ N(0, σ²·(Σ x xᵀ)⁻¹).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from comt.problem import Array
from comt.server.auto.centres import Centre
from comt.server.auto.moments import Moments, folds_but

PULLS = np.logspace(-1.5, 3.5, 11)
#: pulls of predictions, for which there must be enough trusted rows per column, and the least that S is taken to be in any
#: direction, relative to its mean
PULLS_OF_PREDICTIONS, ENOUGH, NARROWEST = np.logspace(-0.5, 3.0, 8), 4.0, 1e-4
#: prior probability that a centre is right but for chance; more below FEW rows, which hardly tell a correction
BY_CHANCE, BY_CHANCE_OF_FEW = 0.5, 0.8
#: degrees of freedom of what is assumed about the size of errors beforehand
PRIOR_ROWS = 2.0
#: beforehand errors may also be so many times smaller (as mean squares), with these weights: targets can be measured
#: precisely
SMALLER, PRECISE = (1.0, 1e-2, 1e-4), (1.0, 0.03, 0.003)
#: share of the evidence in a weight, the rest being cross-validation; below FEW rows the evidence is mostly its prior
EVIDENCE_SHARE, FEW, EVIDENCE_SHARE_OF_FEW = 0.8, 10, 0.3
#: with many trusted rows per column, rows left out tell more than a model of corrections does: the share falls in between
PER_COLUMN, EVIDENCE_SHARE_OF_MANY = (4.0, 6.0), 0.5


@dataclass(frozen=True)
class Corrections:
    """Per centre and pull, "right but for chance" last: the model, its held-out squared error, its log weight."""

    theta: Array  # (C, L, p)
    held_out: Array  # (C, L)
    log_weight: Array  # (C, L)


def correct(
    centres: Sequence[Centre], folds: Sequence[Moments], error_size: float, rows_behind: Array, log_precise: float = 0.0
) -> Corrections:
    """Correct every centre with every pull.

    ``error_size`` is the squared error expected beforehand, ``rows_behind`` Σ x xᵀ of the rows that centres come from;
    ``log_precise`` is what weights of far smaller errors are multiplied by, as a logarithm.
    """
    trusted = folds_but(folds, None)
    firmness = _firmness(rows_behind, trusted)
    tried = len(firmness) - 1
    at = np.stack([centre.theta for centre in centres])
    theta = at[:, None, :] + _moves(at, trusted, firmness)
    held_out = np.zeros(theta.shape[:2]) if len(folds) > 1 else _without_folds(theta, trusted, firmness)
    for fold, held in enumerate(folds if len(folds) > 1 else ()):
        if held.rows:
            starts = np.stack([c.theta if c.by_fold is None else c.by_fold[fold] for c in centres])
            held_out += held.squared_errors(starts[:, None, :] + _moves(starts, folds_but(folds, fold), firmness))
    rows = trusted.rows
    by_validation = _log_likely(held_out, rows - 1.0, error_size, 1.0, log_precise)
    share = evidence_share(rows, len(trusted.gram))
    evidence = _evidence(centres, folds, trusted, error_size, firmness, log_precise)
    # a model of the rows may be right as it is; that the answer is always zero is not worth half a prior
    by_chance = right_but_for_chance(rows)
    by_pull = np.append(np.full(tried, (1.0 - by_chance) / tried), by_chance)
    even = np.full(tried + 1, 1.0 / (tried + 1))
    prior = np.log([by_pull if centre.theta.any() else even for centre in centres])
    return Corrections(theta, held_out, prior + share * evidence + (1.0 - share) * by_validation)


def right_but_for_chance(rows: float) -> float:
    """Return the prior probability that a model of the unverified rows needs no correction by so many trusted ones."""
    return BY_CHANCE if rows >= FEW else BY_CHANCE_OF_FEW


def evidence_share(rows: float, width: int) -> float:
    """Return the share of the evidence in a weight: cross-validation knows little with few rows, much with many."""
    if rows < FEW:
        return EVIDENCE_SHARE_OF_FEW
    return float(np.interp(rows / width, PER_COLUMN, (EVIDENCE_SHARE, EVIDENCE_SHARE_OF_MANY)))


def _firmness(rows_behind: Array, trusted: Moments) -> Array:
    """Return the inverse covariance of δ/σ for every pull, and for chance alone (L + 1, p, p)."""
    one = np.eye(len(rows_behind))
    # a column that is switched off must not make it singular
    by_chance = rows_behind + 1e-9 * max(float(np.trace(rows_behind)), 1e-300) * one
    pulls = [pull * one for pull in PULLS]
    if trusted.rows >= ENOUGH * len(one):
        spread = trusted.gram / trusted.rows
        spread = spread + NARROWEST * float(np.trace(spread)) / len(one) * one
        pulls += [pull * spread for pull in PULLS_OF_PREDICTIONS]
    return np.stack([*pulls, by_chance])


def _moves(centres: Array, used: Moments, firmness: Array) -> Array:
    """Return δ = argmin ‖y − x(c + δ)‖² + δᵀ·firmness·δ for all centres (C, p): (C, L + 1, p)."""
    away = used.cross - centres @ used.gram
    moves = np.asarray(np.linalg.solve(used.gram + firmness, away.T).transpose(2, 0, 1), dtype=np.float64)
    moves[~centres.any(axis=1), -1] = 0.0  # no row is behind a model that is zero: nothing in it is chance
    return moves


def _without_folds(theta: Array, trusted: Moments, firmness: Array) -> Array:
    """Return what the held-out error is about where no row may be left out: generalised cross-validation (C, L + 1)."""
    parameters = np.trace(np.linalg.solve(trusted.gram + firmness, trusted.gram), axis1=1, axis2=2) * theta.any(axis=2)
    estimate: Array = trusted.squared_errors(theta) * (trusted.rows / np.maximum(trusted.rows - parameters, 0.5)) ** 2
    return estimate


def _evidence(
    centres: Sequence[Centre],
    folds: Sequence[Moments],
    trusted: Moments,
    error_size: float,
    firmness: Array,
    log_precise: float,
) -> Array:
    """Return the log evidence of the trusted targets (C, L + 1), up to a constant.

    A centre that trusted rows went into is charged what it loses on rows left out.
    """
    at = np.stack([centre.theta for centre in centres])
    errors = trusted.squared_errors(at)
    for index, centre in enumerate(centres):
        if centre.by_fold is not None:
            pairs = zip(folds, centre.by_fold, strict=True)
            errors[index] = max(errors[index], sum(fold.squared_error(theta) for fold, theta in pairs))
    gained = np.einsum("cp,clp->cl", trusted.cross - at @ trusted.gram, _moves(at, trusted, firmness))
    log_det = np.tile(np.linalg.slogdet(trusted.gram + firmness)[1] - np.linalg.slogdet(firmness)[1], (len(at), 1))
    log_det[~at.any(axis=1), -1] = 0.0
    left = np.maximum(errors[:, None] - gained, 0.0)
    evidence: Array = -0.5 * log_det + _log_likely(left, trusted.rows, error_size, PRIOR_ROWS, log_precise)
    return evidence


def _log_likely(
    squared_error: Array, rows: float, error_size: float, prior_rows: float, log_precise: float = 0.0
) -> Array:
    """Return how likely errors of so many rows are that add up to ``squared_error``, their size being known vaguely."""
    found = [
        np.log(weight)
        + (log_precise if smaller < 1.0 else 0.0)
        + 0.5 * prior_rows * np.log(smaller)
        - 0.5 * (prior_rows + rows) * np.log(prior_rows * smaller * error_size + squared_error)
        for smaller, weight in zip(SMALLER, PRECISE, strict=True)
    ]
    return np.asarray(logsumexp(found, axis=0))
