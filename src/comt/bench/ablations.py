"""``comt bench paper --ablations``: one thing changed at a time, to see which change brings our numbers to the print's.

Every reason that the results page gives for a difference is a change here, or is said to be without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from comt.baselines.base import AgentRows, Baseline, LinearModel, Task, pooled
from comt.baselines.duti import Duti
from comt.baselines.duti_path import RepairPath
from comt.baselines.linear import fit_exact
from comt.baselines.rewlse import Rewlse
from comt.baselines.rlr import Rlr
from comt.baselines.rolr import Rolr
from comt.baselines.trusted_only import TrustedOnly
from comt.bench.methods import Candidate, CoMT
from comt.bench.paper import ETAS, NOISES, TABLES, cell
from comt.bench.store import Line, Store, run_jobs, score_methods
from comt.datasets import Corruption, federate
from comt.datasets.corruptions import GaussianNoise, LabelFlips, Mixed
from comt.datasets.federated import FederatedData
from comt.datasets.synthetic import cluster_table

FILE = "paper_ablations.csv"


# ------------------------------------------------------------------------------------------------ other rows


def _clusters(spread: float, table: str, noise: float, eta: float, seed: int) -> FederatedData:
    """Draw a cell whose cluster centres lie closer together, at 0 on one spot."""
    task: Task = "regression" if table == "regression" else "classification"
    wrong: Corruption
    if table == "flips":
        wrong = LabelFlips(fraction=noise)
    else:
        wrong = GaussianNoise(theta_features=noise, theta_targets=noise if task == "regression" else 0.0)
    rows = cluster_table(task, spread=spread, seed=seed)
    return federate(rows, corruption=wrong, train=0.4, trusted=eta / 100, n_agents=5, seed=seed)


def _spoiled(wrong: Callable[[float], Corruption], table: str, noise: float, eta: float, seed: int) -> FederatedData:
    """Draw a cell with another kind of error in it."""
    task: Task = "regression" if table == "regression" else "classification"
    rows = cluster_table(task, seed=seed)
    return federate(rows, corruption=wrong(noise), train=0.4, trusted=eta / 100, n_agents=5, seed=seed)


#: by what is changed: how the rows of a cell are drawn
DRAWS: dict[str, Callable[[str, float, float, int], FederatedData]] = {
    "": cell,
    "noise scaled by a row's sum (E12)": partial(cell, reading="sum"),
    "noise on targets only": partial(_spoiled, lambda noise: GaussianNoise(0.0, noise)),
    "no clusters: standard normal rows": partial(_clusters, 0.0),
    "cluster centres at 0.5 instead of 1.5": partial(_clusters, 0.5),
    "cluster centres at 0.75": partial(_clusters, 0.75),
    "cluster centres at 1": partial(_clusters, 1.0),
    "flips and the block's noise on features": partial(_spoiled, lambda noise: Mixed(noise, flips=0.4, agents=0)),
}
#: the only draw in which the flip table's noise level is more than a name
BY_BLOCK = "flips and the block's noise on features"


# --------------------------------------------------------------------------------------------- other methods


@dataclass(frozen=True, kw_only=True)
class DutiVariant(Duti):
    """DUTI with what the paper leaves open decided otherwise: the price γ, and whether trusted rows are fitted too."""

    price: Literal["held-out", "first", "last"] = "held-out"
    with_trusted: bool = True

    def _choose(self, agent: AgentRows, task: Task, path: RepairPath) -> int:
        if self.price == "held-out":
            return super()._choose(agent, task, path)
        return path.first_flagging() if self.price == "first" else path.gammas.size - 1

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Repair as DUTI does, then fit repaired rows with or without the trusted ones."""
        model = super().fit(agents, task)
        if self.with_trusted:
            return model
        repaired = np.concatenate([np.asarray(part) for part in model.found["repaired"]])
        return LinearModel(fit_exact(pooled(agents)[0], repaired, task, self.lambda_w))


# ------------------------------------------------------------------------------------------------ the changes


@dataclass(frozen=True)
class Change:
    """What is changed for one method of one table: the method (and ``says`` how), or the ``rows``, a key of ``DRAWS``."""

    table: str
    method: str
    fit: Baseline
    says: str = ""
    rows: str = ""

    @property
    def name(self) -> str:
        """Say what is changed."""
        return self.rows or self.says


_comt = partial(CoMT, lambda_w=100.0, lambda_trusted=1.0, lambda_alpha=0.1, lambda_z=100.0)
_subset = partial(_comt, lambda_z=np.inf)
_duti, _rewlse = partial(DutiVariant, lambda_w=100.0), partial(Rewlse, lambda_w=100.0)
_ti, _rolr, _rlr = TrustedOnly(lambda_w=100.0), Rolr(lambda_w=100.0), Rlr(lambda_w=100.0)
_CLOSER = tuple(name for name in DRAWS if name.startswith("cluster centres"))
_SUM, _TARGETS, _NORMAL = tuple(DRAWS)[1:4]

CHANGES: tuple[Change, ...] = (
    Change("regression", "CoMT", _comt(lambda_w=1.0), "λ_w = 1"),
    Change("regression", "CoMT", _comt(lambda_trusted=0.2), "λ_trusted = 1/5, divided by the agents (E4)"),
    Change("regression", "CoMT", _comt(lambda_trusted=5.0), "λ_trusted = 5, times the agents"),
    Change("regression", "CoMT", _comt(lambda_trusted=100.0), "λ_trusted = λ_w"),
    Change("regression", "CoMT", _comt(lambda_z=1.0), "λ_Z = 1: more crafting"),
    *(Change("regression", "CoMT", _comt(), rows=rows) for rows in (_SUM, _TARGETS, _NORMAL)),
    Change("regression", "CoMT-subset", _subset(select=0.7, select_by="alpha"), "printed rule, ϱ = 0.7"),
    Change("regression", "CoMT-subset", _subset(select=0.7, select_by="loss"), "smallest loss, ϱ = 0.7"),
    *(Change("regression", "CoMT-subset", _subset(), rows=rows) for rows in (_SUM, _TARGETS)),
    Change("regression", "TI-only", TrustedOnly(lambda_w=115.0), "λ_w = 115"),
    Change("regression", "TI-only", TrustedOnly(lambda_w=130.0), "λ_w = 130"),
    Change("regression", "TI-only", _ti, rows=_NORMAL),
    Change("regression", "DUTI", _duti(price="first"), "γ where the first row is flagged"),
    Change("regression", "DUTI", _duti(price="last"), "γ at the end of the path"),
    Change("regression", "DUTI", _duti(with_trusted=False), "last fit without trusted rows"),
    Change("regression", "DUTI", _ti, "no repairs at all: trusted rows only"),
    Change("regression", "REWLSE", _rewlse(use_trusted="ignore"), "trusted rows left out"),
    Change("regression", "REWLSE", _ti, "ridge on trusted rows only"),
    *(Change("regression", "REWLSE", _rewlse(), rows=rows) for rows in (_SUM, _TARGETS)),
    *(
        Change(table, method, fit, rows=rows)
        for table, methods in (("features", {"RoLR": _rolr}), ("flips", {"rLR": _rlr}))
        for method, fit in {"CoMT": _comt(), "CoMT-subset": _subset(), "TI-only": _ti, **methods}.items()
        for rows in _CLOSER
    ),
    Change("features", "CoMT", _comt(), rows=_SUM),
    Change("features", "CoMT", _comt(lambda_w=1.0), "λ_w = 1"),
    Change("features", "TI-only", TrustedOnly(lambda_w=1.0), "λ_w = 1"),
    Change("features", "RoLR", _rlr, "rLR's numbers, if the heading is right (E8)"),
    Change("flips", "rLR", _rolr, "RoLR's numbers, if the heading is right (E8)"),
    Change("flips", "DUTI", _duti(price="first"), "γ where the first row is flagged"),
    Change("flips", "DUTI", _duti(price="last"), "γ at the end of the path"),
    Change("flips", "DUTI", _duti(), rows="cluster centres at 0.75"),
    *(
        Change("flips", method, fit, rows=BY_BLOCK)
        for method, fit in {"CoMT": _comt(), "CoMT-subset": _subset(), "TI-only": _ti, "rLR": _rlr}.items()
    ),
)


# ---------------------------------------------------------------------------------------------------- running


def jobs(seeds: int) -> list[Line]:
    """List every draw of every cell; seeds outermost, so that an interrupted run has whole tables of fewer seeds."""
    used = dict.fromkeys((change.table, change.rows) for change in CHANGES)
    return [
        {"experiment": "ablation", "protocol": "paper", "data": table, "noise": noise, "trusted": eta}
        | {"seed": seed, "rows": rows}
        for seed in range(seeds)
        for table, rows in used
        for noise in (NOISES if rows == BY_BLOCK else TABLES[table])
        for eta in ETAS
    ]


def work(job: Line) -> list[Line]:
    """Run the job's changes on one draw."""
    names, rows = job.pop("names"), job.pop("rows")
    data = DRAWS[rows](job["data"], float(job["noise"]), float(job["trusted"]), int(job["seed"]))
    lines = []
    for change in CHANGES:
        if (change.table, change.rows) == (job["data"], rows) and (change.method, change.name) in names:
            candidate = Candidate(change.method, (change.fit,))
            lines += score_methods({**job, "corruption": change.name}, data, [candidate])
    return lines


def run(folder: Path, seeds: int, processes: int) -> None:
    """Fill the table of changes, going on where an earlier run stopped."""
    store = Store(folder / FILE)
    todo = []
    for job in jobs(seeds):
        names = [
            (change.method, change.name)
            for change in CHANGES
            if (change.table, change.rows) == (job["data"], job["rows"])
            and not store.has({**job, "corruption": change.name, "method": change.method})
        ]
        if names:
            todo.append({**job, "names": names})
    run_jobs(store, todo, work, processes=processes, title="ablations")
