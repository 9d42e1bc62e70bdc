"""What sites tell each other about a round, sealed from the coordinator: what was asked, of how many rows, and a receipt."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from comt.agent.gate import Weight
from comt.errors import EquivocationError, ProtocolError
from comt.masking.fixed_point import Words

#: counts of rows are told to other sites up to this number only
COUNT_CAP = 65_535
_CONTEXT = 32


@dataclass(frozen=True)
class Note:
    """One site's note about one round."""

    context: bytes
    weight: Weight
    receipt: Words | None  # of a step of Algorithm 1, under pair masks

    def pack(self) -> bytes:
        """Return it as bytes."""
        counts = [min(count, COUNT_CAP) for kind in self.weight.counts() for count in kind]
        receipt = b"" if self.receipt is None else self.receipt.tobytes()
        return self.context + struct.pack(f"<{len(counts)}H", *counts) + receipt

    def read(self, content: bytes, sender: str, receiver: str, round_number: int) -> Note:
        """Return another site's note about the same round; this is the receiver's own, which says what it must look like."""
        if content[:_CONTEXT] != self.context:
            raise EquivocationError(
                f"the coordinator asked site {sender} something else than site {receiver} in round {round_number}; "
                "the round stays masked."
            )
        lengths = [2 * len(kind) for kind in self.weight.counts()]
        end = _CONTEXT + sum(lengths)
        if len(content) != end + (0 if self.receipt is None else self.receipt.nbytes):
            raise ProtocolError(
                f"sites {sender} and {receiver} count rows differently; bring both to the same version."
            )
        counts = content[_CONTEXT:end]
        parts = [counts[stop - length : stop] for length, stop in zip(lengths, accumulate(lengths), strict=True)]
        weight = self.weight.like(struct.unpack(f"<{len(part) // 2}H", part) for part in parts)
        receipt = None
        if self.receipt is not None:
            receipt = np.frombuffer(content[end:], dtype=np.uint64).reshape(self.receipt.shape)
        return Note(self.context, weight, receipt)
