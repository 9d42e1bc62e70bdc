"""The recipe for numbers: exchangeability, then evidence.

1. Heavy tails are compressed (the rows come scaled), buggy targets clipped at ±10.
2. The rows of agents among which the trusted rows would rank oddly lose weight; S is the ridge fit of what is left.
3. Centres: zero, the fit of all rows, S, S corrected for noise in the features, trimmed fits, rows without capped cells.
4. Every centre is pulled to the trusted rows, with pulls of all strengths, in five folds.
5. All of them are averaged by prior and held-out error; hopeless centres are dropped.
6. Unless the trusted rows could hardly be a sample of S's rows, S itself is kept: θ = P₀ θ_S + (1 − P₀) θ_average.

Where the notes are silent, these readings were compared on the cells of ``comt bench choice`` (four to six seeds, mean R² and
cells lost), one or a few at a time, not in all combinations; differences of the mean were below .005:

* e·ŷ is taken with ŷ as it is, around the target's median (rather than around the intercept);
* features may have 10 to 90 % of noise in steps of ten (rather than of five), or what trusted variances show, per column or on
  average; Σ_b and c are those of S's rows (rather than all). A correction that goes back to fed is left out (rather than
  counted again: it would take its share of the prior);
* trimming ends with three bisquare steps (rather than none); trimmed fits have a prior of .5 (rather than .2);
* |θ − centre|² counts each coefficient in units of its column, the mean square over buggy rows, the intercept with them. Plain
  units with a free intercept had as good a mean (.8098 against .8095), but lost more where they lost;
* the pull of infinity has no larger prior than each of the eleven others;
* p-values of one kind are combined first, then the kinds (rather than all at once).

These were set without a comparison:

* ridge penalties of buggy fits, and of the trusted fit that trimming starts from, have the largest evidence;
* rank tests are two-sided; trimming concentrates ten times, from trusted rows for each fold anew;
* a family's prior is shared evenly by its members; uncapped fits have .5;
* a constant is the mean target of S's rows, and zero is the median of all, the centre of the scaling.

Top-j fits, rescaling and moments, which the notes call safe to drop and do not describe, are not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import binomtest

from comt.baselines.base import AgentRows, Array, pooled
from comt.bench.prototypes.centres import moments_of, noise_corrected, trimmed
from comt.bench.prototypes.ranks import columnwise_p, error_statistics, mean_rank_p, ranks
from comt.preparation import CAP, TARGET_LIMIT, compress
from comt.server.auto.centres import Centre
from comt.server.auto.moments import Moments, weighted
from comt.server.auto.ranks import bayes_bound, combine

FOLDS = 5
PULLS = np.append(0.03 * 10.0 ** (0.5 * np.arange(11)), np.inf)
KEPT_FROM_ALL, KEPT_FROM_TRUSTED = (0.9, 0.7, 0.5), (0.7, 0.5, 0.3)
PRIORS = {"believed": 3.0, "noise": 1.5, "all": 1.0, "zero": 1.0, "trimmed": 0.5, "uncapped": 0.5}
PLAIN_ODDS, EXPLAINS = 9.0, 0.25


def tame(features: Array) -> Array:
    """Compress scaled features beyond ±3."""
    return compress(features)


@dataclass(frozen=True)
class _Rows:
    """All rows: buggy ones with the weight of their agent, trusted ones with their fold."""

    features: Array
    targets: Array
    weights: Array
    trusted_features: Array
    trusted_targets: Array
    folds: NDArray[np.intp]

    def trusted(self, but: int | None = None) -> Moments:
        """Return the moments of the trusted rows, or of all but one fold of them."""
        used = self.folds != (-1 if but is None else but)
        return moments_of(self.trusted_features[used], self.trusted_targets[used])


def choose(agents: Sequence[AgentRows]) -> tuple[Array, dict[str, Any]]:
    """Return θ (intercept last) and what it was made of."""
    features, targets, trusted_features, trusted_targets = pooled(agents)
    targets = np.clip(targets, -TARGET_LIMIT, TARGET_LIMIT)
    count = len(trusted_targets)
    parts = [moments_of(a.features, np.clip(a.targets, -TARGET_LIMIT, TARGET_LIMIT)) for a in agents]
    everyone = weighted(parts, np.ones(len(parts)))
    fed = everyone.ridge()
    if not count:
        return fed, {}
    agent_weights = _believed(agents, [part.ridge() for part in parts], trusted_features, trusted_targets)
    believed = weighted(parts, agent_weights)
    plain = believed.ridge()
    fold = np.random.default_rng(0).permutation(np.arange(count) % min(FOLDS, count))
    weights = np.repeat(agent_weights, [len(a.targets) for a in agents])
    rows = _Rows(features, targets, weights, trusted_features, trusted_targets, fold)
    centres = _centres(rows, believed, fed, plain)
    averaged, shares = _average(rows, centres, float(np.var(targets)))
    p = _exchangeable(rows, centres, plain)
    keep = _plain_probability(rows, believed, plain, p)
    return keep * plain + (1.0 - keep) * averaged, {"plain": keep, "p": p, "shares": shares, "agents": agent_weights}


def _believed(agents: Sequence[AgentRows], models: list[Array], features: Array, targets: Array) -> Array:
    """Return a weight for every agent: how far its rows could be where the trusted rows come from."""
    bounds = []
    for agent, theta in zip(agents, models, strict=True):
        buggy = error_statistics(agent.features, np.clip(agent.targets, -TARGET_LIMIT, TARGET_LIMIT), theta)
        p = columnwise_p(buggy, np.ones(len(buggy)), error_statistics(features, targets, theta))
        bounds.append(bayes_bound(combine(p)))
    return np.array(bounds) / max(bounds)


def _centres(rows: _Rows, believed: Moments, fed: Array, plain: Array) -> list[Centre]:
    """Return every model that trusted rows may be pulled to."""
    centres = [
        Centre("zero", "zero", np.zeros_like(fed)),
        Centre("all rows", "all", fed),
        Centre("believed agents", "believed", plain),
        *noise_corrected(believed, rows.trusted()),
    ]
    whole = (np.abs(rows.features) < CAP).all(axis=1)
    if not whole.all() and whole.sum() > 2 * rows.features.shape[1]:
        fit = moments_of(rows.features[whole], rows.targets[whole], rows.weights[whole]).ridge()
        centres.append(Centre("rows without capped cells", "uncapped", fit))
    starts = [rows.trusted(but).ridge() for but in (None, *range(int(rows.folds.max()) + 1))]
    kept = np.concatenate([KEPT_FROM_ALL, np.repeat(KEPT_FROM_TRUSTED, len(starts))])
    fits = trimmed(
        rows.features, rows.targets, np.stack([fed] * len(KEPT_FROM_ALL) + starts * len(KEPT_FROM_TRUSTED)), kept
    )
    centres += [Centre(f"best {share:.0%}", "trimmed", fit) for share, fit in zip(KEPT_FROM_ALL, fits, strict=False)]
    grouped = fits[len(KEPT_FROM_ALL) :].reshape(len(KEPT_FROM_TRUSTED), len(starts), -1)
    centres += [
        Centre(f"best {share:.0%} by trusted rows", "trimmed", group[0], group[1:])
        for share, group in zip(KEPT_FROM_TRUSTED, grouped, strict=True)
    ]
    return centres


def _pulled(centres: Array, used: Moments, units: Array) -> Array:
    """Return argmin |y − Xθ|² + pull·Σ units (θ − centre)² for all centres (C, p) and pulls: (C, L, p)."""
    away = used.cross[:, None] - used.gram @ centres.T
    finite = PULLS[:-1, None, None] * np.diag(units) + used.gram
    moved = np.append(np.linalg.solve(finite, away[None]), np.zeros_like(away)[None], axis=0)
    return np.asarray(centres[:, None, :] + moved.transpose(2, 0, 1))


def _average(rows: _Rows, centres: list[Centre], variance: float) -> tuple[Array, dict[str, float]]:
    """Return the mean of all pulled centres, weighted by prior and held-out error, and the centres' shares."""
    held_out = np.zeros((len(centres), len(PULLS)))
    units = np.maximum((rows.features**2).mean(axis=0), 1e-6)
    for fold in range(int(rows.folds.max()) + 1):
        left = rows.folds == fold
        starts = np.stack([c.theta if c.by_fold is None else c.by_fold[fold] for c in centres])
        models = _pulled(starts, rows.trusted(but=fold), units)
        errors = rows.trusted_targets[left] - models @ rows.trusted_features[left].T
        held_out += (errors**2).sum(axis=-1)
    count = len(rows.trusted_targets)
    size = float(np.median([np.var(rows.trusted_targets), 1.0, variance]))
    own = held_out[:, -1]
    nothing = own[0]
    families = [centre.family for centre in centres]
    log_weights = -0.5 * count * np.log((size + held_out) / (count + 2.0))
    for index, family in enumerate(families):
        limit = 4.0 * nothing if family in ("all", "believed") else min(nothing, 3.0 * (own.min() + size))
        prior = PRIORS[family] / families.count(family) if own[index] <= limit else 0.0
        log_weights[index] += np.log(prior) if prior else -np.inf
    weights = np.exp(log_weights - logsumexp(log_weights))
    models = _pulled(np.stack([centre.theta for centre in centres]), rows.trusted(), units)
    shares = weights.sum(axis=1).tolist()
    return np.einsum("cl,clp->p", weights, models), {c.name: share for c, share in zip(centres, shares, strict=True)}


def _exchangeable(rows: _Rows, centres: list[Centre], plain: Array) -> float:
    """Return one p-value that the trusted rows are a sample of the believed agents' rows."""
    error = rows.targets - rows.features @ plain
    trusted_error = rows.trusted_targets - rows.trusted_features @ plain
    free = [c.theta - plain for c in centres if c.by_fold is None and not np.allclose(c.theta, plain, atol=1e-6)]
    groups = [
        columnwise_p(
            error_statistics(rows.features, rows.targets, plain),
            rows.weights,
            error_statistics(rows.trusted_features, rows.trusted_targets, plain),
        ),
        columnwise_p(rows.features[:, :-1], rows.weights, rows.trusted_features[:, :-1]),
        columnwise_p(np.abs(rows.features[:, :-1]), rows.weights, np.abs(rows.trusted_features[:, :-1])),
        _capped_p(rows),
        np.array([_held_out_p(rows, c) for c in centres if c.family == "trimmed"]),
    ]
    if free:
        towards = np.stack(free).T
        groups.append(
            columnwise_p(
                error[:, None] * (rows.features @ towards),
                rows.weights,
                trusted_error[:, None] * (rows.trusted_features @ towards),
            )
        )
    return combine(np.array([combine(group) for group in groups if group.size]))


def _capped_p(rows: _Rows) -> Array:
    """Return the p-value of how many trusted rows have a capped cell, or none if no row has."""
    capped, trusted_capped = ((np.abs(x) >= CAP).any(axis=1) for x in (rows.features, rows.trusted_features))
    share = float(rows.weights @ capped) / max(float(rows.weights.sum()), 1e-300)
    if share == 0 and not trusted_capped.any():
        return np.empty(0)
    return np.array([binomtest(int(trusted_capped.sum()), len(rows.trusted_targets), min(share, 1.0)).pvalue])


def _held_out_p(rows: _Rows, centre: Centre) -> float:
    """Rank the size of trusted rows' errors under a trimmed fit that has not seen them."""
    found = np.empty(len(rows.trusted_targets))
    models = centre.theta[None] if centre.by_fold is None else centre.by_fold
    for fold, theta in enumerate(models):
        left = rows.folds % len(models) == fold
        error = np.abs(rows.targets - rows.features @ theta)
        trusted_error = np.abs(rows.trusted_targets[left] - rows.trusted_features[left] @ theta)
        found[left] = ranks(error, rows.weights, trusted_error)
    return mean_rank_p(found)


def _plain_probability(rows: _Rows, believed: Moments, plain: Array, p: float) -> float:
    """Return P₀, the probability that the believed agents' rows are right as they are."""
    mean = float(believed.joint[-1, -2]) / believed.rows
    variance = max(believed.target_sq / believed.rows - mean**2, 1e-12)
    explained = max(0.0, 1.0 - believed.squared_error(plain) / believed.rows / variance)
    constant = np.zeros_like(plain)
    constant[-1] = mean
    trusted = rows.trusted()
    ratio = 2.0 * trusted.squared_error(constant) / max(trusted.squared_error(plain), 1e-12)
    log_odds = np.log(PLAIN_ODDS) + np.log(max(min(1.0, explained / EXPLAINS) * bayes_bound(p), 1e-300))
    log_odds += 0.5 * trusted.rows * np.log(max(min(1.0, ratio), 1e-300))
    return float(1.0 / (1.0 + np.exp(-np.clip(log_odds, -500.0, 500.0))))
