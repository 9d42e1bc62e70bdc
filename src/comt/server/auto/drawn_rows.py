"""What would chance make of as many rows as are trusted? Sets of rows, drawn from what is known of the believed ones.

If unverified rows are right, trusted rows are a sample of them. How far such samples stray depends on the shape of errors:
counts, prices and rare events stray otherwise than normal errors do. A histogram of errors by predictions has that shape.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import norm

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import ErrorsByPrediction, rank_middles
from comt.server.ask import sum_if_allowed
from comt.server.auto.centres import feature_spread
from comt.server.auto.evidence import Evidence
from comt.server.auto.moments import Moments

#: ranges of predictions in which errors may differ
RANGES = 8
#: sets that are drawn, fewer of many rows: never more than so many rows in all
SETS, ROWS = 20_000, 400_000
#: more trusted rows than this tell units by themselves
MANY = 800


@dataclass(frozen=True)
class DrawnRows:
    """Sums over sets of ``rows`` rows each, under a model that predicts p (from raw zero) and errs by e."""

    rows: float
    #: variance of the targets, and the squared error of a row
    variance: float
    usual: float
    errors: Array  # Σ e²
    along: Array  # Σ e·p
    predicted: Array  # Σ p²

    def under(self, factor: float) -> Array:
        """Return the squared errors of every set if predictions are multiplied."""
        found: Array = self.errors + 2.0 * (1.0 - factor) * self.along + (1.0 - factor) ** 2 * self.predicted
        return np.maximum(found, 0.0)


def normal_rows(explained: float, rows: float) -> DrawnRows:
    """Draw sets as if predictions and errors were normal, with variances ``explained`` and 1 − ``explained``."""
    explained = float(np.clip(explained, 0.01, 0.99))
    rng = np.random.default_rng(0)
    predicted = explained * rng.chisquare(rows, SETS)
    along = rng.normal(size=SETS) * np.sqrt((1.0 - explained) * predicted)
    errors = along**2 / predicted + (1.0 - explained) * rng.chisquare(max(rows - 1.0, 1e-9), SETS)
    return DrawnRows(rows, 1.0, 1.0 - explained, errors, along, predicted)


def believed_rows(federation: Federation, evidence: Evidence, weights: Array, thin: int) -> DrawnRows | None:
    """Draw sets of rows as the believed ones are under their plain fit; one exchange.

    None where trusted rows are many, or owners refuse to count.
    """
    preparation, plain = evidence.preparation, evidence.plain[None]
    rows = round(evidence.trusted.rows)
    if rows > MANY:
        return None
    asked = errors_by_prediction(federation, preparation, evidence.believed, plain, weights, thin)
    answer = sum_if_allowed(federation, asked)
    if answer is None or answer["counts"].sum() <= 0.0:
        return None
    counts = answer["counts"][0]
    mean, width = (float(part[0]) for part in _predictions(preparation, evidence.believed, plain))
    parted = norm.pdf(np.append(np.append(-np.inf, _parting()), np.inf))
    middles = mean - preparation.target_zero + width * RANGES * -np.diff(parted)
    rng = np.random.default_rng(0)
    running = counts.ravel().cumsum()
    drawn = rng.random((min(SETS, ROWS // rows), rows)) * running[-1]
    ranges, bins = np.divmod(np.searchsorted(running, drawn, side="right"), counts.shape[1])
    predicted, errors = middles[ranges], rank_middles()[bins]
    return DrawnRows(
        rows,
        evidence.variance,
        evidence.usual_error,
        (errors**2).sum(axis=1),
        (errors * predicted).sum(axis=1),
        (predicted**2).sum(axis=1),
    )


def errors_by_prediction(
    federation: Federation, preparation: Preparation, moments: Moments, models: Array, weights: Array, thin: int
) -> ErrorsByPrediction:
    """Ask for errors in ranges of predictions that hold about as many rows each (if predictions are normal)."""
    mean, width = _predictions(preparation, moments, models)
    return ErrorsByPrediction(
        loss_name="squared",
        preparation=preparation,
        agents=federation.agents,
        theta=models,
        edges=mean[:, None] + width[:, None] * _parting(),
        weights=weights,
        thin=thin,
    )


def _parting() -> Array:
    """Return what parts normal values into ranges that hold as many of them each."""
    edges: Array = ndtri(np.arange(1, RANGES) / RANGES)
    return edges


def _predictions(preparation: Preparation, moments: Moments, models: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of every model's predictions."""
    middle, covariance = feature_spread(preparation, moments)
    columns = models[:, : len(middle)]
    mean = columns @ middle
    if preparation.constant:
        mean = mean + preparation.constant * models[:, -1]
    return mean, np.sqrt(np.maximum(np.einsum("bi,ij,bj->b", columns, covariance, columns), 1e-12))
