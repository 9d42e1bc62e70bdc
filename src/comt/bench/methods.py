"""Every method of the experiments under one interface, with the settings each protocol tries.

CoMT itself takes part as one more :class:`comt.baselines.base.Baseline`, so that all methods get the same prepared rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from comt.agent import Agent, ArrayRows
from comt.baselines import BASELINES
from comt.baselines.base import AgentRows, Baseline, LinearModel, Task
from comt.baselines.rounds import Attack, UpdateBaseline
from comt.federation import LocalFederation
from comt.problem import TeachingProblem
from comt.server.training import Settings, train

BOTH: frozenset[Task] = frozenset({"regression", "classification"})


def local_federation(agents: Sequence[AgentRows]) -> LocalFederation:
    """Put simulated agents into one process, one thread: experiments run side by side already."""
    members = [Agent(a.name, ArrayRows(a.features, a.targets, a.trusted_features, a.trusted_targets)) for a in agents]
    return LocalFederation(members, threads=1)


@dataclass(frozen=True)
class CoMT(Baseline):
    """The paper's objective, solved exactly: see :class:`comt.CoMTRegressor` for the parameters."""

    lambda_w: float = 1.0
    lambda_trusted: float = 1.0
    lambda_alpha: float = 0.0
    lambda_z: float = np.inf
    select: float | str | None = None
    select_by: str | None = None

    name: ClassVar[str] = "CoMT"
    tasks: ClassVar[frozenset[Task]] = BOTH
    sends: ClassVar[str] = "d-vectors and d x d sums over rows, a handful of rounds; no row"

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Train over a local federation of the agents."""
        loss_name = "squared" if task == "regression" else "logistic"
        problem = TeachingProblem(loss_name, self.lambda_w, self.lambda_trusted, self.lambda_alpha, self.lambda_z)  # type: ignore[arg-type]
        settings = Settings(problem, standardize=False, select=self.select, select_by=self.select_by)  # type: ignore[arg-type]
        federation = local_federation(agents)
        with federation.open():
            training = train(federation, settings)
        found = {
            "selected": 1.0 if training.selected is None else training.selected.fraction,
            "rounds": training.rounds,
            "certificate": training.solution.certificate,
        }
        return LinearModel(training.theta, found=found)


@dataclass(frozen=True)
class Candidate:
    """A method with the settings an experiment may choose from; one setting means: nothing to choose."""

    name: str
    settings: tuple[Baseline, ...]
    #: does a fit look at trusted rows? If not, they can be scored on without being left out
    uses_trusted: bool = True


#: λ relative to the number of rows a method trains on, the same nine for every method
RELATIVE_LAMBDAS = tuple(float(value) for value in np.logspace(-4, 0, 9))
#: nine settings for CoMT too: λ_w/n × λ_trusted·m/λ_w
COMT_LAMBDAS, COMT_PULLS = (1e-3, 1e-2, 1e-1), (1.0, 10.0, 100.0)
COMT_LAMBDA_Z = 10.0
#: methods that never look at trusted rows here (they only serve to tune them)
IGNORING = frozenset(
    {"Buggy-only", "Local-only", "FedAvg", "FedProx", "Krum", "Multi-Krum", "Coordinate median", "Trimmed mean"}
    | {"Geometric median", "Centered clipping", "REWLSE", "RoLR", "rLR", "Confident learning", "CoCoA"}
)
#: a fit of these takes seconds (hundreds of rounds, or DUTI's own path over γ): three of the nine λ for them
SLOW = frozenset(
    {
        "CoCoA",
        "DUTI",
        "Confident learning",
        "FedAvg",
        "FedProx",
        "REWLSE",
        "FLTrust",
        "Learning to reweight",
        "rLR",
        "Krum",
        "Multi-Krum",
    }
    | {"Coordinate median", "Trimmed mean", "Geometric median", "Centered clipping"}
)


def paper_candidates(table: str) -> list[Candidate]:
    """Return the paper's methods with its one setting: λ_w = 100, λ_trusted = 1; λ_α, λ_Z, ϱ stated once for all cells."""
    ours = partial(CoMT, lambda_w=100.0, lambda_trusted=1.0)
    candidates = [
        Candidate("CoMT", (ours(lambda_alpha=0.1, lambda_z=100.0),)),
        Candidate("CoMT-subset", (ours(lambda_alpha=0.1),)),
        Candidate("CoMT, printed rule ϱ=0.7", (ours(lambda_alpha=0.1, lambda_z=100.0, select=0.7, select_by="alpha"),)),
        Candidate("CoMT, smallest loss ϱ=0.7", (ours(lambda_alpha=0.1, lambda_z=100.0, select=0.7, select_by="loss"),)),
    ]
    others = {
        "regression": ("TI-only", "Buggy-only", "DUTI", "REWLSE"),
        "features": ("TI-only", "Buggy-only", "RoLR", "rLR"),
        "flips": ("TI-only", "Buggy-only", "DUTI", "RoLR", "rLR"),
    }[table]
    return candidates + [Candidate(name, (BASELINES[name](lambda_w=100.0),)) for name in others]  # type: ignore[call-arg]


def other_candidates(task: Task, table: str) -> list[Candidate]:
    """Return every competitor that the paper does not have, under the paper's one setting."""
    shown = {candidate.name for candidate in paper_candidates(table)}
    return [
        Candidate(name, (kind(lambda_w=100.0),))  # type: ignore[call-arg]
        for name, kind in BASELINES.items()
        if task in kind.tasks and name not in shown
    ]


def fair_candidates(
    task: Task, n_rows: int, n_trusted: int, names: Sequence[str], attack: Attack | None = None
) -> list[Candidate]:
    """Return the named methods, each with at most nine settings to be chosen on the trusted rows.

    ``attack`` falsifies what agents send, for the methods that combine one update per agent.
    """
    from comt.bench.automatic import Automatic  # it builds on this module
    from comt.bench.prototypes import Prototype

    nothing_to_tune: dict[str, Baseline] = {method.name: method for method in (Automatic(), Prototype())}
    candidates = []
    for name in names:
        if name in nothing_to_tune:
            candidates.append(Candidate(name, (nothing_to_tune[name],)))
            continue
        if name in ("CoMT", "CoMT-subset"):
            candidates.append(Candidate(name, tuple(_comt_settings(name, n_rows, n_trusted))))
            continue
        kind = BASELINES[name]
        if task not in kind.tasks:
            continue
        ignoring = name in IGNORING
        extra: dict[str, Any] = {"use_trusted": "ignore"} if ignoring else {}
        if hasattr(kind, "n_rounds") and name not in ("CoCoA", "Learning to reweight"):
            extra["n_rounds"] = 200
        if attack is not None and issubclass(kind, UpdateBaseline):
            extra["attack"] = attack
        base = n_trusted if name == "TI-only" else n_rows
        lambdas = RELATIVE_LAMBDAS[2::3] if name in SLOW else RELATIVE_LAMBDAS
        settings = tuple(kind(lambda_w=factor * max(base, 1), **extra) for factor in lambdas)  # type: ignore[call-arg]
        candidates.append(Candidate(name, settings, uses_trusted=not ignoring))
    return candidates


def _comt_settings(name: str, n_rows: int, n_trusted: int) -> list[CoMT]:
    lambda_z = COMT_LAMBDA_Z if name == "CoMT" else np.inf
    return [
        CoMT(lambda_w=factor * n_rows, lambda_trusted=pull * factor * n_rows / max(n_trusted, 1), lambda_z=lambda_z)
        for factor in COMT_LAMBDAS
        for pull in COMT_PULLS
    ]
