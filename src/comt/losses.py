"""The two losses, row by row: value, derivatives, conjugate, prediction.

A *score* is what the linear model says about a row, ``z = x · w``. Everything here is a function of scores and targets,
elementwise, so it works on any number of rows at once. Notation follows the method page of the documentation.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlog1py, xlogy

Array = NDArray[np.float64]
LossName = Literal["squared", "logistic"]


class Loss(Protocol):
    """What a solver may ask of a loss.

    ``c`` is the crafting coupling ‖r‖²/(2λ_Z): 0 without crafting, negative where crafting repairs (direct teaching).
    """

    name: ClassVar[LossName]
    #: the trusted rows enter as ``trusted_factor × value`` (the paper writes no ½ before the trusted squares)
    trusted_factor: ClassVar[float]
    #: crafting has one solution only while c stays below this
    max_coupling: ClassVar[float]
    #: is φ a quadratic of r wherever the set of active rows does not change (then a frozen model is exact)?
    piecewise_quadratic: ClassVar[bool]

    def value(self, scores: Array, targets: Array) -> Array:
        """ℓ of every row."""

    def slope(self, scores: Array, targets: Array) -> Array:
        """dℓ/dz of every row."""

    def bend(self, scores: Array, targets: Array) -> Array:
        """d²ℓ/dz² of every row."""

    def conjugate(self, alpha: Array, targets: Array) -> Array:
        """ℓ*(−α) of every row."""

    def signs(self, targets: Array) -> Array | float:
        """s in θ = (1/λ_w) Σ α s (x + β)."""

    def dual(self, scores: Array, targets: Array, lambda_alpha: float, c: float) -> tuple[Array, Array, Array | float]:
        """Return α, φ and w = −dα/d(s z) of every row at the scores of r (method page, section 3).

        A single number for w means: that for every row, except that with λ_α > 0 rows with α = 0 have w = 0.
        """

    def predict_mean(self, scores: Array) -> Array:
        """Return the expected target given the score."""


class SquaredLoss:
    """ℓ(z, y) = ½(z − y)²,  ℓ*(−α) = ½α² − αy,  φ = (|y − z| − λ_α)₊² / (2(1 − c))."""

    name: ClassVar[LossName] = "squared"
    trusted_factor: ClassVar[float] = 2.0
    max_coupling: ClassVar[float] = 1.0
    piecewise_quadratic: ClassVar[bool] = True

    def value(self, scores: Array, targets: Array) -> Array:
        """½(z − y)²."""
        error = scores - targets
        error *= error
        error *= 0.5
        return error

    def slope(self, scores: Array, targets: Array) -> Array:
        """Return z − y."""
        return scores - targets

    def bend(self, scores: Array, targets: Array) -> Array:
        """1."""
        return np.ones_like(scores)

    def conjugate(self, alpha: Array, targets: Array) -> Array:
        """½α² − αy."""
        return 0.5 * alpha**2 - alpha * targets

    def signs(self, targets: Array) -> Array | float:
        """1: the sign of a residual is in α itself."""
        return 1.0

    def dual(self, scores: Array, targets: Array, lambda_alpha: float, c: float) -> tuple[Array, Array, Array | float]:
        """Soft-threshold the residual and divide it by ω = 1 − c."""
        omega = 1.0 - c
        alpha = targets - scores
        if lambda_alpha > 0:
            alpha -= np.clip(alpha, -lambda_alpha, lambda_alpha)
        if omega != 1.0:
            alpha *= 1.0 / omega
        phi = alpha * alpha
        phi *= 0.5 * omega
        return alpha, phi, 1.0 / omega

    def predict_mean(self, scores: Array) -> Array:
        """Return the score itself."""
        return scores


class LogisticLoss:
    """ℓ(z, y) = log(1 + e^(−yz)) with y = ±1,  ℓ*(−α) = α log α + (1−α) log(1−α),  0 < α < 1.

    logit(α) = t solves t = −λ_α − yz + cσ(t);  φ = log(1 + e^t) − cα²/2;  w = α(1−α)/(1 − cα(1−α)).
    """

    name: ClassVar[LossName] = "logistic"
    trusted_factor: ClassVar[float] = 1.0
    max_coupling: ClassVar[float] = 4.0
    piecewise_quadratic: ClassVar[bool] = False

    def value(self, scores: Array, targets: Array) -> Array:
        """log(1 + e^(−yz)), without overflow."""
        values: Array = np.logaddexp(0.0, -targets * scores)
        return values

    def slope(self, scores: Array, targets: Array) -> Array:
        """−yσ(−yz)."""
        return -targets * expit(-targets * scores)

    def bend(self, scores: Array, targets: Array) -> Array:
        """σ(z)σ(−z)."""
        half = expit(scores)
        return half * (1.0 - half)

    def conjugate(self, alpha: Array, targets: Array) -> Array:
        """Return the negative entropy of α."""
        entropy: Array = np.asarray(xlogy(alpha, alpha) + xlog1py(1.0 - alpha, -alpha), dtype=np.float64)
        return entropy

    def signs(self, targets: Array) -> Array | float:
        """Return the label."""
        return targets

    def dual(self, scores: Array, targets: Array, lambda_alpha: float, c: float) -> tuple[Array, Array, Array | float]:
        """Solve the scalar fixed point of every row by Newton's method."""
        start = scores * -targets
        if lambda_alpha > 0:
            start -= lambda_alpha
        logit = start
        if c != 0:
            logit = _fixed_point(start, c) if c > -2.0 else _fixed_point_below(start, -c)
        tail = np.exp(-np.abs(logit))
        smaller = tail / (1.0 + tail)  # σ(−|t|), which keeps its digits in both tails
        alpha = np.where(logit > 0, 1.0 - smaller, smaller)
        phi = np.log1p(tail)
        phi += np.maximum(logit, 0.0)
        weight = smaller * (1.0 - smaller)
        if c != 0:
            phi -= (0.5 * c) * alpha * alpha
            weight /= 1.0 - c * weight
        return alpha, phi, weight

    def predict_mean(self, scores: Array) -> Array:
        """Probability of the class +1."""
        return expit(scores)


def _fixed_point(start: Array, c: float) -> Array:
    """Solve t = start + cσ(t), −2 < c < 4: the map's slope is below 1, so the root is unique; Newton is vectorised."""
    logit = start + c * expit(start + 0.5 * c)
    floor = 4e-16 * (1.0 + abs(c))
    for _ in range(50):
        alpha = expit(logit)
        gap = logit - start
        gap -= c * alpha
        step = alpha * (1.0 - alpha)
        step *= -c
        step += 1.0
        np.divide(gap, step, out=step)
        logit -= step
        # near c = 4 the root is almost double and Newton only linear, hence the generous limit above
        worst = float(np.max(np.abs(step), initial=0.0))
        if worst * worst <= floor or worst <= floor * max(1.0, float(np.max(np.abs(start), initial=0.0))):
            break
    return logit


def _fixed_point_below(start: Array, q: float) -> Array:
    """Solve t = start − qσ(t), q > 0: always one root, in [start − q, start]; Newton, halving where it does not settle."""
    low, high = start - q, start.copy()
    logit = start - q * expit(start - 0.5 * q)
    before = np.full_like(start, np.inf)
    floor = 4e-16 * (1.0 + q + float(np.max(np.abs(start), initial=0.0)))
    for _ in range(200):
        alpha = expit(logit)
        gap = logit - start
        gap += q * alpha
        np.copyto(low, logit, where=gap < 0)
        np.copyto(high, logit, where=gap > 0)
        step = -gap / (1.0 + q * alpha * (1.0 - alpha))
        following = logit + step
        # a Newton step between the flat and the steep part of σ may cycle: steps must shrink and stay in the bracket
        lost = (np.abs(step) > np.maximum(0.5 * before, floor)) | (following < low) | (following > high)
        np.copyto(following, 0.5 * (low + high), where=lost)
        before = np.abs(following - logit)
        logit = following
        if float(np.max(before, initial=0.0)) <= floor:
            break
    return logit


_LOSSES: dict[LossName, Loss] = {"squared": SquaredLoss(), "logistic": LogisticLoss()}


def get_loss(name: LossName) -> Loss:
    """Return the loss of that name."""
    return _LOSSES[name]
