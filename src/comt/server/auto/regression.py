"""Automatic choice for regression: do the trusted rows refute the plain fit? As far as they do, average what they support.

With few trusted rows, "which candidate has the lowest error on them?" is a bad question: it is answered by chance. The
plain fit of the believed agents is kept unless the trusted rows could hardly be a sample of their rows.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from comt.errors import GateError
from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.server.auto.agents import moments_of, weigh_agents
from comt.server.auto.asking import ask_for_choice
from comt.server.auto.capped import mislead
from comt.server.auto.centres import (
    PRIORS,
    TRIMMED_FLOOR,
    ZERO_INSTEAD,
    Centre,
    noise_centres,
    rescaled_centre,
    target_mean,
    target_variance,
)
from comt.server.auto.choice import Choice, Line
from comt.server.auto.correction import PRIOR_ROWS, Corrections, correct
from comt.server.auto.either_sign import either_sign
from comt.server.auto.exchangeability import Compared, compare
from comt.server.auto.moments import Moments, folds_but, total, weighted
from comt.server.auto.ranks import bayes_bound
from comt.server.auto.trimming import trimmed_fits

FOLDS = 5
#: rows on which robust fits are searched
SAMPLE = 20_000
KEPT_FROM_ALL, KEPT_FROM_TRUSTED = (0.9, 0.7, 0.5), (0.7, 0.5, 0.3)
TRUSTED_PENALTIES = np.logspace(-1, 3, 13)
#: odds for "the believed rows are right" before the trusted rows are looked at
PLAIN_ODDS = 15.0
#: what all targets may have to be multiplied by, with the prior odds of it, and degrees of freedom of the error size that
#: unverified rows tell
FACTORS = {-1.0: 0.02} | dict.fromkeys((0.001, 0.01, 0.1, 0.2, 1 / 3, 0.5, 2.0, 3.0, 5.0, 10.0, 100.0, 1000.0), 0.005)
ERROR_ROWS = 10.0
#: share of the target's variance that counting trusted rows more often than others may cost where nothing is wrong
MAY_COST = 0.002
#: share of the target's variance that the plain fit must explain to be taken seriously
EXPLAINS = 0.25
#: typical errors so many times smaller under a robust fit say that few rows decide the plain one
PULLED_AWAY = 2.4
#: how much smaller held-out errors must be to speak against the plain fit, and how fast that ends where the other model
#: explains less of the unverified rows (CPUSMALL's rare rows are seldom among twenty trusted ones)
CLEARLY, RARE = 1.15, 3
#: so many rows at least would have to be rare to matter: many trusted rows among few unverified ones would have met one
RARE_ROWS = 5.0


def choose(federation: Federation, preparation: Preparation) -> Choice:
    """Choose a model of the prepared rows; about twenty exchanges, whatever the number of candidates."""
    preparation, moments = ask_for_choice(federation, preparation, FOLDS)
    per_agent = moments_of(moments["moments"], moments["rows"])
    uncapped = moments_of(moments["whole"], moments["whole_rows"])
    all_rows = total(per_agent)
    without_capped = mislead(preparation, all_rows, total(uncapped))
    if without_capped:
        per_agent = uncapped
    folds = moments_of(moments["trusted"], moments["trusted_rows"])
    everyone, trusted = total(per_agent), folds_but(folds, None)
    count = len(per_agent)
    if trusted.rows == 0:
        line = Line("all unverified rows", 1.0, np.nan)
        return Choice(everyone.ridge(), preparation, (line,), 0, federation.agents, np.ones(count), plain=1.0)
    judged = weigh_agents(federation, preparation, per_agent, trusted.rows)
    believed = weighted(per_agent, judged.weights)
    whole = weighted(uncapped, judged.weights)
    plain = believed.ridge()
    variance = target_variance(preparation, everyone)
    error_size = float(np.median([target_variance(preparation, trusted), 1.0, variance]))
    centres = [
        Centre("trusted rows alone", "zero", np.zeros(preparation.width)),
        Centre("all unverified rows", "all rows", everyone.ridge()),
        Centre("unverified rows of the believed agents", "believed agents", plain),
        Centre("unverified rows, all targets negated", "negated", -plain),
        *noise_centres(preparation, believed, trusted, "noise"),
    ]
    if len(folds) > 1:
        centres.append(rescaled_centre(plain, folds, error_size))
    if whole.rows < believed.rows:
        centres.append(Centre("unverified rows without far-out values", "whole", whole.ridge()))
        centres += noise_centres(preparation, whole, trusted, "whole")
    thin = max(1, int(np.ceil(everyone.rows / SAMPLE)))
    robust = _trimmed(federation, preparation, everyone, folds, thin)
    starts = [everyone.ridge(), trusted.ridge(TRUSTED_PENALTIES), *(centre.theta for centre in robust)]
    try:
        centres += either_sign(federation, preparation, all_rows, starts, robust, thin)
    except GateError:  # owners may refuse it like any other candidate
        centres += robust
    explained = max(0.0, 1.0 - believed.squared_error(plain) / max(believed.rows, 1e-12) / variance)
    weight = _weight_of_trusted(believed, trusted, 1.0 - explained)
    corrections = correct(centres, folds, error_size, believed.gram / weight)
    compared = compare(
        federation, preparation, moments, judged.weights, plain, centres, len(folds), count_capped=not without_capped
    )
    # a few rows that pull the plain fit away from most others do not speak for them, however much they explain
    speaks = min(1.0, explained / EXPLAINS) * min(1.0, (PULLED_AWAY / compared.robust_gain) ** 4)
    shares = _shares(centres, corrections, believed, variance, explained, speaks, error_size)
    averaged = np.einsum("cl,clp->p", shares, corrections.theta)
    # a model explains rows whose targets are all negated as well as its mirror image does
    left = min(believed.squared_error(sign * averaged) for sign in (1.0, -1.0))
    instead = max(0.0, 1.0 - left / max(believed.rows, 1e-12) / variance)
    keep = _plain_probability(
        preparation,
        compared,
        believed,
        trusted,
        plain,
        speaks,
        float((shares * corrections.held_out).sum()),
        error_size,
        min(1.0, instead / max(explained, 1e-12)),
    )
    return Choice(
        theta=keep * (believed + trusted.scaled(weight)).ridge() + (1.0 - keep) * averaged,
        preparation=preparation,
        lines=_lines(centres, shares, corrections, trusted, plain, keep),
        trusted_rows=int(trusted.rows),
        agents=federation.agents,
        agent_weights=judged.weights,
        plain=keep,
        certificate=_certificate(believed, plain),
        notes=tuple(f"{name}: p = {p:.2g}" for name, p in compared.parts.items()),
    )


def _trimmed(
    federation: Federation, preparation: Preparation, everyone: Moments, folds: list[Moments], thin: int
) -> list[Centre]:
    """Return robust fits started from all rows and from trusted rows, these also without each fold.

    Without folds nothing starts from trusted rows; where owners refuse such sums there are no robust fits.
    """
    used = [folds_but(folds, left_out) for left_out in (None, *range(len(folds)))] if len(folds) > 1 else []
    from_trusted = [part.ridge(TRUSTED_PENALTIES) for part in used]
    kept_from_trusted = KEPT_FROM_TRUSTED if used else ()
    starts = [everyone.ridge()] * len(KEPT_FROM_ALL) + from_trusted * len(kept_from_trusted)
    kept = [*KEPT_FROM_ALL, *np.repeat(kept_from_trusted, len(used))]
    try:
        fits = trimmed_fits(federation, preparation, np.stack(starts), np.array(kept), thin)
    except GateError:
        return []
    centres = [
        Centre(f"the {share:.0%} of rows that fit best", "trimmed", fit)
        for share, fit in zip(KEPT_FROM_ALL, fits, strict=False)
    ]
    grouped = fits[len(KEPT_FROM_ALL) :].reshape(len(kept_from_trusted), len(used), preparation.width)
    centres += [
        Centre(f"the {share:.0%} of rows that fit trusted rows best", "trimmed", group[0], group[1:])
        for share, group in zip(kept_from_trusted, grouped, strict=True)
    ]
    return centres


def _shares(
    centres: list[Centre],
    corrections: Corrections,
    believed: Moments,
    variance: float,
    explained: float,
    speaks: float,
    error_size: float,
) -> Array:
    """Return the weight of every centre and pull; hopeless centres get none."""
    alone = corrections.held_out[:, -1]
    nothing = alone[0]
    families = [centre.family for centre in centres]
    log_share = np.full(alone.shape, -np.inf)
    for index, (centre, family) in enumerate(zip(centres, families, strict=True)):
        limit = min(nothing, 3.0 * (alone.min() + error_size))
        if family in ("all rows", "believed agents"):
            limit = 4.0 * nothing
        if alone[index] > limit:
            continue
        prior = centre.weight * PRIORS[family] / families.count(family)
        if family == "zero":
            prior += ZERO_INSTEAD * (1.0 - speaks)
        elif family == "trimmed":
            # rows set aside may be rare rather than wrong: a fit that cannot explain them starts with less
            own = 1.0 - believed.squared_error(centre.theta) / max(believed.rows, 1e-12) / variance
            ratio = own / explained if explained > 0 else 1.0
            prior *= 1.0 - speaks * (1.0 - min(1.0, max(ratio, TRIMMED_FLOOR)))
        elif family not in ("whole", "either sign"):
            prior *= speaks
        log_share[index] = np.log(max(prior, 1e-12))
    log_shares = log_share[:, None] + corrections.log_weight
    shares: Array = np.exp(log_shares - logsumexp(log_shares))
    return shares


def _plain_probability(
    preparation: Preparation,
    compared: Compared,
    believed: Moments,
    trusted: Moments,
    plain: Array,
    speaks: float,
    averaged_error: float,
    error_size: float,
    explains_as_much: float,
) -> float:
    """Return the probability that the believed rows are right.

    ``explains_as_much`` is how much of what the plain fit explains of the believed rows the averaged model explains, too.
    """
    constant = np.zeros_like(plain)
    if preparation.constant:
        constant[-1] = target_mean(preparation, believed) / preparation.constant
    error = max(trusted.squared_error(plain), 1e-12)
    log_odds = np.log(PLAIN_ODDS) + 2.0 * np.log(max(speaks, 1e-12)) + np.log(bayes_bound(compared.p))
    # a plain fit twice as bad as a constant is refuted; so is one that explains nothing where others explain the rows
    log_odds += 0.5 * trusted.rows * min(0.0, np.log(2.0 * trusted.squared_error(constant) / error + 1e-300))
    others = 2.0 * (averaged_error + error_size) / error
    log_odds += 0.5 * trusted.rows * (1.0 - speaks) * min(0.0, np.log(others))
    # errors on trusted rows speak against the plain fit, unless what the other model leaves unexplained may be rare rows
    better = CLEARLY * (averaged_error + PRIOR_ROWS * error_size) / (error + PRIOR_ROWS * error_size)
    met = (1.0 - np.exp(-RARE_ROWS * trusted.rows / max(believed.rows, 1.0))) ** 2
    log_odds += 0.5 * trusted.rows * max(explains_as_much**RARE, met) * min(0.0, np.log(better))
    log_odds = -np.logaddexp(-log_odds, -_as_they_are(believed, trusted, plain))
    return float(1.0 / (1.0 + np.exp(-np.clip(log_odds, -500.0, 500.0))))


def _weight_of_trusted(believed: Moments, trusted: Moments, unexplained: float) -> float:
    """Return how often a trusted row counts where it is fitted together with believed ones.

    If all are of one kind, once. Should that be wrong after all, they are the right ones: they count as often as right
    unverified rows can bear (m rows counted w times among n add w²m/(n + wm)² to the variance of each coefficient), at
    most as much as these.
    """
    rows, verified = max(believed.rows, 1e-12), trusted.rows
    bearable = np.sqrt(MAY_COST / (len(believed.cross) * max(unexplained, 1e-3)))
    room = np.sqrt(verified) - bearable * verified
    weight = rows * bearable / room if room > 0 else np.inf
    return float(max(1.0, min(weight, rows / verified)))


def _as_they_are(believed: Moments, trusted: Moments, plain: Array) -> float:
    """Return the log odds that targets are as they are, not all negated or in another unit.

    If they are, unverified rows still tell how large errors should be: as large as theirs, in the other unit.
    """
    usual = ERROR_ROWS * believed.squared_error(plain) / max(believed.rows, 1e-12)
    factors = np.array([1.0, *FACTORS])
    known = np.maximum(usual * np.minimum(1.0, factors**2), 1e-300)
    errors = trusted.squared_errors(factors[:, None] * plain)
    likelihood = 0.5 * ERROR_ROWS * np.log(known) - 0.5 * (ERROR_ROWS + trusted.rows) * np.log(known + errors)
    others = logsumexp(likelihood[1:] + np.log(np.array(list(FACTORS.values()))))
    return float(likelihood[0] - others)


def _lines(
    centres: list[Centre], shares: Array, corrections: Corrections, trusted: Moments, plain: Array, keep: float
) -> tuple[Line, ...]:
    """Say what the model is made of, largest share first; corrected and uncorrected centres are told apart."""
    rows = trusted.rows
    lines = [Line("unverified rows of the believed agents, as they are", keep, trusted.squared_error(plain) / rows)]
    for centre, share, errors in zip(centres, shares, corrections.held_out, strict=True):
        lines.append(Line(centre.name, float((1.0 - keep) * share[-1]), float(errors[-1]) / rows))
        error = float(share[:-1] @ errors[:-1]) / max(float(share[:-1].sum()), 1e-300) / rows
        corrected = centre.name if centre.family == "zero" else f"{centre.name}, corrected by trusted rows"
        lines.append(Line(corrected, float((1.0 - keep) * share[:-1].sum()), error))
    return tuple(sorted((line for line in lines if line.share > 1e-4), key=lambda line: -line.share))


def _certificate(moments: Moments, theta: Array) -> float:
    """Return how far the plain ridge fit is from some ridge fit: the part of the gradient that is not along θ."""
    gradient = moments.cross - moments.gram @ theta
    size = float(np.linalg.norm(moments.cross)) + float(np.linalg.norm(moments.gram @ theta))
    along = theta * (float(gradient @ theta) / max(float(theta @ theta), 1e-300))
    return float(np.linalg.norm(gradient - along)) / max(size, 1e-300)
