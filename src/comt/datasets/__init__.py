"""Data for experiments: clean tables, ways to spoil them, and federations that remember the truth.

A ``Table`` is clean and in one place: drawn (``cluster_table``, ``noisy_table``) or loaded
(``load_cpusmall``, ``load_ijcnn1``, ``load_heart_disease``). ``federate`` spreads it over agents and corrupts
the buggy rows with one of ``CORRUPTIONS``; the resulting ``FederatedData`` knows what is wrong in them.

>>> from comt.datasets import noisy_federation
>>> data = noisy_federation("classification", corruption="label_flips", n_rows=1000, n_trusted=20, seed=7)
>>> X, y, agents, trusted = data.pooled()
>>> X.shape, int(trusted.sum()), int(data.pooled_wrong().sum())
((1020, 10), 20, 400)
"""

from __future__ import annotations

from comt.datasets.corruptions import CORRUPTIONS, CorruptedRows, Corruption
from comt.datasets.federated import FederatedData, Pooled
from comt.datasets.real import LOADERS, load_cpusmall, load_heart_disease, load_ijcnn1
from comt.datasets.split import federate
from comt.datasets.synthetic import cluster_table, noisy_federation, noisy_table, paper_federation
from comt.datasets.table import Table

__all__ = [
    "CORRUPTIONS",
    "LOADERS",
    "CorruptedRows",
    "Corruption",
    "FederatedData",
    "Pooled",
    "Table",
    "cluster_table",
    "federate",
    "load_cpusmall",
    "load_heart_disease",
    "load_ijcnn1",
    "noisy_federation",
    "noisy_table",
    "paper_federation",
]
