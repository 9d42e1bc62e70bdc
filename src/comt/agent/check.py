"""Checking a ledger against what the coordinator says it received."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Received(Protocol):
    """A round of the coordinator's transcript, as far as a ledger can be compared with it."""

    @property
    def training(self) -> str:
        """Which training."""

    @property
    def round(self) -> int:
        """Which round."""

    @property
    def context(self) -> bytes:
        """Digest of what was asked."""

    @property
    def words(self) -> Mapping[str, NDArray[np.uint64]]:
        """Masked answers by site."""


def disagreements(lines: Iterable[Mapping[str, Any]], rounds: Iterable[Received], site: str) -> list[str]:
    """Return, in words, every round in which the ledger and the transcript differ; none: they agree."""
    sent = {(line["training"], line["round"]): line for line in lines if line["event"] == "sent"}
    found: list[str] = []
    for seen in rounds:
        words = seen.words.get(site)
        if words is None:
            continue
        line = sent.get((seen.training, seen.round))
        if line is None:
            found.append(f"round {seen.round}: the coordinator claims an answer that is not in the ledger.")
        elif line["broadcast"] != seen.context.hex():
            found.append(f"round {seen.round}: the coordinator claims to have asked something else.")
        elif line["message"] != hashlib.sha256(words.tobytes()).hexdigest():
            found.append(f"round {seen.round}: the coordinator claims another answer than the one sent.")
    return found
