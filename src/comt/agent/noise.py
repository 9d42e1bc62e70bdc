"""Differential privacy, optional: rows are clipped, sums get Gaussian noise, and an accountant adds up what was spent.

One row more or less moves a sum by at most its *sensitivity*, which follows from the clipping bounds and from what is
broadcast, both public. A question with m arrays over the same rows, for B models, gets noise of standard deviation

    multiplier · sensitivity · √(m·B)

on each number: together one Gaussian mechanism with that multiplier. Buggy and trusted rows are different rows, so the two
groups of arrays share nothing. Under masks every site adds its part of the noise; the parts of as many sites as are needed to
unmask make up the whole.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatch
from math import log, sqrt

import numpy as np
from scipy.special import ndtri

from comt.errors import GateError, MissingExtraError
from comt.masking.fixed_point import SYMMETRIC
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import Answer, DualSums, Histogram, Query


@dataclass(frozen=True)
class Noise:
    """How much noise, for rows of which size, up to which ε. All sites of a federation should have the same."""

    #: standard deviation of the noise, in sensitivities
    multiplier: float
    #: largest norm of a prepared row; longer ones are shortened
    clip_rows: float
    #: largest prepared target of a regression; larger ones are cut off
    clip_targets: float
    #: probability with which the bound ε may fail
    delta: float = 1e-6
    #: nothing more is answered beyond this ε
    max_epsilon: float = 10.0


class ClippedPreparation(Preparation):
    """A preparation after which no row is longer, and no target larger, than agreed."""

    @classmethod
    def of(cls, preparation: Preparation, noise: Noise) -> ClippedPreparation:
        """Return the preparation with bounds."""
        clipped = cls(**{name: getattr(preparation, name) for name in Preparation.__dataclass_fields__})
        object.__setattr__(clipped, "noise", noise)  # the class is frozen; the bounds are no part of what travels
        return clipped

    noise: Noise

    @property
    def trivial(self) -> bool:
        """Say that features do not pass unchanged."""
        return False

    def features(self, raw: Array) -> Array:
        """Prepare a block of features and shorten long rows."""
        prepared = np.array(super().features(raw), order="F")
        norms = np.sqrt(np.einsum("ij,ij->i", prepared, prepared))
        prepared *= np.minimum(1.0, self.noise.clip_rows / np.maximum(norms, 1e-300))[:, None]
        return prepared

    def targets(self, raw: Array) -> Array:
        """Prepare a block of targets and cut off large ones."""
        return np.clip(super().targets(raw), -self.noise.clip_targets, self.noise.clip_targets)


@singledispatch
def sensitivities(query: Query, noise: Noise) -> dict[str, Array | float]:
    """Return how far one row can move each array (its 2-norm), per model of the batch."""
    raise GateError(
        f"'{query.purpose}' has no bound on what one row can do, so no noise can cover it; train with solver='newton', "
        "without selection, or without noise."
    )


@sensitivities.register(Histogram)
def _histogram(query: Histogram, noise: Noise) -> dict[str, Array | float]:
    """One bin per column."""
    return {"counts": sqrt(query.n_columns)}


@sensitivities.register(DualSums)
def _dual_sums(query: DualSums, noise: Noise) -> dict[str, Array | float]:
    if np.isfinite(query.lambda_z).any():
        raise GateError("changed features (lambda_z) have no bound that noise could cover; train with lambda_z=inf.")
    size, width = noise.clip_rows, query.r.shape[0]
    score, trusted_score = (size * np.linalg.norm(model, axis=1) for model in (query.r, query.theta))
    if query.loss_name == "squared":
        error, trusted_error = noise.clip_targets + score, noise.clip_targets + trusted_score
        alpha, phi, bend = error, error**2 / 2.0, 1.0
        value, slope, trusted_bend = trusted_error**2, 2.0 * trusted_error, 2.0
    else:
        alpha, phi, bend = np.ones(width), log(2.0) + score, 0.25
        value, slope, trusted_bend = log(2.0) + trusted_score, np.ones(width), 0.25
    found: dict[str, Array | float] = {
        "phi": phi,
        "alpha_x": alpha * size,
        "alpha_sq": alpha**2,
        "active": 1.0,
        "rows": 1.0,
        "size_sq": size**2,
        "weight_xx": bend * size**2,
        "weight_alpha_x": bend * alpha * size,
        "weight_alpha_sq": bend * alpha**2,
        "trusted_value": value,
        "trusted_slope": slope * size,
        "trusted_bend": trusted_bend * size**2,
        "trusted_rows": 1.0,
        "trusted_size_sq": max(trusted_bend, 1.0) * size**2,  # weighted like the trusted loss
    }
    return {name: found[name] for name in query.shapes()}


def spreads(query: Query, noise: Noise, sharers: int) -> dict[str, Array]:
    """Return the standard deviation of one site's part of the noise on every array; ``sharers`` sites make up the whole."""
    bounds, names = sensitivities(query, noise), list(query.shapes())
    batch = len(query.r) if isinstance(query, DualSums) else 1
    sizes = Counter(name.startswith("trusted") for name in names)
    return {
        name: noise.multiplier * np.asarray(bounds[name]) * sqrt(sizes[name.startswith("trusted")] * batch / sharers)
        for name in names
    }


def add_noise(query: Query, answer: Answer, noise: Noise, sharers: int) -> Answer:
    """Return the answer with this site's part of the noise; ``sharers`` sites make up the whole."""
    noisy: dict[str, Array] = {}
    for name, spread in spreads(query, noise, sharers).items():
        array = answer.arrays[name]
        normal = _normal(array.shape)
        if name in SYMMETRIC and array.ndim == 3:  # one half is drawn, the other mirrors it
            normal = np.triu(normal) + np.triu(normal, 1).transpose(0, 2, 1)
        noisy[name] = array + (spread * normal.T).T if spread.ndim else array + spread * normal
    return Answer(noisy, answer.rows)


def _normal(shape: tuple[int, ...]) -> Array:
    """Draw normal numbers from ChaCha20: a guessable generator would be noise that can be taken off again."""
    from comt.masking.seeds import stream  # brings the cryptography along, which trainings in one process do not need

    count = int(np.prod(shape))
    words = np.frombuffer(stream(secrets.token_bytes(32), 8 * count), dtype="<u8")
    uniform = ((words >> np.uint64(11)) + 0.5) * 2.0**-53
    return np.asarray(ndtri(uniform)).reshape(shape)


class Accountant:
    """Adds up what was spent, by the Rényi accountant of ``dp-accounting``."""

    def __init__(self, noise: Noise, spent: Iterable[float] = ()) -> None:
        try:
            import dp_accounting
            from dp_accounting.rdp import RdpAccountant
        except ImportError:
            raise MissingExtraError("noise needs the package dp-accounting to add up ε; install comt[dp].") from None
        self._event = dp_accounting.GaussianDpEvent
        self._kind, self._noise = RdpAccountant, noise
        #: noisy answers by their multiplier; those before a restart may have had another one
        self._spent = Counter(spent)

    @property
    def rounds(self) -> int:
        """Noisy answers so far."""
        return self._spent.total()

    def epsilon(self, more: int = 0) -> float:
        """Return ε after the noisy answers so far, and so many more, at the agreed δ."""
        answers = self._spent + Counter({self._noise.multiplier: more})
        if not answers:
            return 0.0
        accountant = self._kind()
        for multiplier, count in answers.items():
            accountant.compose(self._event(multiplier), count)
        return float(accountant.get_epsilon(self._noise.delta))

    def spend(self, agent: str) -> float:
        """Enter one more noisy answer and return ε; refuse what would exceed the budget."""
        after = self.epsilon(1)
        if after > self._noise.max_epsilon:
            raise GateError(
                f"agent {agent} has spent its privacy budget of ε = {self._noise.max_epsilon:g} at δ = "
                f"{self._noise.delta:g} after {self.rounds} noisy answers; ask the owner for more, or train with more noise."
            )
        self._spent[self._noise.multiplier] += 1
        return after


def multiplier_for(epsilon: float, delta: float, rounds: int) -> float:
    """Return the noise multiplier with which so many rounds stay within (ε, δ)."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    found: float = dp_accounting.calibrate_dp_mechanism(
        RdpAccountant,
        lambda m: dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(m), rounds),
        epsilon,
        delta,
    )
    return found
