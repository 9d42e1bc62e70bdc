"""``comt bench issues``: how well issues() finds, names and repairs known errors, beside DUTI and cleanlab.

Rows are judged by what the estimators' defaults (automatic choice) train. Cells of ``UNSEEN`` were not designed for.
Competitors get all agents' rows in one place, which is more than either would have in a federation.
"""

from __future__ import annotations

import csv
import importlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from comt import CoMTClassifier, CoMTRegressor, __version__
from comt.baselines.base import Array, Task, pooled
from comt.baselines.confident_learning import held_out_chances
from comt.baselines.duti import repair_path
from comt.bench.issues_unseen import UNSEEN, UNSEEN_TRUSTED, unseen_federation
from comt.bench.robustness import prepared
from comt.datasets import noisy_federation
from comt.datasets.corruptions import CORRUPTIONS, Corruption, GaussianNoise, LabelFlips, NegatedTargets, UnitError
from comt.datasets.corruptions.base import Draft
from comt.datasets.federated import FederatedData

N_ROWS, TRUSTED = 2_000, (20, 100, 400)


@dataclass(frozen=True)
class SomeUnits(Corruption):
    """One agent writes one column in another unit, in a tenth of its rows."""

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        return "one column multiplied by 1000 in a tenth of one agent's rows"

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Multiply cells."""
        rows = draft.features[int(rng.integers(len(draft.features)))]
        rows[rng.random(len(rows)) < 0.1, int(rng.integers(rows.shape[1]))] *= 1000.0


_BOTH: dict[str, Corruption] = {
    "nothing wrong": CORRUPTIONS["clean"],
    "feature noise 0.6": GaussianNoise(0.6, 0.0),
    "feature noise 1.2": GaussianNoise(1.2, 0.0),
    "feature noise 3": GaussianNoise(3.0, 0.0),
    "3 of 5 agents reversed": CORRUPTIONS["wrong_agents"],
    "column × 1000 at one agent": CORRUPTIONS["unit_error"],
    "column × 0.01 at one agent": UnitError(0.01),
    "column × 1000 in a tenth of one agent's rows": SomeUnits(),
    "codes −999": CORRUPTIONS["missing_codes"],
    "codes 0": CORRUPTIONS["missing_zeros"],
    "copied rows": CORRUPTIONS["duplicated_rows"],
}
SUITE: dict[Task, dict[str, Corruption]] = {
    "regression": _BOTH
    | {
        "20 % of the targets negated": NegatedTargets(0.2),
        "half of the targets negated": NegatedTargets(0.5),
        "targets × 10": CORRUPTIONS["scaled_targets"],
        "2 of 5 agents shifted": CORRUPTIONS["shifted_targets"],
    },
    "classification": _BOTH
    | {
        "20 % flips": LabelFlips(0.2),
        "40 % flips": LabelFlips(0.4),
        "flips of one class": CORRUPTIONS["asymmetric_flips"],
        "flips by a feature": CORRUPTIONS["feature_dependent_flips"],
        "rule of thumb": CORRUPTIONS["rule_of_thumb"],
    },
}
#: where competitors that look at targets only are asked too
COMPARED = ("20 % of the targets negated", "half of the targets negated", "20 % flips", "40 % flips")
#: DUTI takes longer than everything else together
COMPARED_SEEDS = 20
KEYS = ("task", "corruption", "trusted", "seed")
FIELDS = (
    *KEYS,
    *("wrong", "average_precision", "duti", "cleanlab", "high", "precision_high", "recall_high", "suggested_right"),
    *("cells_named", "cells_misnamed", "error_left", "error_left_rank_one", "rows_by_score", "wrong_by_score"),
    *("seconds", "version"),
)


def issues_of(data: FederatedData) -> pd.DataFrame:
    """Fit with the estimator's defaults and return the issue table in the order of the buggy rows, changes included."""
    rows = data.pooled()
    model = CoMTRegressor() if data.task == "regression" else CoMTClassifier()
    model.fit(rows.X, rows.y, agents=rows.agents, trusted=rows.trusted)
    table: pd.DataFrame = model.issues(changes=True)
    return table.sort_values("row", kind="stable", ignore_index=True)


def measure(data: FederatedData, table: pd.DataFrame) -> dict[str, Any]:
    """Compare an issue table with the truth."""
    wrong, cells = np.concatenate(data.wrong_rows), np.concatenate(data.wrong_cells)
    score = table["score"].to_numpy()
    high = score >= 0.8
    found: dict[str, Any] = {"wrong": float(wrong.mean()), "high": float(high.mean())}
    tenth = np.minimum((10.0 * score).astype(int), 9)
    for name, rows in (("rows_by_score", tenth), ("wrong_by_score", tenth[wrong])):
        found[name] = " ".join(map(str, np.bincount(rows, minlength=10)))
    if wrong.any():
        found["average_precision"] = float(average_precision_score(wrong, score))
        found["recall_high"] = float(high[wrong].mean())
    if high.any():
        found["precision_high"] = float(wrong[high].mean())
    about_targets = ~table["kind"].isin(["unit", "missing code"]).to_numpy()
    if data.task == "classification" and about_targets.any():
        right = table["suggested"].to_numpy()[about_targets] == np.concatenate(data.clean_targets)[about_targets]
        found["suggested_right"] = float(np.mean(right))
    names = [f"x{column}" for column in range(cells.shape[1])]
    listed = table["column"].str.split(", ")
    named = np.stack([[name in entry for entry in listed] for name in names], axis=1)
    found["cells_misnamed"] = float((named & ~cells).sum() / named.size)
    if cells.any():
        found["cells_named"] = float((named & cells).sum() / cells.sum())
        changes = table[[f"change {name}" for name in names]].to_numpy()
        found |= _errors_left(data, changes)
    return found


def _errors_left(data: FederatedData, changes: Array) -> dict[str, float]:
    """Return the squared error of the features after repair, and after the best rank-one repair, relative to before."""
    clean = np.concatenate(data.clean_features)
    raw, targets, *_ = pooled(data.agents)
    spread = clean.std(axis=0)
    wanted = (clean - raw) / spread
    before = float((wanted**2).sum())
    left = {"error_left": float(((wanted - changes / spread) ** 2).sum()) / before}
    # the best repair along any one direction, by the errors of the model of the clean rows: nobody could know it
    truth = np.concatenate(data.clean_targets)
    if data.task == "regression":
        error = targets - LinearRegression().fit(clean, truth).predict(raw)
    else:
        model = make_pipeline(StandardScaler(), LogisticRegression()).fit(clean, truth)
        error = (targets > 0) - model.predict_proba(raw)[:, 1]
    rest = wanted - np.outer(error, error @ wanted / (error @ error))
    left["error_left_rank_one"] = float((rest**2).sum()) / before
    return left


def competitors(data: FederatedData) -> dict[str, float]:
    """Return the average precision of DUTI's ranking and, for labels, of cleanlab's."""
    rows = pooled(prepared(data).agents)
    wrong = np.concatenate(data.wrong_rows)
    found = {"duti": float(average_precision_score(wrong, -repair_path(*rows, data.task).rank))}
    if data.task == "classification":
        quality: Callable[..., NDArray[Any]] = importlib.import_module("cleanlab.rank").get_label_quality_scores
        chances = held_out_chances(rows[0], rows[1], 1.0, 5, 0)
        found["cleanlab"] = float(average_precision_score(wrong, -quality((rows[1] > 0).astype(int), chances)))
    return found


def work(job: tuple[Task, str, int, int]) -> dict[str, Any]:
    """Run one cell of one seed."""
    task, name, trusted, seed = job
    started = time.perf_counter()
    if name in SUITE[task]:
        data = noisy_federation(
            task, corruption=SUITE[task][name], n_rows=N_ROWS, n_trusted=trusted, n_test=10, seed=seed
        )
    else:
        data = unseen_federation(task, name, trusted, seed)
    line: dict[str, Any] = dict(zip(KEYS, job, strict=True))
    line |= measure(data, issues_of(data))
    if name in COMPARED and seed < COMPARED_SEEDS:
        line |= competitors(data)
    return line | {"seconds": time.perf_counter() - started, "version": __version__}


def run(folder: Path, seeds: int, processes: int) -> None:
    """Fill ``issues.csv``, going on where an earlier run stopped; seeds outermost."""
    path = folder / "issues.csv"
    done: set[tuple[str, ...]] = set()
    if path.exists():
        with path.open(newline="") as file:
            done = {tuple(line[key] for key in KEYS) for line in csv.DictReader(file)}
    cells = [
        (task, name, m)
        for suite, trusted in ((SUITE, TRUSTED), (UNSEEN, UNSEEN_TRUSTED))
        for task, names in suite.items()
        for name, m in product(names, trusted)
    ]
    todo = [(*cell, seed) for seed in range(seeds) for cell in cells if tuple(map(str, (*cell, seed))) not in done]
    folder.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file, ProcessPoolExecutor(max_workers=processes) as pool:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        for number, line in enumerate(pool.map(work, todo), start=1):
            writer.writerow({key: _short(value) for key, value in line.items()})
            file.flush()
            print(f"\rissues: {number} of {len(todo)}", end="" if number < len(todo) else os.linesep, flush=True)


def _short(value: Any) -> Any:
    return f"{value:.5g}" if isinstance(value, float) else value
