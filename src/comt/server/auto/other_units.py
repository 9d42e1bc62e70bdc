"""All targets may be negated, or in another unit: then one factor puts every unverified row right. Or part of them are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from comt.problem import Array
from comt.server.auto.camps import Camps
from comt.server.auto.centres import Centre
from comt.server.auto.choice import multiplied_by
from comt.server.auto.correction import PRIOR_ROWS, correct
from comt.server.auto.drawn_rows import DrawnRows, normal_rows
from comt.server.auto.evidence import Evidence
from comt.server.auto.exchangeability import Compared
from comt.server.auto.part_multiplied import Multiplied


@dataclass(frozen=True)
class Bearable:
    """Prior odds as large as right rows can bear, between two limits."""

    least: float
    most: float
    #: share of the target's variance that they may cost where nothing is wrong
    may_cost: float


#: a plain fit is two or three times too large as soon as part of the targets are far too large, which happens often
TOO_LARGE = Bearable(0.01, 0.03, may_cost=0.0005)
#: the same, where it is not normal rows that have to bear it but sets drawn from the believed ones
TOO_LARGE_AS_DRAWN = Bearable(1e-6, 0.2, may_cost=0.002)
#: few rows that follow the features vaguely look negated by chance
NEGATED = Bearable(0.005, 0.04, may_cost=0.002)
#: all targets may be in a larger unit, but two rows far out among six say so, too: no larger odds than drawn rows can bear
LARGER = Bearable(1e-6, 0.005, may_cost=0.001)
#: where rows clearly look as if part of the targets were in another unit, as right ones seldom do
IN_PART = Bearable(0.02, 1.0, may_cost=0.005)
#: what all targets may have to be multiplied by, with the prior odds of it
FACTORS: dict[float, float | Bearable] = {
    -1.0: NEGATED,
    **dict.fromkeys((0.001, 0.01, 0.1, 0.2), 0.005),
    **dict.fromkeys((2.0, 3.0, 5.0, 10.0, 100.0, 1000.0), LARGER),
    **dict.fromkeys((1 / 3, 0.5, 2 / 3), TOO_LARGE),
}
#: odds that are tried, for every factor of ten
TRIED = 6
#: nats that sizes of errors may say for a larger unit beyond what their ranks say
AGREE = 2.0
#: degrees of freedom of the error size that unverified rows tell
ERROR_ROWS = 30.0


@dataclass(frozen=True)
class OtherUnits:
    """Per factor: the log odds that targets have to be multiplied by it, not left as they are, and the model then."""

    names: tuple[str, ...]
    log_odds: Array  # (F,)
    theta: Array  # (F, p)
    #: mean squared error of the trusted rows under it, before any correction
    errors: Array  # (F,)


def other_units(
    evidence: Evidence,
    parts: Sequence[Multiplied],
    averaged_error: float,
    compared: Compared,
    drawn: DrawnRows | None,
    camps: Camps | None = None,
) -> OtherUnits:
    """Weigh every factor, for all targets and for ``parts`` of them.

    ``averaged_error`` is the error of the averaged model on trusted rows that were left out; ``drawn`` are sets of as many
    rows of the believed ones, if there are any. If agents are of two ``camps``, the first factor is that of the smaller one.
    If targets are right as they are, unverified rows tell how large errors should be; otherwise as large, in the other
    unit. Sizes are compared as if errors were normal: where many targets are one value, ranks have the last word, but for
    what drawn rows can bear. For all targets in a larger unit nothing speaks much louder than ranks anywhere.
    """
    tried: dict[float, float | Bearable] = FACTORS
    if camps is not None:
        # few rows that do not tell which camp is right look as if the fit were too large
        others = {factor: odds for factor, odds in FACTORS.items() if factor != camps.factor and odds is not TOO_LARGE}
        tried = {camps.factor: camps.odds, **others}
    factors = np.array([1.0, *tried])
    rows = evidence.trusted.rows
    models = np.vstack([evidence.preparation.multiplied(evidence.plain, factors), *(part.theta for part in parts)])
    if camps is not None:
        models[1] = camps.of_smaller(evidence.plain)
    errors = evidence.trusted.squared_errors(models)
    usual = np.append(evidence.usual_error * np.minimum(1.0, factors**2), [part.error for part in parts])
    likelihood = _log_likelihood(errors, usual, rows)
    ahead = likelihood[1:] - likelihood[0]
    ahead[len(tried) :] = [
        # one error far out among few rows asks for the larger unit
        part.belong if part.larger else max(part.belong, size)
        for part, size in zip(parts, ahead[len(tried) :], strict=True)
    ]
    normal = normal_rows(evidence.explained, rows)
    odds = []
    for factor, prior in tried.items():
        if isinstance(prior, Bearable):
            prior = bearable_odds(factor, prior, drawn if prior is LARGER and drawn is not None else normal)
        odds.append(prior)
    along = [_along(evidence, part.theta) for part in parts]
    for part, size in zip(parts, along, strict=True):
        odds.append(part.share * bearable_odds(size, IN_PART, normal, part.error / evidence.variance))
    # one error far out among few rows asks for a larger unit, and predictions times three ruin a model: ranks must agree
    most = np.where(factors[1:] > 1.0, compared.by_ranks + AGREE, np.inf)
    if compared.many_alike:
        most = np.minimum(most, compared.by_ranks)
    log_odds = np.minimum(ahead, np.append(most, np.full(len(parts), np.inf))) + np.log(np.array(odds))
    if drawn is not None:
        for index, (factor, prior) in enumerate(tried.items()):
            if prior is TOO_LARGE:
                bearable = bearable_odds(factor, TOO_LARGE_AS_DRAWN, drawn)
                log_odds[index] = max(log_odds[index], ahead[index] + np.log(bearable))
    # one factor for all is too simple where the averaged model predicts trusted rows better than any factor does
    best = int(np.argmin(errors[1:])) + 1
    doubt = PRIOR_ROWS * min(float(usual[best]), averaged_error / rows) + 1e-300
    log_odds += 0.5 * rows * min(0.0, np.log((averaged_error + doubt) / (float(errors[best]) + doubt)))
    names = (
        *(f"unverified rows, all targets {multiplied_by(factor)}" for factor in tried),
        *(part.name for part in parts),
    )
    centres = [Centre(name, "", model) for name, model in zip(names, models[1:], strict=True)]
    corrections = correct(centres, evidence.folds, evidence.error_size, evidence.rows_behind, evidence.log_precise)
    theta: Array = np.einsum("fl,flp->fp", softmax(corrections.log_weight, axis=1), corrections.theta)
    return OtherUnits(names, log_odds, theta, errors[1:] / rows)


def _log_likelihood(errors: Array, usual: Array | float, rows: float) -> Array:
    """Return the log density (Student's t, up to a constant) of squared errors added up over the trusted rows."""
    # unverified rows may have larger errors because some are wrong: that must not speak for a smaller unit
    known = np.maximum(ERROR_ROWS * np.minimum(usual, errors / rows), 1e-300)
    likelihood: Array = 0.5 * ERROR_ROWS * np.log(known) - 0.5 * (ERROR_ROWS + rows) * np.log(known + errors)
    return likelihood


def _along(evidence: Evidence, theta: Array) -> float:
    """Return what a model makes of the plain fit's predictions: about the factor that it multiplies them by."""
    plain, origin = evidence.plain - evidence.preparation.origin, evidence.preparation.origin
    gram = evidence.believed.gram
    return float((theta - origin) @ gram @ plain / max(float(plain @ gram @ plain), 1e-300))


def bearable_odds(factor: float, bearable: Bearable, drawn: DrawnRows, claimed: float | None = None) -> float:
    """Return the odds of a factor that cost as much R² as they may on the average if targets are right after all.

    Then trusted rows are such sets as are ``drawn``. The factor says that errors are as large in its own unit, or as
    ``claimed``.
    """
    claimed = drawn.usual * min(1.0, factor**2) if claimed is None else claimed
    ahead = _log_likelihood(drawn.under(factor), claimed, drawn.rows)
    ahead -= _log_likelihood(drawn.errors, drawn.usual, drawn.rows)
    # a share w of the model shrinks it by w(1 − factor)
    count = 1 + int(np.ceil(TRIED * np.log10(bearable.most / bearable.least)))
    tried = np.log(np.geomspace(bearable.least, bearable.most, count))
    shares = expit(ahead + tried[:, None])
    predicted = float(drawn.predicted.mean()) / (drawn.rows * drawn.variance)
    cost = predicted * (1.0 - factor) ** 2 * (shares**2).mean(axis=1)
    return float(np.exp(np.interp(np.log(bearable.may_cost), np.log(np.maximum(cost, 1e-300)), tried)))
