"""The paper's three statements about real data in the paper's own setting: λ_w = 100, λ_trusted = 1, nothing tuned."""

from __future__ import annotations

from pathlib import Path

from comt.baselines import BASELINES
from comt.bench import robustness
from comt.bench.methods import Candidate, paper_candidates
from comt.bench.store import Line, Store, run_jobs, score_methods

#: what the paper's text says of each: (data, corruption, noise, trusted rows), with the synthetic table that has its methods
CELLS = {
    "CPUSMALL noise 1.5 eta 5%": (("CPUSMALL", "gaussian_noise", 1.5, 400), "regression"),
    "IJCNN features noise 1.5 eta 1%": (("IJCNN", "feature_noise", 1.5, 500), "features"),
    "IJCNN label flips eta 1%": (("IJCNN", "label_flips", 0.4, 500), "flips"),
}
FILE = "real_paper.csv"


def candidates(table: str) -> list[Candidate]:
    """Return the paper's methods for one kind of cell; on real data it shows DUTI for all of them."""
    found = paper_candidates(table)
    if "DUTI" not in {candidate.name for candidate in found}:
        found.append(Candidate("DUTI", (BASELINES["DUTI"](lambda_w=100.0),)))  # type: ignore[call-arg]
    return found


def work(job: Line) -> list[Line]:
    """Run the job's methods on one cell and seed, on the same robustly scaled rows as the fair protocol."""
    names, table = job.pop("names"), job.pop("table")
    chosen = [candidate for candidate in candidates(table) if candidate.name in names]
    return score_methods(job, robustness.prepared(robustness.draw(job)), chosen)


def run(folder: Path, seeds: int, processes: int) -> None:
    """Fill the table, going on where an earlier run stopped."""
    store = Store(folder / FILE)
    todo = []
    for seed in range(seeds):
        for (data, corruption, noise, trusted), table in CELLS.values():
            job: Line = {"experiment": "real", "protocol": "paper", "data": data, "corruption": corruption}
            job |= {"noise": noise, "trusted": trusted, "seed": seed}
            names = [c.name for c in candidates(table) if not store.has({**job, "method": c.name})]
            if names:
                todo.append({**job, "names": names, "table": table})
    run_jobs(store, todo, work, processes=processes, title="real data (paper protocol)")
