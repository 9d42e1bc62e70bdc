"""``comt bench few``: five trusted rows, a hundred seeds, beside what whoever chooses between two models could reach.

Five rows are often unlucky, so that twenty seeds say little about a cell. And no method can win everywhere: the same
unverified rows may be right or wrong, and only the trusted rows tell. The limit here is that of the best test between two
worlds with the same unverified rows, one of which is the cell's (Neyman and Pearson): it knows the models of both worlds
exactly, has to hold its own in the other world, and is as good in this one as that allows. What is left for whoever does not
know the right model is in :mod:`comt.bench.unknown_model`, the limit for targets in :mod:`comt.bench.limits_of_targets`.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import track
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from comt.bench import limits_of_targets, robustness, unknown_model
from comt.bench.store import Line, Store, run_jobs
from comt.bench.unknown_model import fitted, log_likelihood
from comt.problem import Array

TRUSTED = 5
CELL = ["experiment", "data", "corruption", "noise", "trusted"]
#: cells of ``unseen`` that its ten or twenty seeds called lost: so many draws of few rows do not tell
LOST_WITH_FEW_SEEDS = (
    ("20 columns", "55 % flips", 6),
    ("rare positives", "55 % flips", 6),
    ("rare positives", "rule on one column", 6),
    ("breast cancer", "rule on one column", 6),
    ("breast cancer", "rule on one column", 24),
    ("54 columns", "40 % flips", 5),
    ("moons", "58 % flips", 6),
    ("one of three classes", "57 % flips", 6),
    ("one of three classes", "rule on one column", 6),
    ("uncertain classes", "clean", 6),
    ("fast progression", "56 % flips", 6),
    ("skewed columns", "56 % flips", 6),
    ("cultivar", "rule on one column", 6),
    ("cultivar", "59 % flips", 6),
    ("yes or no", "59 % flips", 6),
    ("threes and eights", "62 % flips", 6),
    ("four measurements", "57 % flips", 6),
    ("ten errors", "61 % flips", 6),
    ("ten errors", "rule on one column", 6),
    ("ten errors", "flips by three columns", 6),
    ("wine", "several errors", 6),
    ("breast cancer", "all agents reversed", 6),
    ("uncertain classes", "codes 777", 6),
    ("uncertain classes", "flips by four columns", 6),
    ("proline", "feature noise 1.3", 6),
    ("proline", "22 % negated", 6),
    ("proline", "30 % of the targets × 5", 6),
    ("blood sugar", "feature noise 1.8", 6),
    ("ratings", "30 % of the targets × 5", 6),
    ("counts", "35 % of the targets × 6", 6),
    ("prices", "25 % of the targets × 8", 6),
    ("digit values", "35 % negated", 6),
    ("digit values", "35 % negated", 24),
    ("fours and nines", "flips by two columns", 6),
    ("fours and nines", "rule on one column", 6),
    ("fours and nines", "44 % flips", 6),
    ("worst measurements", "rule on one column", 6),
    ("worst measurements", "64 % flips", 6),
    ("worst measurements", "flips by two columns", 6),
    ("25 columns", "several errors", 6),
    ("25 columns", "44 % flips", 6),
    ("area errors", "clean", 6),
    ("area errors", "feature noise 0.9", 6),
    ("area errors", "noise 1 everywhere", 6),
    ("8 columns", "35 % flips", 6),
    ("school results", "noise 0.7 everywhere", 6),
    ("affairs", "60 % flips", 6),
    ("visits", "several errors", 6),
    ("visits", "two agents reversed", 6),
    ("visits", "55 % of one class flipped", 6),
    ("visits", "39 % flips", 6),
    ("ones and sevens", "rule on one column", 6),
    ("ones and sevens", "flips by two columns", 6),
    ("ones and sevens", "63 % flips", 6),
    ("16 columns", "41 % flips", 6),
    ("occupation", "41 % flips", 6),
    ("twos and threes", "flips by three columns", 6),
    ("journeys", "flips by three columns", 96),
    ("journeys", "several errors", 96),
    ("journeys", "clean", 24),
    ("one of three classes", "clean", 6),
    ("fours and nines", "64 % flips", 6),
    ("fours and nines", "flips by two columns", 24),
    ("ones and sevens", "flips by two columns", 24),
    ("uncertain classes", "45 % of one class flipped", 6),
)
#: and they get so many times as many seeds as the others
MORE_SEEDS = 4
#: data sets and sets of trusted rows that a limit is averaged over
DATA_SETS, DRAWS = 10, 20_000
#: seeds that a limit is averaged over where the right model is not known
SEEDS_OF_LIMITS = 50
#: what may be lost in the other world: to the better simple choice, to plain training where nothing is wrong, and to trusted
#: rows alone where unverified labels have nothing to do with right ones
MAY_LOSE, MAY_LOSE_ON_CLEAN, MAY_LOSE_OF_FEW = 0.01, 0.005, 0.02


def cells() -> list[Line]:
    """List cells with labels and five rows of ``robustness`` and ``choice``, lost ones of ``unseen``, and the vague ones."""
    found = [
        job
        for experiment in ("robustness", "choice")
        for job in robustness.jobs(experiment, 1, robustness.CHOICE_METHODS)
        # boosted updates act on methods that are not among these
        if job["trusted"] == TRUSTED and job["data"] in robustness.CLASSIFIED and job["corruption"] != "boosted_update"
    ]
    lost = [
        job
        for job in robustness.jobs("unseen", 1, robustness.CHOICE_METHODS)
        if (job["data"], job["corruption"], job["trusted"]) in LOST_WITH_FEW_SEEDS
    ]
    return found + lost + robustness.jobs("vague", 1, robustness.CHOICE_METHODS)


def jobs(seeds: int) -> list[Line]:
    """List every cell and seed, seeds outermost, so that an interrupted run has whole tables of fewer seeds."""
    return [
        {**cell, "seed": seed}
        for seed in range(MORE_SEEDS * seeds)
        for cell in cells()
        if seed < seeds or cell["experiment"] == "unseen"
    ]


def run(folder: Path, seeds: int, processes: int) -> None:
    """Fill the table, going on where an earlier run stopped; then compute the limits."""
    store = Store(folder / "few.csv")
    todo = []
    for job in jobs(seeds):
        names = tuple(name for name in job["names"] if not store.has({**job, "method": name}))
        if names:
            todo.append({**job, "names": names})
    run_jobs(store, todo, robustness.work, processes=processes, title="few")
    limits(pd.read_csv(store.path), processes).to_csv(folder / "few_limits.csv", index=False)


def limits(results: pd.DataFrame, processes: int = 1) -> pd.DataFrame:
    """Return the limit of every cell."""
    scores = results.pivot_table(index=[*CELL, "seed"], columns="method", values="score", sort=False)
    wanted = cells()
    seeds = [scores.loc[tuple(cell[key] for key in CELL)] for cell in wanted]
    if processes == 1:
        return pd.DataFrame([_limits(*each) for each in zip(track(wanted, "limits"), seeds, strict=True)])
    with ProcessPoolExecutor(processes) as pool:
        return pd.DataFrame(list(track(pool.map(_limits, wanted, seeds), "limits", total=len(wanted))))


def _limits(cell: Line, scores: pd.DataFrame) -> Line:
    """Return the limits of one cell (``scores``, a line per seed)."""
    named = {key: cell[key] for key in CELL}
    if cell["data"] not in robustness.CLASSIFIED:
        known = unknown = limits_of_targets.limit(cell, scores[:DATA_SETS], MAY_LOSE_ON_CLEAN)
        return {**named, "limit": round(known, 4), "unknown": round(unknown, 4)}
    worlds = [_Worlds(cell, seed) for seed in range(DATA_SETS)]
    trusted, buggy = float(scores["TI-only"].mean()), float(scores["Buggy-only"].mean())
    known = float(np.mean([world.limit(trusted, buggy) for world in worlds]))
    some = scores[:SEEDS_OF_LIMITS]  # what choosing gains there is added to the mean of all
    if trusted > buggy:
        unknown = unknown_model.limit(cell, some, MAY_LOSE_ON_CLEAN) - some["TI-only"].mean() + trusted
    else:
        unknown = min(
            float(np.mean([world.sign_by_unverified(trusted, buggy) for world in worlds])),
            unknown_model.limit_of_belief(cell, some, MAY_LOSE_OF_FEW) - some["Buggy-only"].mean() + buggy,
        )
    return {**named, "limit": round(known, 4), "unknown": round(min(known, unknown), 4)}


class _Worlds:
    """One data set of a cell: what right labels follow, and what unverified ones do."""

    def __init__(self, cell: Line, seed: int) -> None:
        raw = robustness.draw({**cell, "seed": seed})
        data, clean = robustness.prepared(raw), robustness.prepared(raw.clean())
        self._labels = data.test_targets
        self._right = fitted(clean.agents).decision_function(clean.test_features)
        self._unverified = fitted(data.agents).decision_function(data.test_features)
        self._rng = np.random.default_rng(seed)
        self._rows = self._rng.integers(len(self._labels), size=(DRAWS, int(cell["trusted"])))

    def limit(self, trusted: float, buggy: float) -> float:
        """Return the best mean score that a choice between the two simple models (or a reversed one) can have."""
        if buggy >= trusted:
            return self._sign_is_told(self._right, trusted, buggy)
        return self._rows_are_believed(trusted, buggy)

    def sign_by_unverified(self, trusted: float, buggy: float) -> float:
        """Return the same for whoever knows the model only as far as unverified labels tell it, up to its sign."""
        return self._sign_is_told(self._unverified, trusted, buggy)

    def _sign_is_told(self, score: Array, trusted: float, buggy: float) -> float:
        """The other world: all labels are reversed; there the trusted rows alone must not be missed."""
        evidence = (self._labels * score)[self._rows].sum(axis=1)
        needed = np.clip((trusted - MAY_LOSE - (1.0 - buggy)) / (2.0 * buggy - 1.0), 0.0, 1.0)
        reversed_below = np.quantile(-evidence, needed)
        return buggy - float((evidence < reversed_below).mean()) * (2.0 * buggy - 1.0)

    def _rows_are_believed(self, trusted: float, buggy: float) -> float:
        """The other world: unverified labels are right; there plain training must not be missed."""
        labels = np.where(self._rng.random(len(self._labels)) < expit(self._unverified), 1.0, -1.0)
        plain = float(roc_auc_score(labels > 0, self._unverified))
        evidence = [
            log_likelihood(y, self._right) - log_likelihood(y, self._unverified) for y in (self._labels, labels)
        ]
        here, there = (each[self._rows].sum(axis=1) for each in evidence)
        doubted_above = np.quantile(there, 1.0 - min(1.0, MAY_LOSE_ON_CLEAN / max(plain - trusted, 1e-9)))
        return buggy + float((here > doubted_above).mean()) * (trusted - buggy)
