"""The paper's three statements about real data in the paper's own setting: λ_w = 100, λ_trusted = 1, nothing tuned.

The paper does not say how it scaled its rows, so that they are also run with the usual other ways to do it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from comt.baselines import BASELINES
from comt.baselines.base import AgentRows, Array
from comt.bench import robustness
from comt.bench.methods import Candidate, paper_candidates
from comt.bench.store import Line, Store, run_jobs, score_methods
from comt.datasets.federated import FederatedData

#: what the paper's text says of each: (data, corruption, noise, trusted rows), with the synthetic table that has its methods
CELLS = {
    "CPUSMALL noise 1.5 eta 5%": (("CPUSMALL", "gaussian_noise", 1.5, 400), "regression"),
    "IJCNN features noise 1.5 eta 1%": (("IJCNN", "feature_noise", 1.5, 500), "features"),
    "IJCNN label flips eta 1%": (("IJCNN", "label_flips", 0.4, 500), "flips"),
}
FILE = "real_paper.csv"
#: run for every way to scale rows; the others once
CHEAP = ("CoMT", "TI-only", "Buggy-only", "REWLSE", "RoLR", "rLR")


def _plain(job: Line, *, standardised: bool, intercept: bool) -> FederatedData:
    """Draw rows without robust scaling; targets of a regression lose their mean, which stands in for an intercept."""
    data = robustness.draw(job, standardised=standardised)
    centre = 0.0
    if standardised and data.task == "regression":
        centre = float(np.concatenate([a.targets for a in data.agents]).mean())

    def columns(features: Array) -> Array:
        return np.column_stack([features, np.ones(len(features))]) if intercept else features

    def ready(agent: AgentRows) -> AgentRows:
        return replace(
            agent,
            features=columns(agent.features),
            targets=agent.targets - centre if centre else agent.targets,
            trusted_features=columns(agent.trusted_features),
            trusted_targets=agent.trusted_targets - centre if centre else agent.trusted_targets,
        )

    return replace(
        data,
        agents=tuple(ready(agent) for agent in data.agents),
        test_features=columns(data.test_features),
        test_targets=data.test_targets - centre if centre else data.test_targets,
    )


#: by protocol, as it stands in the file: how rows are drawn and prepared
PREPARATIONS: dict[str, Callable[[Line], FederatedData]] = {
    "paper": lambda job: robustness.prepared(robustness.draw(job)),
    "standardised": lambda job: _plain(job, standardised=True, intercept=True),
    "no intercept": lambda job: _plain(job, standardised=True, intercept=False),
    "as they come": lambda job: _plain(job, standardised=False, intercept=False),
}


def candidates(table: str, protocol: str = "paper") -> list[Candidate]:
    """Return the paper's methods for one kind of cell; on real data it shows DUTI for all of them."""
    found = paper_candidates(table)
    if protocol != "paper":
        return [candidate for candidate in found if candidate.name in CHEAP]
    if "DUTI" not in {candidate.name for candidate in found}:
        found.append(Candidate("DUTI", (BASELINES["DUTI"](lambda_w=100.0),)))  # type: ignore[call-arg]
    return found


def work(job: Line) -> list[Line]:
    """Run the job's methods on one cell and seed; protocol "paper" has the fair protocol's robustly scaled rows."""
    names, table = job.pop("names"), job.pop("table")
    chosen = [candidate for candidate in candidates(table, job["protocol"]) if candidate.name in names]
    return score_methods(job, PREPARATIONS[job["protocol"]](job), chosen)


def run(folder: Path, seeds: int, processes: int) -> None:
    """Fill the table, going on where an earlier run stopped."""
    store = Store(folder / FILE)
    todo = []
    for seed in range(seeds):
        for protocol in PREPARATIONS:
            for (data, corruption, noise, trusted), table in CELLS.values():
                job: Line = {"experiment": "real", "protocol": protocol, "data": data, "corruption": corruption}
                job |= {"noise": noise, "trusted": trusted, "seed": seed}
                names = [c.name for c in candidates(table, protocol) if not store.has({**job, "method": c.name})]
                if names:
                    todo.append({**job, "names": names, "table": table})
    run_jobs(store, todo, work, processes=processes, title="real data (paper protocol)")
