"""Cells of ``comt bench issues`` that issues() was not designed on: other data, other errors.

They were written down before they were first run, and nothing was changed because of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import expit

from comt.baselines.base import Array, Task
from comt.datasets import federate, load_cpusmall, load_ijcnn1
from comt.datasets.corruptions import AsymmetricFlips, Clean, Corruption, LabelFlips, MissingCodes, UnitError
from comt.datasets.corruptions.base import Draft
from comt.datasets.federated import FederatedData
from comt.datasets.table import Table

UNSEEN_TRUSTED = (20, 100)
N_ROWS = 2_000


@dataclass(frozen=True)
class SomeShifted(Corruption):
    """A third of the targets, at every agent, is too large by 1.5 standard deviations."""

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        return "a third of the targets shifted by 1.5 standard deviations"

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Shift them."""
        size = float(np.concatenate(draft.targets).std())
        for y in draft.targets:
            y[rng.random(len(y)) < 1 / 3] += 1.5 * size


@dataclass(frozen=True)
class SwappedColumns(Corruption):
    """One agent wrote two columns into each other's place."""

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        return "two columns swapped at one agent"

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Swap them."""
        rows = draft.features[int(rng.integers(len(draft.features)))]
        first, second = rng.permutation(rows.shape[1])[:2]
        rows[:, [first, second]] = rows[:, [second, first]]


def correlated_table(task: Task, seed: int) -> Table:
    """Ten columns, each correlated .7 with the next and in units of its own; Laplace noise; labels by a logistic model."""
    rng = np.random.default_rng([seed, 4])
    n = 4_000
    features = rng.normal(size=(n, 10))
    for column in range(1, 10):
        features[:, column] = 0.7 * features[:, column - 1] + np.sqrt(0.51) * features[:, column]
    signal = features @ rng.normal(size=10)
    signal /= signal.std()
    if task == "regression":
        targets: Array = signal + 0.3 * rng.laplace(size=n)
    else:
        targets = np.where(rng.random(n) < expit(3.0 * signal), 1.0, -1.0)
    units, offsets = 10.0 ** rng.uniform(-1, 2, 10), rng.uniform(-3, 8, 10)
    names = tuple(f"x{column}" for column in range(10))
    return Table("correlated columns", (features + offsets) * units, targets, task, names)


@cache
def _cpusmall() -> Table:
    return load_cpusmall()


@cache
def _ijcnn() -> Table:
    return load_ijcnn1()


@cache
def _breast_cancer() -> Table:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    return Table("breast cancer", data.data, 2.0 * data.target - 1.0, "classification", tuple(data.feature_names))


_EITHER: dict[str, Corruption] = {
    "correlated columns: nothing wrong": Clean(),
    "correlated columns: column × 0.1 at one agent": UnitError(0.1),
    "correlated columns: codes 9999": MissingCodes(9999.0, 0.1, 2),
    "correlated columns: codes −1": MissingCodes(-1.0, 0.1, 2),
    "correlated columns: two columns swapped at one agent": SwappedColumns(),
}
UNSEEN: dict[Task, dict[str, Corruption]] = {
    "regression": _EITHER
    | {
        "correlated columns: a third of the targets shifted": SomeShifted(),
        "CPUSMALL: nothing wrong": Clean(),
        "CPUSMALL: a third of the targets shifted": SomeShifted(),
        "CPUSMALL: codes 9999": MissingCodes(9999.0, 0.1, 2),
    },
    "classification": _EITHER
    | {
        "correlated columns: 30 % of one class flipped": AsymmetricFlips(0.3),
        "breast cancer: nothing wrong": Clean(),
        "breast cancer: 30 % flips": LabelFlips(0.3),
        "breast cancer: 30 % of one class flipped": AsymmetricFlips(0.3),
        "IJCNN: 30 % flips": LabelFlips(0.3),
    },
}
_TABLES: dict[str, Callable[[], Table]] = {"CPUSMALL": _cpusmall, "IJCNN": _ijcnn, "breast cancer": _breast_cancer}


def unseen_federation(task: Task, name: str, trusted: int, seed: int) -> FederatedData:
    """Return the data of one such cell."""
    source = name.split(":")[0]
    table = _TABLES[source]() if source in _TABLES else correlated_table(task, seed)
    rows = min(N_ROWS, len(table.targets) - trusted - 10)
    return federate(table, corruption=UNSEEN[task][name], trusted=trusted, train=rows, test=10, seed=seed)
