"""A data holder's end of the wire: it opens its own data, answers questions, and tells the coordinator nothing else.

Whatever goes wrong here is told outside as one word (policy, data, protocol, late, failure). Messages of errors can
hold values of rows; they go to the site's own log.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from comt import __version__, messages, wire
from comt.agent.agent import Agent
from comt.agent.gaps import table_of
from comt.agent.ledger import Ledger
from comt.agent.private import append_private, private_folder
from comt.agent.site import Site
from comt.agent.site_config import SiteConfig
from comt.agent.store import DiskStore
from comt.agent.tables import TableRows
from comt.declaration import Declaration, Declare
from comt.errors import GateError, InputError, ProtocolError
from comt.masking.identity import Directory, Identity
from comt.messages import Agreed, Begin, Envelope, Finish, Join, Joined, Reply, Sealed, SealedReply
from comt.schema import Schema

LEDGER = "ledger.jsonl"
LOG = "site.log"
_TRAINING = re.compile(r"[0-9a-f]{8,64}")


class SiteService:
    """Answers the messages of one coordinator from the data that the site's own file names.

    Parameters
    ----------
    name:
        How the federation calls the site.
    config:
        Returns the site's settings; read again for every training, so that a change needs no restart.
    keys:
        Returns the site's own key and how it knows other sites, for sums under masks; None: it has no such key.
    """

    def __init__(
        self,
        name: str,
        config: Callable[[], SiteConfig],
        keys: Callable[[], tuple[Identity, Directory]] | None = None,
    ) -> None:
        self.name = name
        self._load, self._keys = config, keys
        self._masked: Site | None = None
        self._lock = threading.Lock()
        self._config: SiteConfig | None = None
        self._agent: Agent | None = None
        self._training = ""
        self._task: messages.Task = "regression"

    def handle(self, data: object) -> bytes:
        """Answer one message. Never raises: what is told outside is a reply or one word."""
        reply: Any
        message: Any
        try:
            message = messages.parse(data, Join, Begin, Agreed, Envelope, Sealed, Finish)
        except ProtocolError as error:
            self._note(f"refused a message: {error}")
            return wire.pack(Reply(training="", round=0, site=self.name, refusal="protocol"))
        until = time.monotonic() + max(0.0, min(message.seconds, threading.TIMEOUT_MAX))
        # engines call from several threads, also while an earlier call still runs
        if not self._lock.acquire(timeout=max(0.0, until - time.monotonic())):
            return wire.pack(self._refused(message, "late"))
        try:
            if not _TRAINING.fullmatch(message.training):
                raise ProtocolError("the training has no proper name.")
            reply = self._answer(message)
        except Exception as error:
            self._note(f"could not answer {_told(message)}: {type(error).__name__}: {error}", error)
            reply = self._refused(message, _word(error))
        finally:
            self._lock.release()
        return wire.pack(reply)

    def _refused(self, message: Any, word: str) -> Joined | Reply | SealedReply:
        if isinstance(message, Sealed):
            return SealedReply(training=message.training, site=self.name, message=b"", refusal=word)
        if isinstance(message, Envelope):
            return Reply(training=message.training, round=message.round, site=self.name, refusal=word)
        return Joined(site=self.name, version=__version__, refusal=word)

    def _answer(self, message: Any) -> Joined | Reply | SealedReply:
        if isinstance(message, Join):
            return self._join(message)
        if self._agent is None or message.training != self._training:
            raise ProtocolError(f"training {message.training} has not been joined; join first.")
        if isinstance(message, Begin):
            return self._begin(message, self._agent)
        if isinstance(message, Agreed):
            return self._agreed(message, self._agent)
        if isinstance(message, Finish):
            return self._finish(message, self._agent)
        if isinstance(message, Sealed):
            return self._sealed(message, self._agent)
        return self._reply(message, self._agent)

    def _join(self, message: Join) -> Joined:
        """Open the data afresh; say which columns and labels they have."""
        self._config = config = self._load()
        private_folder(config.results)
        self._agent, self._masked = self._open(config), None
        self._agent.ledger.note("training", training=message.training, task=message.task)
        self._training, self._task = message.training, message.task
        rows = table_of(self._agent)
        numeric = all(isinstance(label, float) for label in rows.labels)
        if message.task == "regression" and not numeric:
            raise InputError(f"the target '{config.target}' holds no numbers, as a regression needs.")
        if message.task == "classification" and len(rows.labels) > 2:
            raise InputError(f"the target '{config.target}' holds more than the two labels of a classification.")
        labels = tuple(sorted(rows.labels)) if message.task == "classification" else ()
        declaration = self._agent.declare(Declare(min_count=message.min_count), 0)
        self._note(f"joined training {message.training} ({message.task})")
        policy = self._agent.gate.policy
        return Joined(
            site=self.name,
            version=__version__,
            declaration=_without_counts(declaration),
            target=config.target,
            labels=labels,
            by_agent=policy.by_agent and policy.min_rows <= 1,
            noise=policy.noise,
        )

    def _open(self, config: SiteConfig) -> Agent:
        rows = open_rows(config)
        folder = private_folder(config.results)
        agent = Agent(self.name, rows, config.gate_policy(), Ledger(folder / LEDGER))
        agent.store = DiskStore(folder)
        return agent

    def _begin(self, message: Begin, agent: Agent) -> Joined:
        rows = table_of(agent)
        if message.classes:
            if len(message.classes) != 2 or not rows.labels <= set(message.classes):
                raise InputError("the federation's labels are not those of this site's file.")
            rows.use_classes((message.classes[0], message.classes[1]))
        return Joined(site=self.name, version=__version__)

    def _agreed(self, message: Agreed, agent: Agent) -> Joined:
        """Read the table as agreed; the columns must be those of this site's file."""
        try:
            schema = Schema.from_json(json.loads(message.schema))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ProtocolError(f"the federation's schema cannot be read ({error}).") from None
        unknown = set(schema.names) - set(table_of(agent).scans)
        if unknown and not table_of(agent).sparse:
            raise InputError(f"the federation's columns {sorted(unknown)} are not in this site's file.")
        agent.use_schema(schema)
        return Joined(site=self.name, version=__version__)

    def _reply(self, message: Envelope, agent: Agent) -> Reply:
        answer, _ = agent.weighed_answer(
            message.query, message.round, individual=message.individual, training=message.training
        )
        return Reply(training=message.training, round=message.round, site=self.name, arrays=answer.arrays)

    def _sealed(self, message: Sealed, agent: Agent) -> SealedReply:
        """Pass a message of secure summation on to the part that knows masks."""
        if self._keys is None:
            raise ProtocolError("this site has no key for sums under masks.")
        if self._masked is None:
            self._masked = Site(agent, *self._keys())
        own = message.messages.get(self.name) or message.messages.get(Sealed.EVERYBODY)
        if own is None:
            raise ProtocolError("a message came that is for other sites.")
        return SealedReply(training=message.training, site=self.name, message=self._masked.handle(own))

    def _finish(self, message: Finish, agent: Agent) -> Joined:
        """Write the model and, for the owner's eyes only, what looks wrong in its rows."""
        from comt.agent.site_results import REPORT, write_results

        assert self._config is not None
        folder = private_folder(self._config.results / message.training)
        flagged = write_results(
            folder,
            agent,
            self._config,
            training=message.training,
            model=message.model,
            residual_size=message.residual_size,
        )
        self._note(f"training {message.training} is done: {flagged} rows look wrong, see {folder / REPORT}")
        epsilon = 0.0 if agent.accountant is None else agent.accountant.epsilon()
        return Joined(site=self.name, version=__version__, noise=agent.noise, epsilon=epsilon)

    def _note(self, text: str, error: Exception | None = None) -> None:
        """Write to the site's own log; the engine's log gets the fact, not the words."""
        logging.getLogger(__name__).info("see the site's own log")
        if self._config is None:
            try:
                self._config = self._load()
                private_folder(self._config.results)
            except Exception:
                return
        import traceback

        trace = "" if error is None else "".join(traceback.format_exception(error))
        append_private(self._config.results / LOG, f"{_now()} {text}\n{trace}".rstrip().encode() + b"\n")


def open_rows(config: SiteConfig) -> TableRows:
    """Open the site's file; the features are all columns that have no other use."""
    return TableRows(
        config.data,
        target=config.target,
        trusted=config.trusted,
        drop=config.drop,
        categorical=config.categorical,
    )


def _without_counts(declaration: Declaration) -> Declaration:
    """Leave out how many rows stand behind what is told: that is for the ledger."""
    return replace(declaration, columns=tuple(replace(column, fewest_rows=0) for column in declaration.columns))


def _word(error: Exception) -> str:
    for kind, word in ((GateError, "policy"), (InputError, "data"), (ProtocolError, "protocol")):
        if isinstance(error, kind):
            return word
    return "failure"


def _told(message: Any) -> str:
    return f"'{message.query.purpose}'" if isinstance(message, Envelope) else type(message).__name__.lower()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
