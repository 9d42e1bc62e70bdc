"""All agents in one process, in threads: for estimators, tests and trying out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial

from threadpoolctl import ThreadpoolController

from comt.declaration import Declaration, Declare
from comt.errors import InputError
from comt.federation.base import Answering
from comt.federation.transcript import Transcript
from comt.noise import NoiseInSums, agreed
from comt.queries import Answer, Query, Totals


@cache
def _blas() -> ThreadpoolController:
    """Find the BLAS libraries once: looking them up takes longer than a round."""
    return ThreadpoolController()


class LocalFederation:
    """Agents in threads, one BLAS thread each; answers are summed in the order of names, so bits do not vary.

    Parameters
    ----------
    agents:
        The agents; names must differ.
    threads:
        How many agents work at a time; by default as many as there are processors.
    transcript:
        Records what the coordinator sees: here, every agent's answer.
    """

    def __init__(
        self, agents: Sequence[Answering], threads: int | None = None, transcript: Transcript | None = None
    ) -> None:
        if not agents:
            raise InputError("a federation of no agents was asked for; give at least one agent.")
        self._agents = sorted(agents, key=lambda agent: agent.name)
        names = [agent.name for agent in self._agents]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"agent names {twice} occur twice; give every agent a name of its own.")
        self._threads = min(len(agents), threads or os.cpu_count() or 1)
        self._pool: ThreadPoolExecutor | None = None
        self._rounds = 0
        self._transcript = transcript

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, in the order of summation."""
        return tuple(agent.name for agent in self._agents)

    @property
    def rounds(self) -> int:
        """Exchanges so far."""
        return self._rounds

    @property
    def noise(self) -> NoiseInSums | None:
        """The noise in sums; without masks every agent adds the whole of it."""
        return agreed([getattr(agent, "noise", None) for agent in self._agents], copies=len(self._agents))

    @contextmanager
    def open(self) -> Iterator[LocalFederation]:
        """Keep the threads alive (and BLAS at one thread) for the duration of a training."""
        with _blas().limit(limits=1):
            if self._threads == 1:
                yield self
                return
            with ThreadPoolExecutor(self._threads) as pool:
                self._pool = pool
                try:
                    yield self
                finally:
                    self._pool = None

    def declare(self) -> tuple[str, ...]:
        """Take the first agent's columns and have all others check theirs against them."""
        columns = self._agents[0].columns
        for agent in self._agents[1:]:
            agent.check_columns(columns)
        return columns

    def declarations(self, question: Declare) -> list[Declaration]:
        """Ask every agent which columns its table has."""
        self._rounds += 1
        declared = []
        for agent in self._agents:
            if not hasattr(agent, "declare"):
                raise InputError(f"agent {agent.name} declares no columns; give it rows of a table.")
            declared.append(agent.declare(question, self._rounds))
        return declared

    def sum(self, query: Query) -> Totals:
        """Ask all agents and return the sum of their answers."""
        answers = self._ask(query, individual=False)
        totals = {name: array.copy() for name, array in answers[0].arrays.items()}
        for answer in answers[1:]:
            for name, array in answer.arrays.items():
                totals[name] += array
        if self._transcript is not None:
            single = dict(zip(self.agents, (answer.arrays for answer in answers), strict=True))
            self._transcript.record(query, totals, round_number=self._rounds, answers=single)
        return totals

    def each(self, query: Query) -> dict[str, Totals]:
        """Return every agent's own answer, if all their owners allow it."""
        return dict(zip(self.agents, (a.arrays for a in self._ask(query, individual=True)), strict=True))

    def _ask(self, query: Query, *, individual: bool) -> list[Answer]:
        self._rounds += 1
        ask = partial(_answer, query=query, round_number=self._rounds, individual=individual)
        if self._pool is not None:
            answers = list(self._pool.map(ask, self._agents))
        else:
            with _blas().limit(limits=1):
                answers = [ask(agent) for agent in self._agents]
        for agent, answer in zip(self._agents, answers, strict=True):
            query.check_answer(answer.arrays, agent.name)
        return answers


def _answer(agent: Answering, query: Query, round_number: int, individual: bool) -> Answer:
    return agent.answer(query, round_number, individual=individual)
