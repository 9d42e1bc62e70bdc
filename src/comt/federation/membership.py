"""Who takes part in a training across sites: joining, leaving, and what every site has said about itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from comt import messages
from comt.declaration import Declaration, Declare
from comt.errors import SiteLeftError
from comt.federation import reasons
from comt.federation.joined import admitted, in_order
from comt.federation.transport import Kind, Line, Traffic, Transport
from comt.masking.seeds import threshold
from comt.noise import NoiseInSums, agreed

#: with fewer sites masks hide nothing: each of two can subtract its own part
MASKED_FROM = 3


class Membership:
    """The sites of a training and the line to them; a site that leaves is remembered with its reason."""

    def __init__(
        self,
        transport: Transport,
        training: str,
        task: messages.Task,
        *,
        join_seconds: float,
        columns: tuple[str, ...] | None,
        min_count: int,
        masked: bool | None,
    ) -> None:
        self._line, self.training, self._task = Line(transport), training, task
        self._join_seconds, self._want_masks = join_seconds, masked
        self._columns, self.min_count = columns, min_count
        self._present: tuple[str, ...] = ()
        self._joined: dict[str, messages.Joined] = {}
        self.left: dict[str, str] = {}
        #: the most that noisy answers have cost any site, as they said at the end
        self.epsilon = 0.0

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the sites that take part, in the order of summation."""
        return self._present

    @property
    def traffic(self) -> Traffic:
        """How much has travelled so far."""
        return self._line.traffic

    def gather(self, sites: Sequence[str] | None = None) -> None:
        """Ask the sites to join; those that cannot, or that have other columns, stay out, and ``left`` says why."""
        asked = tuple(sorted(self._line.sites if sites is None else sites))
        for site in set(asked) - set(self._line.sites):
            self.left[site] = "is not connected"
        message = messages.Join(
            training=self.training, task=self._task, min_count=self.min_count, seconds=self._join_seconds
        )
        answers = self._exchange([site for site in asked if site not in self.left], message, messages.Joined)
        self._joined, unfit = admitted(answers, self._columns)
        self.left.update(unfit)
        self._present = tuple(self._joined)
        if self._present and self._columns is None:
            self._columns = self._joined[self._present[0]].columns

    @property
    def by_agent(self) -> bool:
        """Whether all sites present answer questions whose sum shows each of them by itself."""
        return all(answer.by_agent for answer in self._said())

    @property
    def noise(self) -> NoiseInSums | None:
        """The noise in sums of the sites present; under masks those that are needed to unmask make up the whole of it."""
        sites = len(self._present)
        copies = sites / threshold(sites) if self.masked else float(sites)
        return agreed([answer.noise for answer in self._said()], copies)

    @property
    def masked(self) -> bool:
        """Whether sums of the sites present are formed under masks."""
        return len(self._present) >= MASKED_FROM if self._want_masks is None else self._want_masks

    def declarations(self, question: Declare) -> list[Declaration]:
        """Return what the sites present said about their tables when they joined, columns in the federation's order."""
        del question  # it was asked with the invitation to join
        assert self._columns is not None
        return in_order(self._said(), self._columns)

    @property
    def target(self) -> str:
        """What the first site calls the column that is predicted."""
        return self._said()[0].target

    def _said(self) -> list[messages.Joined]:
        """Return what the sites present said when they joined."""
        return [self._joined[site] for site in self._present]

    def _inform(self, message: messages.Begin | messages.Agreed) -> None:
        """Tell every site something that it has to accept."""
        replies = self._exchange(self._present, message, messages.Joined)
        self._drop({s: reasons.refusal(a.refusal) for s, a in replies.items() if a.refusal} | self._missing(replies))

    def tell(self, message: messages.Finish) -> dict[str, str]:
        """Tell the sites how it ended; return those that did not take note, and why. They stay in the model."""
        before = dict(self.left)
        replies = self._exchange(self._present, message, messages.Joined)
        missing = self._missing(replies) | {s: reasons.refusal(a.refusal) for s, a in replies.items() if a.refusal}
        self.left = before
        self.epsilon = max((answer.epsilon for answer in replies.values()), default=0.0)
        return missing

    def leave(self, reasons: Mapping[str, str]) -> None:
        """Take sites out for good; the next attempt goes on without them."""
        self.left.update(reasons)
        self._present = tuple(site for site in self._present if site not in reasons)

    # sending and receiving

    def _exchange(self, sites: Sequence[str], message: Any, expected: type[Kind]) -> dict[str, Kind]:
        """Send to some sites and read what comes back; a site without a readable reply is entered in ``left``."""
        read, silent = self._line.ask(sites, message, expected)
        self.left.update(silent)
        return read

    def _missing(self, replies: Mapping[str, Any]) -> dict[str, str]:
        return {site: self.left[site] for site in self._present if site not in replies}

    def _drop(self, reasons: dict[str, str]) -> None:
        if reasons:
            self.leave(reasons)
            raise SiteLeftError(reasons)
