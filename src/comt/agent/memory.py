"""What was summed before: two sums for one model are no or many rows apart, and few sums are close at models that differ.

*For one model* two sums of one form can be subtracted, and what is left is a sum over the rows in which they differ: fewer
than ``min_rows`` is refused, in this training or an earlier one.

*For different models* a difference shows those rows only approximately, the better the nearer the models. Iterated trimming
and active sets ask such questions honestly, so they are counted rather than refused: a sum is *close* if its rows differ
from those of an earlier sum of the same form by a few, and a training may ask for ``max_close`` of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from comt.agent.coverage import Cover
from comt.agent.record import Record
from comt.errors import GateError

#: a packed set of rows; None: all
Packed = bytes | None


@dataclass(frozen=True)
class Distances:
    """In how many rows the covers of a question differ from others."""

    #: for the same model, in this training; at all sites in the same order
    now: tuple[int, ...] = ()
    #: for the same model, in earlier trainings: who took part then may differ, so they concern each site by itself
    before: tuple[int, ...] = ()
    #: for other models, in this training; at all sites in the same order
    near: tuple[int, ...] = ()
    #: how many rows blur each cover, so that its set of rows does not show
    soft: tuple[int, ...] = ()
    #: how many of ``near`` belong to each cover
    groups: tuple[int, ...] = ()


@dataclass
class _Form:
    """The covers of one form in one training."""

    parts: list[tuple[bytes, bytes]] = field(default_factory=list)  # model, rows
    whole: set[bytes] = field(default_factory=set)  # models for which all rows were summed


class Memory:
    """All covers of a table of rows, also those before the agent was started last."""

    #: more is not remembered, and then nothing more is answered
    LIMIT = 200_000

    def __init__(self, record: Record) -> None:
        self._record = record
        self._same: dict[bytes, list[tuple[str, Packed]]] = {}
        self._forms: dict[bytes, _Form] = {}
        self._count = 0
        self._pending: list[tuple[object, ...]] = []
        for event in record.events:
            if event[0] == "cover":
                self._enter(*event[1:])

    def weigh(self, covers: Sequence[Cover], n_rows: int, n_trusted: int, training: str) -> Distances:
        """Return how far covers are from those before, and remember them: on disk only when their answer is to leave."""
        self._pending = []
        now: list[int] = []
        before: list[int] = []
        near: list[int] = []
        groups: list[int] = []
        for cover in covers:
            total = n_trusted if cover.trusted else n_rows
            packed = None if cover.rows is None else np.packbits(cover.rows).tobytes()
            # another number of rows: another table, in which rows have other places
            form = _digest(cover.form.encode(), total.to_bytes(8, "little"))
            model = _digest(cover.model)
            for when, other in self._same.get(form + model, ()):
                (now if when == training else before).append(_apart(packed, other, total))
            others = self._near(form + training.encode(), model, packed)
            near += [_apart(packed, other, total) for other in others]
            groups.append(len(others))
            self._pending.append(("cover", form, model, training, packed))
            self._enter(form, model, training, packed)
        if self._count > self.LIMIT or len(near) > self.LIMIT:
            raise GateError(
                "more sums over parts of the rows were asked for than can be compared; ask the owner to look at the ledger."
            )
        soft = tuple(cover.soft or 0 for cover in covers)
        return Distances(tuple(now), tuple(before), tuple(near), soft, tuple(groups))

    def keep(self) -> None:
        """Put what was weighed last on disk: its answer leaves."""
        for event in self._pending:
            self._record.add(*event)
        self._pending = []

    def _near(self, key: bytes, model: bytes, packed: Packed) -> list[Packed]:
        """Return the earlier covers for other models; which ones depends on the questions only, not on any rows."""
        form = self._forms.get(key, _Form())
        found: list[Packed] = [rows for other, rows in form.parts if other != model]
        if packed is not None and form.whole - {model}:
            found.append(None)
        return found

    def _enter(self, form: bytes, model: bytes, training: str, packed: Packed) -> None:
        # repeats are kept: whether two covers coincide differs from site to site
        self._same.setdefault(form + model, []).append((training, packed))
        near = self._forms.setdefault(form + training.encode(), _Form())
        if packed is None:
            near.whole.add(model)
        else:
            near.parts.append((model, packed))
        self._count += 1


def _digest(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def _apart(first: Packed, second: Packed, total: int) -> int:
    if first is None and second is None:
        return 0
    everything = np.packbits(np.ones(total, dtype=bool))
    one, two = (everything if part is None else np.frombuffer(part, dtype=np.uint8) for part in (first, second))
    return int(np.bitwise_count(one ^ two).sum())
