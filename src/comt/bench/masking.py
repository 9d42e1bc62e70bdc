"""What masks cost: processor time per agent and round beyond the plain sum, and how far the sums differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comt.agent import Agent, ArrayRows
from comt.agent.site import Site
from comt.audit.laboratory import sites
from comt.federation import LocalFederation
from comt.federation.channel import LocalChannel
from comt.federation.masked import MaskedFederation
from comt.preparation import Preparation
from comt.queries import DualSums

#: features and agents; the question has one Gram matrix of the buggy rows and one of the trusted rows
SIZES = ((10, 3), (10, 5), (10, 20), (100, 3), (100, 5), (100, 20), (300, 5))
PAGE = "_masking.md"


def members(n_features: int, n_agents: int, seed: int = 0) -> list[Agent]:
    """Draw agents with few rows, so that the sums themselves cost little."""
    rng = np.random.default_rng(seed)
    agents = []
    for k in range(n_agents):
        features, trusted = rng.standard_normal((2 * n_features, n_features)), rng.standard_normal((20, n_features))
        agents.append(Agent(f"agent-{k:02d}", ArrayRows(features, features.sum(axis=1), trusted, trusted.sum(axis=1))))
    return agents


def question(n_features: int, number: int) -> DualSums:
    """Return the question of a Newton round: vectors, scalars and two d × d matrices."""
    point = np.full((1, n_features), 1e-3 * number)
    return DualSums(
        loss_name="squared",
        preparation=Preparation.identity(n_features),
        r=point,
        theta=point,
        lambda_alpha=np.zeros(1),
        lambda_z=np.full(1, np.inf),
    )


class Clock(LocalChannel):
    """Takes the processor time of every site by itself, beyond what its answer takes without masks."""

    def __init__(self, sites: Sequence[Site]) -> None:
        super().__init__(sites)
        self.spent = self.answering = 0.0
        for site in sites:
            # the answer itself is not part of what masks cost
            site.agent.weighed_answer = self._timed(site.agent.weighed_answer)  # type: ignore[method-assign]

    def _timed(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.thread_time()
            found = answer(*args, **kwargs)
            self.answering += time.thread_time() - start
            return found

        return timed

    def ask(self, messages: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Hand the messages over, against the clock."""
        start = time.thread_time()
        replies = super().ask(messages)
        self.spent += time.thread_time() - start
        return replies


@dataclass(frozen=True)
class Costs:
    """Milliseconds of processor time of every round."""

    answer: NDArray[np.float64]  # of an agent, without masks
    agent: NDArray[np.float64]  # of an agent, beyond its answer
    coordinator: NDArray[np.float64]  # of the coordinator, for all agents together
    difference: float  # of sums with and without masks, relative to the largest entry


def measure(n_features: int, n_agents: int, rounds: int) -> Costs:
    """Ask the same questions with and without masks."""
    plain = LocalFederation(members(n_features, n_agents), threads=1)
    clock = Clock(sites(members(n_features, n_agents)))
    federation = MaskedFederation(clock)
    found = federation.sum(question(n_features, 0))  # keys, and everything that is done once
    times = []
    for number in range(1, rounds + 1):
        clock.spent = clock.answering = 0.0
        start = time.thread_time()
        found = federation.sum(question(n_features, number))
        whole = time.thread_time() - start
        times.append((clock.answering / n_agents, (clock.spent - clock.answering) / n_agents, whole - clock.spent))
    expected = plain.sum(question(n_features, rounds))
    apart = max(
        float(np.abs(found[name] - total).max() / max(np.abs(total).max(), 1.0)) for name, total in expected.items()
    )
    answer, agent, coordinator = 1e3 * np.array(times).T
    return Costs(answer, agent, coordinator, apart)


def run(out: Path, rounds: int = 60, sizes: Sequence[tuple[int, int]] = SIZES) -> list[Path]:
    """Measure, print a table and write it."""
    out.mkdir(parents=True, exist_ok=True)
    lines = [
        "| columns | agents | numbers per answer | answer | masks: agent, fastest | median | coordinator, fastest | median "
        "| largest difference |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for n_features, n_agents in sizes:
        costs = measure(n_features, n_agents, rounds)
        numbers = sum(int(np.prod(shape)) for shape in question(n_features, 0).shapes().values())
        shown = (
            costs.answer.min(),
            *(f(part) for part in (costs.agent, costs.coordinator) for f in (np.min, np.median)),
        )
        cells = [
            f"{n_features}",
            f"{n_agents}",
            f"{numbers:,}",
            *(f"{value:.2f} ms" for value in shown),
            f"{costs.difference:.0e}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1])
    path = out / PAGE
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [path]
