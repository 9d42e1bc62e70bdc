"""How far should trusted rows correct a centre? Every pull of a grid, weighed by evidence and by cross-validation.

θ = c + δ with δ ~ N(0, σ²/pull): a pull of infinity keeps the centre, a small one is a fit of the trusted rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comt.problem import Array
from comt.server.auto.centres import Centre
from comt.server.auto.moments import Moments, folds_but

PULLS = np.append(np.logspace(-1.5, 3.5, 11), np.inf)
#: half of the prior says: no correction
LOG_PRIOR = np.log(np.append(np.full(len(PULLS) - 1, 0.5 / (len(PULLS) - 1)), 0.5))
_EVEN = np.full(len(PULLS), -np.log(len(PULLS)))
#: degrees of freedom of what is assumed about the size of errors beforehand
PRIOR_ROWS = 2.0
#: share of the evidence in a weight, the rest being cross-validation; below FEW rows the evidence is mostly its prior
EVIDENCE_SHARE, FEW, EVIDENCE_SHARE_OF_FEW = 0.8, 10, 0.3


@dataclass(frozen=True)
class Corrections:
    """Per centre and pull: the corrected model, its held-out squared error, and its log weight before priors."""

    theta: Array  # (C, L, p)
    held_out: Array  # (C, L)
    log_weight: Array  # (C, L)


def correct(centres: Sequence[Centre], folds: Sequence[Moments], error_size: float) -> Corrections:
    """Correct every centre with every pull; ``error_size`` is the squared error expected beforehand."""
    trusted = folds_but(folds, None)
    theta = _pulled(np.stack([centre.theta for centre in centres]), trusted)
    held_out = np.zeros(theta.shape[:2]) if len(folds) > 1 else _without_folds(theta, trusted)
    for fold, held in enumerate(folds if len(folds) > 1 else ()):
        if held.rows:
            starts = np.stack([c.theta if c.by_fold is None else c.by_fold[fold] for c in centres])
            held_out += held.squared_errors(_pulled(starts, folds_but(folds, fold)))
    rows = trusted.rows
    by_validation = -0.5 * rows * np.log((error_size + held_out) / (rows + PRIOR_ROWS))
    share = EVIDENCE_SHARE if rows >= FEW else EVIDENCE_SHARE_OF_FEW
    evidence = _evidence(centres, folds, trusted, error_size)
    # a model of the rows may be right as it is; that the answer is always zero is not worth half a prior
    prior = np.stack([LOG_PRIOR if centre.theta.any() else _EVEN for centre in centres])
    return Corrections(theta, held_out, prior + share * evidence + (1.0 - share) * by_validation)


def _without_folds(theta: Array, trusted: Moments) -> Array:
    """Return what the held-out error is about where no row may be left out: generalised cross-validation (C, L)."""
    values = np.maximum(np.linalg.eigvalsh(trusted.gram), 0.0)
    parameters = (values / (values + PULLS[:, None])).sum(axis=1)
    estimate: Array = trusted.squared_errors(theta) * (trusted.rows / np.maximum(trusted.rows - parameters, 0.5)) ** 2
    return estimate


def _pulled(centres: Array, used: Moments) -> Array:
    """Return argmin ‖y − xθ‖² + pull‖θ − c‖² for all centres (C, p) and pulls: (C, L, p)."""
    values, vectors = np.linalg.eigh(used.gram)
    away = (used.cross - centres @ used.gram) @ vectors
    shrink = 1.0 / (np.maximum(values, 0.0) + PULLS[:, None])
    moved: Array = centres[:, None, :] + np.einsum("cp,lp,qp->clq", away, shrink, vectors)
    return moved


def _evidence(centres: Sequence[Centre], folds: Sequence[Moments], trusted: Moments, error_size: float) -> Array:
    """Return the log evidence of the trusted targets (C, L), up to a constant.

    A centre that trusted rows went into is charged what it loses on rows left out.
    """
    values, vectors = np.linalg.eigh(trusted.gram)
    values = np.maximum(values, 0.0)
    at = np.stack([centre.theta for centre in centres])
    errors = trusted.squared_errors(at)
    for index, centre in enumerate(centres):
        if centre.by_fold is not None:
            pairs = zip(folds, centre.by_fold, strict=True)
            errors[index] = max(errors[index], sum(fold.squared_error(theta) for fold, theta in pairs))
    away = ((trusted.cross - at @ trusted.gram) @ vectors) ** 2
    gained = np.einsum("cp,lp->cl", away, 1.0 / (values + PULLS[:, None]))
    log_det = np.log1p(values / PULLS[:, None]).sum(axis=1)
    left = PRIOR_ROWS * error_size + np.maximum(errors[:, None] - gained, 0.0)
    evidence: Array = -0.5 * log_det - 0.5 * (PRIOR_ROWS + trusted.rows) * np.log(left)
    return evidence
