"""The gate: the one place an answer passes on its way out. It fails closed."""

from __future__ import annotations

from dataclasses import dataclass

from comt.declaration import Declare
from comt.errors import GateError
from comt.queries import MAX_ANSWER_BYTES, Answer, Query


@dataclass(frozen=True)
class Policy:
    """What the data holder allows. In one process (the estimators) the defaults allow every sum."""

    #: a sum over fewer rows than this stays inside (a sum over no row at all says nothing and may pass)
    min_rows: int = 1
    #: answers larger than this stay inside
    max_bytes: int = MAX_ANSWER_BYTES
    #: purposes that may be asked; None: all of the vocabulary
    purposes: frozenset[str] | None = None
    #: may the server see this agent's answer by itself rather than only the sum over agents?
    individual: bool = False


class Gate:
    """Applies a policy to every answer."""

    def __init__(self, agent: str, policy: Policy) -> None:
        self._agent, self._policy = agent, policy

    def check(self, query: Query, answer: Answer, *, individual: bool = False) -> None:
        """Raise :class:`comt.errors.GateError` unless the policy lets the answer out."""
        policy = self._policy
        if individual and not policy.individual:
            raise GateError(
                f"agent {self._agent} shows its answers only as part of a sum; ask for the sum, or have the data "
                "holder set individual=True."
            )
        self._check_purpose(query.purpose)
        size = sum(array.nbytes for array in answer.arrays.values())
        if size > policy.max_bytes:
            raise GateError(
                f"agent {self._agent} would send {size:,} bytes for '{query.purpose}', its limit is "
                f"{policy.max_bytes:,}; use solver='newton-cg', which sends vectors only."
            )
        for name, rows in answer.rows.items():
            if 0 < rows < policy.min_rows:
                raise GateError(
                    f"agent {self._agent} refuses '{query.purpose}': '{name}' would sum {rows} rows, its minimum is "
                    f"{policy.min_rows}; ask about more rows."
                )
        unaccounted = set(answer.arrays) - set(answer.rows)
        if unaccounted:
            raise GateError(f"agent {self._agent} has no row count for {sorted(unaccounted)} and keeps it inside.")

    @property
    def min_rows(self) -> int:
        """A sum over fewer rows stays inside, and so does a level that fewer rows have."""
        return self._policy.min_rows

    def check_declaration(self, question: Declare, size: int) -> None:
        """Raise unless the policy lets a declaration of so many bytes out; rare levels are not in it."""
        self._check_purpose(question.purpose)
        if size > self._policy.max_bytes:
            raise GateError(
                f"agent {self._agent} would send {size:,} bytes for '{question.purpose}', its limit is "
                f"{self._policy.max_bytes:,}; leave columns of many levels out."
            )

    def _check_purpose(self, purpose: str) -> None:
        allowed = self._policy.purposes
        if allowed is not None and purpose not in allowed:
            raise GateError(
                f"agent {self._agent} does not answer '{purpose}'; it allows {sorted(allowed)}: have the data holder add "
                "it, or train without."
            )
