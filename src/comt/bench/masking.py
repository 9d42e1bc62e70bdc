"""What masks cost: processor time per agent and round beyond the plain sum, and how far the sums differ."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from comt.agent import Agent, ArrayRows
from comt.audit.laboratory import masked
from comt.federation import LocalFederation
from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.queries import DualSums, Totals

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


def seconds(federation: Federation, n_features: int, rounds: int) -> tuple[float, float, Totals]:
    """Return the fastest and the median processor time of a round, and the last sum."""
    totals = federation.sum(question(n_features, 0))
    times = []
    for number in range(1, rounds + 1):
        start = time.process_time()
        totals = federation.sum(question(n_features, number))
        times.append(time.process_time() - start)
    return min(times), float(np.median(times)), totals


def run(out: Path, rounds: int = 60, sizes: Sequence[tuple[int, int]] = SIZES) -> list[Path]:
    """Measure, print a table and write it."""
    out.mkdir(parents=True, exist_ok=True)
    lines = [
        "| columns | agents | numbers per answer | plain sum | beyond it, fastest | median | largest difference |",
        "|---|---|---|---|---|---|---|",
    ]
    for n_features, n_agents in sizes:
        plain, _, expected = seconds(LocalFederation(members(n_features, n_agents), threads=1), n_features, rounds)
        fastest, median, found = seconds(masked(members(n_features, n_agents)), n_features, rounds)
        numbers = sum(int(np.prod(shape)) for shape in question(n_features, 0).shapes().values())
        apart = max(
            float(np.abs(found[name] - total).max() / max(np.abs(total).max(), 1.0)) for name, total in expected.items()
        )
        per_agent = [1e3 * value / n_agents for value in (plain, fastest - plain, median - plain)]
        cells = [
            f"{n_features}",
            f"{n_agents}",
            f"{numbers:,}",
            *(f"{value:.2f} ms" for value in per_agent),
            f"{apart:.0e}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1])
    path = out / PAGE
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [path]
