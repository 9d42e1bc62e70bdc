"""``comt bench robustness``, ``real``, ``choice``, ``unseen``, ``few``: methods × corruptions × trusted rows, all tuned alike.

The clean-data oracle (plain federated training on the rows without their errors) is the ceiling. Synthetic targets have
irreducible noise (oracle R² about .92, AUC about .87), so that no cell is trivial.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from comt.baselines.base import AgentRows, Task
from comt.baselines.rounds import BoostedUpdate
from comt.bench import unseen
from comt.bench.methods import Candidate, fair_candidates, local_federation
from comt.bench.store import Line, Store, run_jobs, score_methods
from comt.bench.unseen_tables import table
from comt.datasets import CORRUPTIONS, federate, load_cpusmall, load_heart_disease, load_ijcnn1, noisy_federation
from comt.datasets.corruptions import Clean, WrongAgents
from comt.datasets.federated import FederatedData
from comt.datasets.table import Table
from comt.server.scaling import agree_on_preparation

REGRESSION = (
    *("clean", "gaussian_noise", "negated_targets", "wrong_agents", "shifted_targets", "scaled_targets"),
    *("unit_error", "missing_codes", "duplicated_rows", "malicious_agent", "boosted_update", "mixed"),
    "trusted_at_one_agent",
)
CLASSIFICATION = (
    *("clean", "feature_noise", "label_flips", "asymmetric_flips", "feature_dependent_flips", "rule_of_thumb"),
    *("wrong_agents", "unit_error", "missing_codes", "duplicated_rows", "malicious_agent", "boosted_update", "mixed"),
    "trusted_at_one_agent",
)
#: cells that are more than a corruption of rows: the corruption they start from
BUILT_ON = {"boosted_update": "malicious_agent", "trusted_at_one_agent": "mixed"}
TRUSTED = (5, 20, 100)
N_ROWS, N_TEST = 2_000, 5_000
METHODS = (
    *(
        "CoMT (auto)",
        "CoMT",
        "CoMT-subset",
        "TI-only",
        "Buggy-only",
        "Local-only",
        "FLTrust",
        "Learning to reweight",
        "GLC",
    ),
    *("RoLR", "rLR", "Coordinate median", "Trimmed mean", "Multi-Krum", "Krum", "Centered clipping", "REWLSE"),
    *("DUTI", "Confident learning", "Geometric median", "FedAvg", "FedProx"),
)
#: run on request (--methods): a slow way to Buggy-only's model, and what automatic choice began with
ON_REQUEST = ("CoCoA", "Prototype recipes")
#: rows of IJCNN's training file taken at a time; its own test file is used whole
IJCNN_ROWS = 8_000
#: (data, corruption, noise, trusted rows in all): d is 12, 22 and 9, so the smallest m is below d
REAL = (
    *(
        ("CPUSMALL", c, n, m)
        for c, n in (("clean", 0.0), ("gaussian_noise", 1.5), ("negated_targets", 0.5))
        for m in (8, 50, 400)
    ),
    *(("IJCNN", c, n, m) for c, n in (("feature_noise", 1.5), ("label_flips", 0.4)) for m in (15, 100, 500)),
    *(("heart disease", c, n, m) for c, n in (("clean", 0.0), ("label_flips", 0.3)) for m in (6, 20, 60)),
)
#: the cells automatic choice was designed on (data, corruption, size of it), each with CHOICE_TRUSTED rows
CHOICE = (
    *(("regression", c, n) for c, n in (("clean", 0.0), ("feature_noise", 1.2), ("feature_noise", 3.0))),
    *(("regression", c, 0.0) for c in ("negated_targets", "wrong_agents", "unit_error", "missing_codes")),
    *(("CPUSMALL", c, n) for c, n in (("clean", 0.0), ("gaussian_noise", 1.5), ("negated_targets", 0.5))),
    ("CPUSMALL", "wrong_agents", 0.0),
    *(("classification", c, n) for c, n in (("label_flips", 0.4), ("label_flips", 0.6), ("feature_noise", 3.0))),
    *(("classification", c, 0.0) for c in ("wrong_agents", "feature_dependent_flips")),
    *(("IJCNN", c, n) for c, n in (("label_flips", 0.4), ("wrong_agents", 0.0))),
)
CHOICE_TRUSTED = (5, 20, 100, 400)
CHOICE_METHODS = ("CoMT (auto)", "TI-only", "Buggy-only")
#: an uncertain matter: nothing is wrong, or everything, with rows whose true model has a low score
VAGUE: dict[str, tuple[Task, float]] = {
    **{f"labels of AUC {auc}": ("classification", auc) for auc in (0.6, 0.65, 0.7)},
    **{f"targets of R² {r2}": ("regression", r2) for r2 in (0.1, 0.2, 0.3)},
}
VAGUE_WRONG = {"clean": Clean(), "all agents wrong": WrongAgents(agents=5)}
VAGUE_TRUSTED = (5, 20)
#: data sets with labels; the others have numbers
CLASSIFIED = frozenset(
    {"classification", "IJCNN", "heart disease"}
    | unseen.LABELLED
    | {name for name, (task, _) in VAGUE.items() if task == "classification"}
)
#: AUC of the true model in the cells of choice, as in the suites it was designed on
CHOICE_AUC = 0.911


def prepared(data: FederatedData) -> FederatedData:
    """Give every method the same rows: robust federated scaling and a constant column (see comt.server.scaling)."""
    federation = local_federation(data.agents)
    n_features = data.test_features.shape[1]
    how = agree_on_preparation(
        federation, n_features, standardize=True, fit_intercept=True, scale_target=data.task == "regression"
    )

    def ready(agent: AgentRows) -> AgentRows:
        return replace(
            agent,
            features=np.ascontiguousarray(how.features(agent.features)),
            targets=how.targets(agent.targets),
            trusted_features=np.ascontiguousarray(how.features(agent.trusted_features)),
            trusted_targets=how.targets(agent.trusted_targets),
            target_zero=how.target_zero,
        )

    return replace(
        data,
        agents=tuple(ready(agent) for agent in data.agents),
        test_features=how.features(data.test_features),
        test_targets=how.targets(data.test_targets),
    )


@cache
def _table(name: str, standardised: bool) -> Table:
    load = {"CPUSMALL": load_cpusmall, "IJCNN": load_ijcnn1, "heart disease": load_heart_disease}[name]
    table = load()
    return table.standardised() if standardised else table


def _corruption(name: str, noise: float) -> Any:
    chosen: Any = CORRUPTIONS[name]
    if name == "gaussian_noise" and noise:
        return replace(chosen, theta_features=noise, theta_targets=noise)
    if name == "feature_noise" and noise:
        return replace(chosen, theta_features=noise)
    if name in ("label_flips", "negated_targets") and noise:
        return replace(chosen, fraction=noise)
    return chosen


def draw(job: Line, *, standardised: bool = True) -> FederatedData:
    """Make the data of one job; real columns have mean 0 and variance 1 unless they are wanted as they come."""
    seed, trusted = int(job["seed"]), int(job["trusted"])
    if job["experiment"] == "choice" and job["data"] in ("regression", "classification"):
        return noisy_federation(
            job["data"],
            corruption=_corruption(job["corruption"], float(job["noise"])),
            n_rows=3_000,
            n_trusted=trusted,
            n_test=N_TEST,
            oracle=CHOICE_AUC if job["data"] == "classification" else None,
            seed=seed,
        )
    if job["experiment"] == "vague":
        kind, oracle = VAGUE[job["data"]]
        wrong_with_it = VAGUE_WRONG[job["corruption"]]
        return noisy_federation(
            kind, corruption=wrong_with_it, n_rows=N_ROWS, n_trusted=trusted, n_test=N_TEST, oracle=oracle, seed=seed
        )
    if job["experiment"] == "robustness":
        task: Task = job["data"]
        wrong: str = job["corruption"]
        only = 0 if wrong == "trusted_at_one_agent" else None
        built_on = CORRUPTIONS[BUILT_ON.get(wrong, wrong)]
        return noisy_federation(
            task, corruption=built_on, n_rows=N_ROWS, n_trusted=trusted, n_test=N_TEST, trusted_at=only, seed=seed
        )
    name = job["data"]
    if job["experiment"] == "unseen":
        wrong_there = unseen.corruption(name, job["corruption"])
        return federate(table(name), corruption=wrong_there, trusted=trusted, test=0.4, n_agents=5, seed=seed)
    corruption = _corruption(job["corruption"], float(job["noise"]))
    agents = None if name == "heart disease" else 5
    test = None if name == "IJCNN" else 0.3
    train = IJCNN_ROWS if name == "IJCNN" else None
    return federate(
        _table(name, standardised and name != "heart disease"),
        corruption=corruption,
        trusted=trusted,
        train=train,
        test=test,
        n_agents=agents,
        seed=seed,
    )


def work(job: Line) -> list[Line]:
    """Run the job's methods, and the oracle, on one data set."""
    names = job.pop("names")
    raw = draw(job)
    data = prepared(raw)
    n_rows = sum(len(a.targets) for a in data.agents)
    n_trusted = sum(len(a.trusted_targets) for a in data.agents)
    attack = None
    if job["corruption"] == "boosted_update" and data.malicious is not None:
        # boosted by the number of agents, one malicious update outweighs the mean of all
        attack = BoostedUpdate(data.malicious, float(len(data.agents)))
    lines = score_methods(job, data, fair_candidates(data.task, n_rows, n_trusted, names, attack))
    if "Buggy-only" in names:
        clean = prepared(raw.clean())
        (plain,) = fair_candidates(data.task, n_rows, n_trusted, ["Buggy-only"])
        lines += score_methods(job, clean, [Candidate("clean oracle", plain.settings, uses_trusted=False)])
    return lines


def jobs(experiment: str, seeds: int, names: tuple[str, ...]) -> list[Line]:
    """List every cell and seed, seeds outermost, so that an interrupted run has whole tables of fewer seeds."""
    if experiment == "robustness":
        cells = [("regression", c, 0.0, m) for c in REGRESSION for m in TRUSTED]
        cells += [("classification", c, 0.0, m) for c in CLASSIFICATION for m in TRUSTED]
    elif experiment == "choice":
        cells = [(*cell, m) for cell in CHOICE for m in CHOICE_TRUSTED]
    elif experiment == "unseen":
        cells = list(unseen.CELLS)
    elif experiment == "vague":
        cells = [(data, wrong, 0.0, m) for data in VAGUE for wrong in VAGUE_WRONG for m in VAGUE_TRUSTED]
    else:
        cells = list(REAL)
    return [
        {
            "experiment": experiment,
            "protocol": "fair",
            "data": data,
            "corruption": corruption,
            "noise": noise,
            "trusted": trusted,
            "seed": seed,
            "names": names,
        }
        for seed in range(seeds)
        for data, corruption, noise, trusted in cells
    ]


def run(experiment: str, folder: Path, seeds: int, processes: int, names: tuple[str, ...] = METHODS) -> None:
    """Fill the table of an experiment, going on where an earlier run stopped."""
    store = Store(folder / f"{experiment}.csv")
    todo = []
    for job in jobs(experiment, seeds, names):
        task: Task = "classification" if job["data"] in CLASSIFIED else "regression"
        missing = tuple(n for n in names if _fits(n, task) and not store.has({**job, "method": n}))
        if missing:
            todo.append({**job, "names": missing})
    run_jobs(store, todo, work, processes=processes, title=experiment)


def _fits(name: str, task: Task) -> bool:
    from comt.baselines import BASELINES

    return name not in BASELINES or task in BASELINES[name].tasks
