"""Part of the targets may have been multiplied: by −1, or by a factor that the rows tell. A mixture of two regressions.

Where many targets are negated or in another unit, the plain fit is useless, and few trusted rows cannot find the model
alone. The unverified rows can, up to the question which part is right: expectation–maximisation from several starts, in sums
that are vectors. One trusted row or two then tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import chi2

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import MultipliedSums, Totals
from comt.server.auto.drawn_rows import errors_by_prediction
from comt.server.auto.error_shapes import by_prediction, few_far_out, lopsided, on_both_sides
from comt.server.auto.moments import Moments

STEPS, INNER, SETTLED = 15, 8, 1e-5
#: steps on all rows, with what a search on a sample has found
ON_ALL_ROWS = 3
#: starts along the features' widest directions, none that is so much narrower than the widest
AXES, NARROW = 12, 1e-4
#: factors from which the rows' own is looked for, and its limits
FACTORS, LEAST_FACTOR, MOST_FACTOR = (3.0, 12.0), 1.2, 2000.0
#: how many of the starts it is looked for from
TRIED = 5
#: errors that it starts from, as a share of the plain fit's
SMALL = 0.2
#: smallest error variance relative to the target's
LEAST_NOISE = 1e-3
#: by how much the log likelihood of the rows must exceed that of simpler explanations before a mixture is believed (also per
#: column: many of them fit chance)
CLEARLY_BETTER, PER_COLUMN = 20.0, 1.5
#: what chance makes of a plain fit as seldom as this speaks against two signs
SELDOM = 1e-3
#: smallest share of rows of the rarer part
RARER = 0.05


@dataclass(frozen=True)
class Mixture:
    """Targets follow a model, or were multiplied."""

    theta: Array
    factor: float
    noise: float
    #: share of the rows that were left as they are
    share: float
    #: log likelihood of the rows
    value: float


@dataclass(frozen=True)
class Mixtures:
    """The two mixtures that explain the rows best, and what else would explain them (log likelihoods)."""

    negated: Mixture
    multiplied: Mixture
    #: the plain fit with normal errors, or with errors that keep off the middle
    plain: float
    #: the rivals with some errors far out
    far_out: Array
    #: the plain fit or a rival, whichever is best, with errors of two kinds, or with errors that depend on the prediction
    uneven: float
    #: by how much a mixture must be ahead to be believed
    clearly: float
    #: how far the plain fit is what two signs make of a model, from 0 to 1
    agrees: float

    def stands_out(self, found: Mixture, beside: float = -np.inf) -> bool:
        """Tell whether a mixture has two parts and is clearly better than the plain fit, and than ``beside``."""
        return found.value >= max(self.plain, beside) + self.clearly and RARER < found.share < 1.0 - RARER


def find_mixtures(
    federation: Federation,
    preparation: Preparation,
    moments: Moments,
    starts: Sequence[Array],
    rivals: Sequence[Array],
    thin: int,
) -> Mixtures:
    """Look for targets negated or multiplied in part, from ``starts``; ``rivals`` call rows that do not fit them wrong."""
    rows, origin = max(moments.rows, 1.0), preparation.origin
    from_zero = moments.less(origin)
    fit = from_zero.ridge()
    left = from_zero.squared_error(fit)
    negated, multiplied = (
        replace(found, theta=found.theta + origin)
        for found in _fit(federation, preparation, from_zero, left, [start - origin for start in starts], thin)
    )
    noise = max(left, LEAST_NOISE * from_zero.target_sq, 1e-12) / rows
    found = Mixtures(
        negated,
        multiplied,
        plain=-0.5 * rows * (np.log(2.0 * np.pi * noise) + 1.0),
        far_out=np.full(len(rivals), -np.inf),
        uneven=-np.inf,
        clearly=max(CLEARLY_BETTER, PER_COLUMN * preparation.width),
        agrees=_agrees(from_zero, negated.theta - origin),
    )
    if not (found.stands_out(negated) or found.stands_out(multiplied)):
        return found  # what else would explain the rows need not be asked
    models = np.stack([fit + origin, *rivals])
    everybody = np.ones(len(federation.agents))
    by_range = federation.sum(errors_by_prediction(federation, preparation, moments, models, everybody, thin))["counts"]
    counts = by_range.sum(axis=1)
    return replace(
        found,
        plain=max(found.plain, thin * float(on_both_sides(counts[:1])[0])),
        far_out=thin * few_far_out(counts[1:]),
        uneven=thin * float(max(lopsided(counts).max(), by_prediction(by_range).max())),
    )


def _agrees(moments: Moments, theta: Array) -> float:
    """Return how far the plain fit is a multiple of θ, as it must be where targets follow x·θ or its negative.

    What it finds beside θ is chance, then: χ² with a degree of freedom for every other column. If that is hardly so, it speaks
    against two signs, but no louder than by the share of all that the plain fit finds: no model is exactly right.
    """
    gram, others = moments.gram, len(theta) - 1
    plain: Array = np.linalg.pinv(gram, hermitian=True) @ moments.cross
    noise = max(moments.squared_error(plain), 1e-300) / max(moments.rows - len(theta), 1.0)
    along = float(theta @ gram @ plain) / max(float(theta @ gram @ theta), 1e-300) * theta
    beside = float((plain - along) @ gram @ (plain - along)) / noise
    surplus = max(beside - others, 0.0)
    share = surplus / (surplus + float(along @ gram @ along) / noise + 1e-12)
    return float(max(min(1.0, float(chi2.sf(beside, max(others, 1))) / SELDOM), (1.0 - share) ** 4))


def _fit(
    federation: Federation, preparation: Preparation, moments: Moments, left: float, starts: Sequence[Array], thin: int
) -> tuple[Mixture, Mixture]:
    """Return part of the targets negated, and part of them multiplied; everything counts from raw zero.

    ``left`` is the squared error of the plain fit.
    """
    rows = max(moments.rows, 1.0)
    used = [start for start in starts if start.any()]
    signs = np.stack([*used, *_axes(moments)])
    # a start may be a model of either part
    parts = [(start, f, part) for start in used[:TRIED] for f in FACTORS for part in (1.0, f)]
    theta = np.stack([*signs, *(start / part for start, _, part in parts)])
    factor = np.append(np.full(len(signs), -1.0), [f for _, f, _ in parts])
    # signs are found from afar; two units are told apart only by errors that are small to begin with
    largest = max(moments.target_sq, 1e-12)
    small = max(SMALL * left, LEAST_NOISE * largest)
    noise = np.append(np.full(len(signs), largest), [small / part**2 for _, _, part in parts]) / rows
    ask = _Asking(federation, preparation, moments, thin)
    found = ask.climb(_Parts(theta, factor, noise, np.full(len(theta), 0.6)), STEPS)

    def best(members: slice) -> int:
        return int(range(len(theta))[members][int(np.argmax(found.value[members]))])

    # without a start there is nothing to multiply: two signs are the only mixture
    found = found.taken([best(slice(len(signs))), best(slice(len(signs), None) if parts else slice(1))])
    if thin > 1:
        found = replace(ask, thin=1).climb(found, ON_ALL_ROWS)
    negated, multiplied = found.mixtures()
    return negated, multiplied


@dataclass(frozen=True)
class _Parts:
    """Many mixtures side by side: models (B, p), factors, error variances, shares and log likelihoods (B,)."""

    theta: Array
    factor: Array
    noise: Array
    share: Array
    value: Array = field(default_factory=lambda: np.empty(0))

    def taken(self, which: list[int]) -> _Parts:
        """Return some of them."""
        return _Parts(*(each[which] for each in (self.theta, self.factor, self.noise, self.share, self.value)))

    def mixtures(self) -> list[Mixture]:
        """Return them one by one."""
        numbers = (self.factor.tolist(), self.noise.tolist(), self.share.tolist(), self.value.tolist())
        return [Mixture(*each) for each in zip(self.theta, *numbers, strict=True)]


@dataclass(frozen=True)
class _Asking:
    """Asks about every ``thin``-th row; what is found is scaled up."""

    federation: Federation
    preparation: Preparation
    moments: Moments
    thin: int

    def climb(self, parts: _Parts, steps: int) -> _Parts:
        """Improve mixtures until their likelihoods settle, one exchange a step and one before."""
        rows = max(self.moments.rows, 1.0)
        totals = self._sums(parts)
        for _ in range(steps):
            before = totals["value"]
            theta, factor, noise = _improved(self.moments, totals, parts.factor)
            share = np.clip(totals["kept"] / rows, 1e-3, 1.0 - 1e-3)
            parts = _Parts(theta, factor, noise, share)
            totals = self._sums(parts)
            if (np.abs(totals["value"] - before) < SETTLED * rows).all():
                break
        return replace(parts, value=totals["value"])

    def _sums(self, parts: _Parts) -> dict[str, Array]:
        totals = self.federation.sum(
            MultipliedSums(
                loss_name="squared",
                preparation=self.preparation,
                theta=parts.theta,
                factor=parts.factor,
                noise=parts.noise,
                share=parts.share,
                thin=self.thin,
            )
        )
        return {name: self.thin * array for name, array in totals.items()}


def _improved(moments: Moments, totals: Totals, factor: Array) -> tuple[Array, Array, Array]:
    """Return the models, factors and error variances that explain rows best, given which of them were multiplied."""
    rows = max(moments.rows, 1.0)
    shrunk = moments.gram + 1e-6 * rows * np.eye(len(moments.gram))
    kept, multiplied = (
        np.asarray(np.linalg.solve(shrunk, totals[f"{part}_cross"].T).T) for part in ("kept", "multiplied")
    )
    square = np.maximum(totals["multiplied_square"], 1e-300)
    count = np.maximum(rows - totals["kept"], 0.0)
    for _ in range(INNER):
        inverse = 1.0 / factor
        theta = kept + inverse[:, None] * multiplied
        cross = totals["kept_cross"] + inverse[:, None] * totals["multiplied_cross"]
        left = totals["kept_square"] + inverse**2 * square - 2.0 * (theta * cross).sum(axis=1)
        left += np.einsum("bi,ij,bj->b", theta, moments.gram, theta)
        noise = np.maximum(left, LEAST_NOISE * max(moments.target_sq, 1e-12) / np.maximum(1.0, factor**2)) / rows
        # the inverse u of the factor has u²·Σqy² − u·Σqy(x·θ) = noise·Σq
        along = (theta * totals["multiplied_cross"]).sum(axis=1)
        root = along + np.sqrt(along**2 + 4.0 * square * noise * count)
        own = np.clip(2.0 * square / np.maximum(root, 1e-300), LEAST_FACTOR, MOST_FACTOR)
        factor = np.where(factor < 0.0, -1.0, own)
    return theta, factor, noise


def _axes(moments: Moments) -> Array:
    """Return models along the widest directions of the features, each explaining half of the target's variance."""
    values, vectors = np.linalg.eigh(moments.gram)
    widest = np.argsort(-values)[:AXES]
    widest = widest[values[widest] > NARROW * values.max()]
    size = np.sqrt(0.5 * moments.target_sq / values[widest])
    axes: Array = vectors[:, widest].T * size[:, None]
    return axes
