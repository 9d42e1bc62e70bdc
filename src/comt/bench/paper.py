"""``comt bench paper``: the paper's tables, convergence figures, ϱ curves and scaling, beside the printed numbers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from comt import __version__
from comt.baselines import BASELINES
from comt.baselines.base import Task
from comt.bench.methods import fair_candidates, other_candidates, paper_candidates
from comt.bench.store import Line, Store, run_jobs, score_methods
from comt.datasets import Corruption, federate, load_cpusmall, load_ijcnn1, paper_federation
from comt.datasets.corruptions import GaussianNoise, LabelFlips
from comt.datasets.corruptions.noise import Reading
from comt.datasets.federated import FederatedData

NOISES, ETAS = (0.3, 0.6, 1.2), (0.1, 0.5, 1.0)
#: the label-flip table is indexed by a noise level, but its text fixes 40 % flips: one experiment per η serves all blocks
TABLES = {"regression": NOISES, "features": NOISES, "flips": (0.4,)}
FAIR = (
    "CoMT (auto)",
    "CoMT",
    "CoMT-subset",
    "TI-only",
    "Buggy-only",
    "REWLSE",
    "RoLR",
    "rLR",
    "GLC",
    "FLTrust",
    "Learning to reweight",
    "DUTI",
)
#: the methods that show what the other reading of the paper's noise scale means
OTHER_READING = ("CoMT", "CoMT-subset", "TI-only", "Buggy-only")


def cell(
    table: str, noise: float, eta: float, seed: int, n_rows: int = 50_000, reading: Reading = "mean"
) -> FederatedData:
    """Draw one repetition of one cell; the data change with the seed, as in the paper.

    ``reading`` is what the noise is scaled by: the mean of |x|, or the mean L1 norm of a row (erratum E12).
    """
    corruption: Corruption
    if table == "flips":
        corruption = LabelFlips(fraction=noise)
    else:
        theta_targets = noise if table == "regression" else 0.0
        corruption = GaussianNoise(theta_features=noise, theta_targets=theta_targets, reading=reading)
    return paper_federation(_task(table), corruption=corruption, eta=eta, n_rows=n_rows, seed=seed)


def jobs(protocol: str, seeds: int) -> list[Line]:
    """List every cell and seed."""
    return [
        {
            "experiment": "paper",
            "protocol": protocol,
            "data": table,
            "corruption": table,
            "noise": noise,
            "trusted": eta,
            "seed": seed,
        }
        for seed in range(seeds)
        for table, noises in TABLES.items()
        if table != "flips" or protocol != "sum"  # flips are not scaled by anything
        for noise in noises
        for eta in ETAS
    ]


def methods(protocol: str, table: str) -> list[str]:
    """Return the names of a protocol's methods in one table."""
    task = _task(table)
    if protocol == "fair":
        return [name for name in FAIR if name not in BASELINES or task in BASELINES[name].tasks]
    if protocol == "sum":
        return list(OTHER_READING)
    candidates = paper_candidates(table) if protocol == "paper" else other_candidates(task, table)
    return [candidate.name for candidate in candidates]


def work(job: Line) -> list[Line]:
    """Run the job's methods on one cell and seed."""
    names = job.pop("names")
    table = job["data"]
    reading: Reading = "sum" if job["protocol"] == "sum" else "mean"
    data = cell(table, float(job["noise"]), float(job["trusted"]), int(job["seed"]), reading=reading)
    if job["protocol"] in ("paper", "sum"):
        candidates = paper_candidates(table)
    elif job["protocol"] == "others":
        candidates = other_candidates(data.task, table)
    else:
        n_rows = sum(len(a.targets) for a in data.agents)
        n_trusted = sum(len(a.trusted_targets) for a in data.agents)
        candidates = fair_candidates(data.task, n_rows, n_trusted, names)
    return score_methods(job, data, [candidate for candidate in candidates if candidate.name in names])


def run_tables(folder: Path, protocol: str, seeds: int, processes: int) -> None:
    """Fill the tables, going on where an earlier run stopped.

    Protocols: ``"paper"`` (its methods, its setting), ``"sum"`` (the same under the other reading of its noise),
    ``"others"`` (all other competitors, same setting), ``"fair"``.
    """
    store = Store(folder / f"paper_{protocol}.csv")
    todo = []
    for job in jobs(protocol, seeds):
        missing = [name for name in methods(protocol, job["data"]) if not store.has({**job, "method": name})]
        if missing:
            todo.append({**job, "names": missing})
    run_jobs(store, todo, work, processes=processes, title=f"paper tables ({protocol} protocol)")


def _task(table: str) -> Task:
    return "regression" if table == "regression" else "classification"


def run_scaling(folder: Path) -> None:
    """Time CoMT at the paper's three sizes, with Newton's method, on rows drawn as in the tables."""
    path = folder / "paper_scaling.csv"
    store = Store(path)
    for n in (50_000, 100_000, 500_000):
        for table in ("regression", "features"):
            for seed in range(3):
                line: Line = {"experiment": "scaling", "protocol": "paper", "data": table, "trusted": n, "seed": seed}
                line["method"] = "CoMT"
                if store.has(line):
                    continue
                data = cell(table, 0.6, 0.5, seed, n_rows=n)
                candidate = paper_candidates(table)[0]
                start = time.process_time()  # of one core, as everywhere
                model = candidate.settings[0].fit(data.agents, data.task)
                store.add([{**line, "seconds": time.process_time() - start, "rounds": model.found["rounds"]}])


def convergence(folder: Path, rounds: int = 300) -> None:
    """Record objective against rounds on CPUSMALL and IJCNN for the printed ADMM, its sharing form, and Newton."""
    import pandas as pd

    from comt import CoMTClassifier, CoMTRegressor
    from comt.errors import ConvergenceError

    lines = []
    for name, load, kind, fraction in (
        ("CPUSMALL", load_cpusmall, CoMTRegressor, 0.05),
        ("IJCNN", load_ijcnn1, CoMTClassifier, 0.01),
    ):
        table = load().standardised()
        test = 0.3 if name == "CPUSMALL" else None
        spoiled = GaussianNoise(theta_features=1.5, theta_targets=1.5 if name == "CPUSMALL" else 0.0)
        data = federate(table, corruption=spoiled, trusted=fraction, test=test, n_agents=5, seed=0)
        X, y, agents, trusted = data.pooled()
        fixed: dict[str, Any] = {"lambda_w": 100.0, "lambda_alpha": 0.1, "lambda_z": 100.0, "standardize": False}
        for solver, options in (
            ("newton", {}),
            ("admm, sharing form", {"solver": "admm"}),
            ("admm as printed, ρ=100", {"solver": "admm", "rho": 100.0, "max_rounds": rounds, "tol": 1e-7}),
        ):
            try:
                history = kind(**fixed, **options).fit(X, y, agents=agents, trusted=trusted).history_
            except ConvergenceError as error:
                history = error.history
            lines += [
                {"data": name, "solver": solver, "seed": 0, "round": i + 1, "objective": h["objective"]}
                for i, h in enumerate(history)
            ]
    pd.DataFrame(lines).assign(version=__version__).to_csv(folder / "paper_convergence.csv", index=False)


def fraction_curves(folder: Path, seeds: int = 5) -> None:
    """Record the test score against ϱ for both rules, on the flips and regression cells."""
    import pandas as pd

    from comt.bench.methods import CoMT
    from comt.bench.tuning import score

    lines = []
    for table, noise in (("regression", 1.2), ("flips", 0.4)):
        for seed in range(seeds):
            data = cell(table, noise, 0.5, seed)
            for rule in ("alpha", "loss"):
                for fraction in np.round(np.arange(0.1, 1.01, 0.1), 1):
                    method = CoMT(
                        lambda_w=100.0, lambda_alpha=0.1, lambda_z=100.0, select=float(fraction), select_by=rule
                    )
                    model = method.fit(data.agents, data.task)
                    value = score(data.task, data.test_targets, model.predict(data.test_features))
                    lines.append({"data": table, "rule": rule, "fraction": fraction, "seed": seed, "score": value})
    pd.DataFrame(lines).assign(version=__version__).to_csv(folder / "paper_fractions.csv", index=False)
