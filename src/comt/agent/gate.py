"""The gate: the one place an answer passes on its way out. It is the data holder's, and it fails closed.

Under masks the coordinator sees only sums over all sites. What concerns one answer's rows is therefore checked on the
sum over sites, just before a site helps to unmask it (:meth:`Gate.check_totals`): the sites tell each other, sealed from
the coordinator, how many rows their answers sum. Without masks the same checks apply to the site's own answer.

What is said to the outside names no number of rows; the owner finds them in the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from comt.agent import broadcast
from comt.agent.memory import Distances
from comt.agent.policy import Policy
from comt.agent.record import Record
from comt.declaration import Declare
from comt.errors import GateError
from comt.masking.messages import Terms
from comt.queries import Answer, Query


@dataclass(frozen=True)
class Weight:
    """How many rows the sums of an answer rest on, and in how many rows those differ that could be subtracted."""

    buggy: tuple[int, ...]
    trusted: tuple[int, ...]
    apart: Distances = field(default_factory=Distances)
    training: str = ""

    @classmethod
    def of_arrays(cls, rows: Mapping[str, int]) -> Weight:
        """Return the weight of an answer whose sums always cover all rows: the counts of its arrays."""
        return cls(
            tuple(count for name, count in rows.items() if not name.startswith("trusted")),
            tuple(count for name, count in rows.items() if name.startswith("trusted")),
        )

    def counts(self) -> tuple[tuple[int, ...], ...]:
        """Return the counts that are added up over sites, by kind."""
        return self.buggy, self.trusted, self.apart.now, self.apart.near, self.apart.soft

    def like(self, counts: Iterable[tuple[int, ...]]) -> Weight:
        """Return the weight of another site's answer to the same question."""
        buggy, trusted, now, near, soft = counts
        return Weight(buggy, trusted, Distances(now, (), near, soft, self.apart.groups), self.training)


class Gate:
    """Applies a policy to every answer and remembers, in its record, what it must not answer again."""

    def __init__(self, agent: str, policy: Policy, record: Record | None = None) -> None:
        self._agent, self.policy = agent, policy
        self._record = record or Record()
        kinds = Counter(event[0] for event in self._record.events)
        self._rounds, self._refusals = kinds["round"], kinds["refusal"]
        self._summed = {frozenset(event[1]) for event in self._record.events if event[0] == "summed"}
        #: sums that are close to earlier ones, by training
        self._close = Counter(event[1] for event in self._record.events if event[0] == "close")

    def admit(self, query: Query, *, individual: bool = False, masked: bool = False) -> None:
        """Refuse a question that is not to be answered at all, before any row is looked at."""
        policy = self.policy
        if individual and not policy.individual:
            raise GateError(
                f"agent {self._agent} shows its answers only as part of a sum; ask for the sum, or have the data "
                "holder set individual=True."
            )
        if policy.masked and not masked:
            raise GateError(
                f"agent {self._agent} answers only under masks; train over a masked federation of three sites or more."
            )
        if broadcast.shows_agents(query) and not policy.by_agent:
            raise GateError(
                f"agent {self._agent} refuses '{query.purpose}', whose sum shows every agent by itself; ask about all agents "
                "together, or have the owner set by_agent."
            )
        self._check_purpose(query.purpose)
        if policy.max_refusals is not None and self._refusals >= policy.max_refusals:
            raise GateError(
                f"agent {self._agent} has refused {self._refusals} questions and answers no more; ask its owner to look."
            )
        if policy.max_rounds is not None and self._rounds >= policy.max_rounds:
            raise GateError(
                f"agent {self._agent} has answered the {policy.max_rounds:,} rounds its owner allows; ask the owner for more."
            )
        broadcast.check(query, self._agent, policy.max_magnitude)
        self._rounds += 1
        if policy.max_rounds is not None:
            self._record.add("round")

    def refused(self) -> None:
        """Count a refusal: who may ask again and again learns from what is refused."""
        self._refusals += 1
        self._record.add("refusal")

    def check_participants(self, participants: Sequence[str], terms: Iterable[Terms]) -> None:
        """Refuse a sum over strangers or too few sites, and sums over sets of sites that differ by a few: subtracted, they
        show those few.
        """
        policy, count = self.policy, len(participants)
        if policy.peers is not None and not set(participants) <= policy.peers | {self._agent}:
            strangers = sorted(set(participants) - policy.peers - {self._agent})
            raise GateError(
                f"agent {self._agent} does not sum with {strangers}, whom its owner has not named as peers."
            )
        all_terms = list(terms)
        least = max(term.min_participants for term in all_terms)
        if count < least:
            reason = ", because each of two can subtract its own part and read the other's" if count == 2 else ""
            raise GateError(
                f"agent {self._agent} takes part in sums of {least} sites or more, here are {count}{reason}; "
                "invite more sites, or have the owner set min_participants."
            )
        if not all(term.allow_leavers for term in all_terms):
            apart = [len(set(participants) ^ earlier) for earlier in self._summed]
            if any(0 < difference < least for difference in apart):
                raise GateError(
                    f"agent {self._agent} has taken part in a sum over sites of which fewer than {least} have left or joined "
                    "since, and their own part would show; wait for them, or have the owners set allow_leavers."
                )

    def summed(self, participants: Sequence[str]) -> None:
        """Remember over which sites a sum was opened."""
        if frozenset(participants) not in self._summed:
            self._summed.add(frozenset(participants))
            self._record.add("summed", tuple(participants))

    def check(self, query: Query, answer: Answer, weight: Weight | None = None, *, masked: bool = False) -> None:
        """Refuse an answer that is too large, uncounted or, unless it goes out under masks, rests on too few rows."""
        unaccounted = set(answer.arrays) - set(answer.rows)
        if unaccounted:
            raise GateError(f"agent {self._agent} has no row count for {sorted(unaccounted)} and keeps it inside.")
        size = sum(array.nbytes for array in answer.arrays.values())
        if size > self.policy.max_bytes:
            raise GateError(
                f"agent {self._agent} would send {size:,} bytes for '{query.purpose}', its limit is "
                f"{self.policy.max_bytes:,}; use solver='newton-cg', which sends vectors only."
            )
        weight = weight or Weight.of_arrays(answer.rows)
        if any(0 < count < self.policy.min_rows for count in weight.apart.before):
            raise self._too_close(query, self.policy.min_rows)
        if not masked:
            self.check_totals(query, [weight])

    def check_totals(self, query: Query, weights: Sequence[Weight], terms: Iterable[Terms] = ()) -> None:
        """Apply the minimums, the strictest of all sites, to what the coordinator is about to see: their sum."""
        buggy, trusted, differences, near, soft = (
            [sum(counts) for counts in zip(*kind, strict=True)]
            for kind in zip(*(weight.counts() for weight in weights), strict=True)
        )
        all_terms = [self.policy.terms(), *terms]
        least = max(term.min_rows for term in all_terms)
        least_trusted = max(least, *(term.least_trusted(broadcast.width(query)) for term in all_terms))
        if any(0 < count < least for count in buggy) or any(0 < count < least_trusted for count in trusted):
            raise GateError(
                f"agent {self._agent} refuses '{query.purpose}': it would sum fewer rows than its owner asks for ({least}, "
                f"and {least_trusted} trusted ones); ask about more rows."
            )
        if any(0 < count < least for count in differences):
            raise self._too_close(query, least)
        self._count_close(query, weights[0], near, soft, all_terms)

    def _count_close(
        self, query: Query, own: Weight, near: Sequence[int], soft: Sequence[int], terms: Sequence[Terms]
    ) -> None:
        """Count sums a few rows away from an earlier one for another model, and refuse more than the strictest site allows."""
        least = max(term.min_rows for term in terms)
        limits = [term.max_close for term in terms if term.max_close != Terms.ANY]
        ends = accumulate(own.apart.groups)
        groups = (near[end - size : end] for end, size in zip(ends, own.apart.groups, strict=True))
        found = sum(
            blur < least and any(0 < count < least for count in group) for group, blur in zip(groups, soft, strict=True)
        )
        for _ in range(found if limits else 0):
            self._close[own.training] += 1
            self._record.add("close", own.training)
        if limits and self._close[own.training] > min(limits):
            raise GateError(
                f"agent {self._agent} refuses '{query.purpose}': this training has asked for more than {min(limits)} sums "
                f"that differ from earlier ones by fewer than {least} rows; train without trimming or selection, or have the "
                "owner set max_close."
            )

    def _too_close(self, query: Query, least: int) -> GateError:
        return GateError(
            f"agent {self._agent} refuses '{query.purpose}': two sums for the same model would differ by fewer than "
            f"{least} rows, which a subtraction would show; choose thresholds or folds further apart."
        )

    @property
    def min_rows(self) -> int:
        """A sum over fewer rows stays inside, and so does a level that fewer rows have."""
        return self.policy.min_rows

    def check_declaration(self, question: Declare, size: int) -> None:
        """Raise unless the policy lets a declaration of so many bytes out; rare levels are not in it."""
        self._check_purpose(question.purpose)
        if size > self.policy.max_bytes:
            raise GateError(
                f"agent {self._agent} would send {size:,} bytes for '{question.purpose}', its limit is "
                f"{self.policy.max_bytes:,}; leave columns of many levels out."
            )

    def _check_purpose(self, purpose: str) -> None:
        allowed = self.policy.purposes
        if allowed is not None and purpose not in allowed:
            raise GateError(
                f"agent {self._agent} does not answer '{purpose}'; it allows {sorted(allowed)}: have the data holder add "
                "it, or train without."
            )
