"""A site in a masked federation: the agent's half of secure summation. It trusts nobody on the way, the coordinator least.

What the coordinator gets in a round is the answer plus a *self-mask* plus one *pair mask* for every other participant
(added by one of the two, subtracted by the other). Pair masks cancel in the sum; self-masks are opened afterwards, by
shares, for those sites whose answer arrived. For a site that fell silent the pair masks are opened instead, never both,
so an answer that arrives late stays hidden for good.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import Any

from comt import wire
from comt.agent.agent import Agent
from comt.agent.epoch import MAX_WINDOW, Epoch
from comt.agent.notes import Note
from comt.agent.recursion import believe
from comt.errors import ComtError, EquivocationError, GateError, InputError, ProtocolError, RangeError
from comt.masking import receipts
from comt.masking.fixed_point import Words, layout_of
from comt.masking.identity import Directory, Identity
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
    read_query,
    round_context,
    survivors_statement,
)
from comt.optimize.algorithm1 import NEEDED
from comt.queries import ProximalStep, Query


@dataclass
class _Round:
    """The one round a site is in."""

    ask: Ask
    query: Query
    note: Note
    reply: Masked
    survivors: tuple[str, ...] | None = None
    revealed: Revealed | None = None


class Site:
    """Answers the messages of secure summation for one agent.

    Parameters
    ----------
    agent:
        Whose sums leave, under masks.
    identity:
        The key with which this site signs.
    directory:
        How it knows other sites' signatures; its own, not the coordinator's.
    """

    def __init__(self, agent: Agent, identity: Identity, directory: Directory) -> None:
        if agent.name != identity.name:
            raise InputError(f"agent {agent.name} has the key of {identity.name}; give it the key of its own name.")
        self.name = agent.name
        self.agent = agent
        self._identity, self._directory = identity, directory
        self._epoch: Epoch | None = None
        self._round: _Round | None = None
        self._next_epoch: dict[str, int] = {}
        self._next_round: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the feature columns, in order."""
        return self.agent.columns

    def check_columns(self, columns: tuple[str, ...]) -> None:
        """Refuse to join a federation whose columns are not this agent's."""
        self.agent.check_columns(columns)

    def handle(self, message: bytes) -> bytes:
        """Answer one message; whatever is wrong becomes a refusal in words that tell nothing about rows."""
        with self._lock:
            try:
                reply: Any = self._dispatch(wire.unpack(message, MESSAGES), message)
            except RangeError as error:
                self.agent.gate.refused()  # it tells that a number is large
                reply = Refused("range", str(error), error.array)
            except GateError as error:
                reply = Refused("gate", str(error))
            except EquivocationError as error:
                number = self._round.ask.round if self._round is not None else 0
                self.agent.ledger.refuse(self.name, number, "secure summation", str(error))
                reply = Refused("equivocation", str(error))
            except ComtError as error:
                reply = Refused("input" if isinstance(error, InputError) else "protocol", str(error))
            except Exception as error:  # a traceback can carry data
                reply = Refused("protocol", f"site {self.name} failed with {type(error).__name__}; ask its owner.")
            return wire.pack(reply)

    def _dispatch(self, message: Any, packed: bytes) -> Any:
        if isinstance(message, Ask):
            return self._answer(message, packed)
        handlers: dict[type, Any] = {
            Begin: self._begin,
            Roster: self._deal,
            Deliver: self._receive,
            Agree: self._agree,
            Unmask: self._unmask,
        }
        handler = handlers.get(type(message))
        if handler is None:
            raise ProtocolError(
                f"site {self.name} is not asked with a {type(message).__name__}; update the coordinator."
            )
        return handler(message)

    def _stale(self, what: str) -> ProtocolError:
        return ProtocolError(f"site {self.name} was asked for {what}, which is over or not due; start a new training.")

    def _current(self) -> Epoch:
        if self._epoch is None:
            raise ProtocolError(f"site {self.name} has no keys for this training; begin with a key exchange.")
        return self._epoch

    # Once per epoch: keys and shares.

    def _begin(self, begin: Begin) -> Advert:
        if begin.epoch < self._next_epoch.get(begin.training, 0):
            raise self._stale(f"epoch {begin.epoch}")
        if not 1 <= begin.window <= MAX_WINDOW or begin.first_round < self._next_round.get(begin.training, 0):
            raise self._stale(f"a window of {begin.window} rounds from {begin.first_round}")
        self._next_epoch[begin.training] = begin.epoch + 1
        self._epoch, self._round = Epoch(begin, self._identity, self.agent.gate.policy.terms()), None
        return self._epoch.advert

    def _deal(self, roster: Roster) -> Dealt:
        epoch = self._current()
        if epoch.roster is not None:
            raise self._stale("a second roster")
        epoch.check_roster(roster, self._directory)
        self.agent.gate.check_participants(roster.sites, [advert.terms for advert in roster.adverts])
        return epoch.deal(roster)

    def _receive(self, deliver: Deliver) -> Ready:
        epoch = self._current()
        if epoch.roster is None or epoch.ready:
            raise self._stale("shares")
        epoch.receive(deliver.sealed)
        return Ready()

    # Every round: an answer under masks, then shares of the masks.

    def _answer(self, ask: Ask, packed: bytes) -> Masked:
        epoch = self._current()
        if self._round is not None and self._round.ask == ask:
            return self._round.reply  # the same message again, to the same question: nothing new leaves
        self._check_round(ask, epoch)
        sites = ask.participants
        self.agent.gate.check_participants(sites, epoch.terms(sites))
        query = read_query(ask.query)
        layout = layout_of(query.shapes(), ask.scales, len(sites))
        self._next_round[ask.training] = ask.round + 1
        if isinstance(query, ProximalStep):
            self._believe(query, ask)
        answer, weight = self.agent.weighed_answer(
            query, ask.round, masked=True, training=ask.training, sharers=epoch.threshold
        )
        context = round_context(epoch.digest, packed)
        words = layout.encode(answer.arrays)
        epoch.mask(words, epoch.place(ask.round), sites, context)
        receipt = None
        if isinstance(query, ProximalStep):
            receipt = receipts.write(answer.arrays, NEEDED, epoch.receipt_key(context), layout)
            epoch.mask_receipt(receipt, epoch.place(ask.round), sites, context)
        note = Note(context, weight, receipt)
        packed_note = note.pack()
        notes = {site: epoch.seal(site, ask.round + 1, packed_note) for site in sites if site != self.name}
        self._round = _Round(ask, query, note, Masked(words, notes))
        if self.agent.ledger.path is not None:
            self.agent.ledger.note(
                "sent",
                training=ask.training,
                round=ask.round,
                participants=len(sites),
                broadcast=context.hex(),
                message=hashlib.sha256(words.tobytes()).hexdigest(),
            )
        return self._round.reply

    def _believe(self, query: ProximalStep, ask: Ask) -> None:
        try:
            believe(query, self.agent.store, self.name, len(ask.participants))
        except GateError as refusal:
            self.agent.gate.refused()
            self.agent.ledger.refuse(self.name, ask.round, query.purpose, str(refusal))
            raise

    def _check_round(self, ask: Ask, epoch: Epoch) -> None:
        begin, sites = epoch.begin, ask.participants
        if (ask.training, ask.epoch) != (begin.training, begin.epoch) or not epoch.ready:
            raise self._stale(f"round {ask.round} of another training")
        if ask.round < self._next_round.get(ask.training, 0) or not 0 <= epoch.place(ask.round) < begin.window:
            raise self._stale(f"round {ask.round}")
        if list(sites) != sorted(set(sites)) or not {self.name} <= set(sites) <= set(epoch.shares):
            raise ProtocolError(
                f"site {self.name} was told of participants {list(sites)}, who have not all dealt shares."
            )
        if len(sites) < epoch.threshold:
            raise ProtocolError(
                f"{len(sites)} participants are left where {epoch.threshold} are needed to unmask; begin a new epoch."
            )

    def _in_round(self, number: int, survivors: tuple[str, ...]) -> tuple[Epoch, _Round]:
        """Check that this is the round, and that no other list of survivors was agreed to in it."""
        epoch, current = self._current(), self._round
        if current is None or current.ask.round != number:
            raise self._stale(f"unmasking round {number}")
        if list(survivors) != sorted(set(survivors)) or not {self.name} <= set(survivors) <= set(
            current.ask.participants
        ):
            raise ProtocolError(
                f"site {self.name} was sent survivors {list(survivors)}, who are not a part of the round."
            )
        if len(survivors) < epoch.threshold:
            raise ProtocolError(
                f"{len(survivors)} survivors are too few where {epoch.threshold} are needed; the round stays masked."
            )
        if current.survivors not in (None, survivors):
            raise EquivocationError(
                f"site {self.name} was sent two lists of survivors for round {number} by the coordinator; the first counts."
            )
        return epoch, current

    def _agree(self, agree: Agree) -> Signed:
        epoch, current = self._in_round(agree.round, agree.survivors)
        self.agent.gate.check_participants(agree.survivors, epoch.terms(current.ask.participants))
        current.survivors = agree.survivors
        return Signed(self._identity.sign(survivors_statement(current.note.context, agree.survivors)))

    def _unmask(self, unmask: Unmask) -> Revealed:
        epoch, current = self._in_round(unmask.round, unmask.survivors)
        if current.revealed is not None:
            return current.revealed
        notes = [current.note]
        for site in unmask.survivors:
            if site != self.name:
                opened = epoch.open(site, unmask.round + 1, unmask.notes.get(site, b""))
                notes.append(current.note.read(opened, site, self.name, unmask.round))
        terms = epoch.terms(current.ask.participants)
        self.agent.gate.check_participants(unmask.survivors, terms)
        try:
            self.agent.gate.check_totals(current.query, [note.weight for note in notes], terms)
        except GateError as refusal:
            self.agent.gate.refused()
            self.agent.ledger.refuse(self.name, unmask.round, current.query.purpose, str(refusal))
            raise
        if unmask.survivors != current.ask.participants:
            self._check_votes(unmask, current, epoch)
        silent = tuple(site for site in current.ask.participants if site not in unmask.survivors)
        if isinstance(current.query, ProximalStep) and not silent:
            self._keep_receipt(current.query, current, [note.receipt for note in notes if note.receipt is not None])
        current.survivors = unmask.survivors
        self.agent.gate.summed(unmask.survivors)
        current.revealed = epoch.reveal(epoch.place(unmask.round), unmask.survivors, silent)
        return current.revealed

    def _keep_receipt(self, query: ProximalStep, current: _Round, parts: list[Words]) -> None:
        """Remember the receipt of a step's sum: the next step must follow from that sum."""
        ask, key = current.ask, self._current().receipt_key(current.note.context)
        layout = layout_of(query.shapes(), ask.scales, len(ask.participants))
        self.agent.store["receipt"] = receipts.total(parts, NEEDED, layout, query.training, query.round, key)

    def _check_votes(self, unmask: Unmask, current: _Round, epoch: Epoch) -> None:
        assert epoch.roster is not None
        credentials = {advert.site: advert.credential for advert in epoch.roster.adverts}
        statement = survivors_statement(current.note.context, unmask.survivors)
        if not set(unmask.signatures) <= set(unmask.survivors) or len(unmask.signatures) < epoch.threshold:
            raise ProtocolError(
                f"a list of survivors came with fewer than {epoch.threshold} signatures of survivors; the round stays masked."
            )
        for site, signature in unmask.signatures.items():
            self._directory.check(site, credentials[site], statement, signature)
