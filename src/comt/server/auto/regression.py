"""Automatic choice for regression: do the trusted rows refute the plain fit? As far as they do, average what they support.

With few trusted rows, "which candidate has the lowest error on them?" is a bad question: it is answered by chance. The
plain fit of the believed agents is kept unless the trusted rows could hardly be a sample of their rows.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, softmax

from comt.errors import GateError
from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.server.auto.agents import moments_of, weigh_agents
from comt.server.auto.asking import ask_for_choice
from comt.server.auto.camps import find_camps
from comt.server.auto.capped import mislead
from comt.server.auto.centres import (
    INSTEAD,
    PRIORS,
    TRIMMED_FLOOR,
    Centre,
    noise_centres,
    rescaled_centre,
    target_variance,
)
from comt.server.auto.choice import Choice, Line, largest_first
from comt.server.auto.correction import Corrections, correct
from comt.server.auto.drawn_rows import believed_rows
from comt.server.auto.either_sign import either_sign
from comt.server.auto.evidence import Evidence
from comt.server.auto.exchangeability import compare
from comt.server.auto.mixtures import Mixtures, find_mixtures
from comt.server.auto.moments import Moments, folds_but, total, weighted
from comt.server.auto.other_units import other_units
from comt.server.auto.part_multiplied import Multiplied, part_multiplied
from comt.server.auto.plain_fit import plain_log_odds, speaks_for_rows
from comt.server.auto.trimming import trimmed_fits

FOLDS = 5
#: rows on which robust fits are searched
SAMPLE = 20_000
#: rows per column below which a robust fit meets any rows, because it chooses them: none is tried
ROBUST_FROM = 3.0
KEPT_FROM_ALL, KEPT_FROM_TRUSTED = (0.9, 0.7, 0.5), (0.7, 0.5, 0.3)
#: weight of an agent whose rows are not believed at all
NOT_BELIEVED = 0.02
#: families of centres that are made of the rows of all agents alike
ALIKE = ("all rows", "either sign", "trimmed")


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
    own_fits = np.stack([part.ridge() for part in per_agent])
    weights = leading = weigh_agents(federation, preparation, per_agent, own_fits, trusted.rows).weights
    camps = find_camps(preparation, per_agent, own_fits)
    if camps is not None:
        camps = camps.led_by_the_likelier(per_agent, trusted)
        per_agent, uncapped = (camps.in_one_unit(parts) for parts in (per_agent, uncapped))
        weights = camps.within(weights)
        leading = weights * camps.leading  # rows are compared as they are: only those of the leading camp
    believed, whole = weighted(per_agent, weights), weighted(uncapped, weights)
    evidence = Evidence(preparation, believed, folds, target_variance(preparation, believed))
    plain, error_size = evidence.plain, evidence.error_size
    centres = [
        Centre("trusted rows alone", "zero", np.zeros(preparation.width)),
        Centre("all unverified rows", "all rows", everyone.ridge(kept=evidence.kept)),
        Centre("unverified rows of the believed agents", "believed agents", plain),
        Centre("unverified rows, all targets negated", "negated", preparation.multiplied(plain, -1.0)),
        *noise_centres(preparation, believed, trusted, "noise"),
    ]
    if len(folds) > 1:
        centres.append(rescaled_centre(preparation, plain, folds, error_size))
    if whole.rows < believed.rows:
        centres.append(Centre("unverified rows without far-out values", "whole", whole.ridge()))
        centres += noise_centres(preparation, whole, trusted, "whole")
    thin = max(1, int(np.ceil(everyone.rows / SAMPLE)))
    enough = everyone.rows >= ROBUST_FROM * preparation.width
    robust = _trimmed(federation, preparation, everyone, evidence, thin) if enough else []
    starts = [everyone.ridge(), evidence.trusted_fit, *(centre.theta for centre in robust)]
    mixtures: Mixtures | None = None
    try:
        mixtures = find_mixtures(federation, preparation, all_rows, starts, [centre.theta for centre in robust], thin)
    except GateError:  # owners may refuse it like any other candidate
        centres += robust
    else:
        centres += either_sign(preparation, mixtures, robust, trusted)
    corrections = correct(centres, folds, error_size, evidence.rows_behind, evidence.log_precise)
    compared = compare(
        federation, preparation, moments, leading, evidence, centres, len(folds), count_capped=not without_capped
    )
    of_two_signs = np.array([centre.family == "either sign" for centre in centres])
    two_signs = min(
        1.0, 0.5 * sum(centre.weight for centre, either in zip(centres, of_two_signs, strict=True) if either)
    )
    speaks = speaks_for_rows(evidence, compared, two_signs)
    shares = _shares(centres, corrections, evidence, speaks, compared.robust_gain)
    averaged = np.einsum("cl,clp->p", shares, corrections.theta)
    averaged_error = float((shares * corrections.held_out).sum())
    drawn = believed_rows(federation, evidence, leading, thin)
    parts: list[Multiplied] = []
    # the two units of camps, or of an agent that is not believed, are no parts of everybody's rows
    if mixtures is not None and camps is None and leading.min() > NOT_BELIEVED:
        parts = part_multiplied(federation, preparation, mixtures, compared.common)
    units = other_units(evidence, parts, averaged_error, compared, drawn, camps)
    doubt = -plain_log_odds(evidence, compared, speaks, averaged, averaged_error, float(shares[of_two_signs].sum()))
    keep, instead, *in_units = softmax([0.0, doubt, *units.log_odds]).tolist()
    kept, names = "unverified rows of the believed agents, as they are", units.names
    in_any_reading = weights
    if camps is not None:
        weights = camps.believed(weights, in_units[0] / max(keep + in_units[0], 1e-300))
        kept, smaller = camps.names(federation.agents)
        names = (smaller, *names[1:])
    return Choice(
        theta=keep * evidence.together + instead * averaged + np.array(in_units) @ units.theta,
        preparation=preparation,
        lines=largest_first(
            [
                Line(kept, keep, evidence.trusted_error(plain)),
                *_lines(centres, instead * shares, corrections, trusted.rows),
                *(Line(*told) for told in zip(names, in_units, units.errors.tolist(), strict=True)),
            ]
        ),
        trusted_rows=int(trusted.rows),
        agents=federation.agents,
        agent_weights=weights,
        in_any_reading=in_any_reading,
        alike=instead * float(shares[[centre.family in ALIKE for centre in centres]].sum()),
        plain=keep,
        certificate=_certificate(believed, plain),
        notes=tuple(f"{name}: p = {p:.2g}" for name, p in compared.parts.items()),
    )


def _trimmed(
    federation: Federation, preparation: Preparation, everyone: Moments, evidence: Evidence, thin: int
) -> list[Centre]:
    """Return robust fits started from all rows and from trusted rows, these also without each fold.

    Without folds nothing starts from trusted rows; where owners refuse such sums there are no robust fits.
    """
    from_trusted = [evidence.trusted_fit, *evidence.trusted_fits] if len(evidence.folds) > 1 else []
    kept_from_trusted = KEPT_FROM_TRUSTED if from_trusted else ()
    starts = [everyone.ridge()] * len(KEPT_FROM_ALL) + from_trusted * len(kept_from_trusted)
    kept = [*KEPT_FROM_ALL, *np.repeat(kept_from_trusted, len(from_trusted))]
    try:
        fits = trimmed_fits(federation, preparation, np.stack(starts), np.array(kept), thin)
    except GateError:
        return []
    centres = [
        Centre(f"the {share:.0%} of rows that fit best", "trimmed", fit)
        for share, fit in zip(KEPT_FROM_ALL, fits, strict=False)
    ]
    grouped = fits[len(KEPT_FROM_ALL) :].reshape(len(kept_from_trusted), len(from_trusted), preparation.width)
    centres += [
        Centre(f"the {share:.0%} of rows that fit trusted rows best", "trimmed", group[0], group[1:])
        for share, group in zip(kept_from_trusted, grouped, strict=True)
    ]
    return centres


def _shares(
    centres: list[Centre], corrections: Corrections, evidence: Evidence, speaks: float, robust_gain: float
) -> Array:
    """Return the weight of every centre and pull; hopeless centres get none.

    Where the plain fit does not speak for the rows, a robust one may: as far as typical errors are smaller under it
    (``robust_gain`` times). What then is left is for trusted rows alone.
    """
    alone = corrections.held_out[:, -1]
    nothing = alone[0]
    families = [centre.family for centre in centres]
    silent, left = 1.0 - speaks, min(1.0, robust_gain**-2)
    log_share = np.full(alone.shape, -np.inf)
    for index, (centre, family) in enumerate(zip(centres, families, strict=True)):
        limit = min(nothing, 3.0 * (alone.min() + evidence.error_size))
        if family in ("all rows", "believed agents"):
            limit = 4.0 * nothing
        if alone[index] > limit:
            continue
        prior = centre.weight * PRIORS[family] / families.count(family)
        if family == "zero":
            prior += INSTEAD * silent * left
        elif family == "trimmed":
            # rows set aside may be rare rather than wrong: a fit that cannot explain them starts with less
            own = evidence.explained_by(centre.theta)
            ratio = own / evidence.explained if evidence.explained > 0 else 1.0
            prior *= 1.0 - speaks * (1.0 - min(1.0, max(ratio, TRIMMED_FLOOR)))
            prior += centre.weight * INSTEAD * silent * (1.0 - left) / families.count(family)
        elif family not in ("whole", "either sign"):
            prior *= speaks
        log_share[index] = np.log(max(prior, 1e-12))
    log_shares = log_share[:, None] + corrections.log_weight
    shares: Array = np.exp(log_shares - logsumexp(log_shares))
    return shares


def _lines(centres: list[Centre], shares: Array, corrections: Corrections, rows: float) -> list[Line]:
    """Say what the averaged model is made of; corrected and uncorrected centres are told apart."""
    lines = []
    for centre, share, errors in zip(centres, shares, corrections.held_out, strict=True):
        lines.append(Line(centre.name, float(share[-1]), float(errors[-1]) / rows))
        error = float(share[:-1] @ errors[:-1]) / max(float(share[:-1].sum()), 1e-300) / rows
        corrected = centre.name if centre.family == "zero" else f"{centre.name}, corrected by trusted rows"
        lines.append(Line(corrected, float(share[:-1].sum()), error))
    return lines


def _certificate(moments: Moments, theta: Array) -> float:
    """Return how far the plain ridge fit is from some ridge fit: the part of the gradient that is not along θ."""
    gradient = moments.cross - moments.gram @ theta
    size = float(np.linalg.norm(moments.cross)) + float(np.linalg.norm(moments.gram @ theta))
    along = theta * (float(gradient @ theta) / max(float(theta @ theta), 1e-300))
    return float(np.linalg.norm(gradient - along)) / max(size, 1e-300)
