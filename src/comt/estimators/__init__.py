"""scikit-learn's view of CoMT: the one place that holds both sides, the agents' rows and the server's sums."""

from __future__ import annotations

from comt.estimators.classification import CoMTClassifier
from comt.estimators.regression import CoMTRegressor

__all__ = ["CoMTClassifier", "CoMTRegressor"]
