"""One clean data set in one place, before it is spread over agents."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from comt.datasets._types import Array, Indices, Task


@dataclass(frozen=True, eq=False)
class Table:
    """Clean rows, and what is known about where they come from. Labels are -1 and +1."""

    name: str
    features: Array  # n x d
    targets: Array  # n
    task: Task
    feature_names: tuple[str, ...]
    # rows that the data set itself sets aside for testing
    test_features: Array | None = None
    test_targets: Array | None = None
    # naturally federated data: the index into `site_names` of every row
    sites: Indices | None = None
    site_names: tuple[str, ...] = ()

    def standardised(self) -> Table:
        """Return the table with columns, and regression targets, of mean 0 and standard deviation 1.

        The paper's noise has one scale for all columns, so on real data it only means the same thing in every
        column once these have a common unit. The test rows are moved by the training rows' mean and scale.
        """
        mean, scale = _location_scale(self.features)
        test_features = None if self.test_features is None else (self.test_features - mean) / scale
        targets, test_targets = self.targets, self.test_targets
        if self.task == "regression":
            centre, spread = _location_scale(targets)
            targets = (targets - centre) / spread
            test_targets = None if test_targets is None else (test_targets - centre) / spread
        return replace(
            self,
            name=f"{self.name}, standardised",
            features=(self.features - mean) / scale,
            targets=targets,
            test_features=test_features,
            test_targets=test_targets,
        )


def numbered(d: int) -> tuple[str, ...]:
    """Return x1, ..., xd: the names of columns that have none."""
    return tuple(f"x{j}" for j in range(1, d + 1))


def _location_scale(values: Array) -> tuple[Array, Array]:
    scale = np.asarray(values.std(axis=0))
    # a constant column becomes zeros, not NaN
    return np.asarray(values.mean(axis=0)), np.where(scale > 0, scale, 1.0)
