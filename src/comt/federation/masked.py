"""The coordinator's half of secure summation: it brings masked answers together and learns their sum, nothing else.

Solvers use it like any other federation. A round is two exchanges (answers, then shares of the masks); a site that falls
silent on the way costs one more, in which the survivors sign who they are. Every few dozen rounds keys are renewed (three
exchanges). Sums are of integers: bit-equal in any order of the sites.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comt import wire
from comt.errors import ComtError, DropoutError, EquivocationError, GateError, InputError, ProtocolError
from comt.federation.channel import Channel
from comt.federation.transcript import Transcript
from comt.masking import seeds, shamir
from comt.masking.fixed_point import COARSER, SCALES, Words, accumulate, layout_of
from comt.masking.messages import (
    MESSAGES,
    Advert,
    Agree,
    Ask,
    Begin,
    Dealt,
    Deliver,
    Masked,
    Ready,
    Refused,
    Revealed,
    Roster,
    Signed,
    Unmask,
    round_context,
)
from comt.queries import Query, Totals

#: rounds between two key exchanges
WINDOW = 64
#: how often a sum is asked for again with a coarser scale
_MAX_SCALES = 40
_ERRORS: dict[str, type[ComtError]] = {
    "gate": GateError,
    "protocol": ProtocolError,
    "equivocation": EquivocationError,
    "input": InputError,
}


class MaskedFederation:
    """A federation whose coordinator sees sums over sites only.

    Parameters
    ----------
    channel:
        How messages travel.
    training:
        A name that was never used before; by default a random one.
    window:
        Rounds between two key exchanges.
    transcript:
        Records what the coordinator sees: masked words and sums.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        training: str | None = None,
        window: int = WINDOW,
        transcript: Transcript | None = None,
    ) -> None:
        self._channel = channel
        self.training = training or secrets.token_hex(16)
        self._window = window
        self._transcript = transcript
        self._alive = tuple(sorted(channel.sites))
        self._epoch: _Epoch | None = None
        self._epochs = 0
        self._rounds = 0
        self._scales: dict[tuple[str, str], int] = {}
        #: sites that fell silent, in the order in which they did
        self.dropped: list[str] = []
        #: messages sent to all sites so far, key exchanges included
        self.exchanges = 0

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the sites that still take part."""
        return self._alive

    @property
    def rounds(self) -> int:
        """Sums asked for so far."""
        return self._rounds

    def declare(self) -> tuple[str, ...]:
        """Agree on the columns before anything else, and return them."""
        return self._channel.declare()

    def each(self, query: Query) -> dict[str, Totals]:
        """Refuse: under masks there is no answer of one site."""
        raise GateError(f"'{query.purpose}' of single sites cannot be seen under masks; ask for the sum.")

    def sum(self, query: Query) -> Totals:
        """Ask all sites and return the sum of their answers."""
        packed = wire.pack(query)
        for _ in range(_MAX_SCALES):
            epoch = self._current_epoch()
            found = self._round(epoch, query, packed)
            if found is not None:
                return found
        raise ProtocolError(f"'{query.purpose}' holds numbers beyond any scale; have the sites check their rows.")

    # One round.

    def _round(self, epoch: _Epoch, query: Query, packed: bytes) -> Totals | None:
        """Return the sum, or None if it has to be asked for again with another scale."""
        kind, shapes = type(query).__name__, query.shapes()
        scales = {name: self._scales[kind, name] for name in shapes if (kind, name) in self._scales}
        layout = layout_of(shapes, scales, len(self._alive))
        ask = Ask(self.training, epoch.number, self._rounds, self._alive, scales, packed)
        self._rounds += 1
        replies = self._ask(dict.fromkeys(self._alive, ask), Masked, allow_range=True)
        too_large = {reply.array for reply in replies.values() if isinstance(reply, Refused)}
        if too_large:
            for name in too_large:
                self._scales[kind, name] = layout.scales[name] - COARSER
                if self._scales[kind, name] < SCALES[0]:
                    raise ProtocolError(f"'{name}' holds numbers beyond any scale; have the sites check their rows.")
            return None
        for site, reply in replies.items():
            if reply.words.shape != (2, layout.length):
                raise ProtocolError(
                    f"site {site} answered {reply.words.shape} words where (2, {layout.length}) is due."
                )
        survivors = tuple(replies)
        seeds_found = self._unmask(epoch, ask, survivors, replies)
        total = np.zeros((2, layout.length), dtype=np.uint64)
        accumulate(total, ((reply.words, 1) for reply in replies.values()))
        context = round_context(epoch.digest, wire.pack(ask))
        self._remove_masks(total, context, survivors, seeds_found)
        totals = layout.decode(total)
        if self._transcript is not None:
            words = {site: reply.words for site, reply in replies.items()}
            self._transcript.record(
                query, totals, training=self.training, round_number=ask.round, context=context, words=words
            )
        return totals

    def _unmask(
        self, epoch: _Epoch, ask: Ask, survivors: tuple[str, ...], replies: Mapping[str, Masked]
    ) -> dict[tuple[str, str], bytes]:
        """Return the seeds of the masks that do not cancel: (site, site) its own, (silent, survivor) a pair's."""
        epoch.need(survivors, f"round {ask.round}")
        signatures: dict[str, bytes] = {}
        if survivors != ask.participants:
            signed = self._ask(dict.fromkeys(survivors, Agree(ask.round, survivors)), Signed)
            signatures = {site: reply.signature for site, reply in signed.items()}
            epoch.need(tuple(signatures), f"round {ask.round}")
        messages = {
            site: Unmask(ask.round, survivors, _notes_to(site, replies), signatures)
            for site in survivors
            if site in self._alive
        }
        revealed = self._ask(messages, Revealed)
        epoch.need(tuple(revealed), f"round {ask.round}")
        silent = tuple(site for site in ask.participants if site not in survivors)
        return epoch.recover(ask.round, survivors, silent, revealed)

    @staticmethod
    def _remove_masks(
        total: Words, context: bytes, survivors: tuple[str, ...], found: Mapping[tuple[str, str], bytes]
    ) -> None:
        keys = [(seeds.derive(found[site, site], b"self", context), -1) for site in survivors]
        for (silent, site), seed in found.items():
            if silent != site:  # the survivor had added the mask if its name comes first
                keys.append((seeds.derive(seed, b"pair", context), -1 if site < silent else 1))
        accumulate(total, seeds.masks(keys, total.shape[1]))

    # Every few dozen rounds: keys.

    def _current_epoch(self) -> _Epoch:
        epoch = self._epoch
        if epoch is None or self._rounds >= epoch.end or len(self._alive) < epoch.threshold:
            epoch = self._epoch = self._key_exchange()
        return epoch

    def _key_exchange(self) -> _Epoch:
        begin = Begin(self.training, self._epochs, self._rounds, self._window)
        self._epochs += 1
        adverts = self._ask(dict.fromkeys(self._alive, begin), Advert)
        roster = Roster(tuple(adverts[site] for site in sorted(adverts)))
        epoch = _Epoch(begin, roster)
        dealt = self._ask(dict.fromkeys(roster.sites, roster), Dealt)
        epoch.need(tuple(dealt), "the key exchange")
        shape = (len(roster.sites), begin.window, seeds.SEED)
        for site, reply in dealt.items():
            if reply.commitments.shape != shape or set(reply.sealed) != set(roster.sites) - {site}:
                raise ProtocolError(f"site {site} dealt shares of the wrong size; have it update its software.")
            epoch.commitments[site] = reply.commitments
        parcels = {
            site: Deliver({dealer: reply.sealed[site] for dealer, reply in dealt.items() if dealer != site})
            for site in dealt
        }
        ready = self._ask(parcels, Ready)
        epoch.need(tuple(ready), "the key exchange")
        return epoch

    def _ask(self, messages: Mapping[str, Any], expected: type, *, allow_range: bool = False) -> dict[str, Any]:
        """Send messages and return the replies by site, in order; who is silent is dropped, who refuses ends the sum."""
        self.exchanges += 1
        packed: dict[int, bytes] = {}
        for message in messages.values():  # a broadcast is packed once
            packed.setdefault(id(message), wire.pack(message))
        answered = self._channel.ask({site: packed[id(message)] for site, message in messages.items()})
        silent = sorted(set(messages) - set(answered))
        self.dropped += silent
        self._alive = tuple(site for site in self._alive if site not in silent)
        replies: dict[str, Any] = {}
        for site in sorted(answered):
            try:
                reply = wire.unpack(answered[site], MESSAGES)
            except ProtocolError as error:
                raise ProtocolError(f"site {site} sent what cannot be read: {error}") from None
            if isinstance(reply, Refused) and not (allow_range and reply.kind == "range"):
                raise _ERRORS.get(reply.kind, ProtocolError)(reply.reason)
            if not isinstance(reply, (expected, Refused)):
                raise ProtocolError(f"site {site} sent a {type(reply).__name__} where a {expected.__name__} is due.")
            if isinstance(reply, Advert) and reply.site != site:
                raise ProtocolError(f"site {site} sent the key of {reply.site}; have it check its name.")
            replies[site] = reply
        return replies


class _Epoch:
    """What the coordinator knows of an epoch: who takes part, and commitments to their seeds."""

    def __init__(self, begin: Begin, roster: Roster) -> None:
        self.number, self.first, self.end = begin.epoch, begin.first_round, begin.first_round + begin.window
        self.sites, self.digest = roster.sites, roster.digest()
        self.threshold = seeds.threshold(len(self.sites))
        self.commitments: dict[str, NDArray[np.uint8]] = {}

    def need(self, present: tuple[str, ...], when: str) -> None:
        """Stop before a sum that could not be unmasked."""
        if len(present) < self.threshold:
            silent = sorted(set(self.sites) - set(present))
            raise DropoutError(
                f"{len(present)} of {len(self.sites)} sites were left in {when} where {self.threshold} are needed (silent: "
                f"{', '.join(silent)}); train again with the sites that are present."
            )

    def recover(
        self, round_number: int, survivors: tuple[str, ...], silent: tuple[str, ...], revealed: Mapping[str, Revealed]
    ) -> dict[tuple[str, str], bytes]:
        """Put shares together, and recognise every seed by its commitment: a wrong share never makes a wrong sum."""
        wanted = [(site, site) for site in survivors] + [(gone, site) for gone in silent for site in survivors]
        number = {site: index for index, site in enumerate(self.sites)}
        shares: dict[int, NDArray[np.uint8]] = {}
        for holder in sorted(revealed)[: self.threshold]:
            shares[number[holder] + 1] = _shares_of(holder, revealed[holder], survivors, silent)
        table = shamir.recover(shares)
        place = round_number - self.first
        found: dict[tuple[str, str], bytes] = {}
        for (dealer, site), row in zip(wanted, table, strict=True):
            seed = row.tobytes()
            if seeds.commitment(seed) != self.commitments[dealer][number[site], place].tobytes():
                raise ProtocolError(
                    f"the shares of site {dealer} do not fit what it committed to, so it or a holder sent wrong ones; nothing "
                    f"was summed in round {round_number}: train again without the site at fault."
                )
            found[dealer, site] = seed
        return found


def _notes_to(site: str, replies: Mapping[str, Masked]) -> dict[str, bytes]:
    return {peer: reply.notes.get(site, b"") for peer, reply in replies.items() if peer != site}


def _shares_of(
    holder: str, revealed: Revealed, survivors: tuple[str, ...], silent: tuple[str, ...]
) -> NDArray[np.uint8]:
    wanted = (len(survivors), seeds.SEED)
    if revealed.own.shape != wanted or revealed.pairs.shape != (len(silent), *wanted):
        raise ProtocolError(f"site {holder} revealed other shares than those asked for; have it update its software.")
    return np.concatenate([revealed.own, revealed.pairs.reshape(-1, seeds.SEED)])
