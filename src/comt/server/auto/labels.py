"""Models of buggy labels as they are: ridge logistic fits, their penalties chosen by evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import NoisyLabelSums, Totals

#: penalties tried for a fit of buggy rows (prepared units; the evidence chooses)
PENALTIES = np.logspace(-0.5, 4, 8)
#: standard deviation that is expected of an intercept
INTERCEPT_SD = 10.0
#: least precision in a direction that features hardly vary in, relative to the mean
NARROWEST = 1e-4
#: rows per column from which on penalties of scores are as likely beforehand as penalties of coefficients
ROWS_PER_COLUMN = 60.0
NEWTON_ROUNDS, NEWTON_DECREMENT = 10, 1e-6
#: decrement at which a search on a sample ends: what it finds goes on from there on all rows
ROUGH_DECREMENT = 1e-2


@dataclass(frozen=True)
class LabelFit:
    """A logistic model of some agents' labels."""

    theta: Array
    #: covariance of θ by Laplace's approximation
    covariance: Array
    #: Σ log loss over the rows it was fitted to
    value: float
    certificate: float
    #: log evidence of the labels, by Laplace's approximation
    evidence: float

    def reliability(self, spread: Array) -> float:
        """Return how reliable the score is for features of covariance ``spread``."""
        return reliability(self.theta, self.covariance, spread)


@dataclass(frozen=True)
class Together:
    """The labels of all agents, fitted twice: with penalties of coefficients, and with penalties of scores."""

    coefficients: LabelFit
    scores: LabelFit
    rows_per_column: float

    @property
    def log_odds(self) -> float:
        """How much likelier penalties of scores are.

        Most data follow the directions in which features vary most, which penalties of coefficients prefer; where columns
        nearly repeat each other, labels may follow what these differ in. Many rows tell that by themselves.
        """
        beforehand = np.log(min(1.0, self.rows_per_column / ROWS_PER_COLUMN))
        return float(self.scores.evidence - self.coefficients.evidence + beforehand)

    @property
    def likelier(self) -> LabelFit:
        """The fit that the labels speak for."""
        return self.scores if self.log_odds > 0 else self.coefficients

    @property
    def other(self) -> LabelFit:
        """The other one."""
        return self.coefficients if self.log_odds > 0 else self.scores

    @property
    def chance_of_other(self) -> float:
        """Its probability, if it is one of the two."""
        return float(expit(-abs(self.log_odds)))


def score_size(theta: Array, spread: Array) -> float:
    """Return the standard deviation of the score x·θ for features of covariance ``spread``."""
    d = len(spread)
    return float(np.sqrt(max(float(theta[:d] @ spread @ theta[:d]), 1e-12)))


def reliability(theta: Array, covariance: Array, spread: Array) -> float:
    """ρ²: the share of the score's variance (features of covariance ``spread``) that is not uncertainty of θ."""
    d = len(spread)
    signal = score_size(theta, spread) ** 2
    return signal / max(signal + float(np.trace(spread @ covariance[:d, :d])), 1e-12)


class BuggyLabels:
    """Asks for logistic sums: over every ``thin``-th buggy row, scaled up, for a search, over all rows for what it finds."""

    def __init__(self, federation: Federation, preparation: Preparation, thin: int, *, whole: bool = False) -> None:
        self.preparation = preparation
        self.thin = thin
        self._federation, self._whole = federation, whole

    def sums(
        self,
        theta: Array,
        weights: Array,
        flips: Array | None = None,
        axes: Array | None = None,
        leans: Array | None = None,
        *,
        all_rows: bool = False,
    ) -> dict[str, Array]:
        """Return the sums at B models; one exchange."""
        thin = 1 if all_rows else self.thin
        totals = self._federation.sum(
            NoisyLabelSums(
                loss_name="logistic",
                preparation=self.preparation,
                agents=self._federation.agents,
                theta=theta,
                weights=weights,
                flips=flips,
                axes=axes,
                leans=leans,
                whole=self._whole,
                thin=thin,
            )
        )
        return {name: array * thin for name, array in totals.items()}

    def fits(self, weights: Array, spread: Array | None = None) -> list[LabelFit]:
        """Fit the labels of agents weighted by each row of ``weights`` (G, K); the evidence chooses each penalty.

        Penalties are those of coefficients; given the ``spread`` of the features (d, d), the last group is fitted once
        more, with penalties of scores, which are alike in all directions of the features.
        """
        groups, tried, width = len(weights), len(PENALTIES), self.preparation.width
        prior = np.tile(self._precisions(np.eye(width)), (groups, 1, 1))
        if spread is not None:
            groups, weights = groups + 1, np.vstack([weights, weights[-1:]])
            prior = np.concatenate([prior, self._precisions(self._alike_in_scores(spread))])
        by_model = np.repeat(weights, tried, axis=0)
        found = self._fitted(by_model, prior, np.zeros((groups * tried, width)))
        evidence = np.array([fit.evidence for fit in found]).reshape(groups, tried)
        best = evidence.argmax(axis=1) + tried * np.arange(groups)
        chosen = [found[i] for i in best.tolist()]
        if self.thin == 1:
            return chosen
        return self._fitted(weights, prior[best], np.stack([fit.theta for fit in chosen]), all_rows=True)

    def _fitted(self, weights: Array, prior: Array, start: Array, *, all_rows: bool = False) -> list[LabelFit]:
        """Fit a model for every row of weights (B, K) and prior precision (B, p, p), from ``start`` on."""
        enough = NEWTON_DECREMENT if all_rows or self.thin == 1 else ROUGH_DECREMENT
        theta, totals = newton(lambda at: self.sums(at, weights, all_rows=all_rows), start, prior, enough)
        hessian = totals["bend"] + prior
        pulled = (prior @ theta[..., None])[..., 0]
        evidence = -totals["value"] - 0.5 * (pulled * theta).sum(axis=1)
        evidence += 0.5 * np.linalg.slogdet(prior)[1] - 0.5 * np.linalg.slogdet(hessian)[1]
        gradient = np.linalg.norm(totals["slope"] + pulled, axis=1)
        certificate = gradient / np.maximum(np.sqrt(totals["rows"] * np.trace(totals["bend"], axis1=1, axis2=2)), 1e-12)
        return [
            LabelFit(at, covariance, float(value), float(left), float(likely))
            for at, covariance, value, left, likely in zip(
                theta, np.linalg.inv(hessian), totals["value"], certificate, evidence, strict=True
            )
        ]

    def precision(self, penalty: float) -> Array:
        """Return the prior precision (p, p) of coefficients under a penalty."""
        (precision,) = self._precisions(np.eye(self.preparation.width), np.array([penalty]))
        return np.asarray(precision)

    def _alike_in_scores(self, spread: Array) -> Array:
        """Return the precision of coefficients (p, p) under which scores are as likely in any direction of the features."""
        d = len(spread)
        size = max(float(np.trace(spread)) / d, 1e-12)
        shape = np.eye(self.preparation.width)
        shape[:d, :d] = spread / size + NARROWEST * np.eye(d)
        return shape

    def _precisions(self, shape: Array, penalties: Array = PENALTIES) -> Array:
        """Return prior precisions (B, p, p) of one shape; the intercept's is no matter of choice."""
        precisions = penalties[:, None, None] * shape
        if self.preparation.constant:
            precisions[:, -1, -1] = (self.preparation.constant / INTERCEPT_SD) ** 2
        return precisions


def newton(
    ask: Callable[[Array], Totals], start: Array, prior: Array, enough: float = NEWTON_DECREMENT
) -> tuple[Array, Totals]:
    """Minimise value + ½ θᵀ·prior·θ for a batch; a step that makes things worse is halved. Returns θ and its sums."""
    theta, anchor, step = start, start.copy(), np.zeros_like(start)
    best, length = np.full(len(start), np.inf), np.ones(len(start))
    for last in (*(False,) * (NEWTON_ROUNDS - 1), True):
        totals = ask(theta)
        pulled = (prior @ theta[..., None])[..., 0]
        objective = totals["value"] + 0.5 * (pulled * theta).sum(axis=1)
        worse = objective > best + 1e-9 * np.abs(best)
        gradient = totals["slope"] + pulled
        ahead = -np.linalg.solve(totals["bend"] + prior, gradient[..., None])[..., 0]
        decrement = -(ahead * gradient).sum(axis=1)
        step[~worse], anchor[~worse], best[~worse] = ahead[~worse], theta[~worse], objective[~worse]
        if last or (not worse.any() and (decrement < enough).all()):
            break
        length = np.where(worse, 0.5 * length, 1.0)
        theta = anchor + length[:, None] * step
    return theta, totals
