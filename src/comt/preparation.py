"""How raw rows become the rows of the objective: the server agrees on it, agents apply it, models undo it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from comt.problem import Array

#: heavy tails: values are left alone up to KNEE scales, grow logarithmically beyond, and stop at CAP
KNEE, CAP = 3.0, 12.0
#: buggy targets are not believed beyond this many scales
TARGET_LIMIT = 10.0


def compress(values: Array, knee: float = KNEE) -> Array:
    """z → sign(z)·knee·(1 + ln(|z|/knee)) beyond ±knee, at most ±cap: one absurd cell can no longer decide a model."""
    size = np.abs(values)
    beyond = size > knee
    if not beyond.any():
        return values
    squeezed = values.copy()
    grown = knee * (1.0 + np.log(size[beyond] / knee))
    squeezed[beyond] = np.sign(values[beyond]) * np.minimum(grown, max(CAP, knee))
    return squeezed


@dataclass(frozen=True)
class Preparation:
    """How raw rows become the rows of the objective: z = (x − centre)/scale, a constant column, scaled targets.

    A scale of infinity switches a constant column off (its coefficient is exactly 0). With a finite ``knee``, heavy tails
    are compressed (see :func:`compress`) wherever the model is applied.
    """

    center: Array
    scale: Array
    target_center: float = 0.0
    target_scale: float = 1.0
    #: value of the constant column that carries the intercept; 0: there is none
    constant: float = 0.0
    #: scales up to which values count as they are; infinity: all do
    knee: float = np.inf
    #: the most that a prepared target of a buggy row is believed to be
    target_limit: float = np.inf
    #: whether rows that were written again and again count once
    distinct: bool = False

    @classmethod
    def identity(cls, n_features: int, constant: float = 0.0) -> Preparation:
        """Leave the rows as they are."""
        return cls(np.zeros(n_features), np.ones(n_features), constant=constant)

    @property
    def width(self) -> int:
        """Number of columns of prepared rows, the constant one included."""
        return len(self.center) + (self.constant != 0.0)

    @property
    def compressed(self) -> bool:
        """Whether values far out count for less."""
        return bool(np.isfinite(self.knee))

    def tamed(self, knee: float = KNEE, target_limit: float = TARGET_LIMIT) -> Preparation:
        """Return the preparation with tails compressed, and targets of buggy rows believed up to a limit."""
        return replace(self, knee=knee, target_limit=target_limit)

    @property
    def cap(self) -> float:
        """The most that a prepared value can be."""
        return max(CAP, self.knee)

    @cached_property
    def trivial(self) -> bool:
        """Whether the features pass unchanged."""
        return (
            self.constant == 0.0 and not self.compressed and not self.center.any() and bool((self.scale == 1.0).all())
        )

    @cached_property
    def fingerprint(self) -> str:
        """Identify the preparation, so that an agent can keep prepared rows between rounds."""
        digest = hashlib.sha256()
        for part in (
            self.center,
            self.scale,
            np.array(
                [
                    self.target_center,
                    self.target_scale,
                    self.constant,
                    self.knee,
                    self.target_limit,
                    float(self.distinct),
                ]
            ),
        ):
            digest.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
        return digest.hexdigest()

    def features(self, raw: Array) -> Array:
        """Prepare a block of features."""
        if self.trivial:
            return raw
        prepared = np.empty((raw.shape[0], self.width), order="F")
        block = prepared[:, : raw.shape[1]]
        np.subtract(raw, self.center, out=block)
        block *= 1.0 / self.scale
        if self.compressed:
            block[...] = compress(block, self.knee)
        if self.constant:
            prepared[:, -1] = self.constant
        return prepared

    def targets(self, raw: Array) -> Array:
        """Prepare a block of targets."""
        if self.target_center == 0.0 and self.target_scale == 1.0:
            return raw
        return (raw - self.target_center) / self.target_scale

    def believed(self, targets: Array) -> Array:
        """Return prepared targets of buggy rows as far as they are believed."""
        return np.clip(targets, -self.target_limit, self.target_limit) if np.isfinite(self.target_limit) else targets

    def predict(self, raw: Array, theta: Array, coef: Array, intercept: float) -> Array:
        """Return θ's prediction of raw rows; without a compression that is the linear model on raw features."""
        if not self.compressed:
            return np.asarray(raw @ coef + intercept)
        return np.asarray(self.features(raw) @ theta * self.target_scale + self.target_center)

    @property
    def target_zero(self) -> float:
        """What a raw target of zero is as a prepared one (without a constant column targets are not centred)."""
        return -self.target_center / self.target_scale if self.constant else 0.0

    @property
    def origin(self) -> Array:
        """The model that predicts a raw target of zero."""
        theta = np.zeros(self.width)
        if self.constant:
            theta[-1] = self.target_zero / self.constant
        return theta

    def multiplied(self, theta: Array, factor: Array | float) -> Array:
        """Return the models (..., p) whose raw predictions are ``factor`` (...) times as large as those of θ.

        A unit, or a sign, belongs to raw targets: it acts about their zero, not about the centre of prepared ones.
        """
        models: Array = self.origin + np.asarray(factor, dtype=np.float64)[..., None] * (theta - self.origin)
        return models

    def to_raw(self, theta: Array) -> tuple[Array, float]:
        """Return coefficients and intercept that act on raw features (inside the knee of a compression)."""
        coef = self.target_scale * theta[: len(self.center)] / self.scale
        intercept = self.target_center - float(coef @ self.center)
        if self.constant:
            intercept += self.target_scale * self.constant * float(theta[-1])
        return coef, intercept
