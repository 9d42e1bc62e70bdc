"""A federation of sites that are somewhere else: who takes part, what is asked of whom until when, and what is refused.

Sums are over the sites of one attempt, all of them or none. A site that stays silent, fails, or answers anything but what
was asked leaves the training: :class:`comt.errors.SiteLeftError` ends the attempt, and the training starts again with
the others. So no total ever mixes sums of different sets of sites. A question that owners' policies refuse raises
:class:`comt.errors.RefusedError`: whoever asked may do without the answer, or the sites leave.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from comt import messages, wire
from comt.declaration import MIN_COUNT
from comt.errors import ComtError, FederationError, ProtocolError, RefusedError
from comt.federation import reasons
from comt.federation.joined import two_labels
from comt.federation.journal import Journal
from comt.federation.masked import MaskedFederation
from comt.federation.membership import Membership
from comt.federation.transcript import Transcript
from comt.federation.transport import Transport
from comt.masking.messages import MESSAGES as MASKING
from comt.masking.messages import Refused
from comt.queries import ProximalStep, Query, Totals
from comt.schema import Schema


class RemoteFederation(Membership):
    """Sites behind a transport, summed in the order of their names, so that the bits are those of a local federation.

    Parameters
    ----------
    transport:
        Carries the messages.
    training:
        Names the training; sites keep it in their ledgers, and it binds questions and answers together.
    task:
        "regression" or "classification".
    seconds:
        How long a site may take for an answer.
    join_seconds:
        How long it may take to open its data.
    journal:
        Where totals are kept before they are used.
    columns:
        The columns of all tables, in order; None: those of the first site that joins.
    min_count:
        A level of a category may be named from so many rows on.
    transcript:
        A file for everything that the coordinator sees from the start of an attempt on; by default nothing is kept.
    masked:
        Whether sums are formed under masks, so that no site's own answer can be seen here. None: from three sites on.
    """

    def __init__(
        self,
        transport: Transport,
        training: str,
        task: messages.Task,
        *,
        seconds: float = 60.0,
        join_seconds: float = 300.0,
        journal: Journal | None = None,
        columns: tuple[str, ...] | None = None,
        min_count: int = MIN_COUNT,
        masked: bool | None = None,
        transcript: Path | None = None,
    ) -> None:
        super().__init__(
            transport, training, task, join_seconds=join_seconds, columns=columns, min_count=min_count, masked=masked
        )
        self._transcript_path, self.transcript = transcript, None if transcript is None else Transcript()
        self._masks: MaskedFederation | None = None
        self._seconds = seconds
        self._journal = journal or Journal(None)
        self._schema: Schema | None = None
        self._refused: dict[str, str] = {}
        self._rounds = self._position = 0
        self._admm: dict[str, str] = {}
        self.classes: tuple[Any, ...] = ()
        self.replayed = 0
        self.on_round: Callable[[str, float], None] | None = None

    @property
    def rounds(self) -> int:
        """Exchanges so far, replayed ones included."""
        return self._rounds

    def begin(self) -> None:
        """Start an attempt with the sites present: agree on labels, and be ready for sums over their tables."""
        if not self._present:
            told = "; ".join(f"site {site} {reason}" for site, reason in sorted(self.left.items()))
            raise FederationError(f"no site takes part ({told or 'none is connected'}); start the sites, then train.")
        assert self._columns is not None
        self.classes = two_labels(self._said()) if self._task == "classification" else ()
        known = self._journal.attempt
        if known is None or known.sites != self._present:
            self._journal.begin(self._present, self.left, self._rounds)
        else:
            self._rounds = known.start
        self._position, self._admm, self._schema = 0, {}, None
        message = messages.Begin(
            training=self.training,
            classes=self.classes,
            participants=self._present,
            seconds=self._join_seconds,
        )
        self._inform(message)
        if self._transcript_path is not None:
            self._transcript_path.unlink(missing_ok=True)  # of an attempt that ended
            self.transcript = Transcript(self._transcript_path)
        self._masks = None
        if self.masked:
            # a name of its own: sites answer no round of a training twice
            name = f"{self.training}-{secrets.token_hex(4)}"
            self._masks = MaskedFederation(_Channel(self), training=name, transcript=self.transcript)

    def use_schema(self, schema: Schema) -> None:
        """Tell the sites how columns become features; from here on sums are about these."""
        text = json.dumps(schema.to_json(), ensure_ascii=False)
        self._inform(messages.Agreed(training=self.training, schema=text, seconds=self._join_seconds))
        self._schema = schema

    # the three verbs

    def declare(self) -> tuple[str, ...]:
        """Return the features on which the sites have agreed."""
        if self._schema is None:
            raise ProtocolError("the sites have not agreed on how columns become features; call use_schema first.")
        return self._schema.features

    def sum(self, query: Query) -> Totals:
        """Ask all sites and return the sum of their answers, or take it from the journal."""
        query = self._named(query)
        started = time.monotonic()
        self._rounds += 1
        self._position += 1
        known = self._journal.replayed(self._position - 1, query)
        if known is None:
            totals = self._ask_sum(query)
        elif known.refused:
            raise RefusedError(known.refused)
        else:
            totals = known.totals
            self.replayed += 1
        if self.on_round is not None:
            self.on_round(query.purpose, time.monotonic() - started)
        return totals

    def _ask_sum(self, query: Query) -> Totals:
        """Ask, and keep what came of it before it is used."""
        try:
            totals = self._plain_sum(query) if self._masks is None else self._masked_sum(query, self._masks)
        except RefusedError as refusal:
            self._journal.record(query, {}, refusal.reasons)
            raise
        self._journal.record(query, totals)
        return totals

    def _plain_sum(self, query: Query) -> Totals:
        answers = self._ask(query, individual=False)
        first, *others = self._present
        totals = {name: array.copy() for name, array in answers[first].items()}
        for site in others:
            for name, array in answers[site].items():
                totals[name] += array
        if self.transcript is not None:
            self.transcript.record(query, totals, training=self.training, round_number=self._rounds, answers=answers)
        return totals

    def _masked_sum(self, query: Query, masks: MaskedFederation) -> Totals:
        """Sum under masks. A sum over the survivors of a round is thrown away: it would mix two sets of sites."""
        self._refused = {}
        try:
            totals = masks.sum(query)
        except ComtError:
            self._drop({site: reason for site, reason in self.left.items() if site in self._present})
            self._check_refused(query, self._refused)
            raise
        self._drop({site: reason for site, reason in self.left.items() if site in self._present})
        return totals

    def each(self, query: Query) -> dict[str, Totals]:
        """Return every site's own answer; sites refuse unless their owner allows it."""
        self._rounds += 1
        if self._masks is not None:
            return self._masks.each(query)
        return dict(self._ask(self._named(query), individual=True))

    def _named(self, query: Query) -> Query:
        """Give Algorithm 1 a name that is the same after a resume: sites keep their state under it."""
        query = messages.exact(query)
        if not isinstance(query, ProximalStep):
            return query
        sites = len(self.left)
        name = self._admm.setdefault(query.training, f"{self.training}-{sites}-{len(self._admm)}")
        return replace(query, training=name)

    def _ask(self, query: Query, *, individual: bool) -> dict[str, Totals]:
        envelope = messages.Envelope(
            training=self.training,
            round=self._rounds,
            purpose=query.purpose,
            participants=self._present,
            query=query,
            individual=individual,
            seconds=self._seconds,
        )
        replies = self._exchange(self._present, envelope, messages.Reply)
        wrong = self._missing(replies)
        refused = {site: reply.refusal for site, reply in replies.items() if reply.refusal == reasons.POLICY}
        for site, reply in replies.items():
            reason = reasons.refusal(reply.refusal) or reasons.wrong(query, reply, site, envelope)
            if reason and site not in refused:
                wrong[site] = reason
        self._drop(wrong)
        self._check_refused(query, refused)
        return {site: replies[site].arrays for site in self._present}

    @staticmethod
    def _check_refused(query: Query, sites: Mapping[str, str]) -> None:
        if sites:
            raise RefusedError(dict.fromkeys(sorted(sites), reasons.refused_question(query)))

    # sending and receiving

    def exchange_sealed(self, sealed: Mapping[str, bytes]) -> dict[str, bytes]:
        """Carry messages of secure summation; sites that are silent are missing from what comes back."""
        contents = set(sealed.values())
        sent = {messages.Sealed.EVERYBODY: contents.pop()} if len(contents) == 1 else dict(sealed)
        message = messages.Sealed(training=self.training, messages=sent, seconds=self._seconds)
        found: dict[str, bytes] = {}
        for site, reply in self._exchange(sorted(sealed), message, messages.SealedReply).items():
            if reply.refusal or reply.site != site or reply.training != self.training:
                self.left[site] = reasons.refusal(reply.refusal) or "answered for somebody else"
                continue
            found[site] = reply.message
            inner = wire.unpack(reply.message, MASKING)
            if isinstance(inner, Refused) and inner.kind == reasons.POLICY_UNDER_MASKS:
                self._refused[site] = inner.kind
            elif isinstance(inner, Refused) and inner.kind != "range":
                self.left[site] = reasons.refusal({"input": "data"}.get(inner.kind, inner.kind))
        return found


class _Channel:
    """What secure summation needs of a federation: every site gets its own message; who refuses is remembered."""

    def __init__(self, federation: RemoteFederation) -> None:
        self._federation = federation
        self.sites = federation.agents

    def declare(self) -> tuple[str, ...]:
        return self._federation.declare()

    def ask(self, sealed: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return self._federation.exchange_sealed(sealed)
