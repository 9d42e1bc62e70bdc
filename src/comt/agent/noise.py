"""Differential privacy, optional: rows are clipped, sums get Gaussian noise, and an accountant adds up what was spent.

How large the noise is follows from what is public (:mod:`comt.noise`). Under masks every site adds its part of it; the
parts of as many sites as are needed to unmask make up the whole.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable

import numpy as np
from scipy.special import ndtri

from comt.errors import GateError, MissingExtraError
from comt.masking.fixed_point import SYMMETRIC
from comt.noise import Noise, spreads
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import Answer, Query


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
        """Prepare a block of features and shorten long rows; the constant of the intercept is the same in all of them."""
        prepared = np.array(super().features(raw), order="F")
        own = prepared[:, : len(self.center)]
        norms = np.sqrt(np.einsum("ij,ij->i", own, own))
        own *= np.minimum(1.0, self.noise.clip_rows / np.maximum(norms, 1e-300))[:, None]
        return prepared

    def targets(self, raw: Array) -> Array:
        """Prepare a block of targets and cut off large ones."""
        return np.clip(super().targets(raw), -self.noise.clip_targets, self.noise.clip_targets)


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
