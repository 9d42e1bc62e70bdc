"""Regression in scikit-learn's manner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from comt.agent import Agent
from comt.estimators.base import CoMTLinear
from comt.inputs import check_features, check_targets
from comt.problem import Array


class CoMTRegressor(RegressorMixin, CoMTLinear):  # type: ignore[misc]
    """Ridge regression taught by trusted rows, over the rows of several agents.

    By default everything is chosen by the trusted rows: see the page on dual and direct teaching. With numbers for the
    λ's it minimises the objective of the method page: a ridge fit of the buggy rows (λ_w) whose model is pulled to the
    trusted rows (λ_trusted), with sparse duals (λ_α) and changed features (λ_Z).

    Parameters
    ----------
    teaching:
        ``"auto"``: models of the buggy rows, weighed and averaged by the trusted rows (``"dual"`` as soon as a λ or
        ``select`` is given); ``"dual"``: the paper's objective; ``"direct"``: its Eq. 1 solved in the primal, which
        repairs features instead of spoiling them (erratum E5).
    lambda_w, lambda_trusted, lambda_alpha, lambda_z:
        Weights of the objective; sums, not means. ``lambda_z=numpy.inf`` changes no features (CoMT-subset). ``"auto"``:
        by cross-validation on the trusted rows, among which buggy-only and trusted-only stand as they are.
    select:
        None: learn from all rows; a fraction in (0, 1]; ``"auto"``: the fraction that does best on held-out trusted rows.
    select_by:
        ``"alpha"``: the paper's rule (largest \\|α\\|, see erratum E13); ``"loss"``: keep the smallest losses and refit.
        None: ``"alpha"`` for a given fraction with numbers for every λ; ``"loss"`` where anything is ``"auto"``.
    solver:
        ``"newton"``; ``"newton-cg"`` (agents send vectors only; taken by itself beyond 1,000 columns); ``"admm"``
        (Algorithm 1, corrected). Of the final fit under ``"dual"``; elsewhere it has no effect, which is said.
    rho, gamma:
        Penalty and step of ``"admm"``: ``rho="auto"`` is the fast sharing form, a number the printed damped form.
    max_rounds, tol:
        Limit of exchanges, and the certificate at which the solver stops.
    fit_intercept, standardize:
        Fit a (lightly penalised) intercept; scale features and target by median and interquartile range.
    warm_start:
        Start from the previous fit's solution.
    verbose:
        1: print a line per round.

    Attributes
    ----------
    coef_, intercept_ :
        The model on raw features.
    theta_, r_ :
        The model, and the model implied by the buggy rows, in the standardised space.
    alpha_ :
        One dual value (rescaled residual) per row of X, before selection; NaN on trusted rows.
    selected_ :
        Which rows were learnt from (trusted rows always are): all but those that ``select`` set aside, and those of agents
        that count next to nothing. Rows that were learnt from as half believed, or with their labels or targets reversed,
        count as selected; ``choice_`` says how.
    certificate_ :
        Norm of the gradient that vanishes at the solution, relative to its scale; at most ``tol``.
    n_rounds_, history_ :
        Number of exchanges with the agents in all, and what was recorded per round.
    choice_ :
        What the automatic choice found (None where nothing was chosen); ``summary()`` says it in words.
    preparation_ :
        How raw rows become the rows of the model. Automatic choice compresses heavy tails: ``coef_`` then holds the
        slopes for ordinary values (within three spreads of the median), and ``predict`` does the rest.

    Examples
    --------
    >>> import numpy as np
    >>> from comt import CoMTRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = X @ [1.0, -2.0, 0.5]
    >>> trusted = np.arange(300) < 20
    >>> y[20:160] *= -1  # half of the unverified targets have the wrong sign
    >>> hospital = np.arange(300) % 3
    >>> model = CoMTRegressor().fit(X, y, agents=hospital, trusted=trusted)
    >>> bool(model.score(X[:20], y[:20]) > 0.95)
    True
    """

    _loss_name = "squared"

    def _check_fit(self, X: Any, y: Any) -> tuple[Array, Array]:
        check_targets(y)
        features, targets = check_features(self, X, y, reset=True, y_numeric=True)
        return features, np.asarray(targets, dtype=np.float64)

    def _agree_on_targets(self, agents: Sequence[Agent]) -> None:
        """Numeric targets need no agreement."""

    def _set_coefficients(self, coef: Array, intercept: float) -> None:
        self.coef_, self.intercept_ = coef, intercept

    def predict(self, X: Any) -> Array:
        """Predict targets."""
        return self._scores(X)
