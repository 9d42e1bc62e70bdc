"""What a regression choice knows before it weighs anything: the believed rows, their plain fit, the trusted rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import chi2

from comt.preparation import Preparation
from comt.problem import Array
from comt.server.auto.centres import noise_shares, target_variance
from comt.server.auto.moments import TRUSTED_PENALTIES, Moments, folds_but

#: share of the target's variance that counting trusted rows more often than others may cost where nothing is wrong
MAY_COST = 0.002
#: how often the variance of right targets may be larger than what is made of the trusted ones
SELDOM = 0.01
#: what right targets vary by is far less than the error expected otherwise: noise does not make such a difference
FAR_LESS = 0.05
#: share of its parameters that the plain fit keeps: errors have made it too small already, and its evidence would shrink
#: what they left once more
KEPT = 0.7
#: but where right targets vary by less than this share of the unverified ones, errors have made it too large
VARY_LESS = 0.4
#: shares of the features' variance that trusted rows show to be noise, from which on it keeps more, and all
SOME_NOISE, MUCH_NOISE = 0.25, 0.5
#: trusted rows per column between which that fades out: so many know better than a fit of chance
PER_COLUMN = (2.5, 5.0)
#: rows per column below which a plain fit meets its own rows whatever they are: errors of others say nothing about them
MEETS_ITS_ROWS = 1.5
#: trusted targets that differ less than this (as variances) have one value, which says nothing about their spread
ONE_VALUE = 1e-10


def largest_variance(found: float, rows: float) -> float:
    """Return the variance that so many rows whose targets vary by ``found`` (as a mean square) seldom come from."""
    return found * rows / float(chi2.ppf(SELDOM, rows - 1.0))


@dataclass(frozen=True)
class Evidence:
    """Moments of the believed rows and of the trusted ones, fold by fold, with what follows from them."""

    preparation: Preparation
    believed: Moments
    folds: list[Moments]
    #: variance of the believed targets
    variance: float

    @cached_property
    def trusted(self) -> Moments:
        """All trusted rows."""
        return folds_but(self.folds, None)

    @cached_property
    def trusted_fit(self) -> Array:
        """The ridge fit of the trusted rows."""
        return self.trusted.ridge(TRUSTED_PENALTIES)

    @cached_property
    def trusted_fits(self) -> Array:
        """The same without each fold (folds, p)."""
        return np.stack([folds_but(self.folds, fold).ridge(TRUSTED_PENALTIES) for fold in range(len(self.folds))])

    @cached_property
    def trusted_variance(self) -> float:
        """What right targets vary by, as a sample of at least two trusted ones tells it."""
        return target_variance(self.preparation, self.trusted) * self.trusted.rows / (self.trusted.rows - 1.0)

    @cached_property
    def kept(self) -> float:
        """Share of its parameters that a plain fit keeps, however strong the penalty that its evidence asks for.

        Noise in features and negated targets draw a fit towards nothing; targets far too large do the opposite.
        """
        free = self.trusted.rows - 1.0
        if free < 1.0:
            return KEPT
        noise, _ = noise_shares(self.preparation, self.believed, self.trusted)
        kept = float(np.interp(noise, (SOME_NOISE, MUCH_NOISE), (KEPT, 1.0)))
        kept *= float(np.interp(self.trusted.rows / len(self.trusted.gram), PER_COLUMN, (1.0, 0.0)))
        return kept * min(1.0, self.trusted_variance / (VARY_LESS * self.variance))

    @cached_property
    def plain(self) -> Array:
        """The ridge fit of the believed rows, as they are."""
        return self.believed.ridge(kept=self.kept)

    @cached_property
    def error_size(self) -> float:
        """Squared error of a target expected beforehand.

        Where right targets can only vary far less than unverified ones, no more than that: then these are in another
        unit, and what is small in theirs may be a thousand times too large.
        """
        variance, free = target_variance(self.preparation, self.trusted), self.trusted.rows - 1.0
        expected = float(np.median([variance, 1.0, self.variance]))
        if free < 1.0 or variance < ONE_VALUE * expected:
            return expected
        most = largest_variance(variance, self.trusted.rows)
        return most if most < FAR_LESS * expected else expected

    @cached_property
    def log_precise(self) -> float:
        """How much less far smaller errors are believed to be precise targets, as a logarithm.

        Trusted targets that vary less than expected have small errors under any model: rare rows may be missing among them.
        """
        rows = self.trusted.rows
        if rows < 2:
            return 0.0
        return 0.5 * rows * min(0.0, float(np.log(self.trusted_variance / self.error_size)))

    @cached_property
    def usual_error(self) -> float:
        """Squared error of believed rows under the plain fit; if it meets these anyway, that of other rows."""
        found = self.believed.squared_error(self.plain) / max(self.believed.rows, 1e-12)
        return min(found * self.believed.optimism**2, self.variance) if self.meets_its_rows else found

    @cached_property
    def explained(self) -> float:
        """Share of the target's variance that the plain fit explains of the believed rows."""
        return max(0.0, 1.0 - self.usual_error / self.variance)

    @property
    def meets_its_rows(self) -> bool:
        """Whether the plain fit has so few rows that it meets them whatever they are."""
        return self.believed.rows < MEETS_ITS_ROWS * len(self.plain)

    def trusted_error(self, theta: Array) -> float:
        """Return the mean squared error of the trusted rows under a model."""
        return self.trusted.squared_error(theta) / self.trusted.rows

    def explained_by(self, theta: Array) -> float:
        """Return the share of the target's variance that a model explains of the believed rows."""
        left = self.believed.squared_error(theta) / max(self.believed.rows, 1e-12)
        return max(0.0, 1.0 - left / self.variance)

    @cached_property
    def trusted_weight(self) -> float:
        """How often a trusted row counts where it is fitted together with believed ones.

        If all are of one kind, once. Should that be wrong after all, they are the right ones: they count as often as right
        unverified rows can bear (m rows counted w times among n add w²m/(n + wm)² to the variance of each coefficient),
        at most as much as these.
        """
        rows, verified = max(self.believed.rows, 1e-12), self.trusted.rows
        bearable = np.sqrt(MAY_COST / (len(self.plain) * max(1.0 - self.explained, 1e-3)))
        room = np.sqrt(verified) - bearable * verified
        weight = rows * bearable / room if room > 0 else np.inf
        return float(max(1.0, min(weight, rows / verified)))

    @cached_property
    def together(self) -> Array:
        """The ridge fit of believed and trusted rows."""
        return (self.believed + self.trusted.scaled(self.trusted_weight)).ridge(kept=self.kept)

    @cached_property
    def rows_behind(self) -> Array:
        """Σ x xᵀ of the rows behind a model of the believed rows, counted as trusted rows are."""
        behind: Array = self.believed.gram / self.trusted_weight
        return behind
