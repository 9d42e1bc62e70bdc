"""From shared secrets to masks: X25519, HKDF, ChaCha20, and nothing of our own beyond how they are put together.

Seeds never leave in pairs that open an answer: one secret per pair of sites and *epoch* (a few dozen rounds) gives one
seed per round. What a death makes public is that round's seed of the dead site, never a key from which the seeds of
another round follow: with the long-lived key, a coordinator who had seen the self-masks of earlier rounds opened (as
it does in every round) could go back and open the answers themselves.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from comt.errors import ProtocolError
from comt.masking.fixed_point import Words

SEED = 32


def derive(seed: bytes, *purpose: bytes) -> bytes:
    """Return a key for one purpose from a seed that is already uniform (HKDF-Expand, of which this is the first block)."""
    return hmac.digest(seed, _joined(purpose) + b"\1", "sha256")


def _joined(parts: tuple[bytes, ...]) -> bytes:
    return b"".join(len(part).to_bytes(4, "little") + part for part in (b"comt masking 1", *parts))


def stream(key: bytes, length: int) -> bytes:
    """Return ``length`` bytes of ChaCha20 under a key that is used once."""
    return Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor().update(_zeros(length))


_zeros = lru_cache(maxsize=4)(bytes)


def masks(keys: Iterable[tuple[bytes, int]], length: int) -> Iterator[tuple[Words, int]]:
    """Yield a mask for every key, with its sign: uniform words that repeat under no other key.

    All come in the same memory, one after the other: fresh memory for each would take as long as the cipher.
    """
    words = np.empty((2, length), dtype="<u8")
    content, zeros = words.reshape(-1).view(np.uint8).data, _zeros(16 * length)
    for key, sign in keys:
        Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor().update_into(zeros, content)
        yield words, sign


def commitment(seed: bytes) -> bytes:
    """Return what lets a recovered seed be recognised, and says nothing about it before."""
    return hashlib.sha256(_joined((b"commitment", seed))).digest()


@dataclass(frozen=True)
class Pair:
    """What two sites share during an epoch, from the side of one of them."""

    rounds: NDArray[np.uint8]  # (window, SEED): one seed per round
    sealing: ChaCha20Poly1305  # to the other
    opening: ChaCha20Poly1305  # from the other


def agree(private: X25519PrivateKey, public: bytes, roster: bytes, mine: str, theirs: str, window: int) -> Pair:
    """Return what the two sites share; it is bound to the roster, so sites shown different rosters share nothing."""
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise ProtocolError(f"the key of site {theirs} is not a key; have it start again.") from None
    first, second = sorted((mine, theirs))
    names = _joined((first.encode(), second.encode()))
    root = HKDF(SHA256(), SEED, salt=roster, info=_joined((b"pair", names))).derive(shared)
    rounds = np.frombuffer(stream(derive(root, b"rounds"), window * SEED), dtype=np.uint8).reshape(window, SEED).copy()
    return Pair(
        rounds,
        ChaCha20Poly1305(derive(root, b"from", mine.encode())),
        ChaCha20Poly1305(derive(root, b"from", theirs.encode())),
    )


def threshold(n_sites: int) -> int:
    """Return how many sites must agree before anything is unmasked: more than two thirds.

    Two lists of survivors cannot both get that many votes while fewer than 2t − n sites side with the coordinator.
    """
    return 2 * n_sites // 3 + 1
