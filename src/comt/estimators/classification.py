"""Classification of two classes in scikit-learn's manner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from comt.agent import Agent
from comt.agent.files import FileRows
from comt.errors import InputError
from comt.estimators.base import CoMTLinear
from comt.inputs import check_features, check_labels
from comt.losses import get_loss
from comt.problem import Array


class CoMTClassifier(ClassifierMixin, CoMTLinear):  # type: ignore[misc]
    """Logistic regression of two classes taught by trusted rows, over the rows of several agents.

    Parameters, attributes and objective as in :class:`CoMTRegressor`, with the logistic loss; ``classes_[1]`` is the
    positive class. λ_α does not make α sparse here, it only shifts it (erratum E14).

    Examples
    --------
    >>> import numpy as np
    >>> from comt import CoMTClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.where(X[:, 0] > 0, "ill", "well")
    >>> trusted = np.arange(400) < 20
    >>> flipped = ~trusted & (rng.random(400) < 0.3)
    >>> noisy = np.where(flipped, np.where(y == "ill", "well", "ill"), y)
    >>> model = CoMTClassifier().fit(X, noisy, agents=np.arange(400) % 4, trusted=trusted)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _loss_name = "logistic"

    def _check_fit(self, X: Any, y: Any) -> tuple[Array, Array]:
        check_labels(y)
        features, labels = check_features(self, X, y, reset=True)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self._check_classes()
        return features, np.where(codes == 1, 1.0, -1.0)

    def _check_classes(self) -> None:
        n_classes = len(self.classes_)
        if n_classes == 1:
            raise InputError(
                f"y holds one class only ({self.classes_[0]}); a classifier needs two classes over all agents."
            )
        if n_classes > 2:
            raise InputError(
                f"Only binary classification is supported. The type of the target is multiclass: y has {n_classes} "
                "classes; merge them into two, or train one model per class."
            )

    def _agree_on_targets(self, agents: Sequence[Agent]) -> None:
        files = [agent.rows for agent in agents if isinstance(agent.rows, FileRows)]
        labels = set().union(*(rows.labels for rows in files)) if files else {-1.0, 1.0}
        self.classes_ = np.array(sorted(labels))
        self._check_classes()
        for rows in files:
            rows.use_classes((self.classes_[0], self.classes_[1]))

    def _set_coefficients(self, coef: Array, intercept: float) -> None:
        self.coef_, self.intercept_ = coef[None, :], np.array([intercept])

    def decision_function(self, X: Any) -> Array:
        """Return the score whose sign is the class and whose size is the log-odds."""
        return self._scores(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels."""
        scores = self._scores(X)
        labels: NDArray[Any] = self.classes_[(scores > 0).astype(int)]
        return labels

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of ``classes_``, one column each."""
        positive = get_loss("logistic").predict_mean(self._scores(X))
        return np.column_stack([1.0 - positive, positive])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
