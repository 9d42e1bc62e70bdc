"""Cross-validation that scores on trusted rows only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator, KFold, StratifiedKFold
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _num_samples

from comt.errors import InputError
from comt.inputs import check_trusted


class TrustedKFold(BaseCrossValidator):  # type: ignore[misc]
    """K folds over the *trusted* rows; all buggy rows are in every training set, in no test set.

    Plain ``KFold`` in ``GridSearchCV`` would score on buggy rows, and so prefer the model that reproduces their errors.

    Parameters
    ----------
    n_splits:
        Number of folds.
    trusted:
        Mask of trusted rows. Leave it out to pass it to ``split`` (or, with metadata routing, to ``GridSearchCV.fit``).
    shuffle, random_state:
        As in scikit-learn's ``KFold``.

    Examples
    --------
    >>> import numpy as np
    >>> trusted = np.array([True, False, True, False, False, True])
    >>> for train, test in TrustedKFold(3, trusted=trusted).split(np.zeros((6, 1))):
    ...     print(train, test)
    [1 2 3 4 5] [0]
    [0 1 3 4 5] [2]
    [0 1 2 3 4] [5]
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        trusted: Any = None,
        shuffle: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.n_splits = n_splits
        self.trusted = trusted
        self.shuffle = shuffle
        self.random_state = random_state

    def split(
        self, X: Any, y: Any = None, groups: Any = None, trusted: Any = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield training and test positions; classes are balanced over the folds where there are enough rows."""
        given = self.trusted if trusted is None else trusted
        n_rows = _num_samples(X)
        if given is None:
            raise InputError("TrustedKFold was given no trusted rows; pass trusted=mask to it or to split.")
        positions = np.flatnonzero(check_trusted(given, n_rows))
        if len(positions) < self.n_splits:
            raise InputError(
                f"there are {len(positions)} trusted rows for n_splits={self.n_splits} folds; use at most that many folds."
            )
        seed = self.random_state if self.shuffle else None
        folds: Any = KFold(self.n_splits, shuffle=self.shuffle, random_state=seed)
        labels = None if y is None else np.asarray(y)[positions]
        if labels is not None and type_of_target(labels) == "binary":
            counts = np.unique(labels, return_counts=True)[1]
            if counts.min() >= self.n_splits:
                folds = StratifiedKFold(self.n_splits, shuffle=self.shuffle, random_state=seed)
        for _, test in folds.split(positions, labels):
            mask = np.ones(n_rows, dtype=bool)
            mask[positions[test]] = False
            yield np.flatnonzero(mask), positions[test]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, trusted: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits
