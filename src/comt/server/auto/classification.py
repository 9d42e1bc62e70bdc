"""Automatic choice for classification: models of the buggy labels, averaged by the evidence of the trusted rows.

Every model of the buggy rows, with either sign, is a hypothesis about the trusted rows: they follow its score, up to a
slope, an intercept and, perhaps, a correction δ. No correction is buggy-only training, a negative slope says that labels
are reversed, no model at all is trusted-only training, and a correction in between is the paper's pull. That
vague labels are right as they are is a hypothesis of its own (:mod:`comt.server.auto.vague_labels`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.server.auto.agents import moments_of
from comt.server.auto.asking import ask_about_labels
from comt.server.auto.bending import STRAIGHT, Bending, bends
from comt.server.auto.capped import mislead
from comt.server.auto.centres import feature_spread
from comt.server.auto.choice import Choice, Line, largest_first
from comt.server.auto.correction import ENOUGH, NARROWEST, right_but_for_chance
from comt.server.auto.flips import Leaning, flipped, starts
from comt.server.auto.label_hypotheses import LabelModel, but_for_one_column, trusted_rows_follow
from comt.server.auto.labels import BuggyLabels, LabelFit, Together, reliability, score_size
from comt.server.auto.laplace import Hypothesis, share_left_out, weigh
from comt.server.auto.moments import Moments, total
from comt.server.auto.signs import Signs, compare_agents
from comt.server.auto.vague_labels import Reading, as_they_are, behind_flips, clearness, flip_rate, read

#: rows on which models are searched
SAMPLE = 20_000
#: strengths of the pull to a model, in prepared units
PULLS = 300.0 * 10.0 ** (-0.5 * np.arange(7))
#: how many of the models get a correction
CORRECTED = 4
#: standard deviation of the intercept of trusted log-odds
INTERCEPT_SD = 0.8
#: trusted rows of one label that would seldomer come so were picked by their label: the intercept is then that of the
#: unverified rows, to this share of its usual freedom
HARDLY, SETTLED = 0.005, 1e-3
PICKED = (
    "All trusted rows have the same label, which says nothing about how common it is: "
    "verify rows of both kinds, picked without looking at their labels."
)
#: probability that all labels are reversed: less where labels follow the features well than where half of them seem flipped
REVERSED_CLEAR, REVERSED_VAGUE, CLEAR = 0.02, 0.22, 0.04
#: prior weight of the model with flip rates, and of the models of single agents together, compared with that of all rows
FLIP_RATES, SINGLE_AGENTS = 0.1, 0.25
#: prior weight of models whose flips follow the features, all together, with few trusted rows and with enough to tell them
#: from a curved matter, which looks alike; nats that one of them must gain; by how many nats at most one is preferred
LEANING, ROWS_TO_TELL_LEANING = (0.1, 0.25), (6.0, 24.0)
LEAST_GAIN, FLATTEN = 3.0, 3.0
#: least odds that no model of the unverified labels is of use; where none of them is reliable, more
NO_USE, UNRELIABLE = 0.1, 1.5


def choose(federation: Federation, preparation: Preparation) -> Choice:
    """Choose a model of the prepared rows; at most about fifty exchanges, whatever the number of candidates."""
    moments = ask_about_labels(federation, preparation)
    everyone = total(moments_of(moments["moments"], moments["rows"]))
    whole = total(moments_of(moments["whole"], moments["whole_rows"]))
    without_capped = mislead(preparation, everyone, whole)
    if without_capped:
        everyone = whole
    trusted = total(moments_of(moments["trusted"], moments["trusted_rows"]))
    trusted_rows = int(trusted.rows)
    rows, count = max(everyone.rows, 1.0), len(federation.agents)
    _, spread = feature_spread(preparation, everyone)
    labels = BuggyLabels(federation, preparation, max(1, int(np.ceil(rows / SAMPLE))), whole=without_capped)
    *own, coefficients, scores = labels.fits(np.vstack([np.eye(count), np.ones(count)]), spread)
    both = Together(coefficients, scores, rows / preparation.width)
    together = both.likelier
    if trusted_rows == 0:
        line = Line("all unverified rows", 1.0, np.nan)
        return Choice(
            together.theta, preparation, (line,), 0, federation.agents, np.ones(count), certificate=together.certificate
        )
    positive = 0.5
    if preparation.constant:
        balance = float(everyone.cross[-1]) / (rows * preparation.constant)
        positive = float(np.clip(0.5 + 0.5 * balance, 1e-6, 1.0 - 1e-6))
    signs = compare_agents(
        np.stack([fit.theta for fit in own]), np.array([fit.reliability(spread) for fit in own]), spread
    )
    vague = clearness(score_size(together.theta, spread)) < 1.0 and not signs.reversed.any()
    bending = bends(federation, preparation, everyone, labels.thin, whole=without_capped) if vague else STRAIGHT
    reversed_prior = _reversed_prior(coefficients, rows, positive, bending)
    models, rates, reading = _models(
        labels, both, own, signs, spread, federation.agents, reversed_prior, positive, bending, trusted.rows
    )
    picked = _picked_by_label(preparation, trusted, positive)
    if picked:  # rows of one label can tell a sign, but would correct every model until it gives that label
        models = models[: 2 if signs.reversed.any() else 1]
    hypotheses, thetas, log_weights = _weighed(federation, preparation, models, reading, spread, trusted, picked)
    weights = np.exp(log_weights - logsumexp(log_weights))
    leading = models[1 if signs.reversed.any() else 0].theta
    return Choice(
        theta=weights @ thetas,
        preparation=preparation,
        lines=largest_first(
            Line(hypothesis.name, weight, (hypothesis.log_prior - log_weight) / trusted_rows)
            for hypothesis, weight, log_weight in zip(hypotheses, weights.tolist(), log_weights.tolist(), strict=True)
        ),
        trusted_rows=trusted_rows,
        agents=federation.agents,
        agent_weights=_agent_weights(thetas, weights, leading, spread, signs),
        flip_rates=rates,
        caution=PICKED if picked else "",
        certificate=max(fit.certificate for fit in (coefficients, scores, *own)),
    )


def _picked_by_label(preparation: Preparation, trusted: Moments, positive: float) -> bool:
    """Tell whether trusted rows have one label only, as hardly any rows would that nobody picked by it."""
    if not preparation.constant or abs(trusted.cross[-1]) < (trusted.rows - 0.5) * preparation.constant:
        return False
    share = positive if trusted.cross[-1] > 0 else 1.0 - positive
    return bool(share**trusted.rows < HARDLY)


def _reversed_prior(together: LabelFit, rows: float, share: float, bending: Bending) -> float:
    """Return the prior probability that all labels are reversed."""
    entropy = -(share * np.log(share) + (1.0 - share) * np.log(1.0 - share))
    explained = max(0.0, 1.0 - together.value / (rows * entropy)) + bending.explained
    return float(REVERSED_CLEAR + (REVERSED_VAGUE - REVERSED_CLEAR) * np.exp(-explained / CLEAR))


def _models(
    labels: BuggyLabels,
    both: Together,
    own: list[LabelFit],
    signs: Signs,
    spread: Array,
    names: tuple[str, ...],
    all_reversed: float,
    positive: float,
    bending: Bending,
    trusted_rows: float,
) -> tuple[list[LabelModel], Array, Reading]:
    """Return models of the buggy rows, flip rates, and what vague labels are taken for."""
    together, some_reversed = both.likelier, max(all_reversed, signs.larger_wrong)
    models = [
        LabelModel(
            "all unverified rows", together.theta, together.covariance, together.reliability(spread), 1.0, all_reversed
        )
    ]
    if signs.reversed.any():
        (turned,) = labels.fits(np.where(signs.reversed, -1.0, 1.0)[None])
        told = ", ".join(name for name, turn in zip(names, signs.reversed, strict=True) if turn)
        name = f"unverified rows, labels of {told} reversed"
        models.append(LabelModel(name, turned.theta, turned.covariance, turned.reliability(spread), 1.0, some_reversed))
    sure, size = models[-1], score_size(together.theta, spread)
    start = np.where(signs.reversed[:, None], 0.8, 0.2) * np.ones((1, 2))
    # a penalty has made the score smaller than labels follow it
    rate = flip_rate(size / np.sqrt(together.reliability(spread)))
    steep = behind_flips(together.theta, size, rate, positive, labels.preparation.constant)
    tried = starts(sure.theta, spread, bending.turns)
    flips, leaning = flipped(labels, sure.theta, start, steep, rate, tried)
    # its direction is about as sure as that of the fit it started from, whatever its length has become
    longer = float(flips.theta @ flips.theta) / max(float(sure.theta @ sure.theta), 1e-12)
    name = "unverified rows with flip rates per agent"
    at_random = LabelModel(name, flips.theta, longer * sure.covariance, sure.reliability, FLIP_RATES, some_reversed)
    explain = flips.objective - np.array([model.objective for model in leaning])
    models += [at_random, *_leaning_models(leaning, explain / labels.thin, sure, spread, trusted_rows)]
    name, fit = "all unverified rows, penalised otherwise", both.other
    other = LabelModel(name, fit.theta, fit.covariance, fit.reliability(spread), both.chance_of_other, all_reversed)
    # without a penalty of coefficients, columns that nearly repeat each other have weights that mean nothing one by one
    unpenalised = sure is models[0] and together is both.scores
    with_rules = [replace(other, prior=1.0)] if unpenalised else [sure, at_random]
    models += [rule for model in with_rules for rule in but_for_one_column(model, spread)]
    models.append(other)
    if len(own) > 1:
        models += [
            LabelModel(
                f"rows of {name} alone",
                fit.theta,
                fit.covariance,
                fit.reliability(spread),
                SINGLE_AGENTS / len(own),
                1.0 - some_reversed if turn else some_reversed,
            )
            for name, fit, turn in zip(names, own, signs.reversed, strict=True)
        ]
    # labels of agents that contradict each other are not all right
    flips_explain = np.inf if signs.reversed.any() else (together.value - flips.value_of_common) / labels.thin
    return models, flips.rates, read(size, together.reliability(spread), flips_explain, bending.nats)


def _leaning_models(
    leaning: list[Leaning], gains: Array, sure: LabelModel, spread: Array, trusted_rows: float
) -> list[LabelModel]:
    """Return models of labels whose flips follow the features, as far as these explain labels better than chance may."""
    found = [(model, gain) for model, gain in zip(leaning, gains.tolist(), strict=True) if gain > LEAST_GAIN]
    if not found:
        return []
    shares = np.exp(np.clip(np.array([gain for _, gain in found]) - gains.max(), -FLATTEN, 0.0))
    shares *= np.interp(trusted_rows, ROWS_TO_TELL_LEANING, LEANING) / shares.sum()
    return [
        LabelModel(
            "unverified rows, flips that follow the features",
            model.theta,
            model.covariance,
            reliability(model.theta, model.covariance, spread),
            share,
            sure.reversed,
        )
        for (model, _), share in zip(found, shares.tolist(), strict=True)
    ]


def _weighed(
    federation: Federation,
    preparation: Preparation,
    models: list[LabelModel],
    reading: Reading,
    spread: Array,
    trusted: Moments,
    picked: bool,
) -> tuple[list[Hypothesis], Array, Array]:
    """Weigh every model without a correction; then the best ones, and none at all, with corrections of all sizes."""
    uncorrected = right_but_for_chance(trusted.rows)
    d, width = len(spread), preparation.width
    features = np.zeros((width, width))
    features[:d, :d] = spread
    intercept = np.zeros((width, 1))
    if preparation.constant:
        intercept[-1] = (SETTLED if picked else 1.0) * INTERCEPT_SD / preparation.constant
    hypotheses = [
        hypothesis
        for model in models
        for hypothesis in trusted_rows_follow(
            model,
            spread,
            intercept,
            trusted.rows,
            uncorrected * (1.0 if model.free is None else reading.other_mistakes),
        )
    ]
    by_themselves = as_they_are(models[0].theta, models[0].covariance, reading.right, intercept)
    left_out = share_left_out(trusted.rows, d)
    thetas, log_weights = weigh(federation, preparation, [*hypotheses, *by_themselves], features, left_out)
    if picked:
        return [*hypotheses, *by_themselves], thetas, log_weights
    none = max(NO_USE, UNRELIABLE * (1.0 - max(model.reliability for model in models))) * reading.other_mistakes
    nothing = Hypothesis("trusted rows alone", np.zeros(width), intercept, float(np.log(none)))
    shapes = _shapes(preparation, spread, trusted)
    # labels that are right need no correction
    best = [hypotheses[i] for i in np.argsort(-log_weights[: len(hypotheses)])[:CORRECTED]]
    odds = (1.0 - uncorrected) / uncorrected * reading.other_mistakes
    corrected = [
        Hypothesis(
            name,
            base.mean,
            np.hstack([base.spread, free / np.sqrt(pull)]),
            base.log_prior + float(np.log(share / (len(PULLS) * len(shapes)))),
        )
        for base, name, share in (
            *((base, f"{base.name}, corrected by trusted rows", odds) for base in best),
            (nothing, nothing.name, 1.0),
        )
        for free in shapes
        for pull in PULLS
    ]
    more_thetas, more_weights = weigh(federation, preparation, corrected, features, left_out)
    return (
        [*hypotheses, *by_themselves, *corrected],
        np.vstack([thetas, more_thetas]),
        np.append(log_weights, more_weights),
    )


def _shapes(preparation: Preparation, spread: Array, trusted: Moments) -> list[Array]:
    """Return what a correction may look like (p, d): all coefficients change alike or, with enough rows, all predictions.

    Noise, and penalties, hide what columns that nearly repeat each other differ in; labels may follow just that.
    """
    d, width, all_columns = len(spread), preparation.width, float(np.trace(spread))
    coefficients = np.eye(width)[:, :d] / np.sqrt(max(1.0, all_columns / 10.0))
    if trusted.rows < ENOUGH * width:
        return [coefficients]
    values, vectors = np.linalg.eigh(feature_spread(preparation, trusted)[1])
    values = np.maximum(values, 0.0) + NARROWEST * max(float(values.mean()), 1e-12)
    # scores vary by as much under either shape
    predictions = np.zeros((width, d))
    predictions[:d] = vectors * np.sqrt(min(all_columns, 10.0) / d / values)
    return [coefficients, predictions]


def _agent_weights(thetas: Array, weights: Array, leading: Array, spread: Array, signs: Signs) -> Array:
    """Return the balance between models that take an agent's labels as they are (+1) and reversed (−1)."""
    d = len(spread)
    with_the_leaders = np.sign(thetas[:, :d] @ spread @ leading[:d])
    return np.where(signs.reversed, -1.0, 1.0) * float(weights @ with_the_leaders)
