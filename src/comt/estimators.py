"""scikit-learn's view of CoMT: the one place that holds both sides, the agents' rows and the server's sums."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from comt.agent import Agent
from comt.agent.files import FileRows
from comt.errors import InputError, SparsityWarning
from comt.federation import LocalFederation
from comt.inputs import check_features, check_trusted, group
from comt.losses import LossName, get_loss
from comt.problem import Array
from comt.progress import RoundReporter
from comt.server.issues_context import gather_context
from comt.server.training import Settings, Training, train
from comt.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

#: rows in all from which agents run in threads
THREADS_FROM = 1_000_000


class _CoMTLinear(CallbackSupportMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """What both estimators share: parameters, training, the issue table."""

    _loss_name: ClassVar[LossName]
    theta_: Array
    r_: Array

    def __init__(
        self,
        *,
        teaching: str = "dual",
        lambda_w: float = 1.0,
        lambda_trusted: float = 1.0,
        lambda_alpha: float = 0.0,
        lambda_z: float = np.inf,
        select: float | str | None = None,
        select_by: str | None = None,
        solver: str = "newton",
        rho: float | str = "auto",
        gamma: float = 1.0,
        max_rounds: int | None = None,
        tol: float = 1e-8,
        fit_intercept: bool = True,
        standardize: bool = True,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self.teaching = teaching
        self.lambda_w = lambda_w
        self.lambda_trusted = lambda_trusted
        self.lambda_alpha = lambda_alpha
        self.lambda_z = lambda_z
        self.select = select
        self.select_by = select_by
        self.solver = solver
        self.rho = rho
        self.gamma = gamma
        self.max_rounds = max_rounds
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.warm_start = warm_start
        self.verbose = verbose

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, agents: Any = None, trusted: Any = None) -> Self:
        """Train on the rows of all agents, buggy and trusted together, in any order.

        Parameters
        ----------
        X, y:
            Features (NumPy, pandas or polars; numbers only) and targets of all rows.
        agents:
            One label per row: who holds it. None: one agent.
        trusted:
            One boolean per row: was it verified by an expert? None: no row was.
        """
        settings = check_settings(self, self._loss_name)
        features, targets = self._check_fit(X, y)
        mask = check_trusted(trusted, len(targets))
        names = getattr(self, "feature_names_in_", None)
        grouped = group(features, targets, agents, mask, None if names is None else tuple(names))
        training = self._train(grouped.agents, settings, X, y)
        alpha = np.full(len(targets), np.nan)
        selected = np.ones(len(targets), dtype=bool)
        solution, problem = training.solution, training.problem
        for agent, rows in zip(grouped.agents, grouped.positions, strict=True):
            alpha[rows] = agent.alphas(problem, training.preparation, solution.r)
            if (chosen := training.selected) is not None:
                if chosen.rule == "alpha":
                    selected[rows] = np.abs(alpha[rows]) >= chosen.threshold
                else:
                    losses = agent.losses(problem, training.preparation, solution.theta)
                    selected[rows] = losses < chosen.threshold
        self.alpha_, self.selected_ = alpha, selected
        self._positions = grouped.positions
        return self

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit_agents(self, agents: Sequence[Agent]) -> Self:
        """Train over agents that have their rows wherever they are, such as files larger than memory.

        ``alpha_`` and ``selected_`` are then left out: per-row values stay with the agents (``Agent.alphas``).

        Parameters
        ----------
        agents:
            Agents with numeric targets; for classification, over files (labels are read there) or with targets ±1.
        """
        settings = check_settings(self, self._loss_name)
        if not agents:
            raise InputError("fit_agents was given no agents; pass at least one.")
        self._agree_on_targets(agents)
        self.n_features_in_ = len(agents[0].columns)
        self.feature_names_in_ = np.array(agents[0].columns, dtype=object)
        for stale in ("alpha_", "selected_"):
            self.__dict__.pop(stale, None)
        self._train(list(agents), settings, None, None)
        self._positions = [
            agent.rows.positions() if isinstance(agent.rows, FileRows) else np.arange(agent.rows.n_rows)
            for agent in agents
        ]
        return self

    def _train(self, agents: list[Agent], settings: Settings, X: Any, y: Any) -> Training:
        if not any(agent.rows.n_rows for agent in agents):
            raise InputError(
                "every row is trusted, but teaching needs rows that may be wrong; fit an ordinary model to trusted rows alone."
            )
        start = None
        if self.warm_start and hasattr(self, "theta_"):
            start = (self.r_, self.theta_)
        # below this size handing work to threads costs more than it saves
        n_rows = sum(agent.rows.n_rows for agent in agents)
        federation = LocalFederation(agents, threads=1 if n_rows < THREADS_FROM else None)
        with RoundReporter(self, X, y) as reporter, federation.open():
            training = train(federation, settings, start=start, n_rows=n_rows, watch=reporter.round_done)
        sums = training.solution.sums
        if settings.problem.lambda_alpha > 0 and sums.rows > 0 and sums.active <= len(training.theta):
            warnings.warn(
                f"only {sums.active:.0f} of {sums.rows:.0f} rows have an alpha other than 0, fewer than coefficients; lower "
                f"lambda_alpha (now {settings.problem.lambda_alpha:g}) to learn from more rows.",
                SparsityWarning,
                stacklevel=4,
            )
        self._agents, self._training = agents, training
        self.theta_, self.r_ = training.theta, training.solution.r
        self.certificate_ = float(training.solution.certificate)
        self.history_ = training.solution.history
        self.n_rounds_ = training.rounds
        self.solver_ = training.solver
        self.selected_fraction_ = 1.0 if training.selected is None else training.selected.fraction
        self.selection_curve_ = training.curve
        self._set_coefficients(*training.preparation.to_raw(training.theta))
        return training

    @abstractmethod
    def _check_fit(self, X: Any, y: Any) -> tuple[Array, Array]: ...

    @abstractmethod
    def _agree_on_targets(self, agents: Sequence[Agent]) -> None: ...

    @abstractmethod
    def _set_coefficients(self, coef: Array, intercept: float) -> None: ...

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self, "theta_")
        features = check_features(self, X, reset=False)
        scores: Array = features @ np.ravel(self.coef_) + np.ravel(self.intercept_)[0]
        return scores

    def issues(self, changes: bool = False) -> pd.DataFrame:
        """Return one line per buggy training row, worst first: what looks wrong, and what it should be.

        Columns: ``row`` (position in X; after ``fit_agents`` in the agent's file, or among its buggy rows), ``agent``,
        ``score`` (the probability, 0 to 1, that the row is wrong), ``flagged`` (a score of 0.8 or more), ``given`` and
        ``suggested`` target or label, the ``kind`` of error it looks like ("label" or "target", "feature", "agent",
        "unit", "missing code", "duplicate") and the ``column`` concerned, or "". For "unit" and "missing code", given
        and suggested are values of that column (the first, if there are several). With ``changes`` there is one more
        column per feature, ``change <name>``: the change that would repair it, in its own unit. The rows are those of
        the last fit in this process: they are not stored with a pickled model.
        """
        check_is_fitted(self, "theta_")
        import pandas as pd

        from comt.agent.issues import issue_table

        if not hasattr(self, "_agents"):
            raise InputError(
                "issues() needs the training rows, which are not stored with a model; fit again in this process."
            )
        preparation = self._training.preparation
        classes = (self.classes_[0], self.classes_[1]) if self._loss_name == "logistic" else None
        with (federation := LocalFederation(self._agents)).open():
            context = gather_context(federation, preparation, self.theta_, self._loss_name, classes)
        tables = []
        for agent, rows in zip(self._agents, self._positions, strict=True):
            table = issue_table(agent, preparation, self.theta_, context, changes=changes)
            table["row"] = rows
            tables.append(table)
        table = pd.concat(tables, ignore_index=True)
        return table.sort_values("score", ascending=False, kind="stable", ignore_index=True)

    def save(self, path: str | Path) -> None:
        """Write the model, without any row, as a readable ``model.json`` that :func:`comt.model_file.load` reads back."""
        check_is_fitted(self, "theta_")
        from comt.model_file import TaughtModel

        if not hasattr(self, "_training"):
            raise InputError("save() needs the training, which a pickled model does not carry; save after fitting.")
        TaughtModel.of(self, self._training, self._agents).save(path)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the rows out: a stored model must not carry its training data along."""
        state: dict[str, Any] = dict(super().__getstate__())
        for private in ("_agents", "_positions", "_training"):
            state.pop(private, None)
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


class CoMTRegressor(RegressorMixin, _CoMTLinear):  # type: ignore[misc]
    """Ridge regression taught by trusted rows, over the rows of several agents.

    Minimises the teaching objective of the method page: a ridge fit of the buggy rows (λ_w) whose model is pulled to the
    trusted rows (λ_trusted), with sparse duals (λ_α) and changed features (λ_Z).

    Parameters
    ----------
    teaching:
        ``"dual"``: the paper's objective.
    lambda_w, lambda_trusted, lambda_alpha, lambda_z:
        Weights of the objective; sums, not means. ``lambda_z=numpy.inf`` changes no features (CoMT-subset).
    select:
        None: learn from all rows; a fraction in (0, 1]; ``"auto"``: the fraction that does best on held-out trusted rows.
    select_by:
        ``"alpha"``: the paper's rule (largest \\|α\\|, see erratum E13); ``"loss"``: keep the smallest losses and refit.
        None: ``"alpha"`` for a given fraction, ``"loss"`` for ``"auto"``.
    solver:
        ``"newton"``; ``"newton-cg"`` (agents send vectors only; taken by itself beyond 1,000 columns); ``"admm"``
        (Algorithm 1, corrected).
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
        Which rows were learnt from (trusted rows always are).
    certificate_ :
        Norm of the gradient that vanishes at the solution, relative to its scale; at most ``tol``.
    n_rounds_, history_ :
        Number of exchanges with the agents in all, and what was recorded per round.

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
    >>> model = CoMTRegressor(lambda_trusted=100.0).fit(X, y, agents=hospital, trusted=trusted)
    >>> bool(model.score(X[:20], y[:20]) > 0.95)
    True
    """

    _loss_name = "squared"

    def _check_fit(self, X: Any, y: Any) -> tuple[Array, Array]:
        features, targets = check_features(self, X, y, reset=True, y_numeric=True)
        targets = np.asarray(targets, dtype=np.float64)
        if not np.isfinite(targets).all():
            row = int(np.argmin(np.isfinite(targets)))
            raise InputError(
                f"y is NaN or infinite (inf) in row {row}; CoMT needs finite targets: fill or drop that row."
            )
        return features, targets

    def _agree_on_targets(self, agents: Sequence[Agent]) -> None:
        """Numeric targets need no agreement."""

    def _set_coefficients(self, coef: Array, intercept: float) -> None:
        self.coef_, self.intercept_ = coef, intercept

    def predict(self, X: Any) -> Array:
        """Predict targets."""
        return self._scores(X)


class CoMTClassifier(ClassifierMixin, _CoMTLinear):  # type: ignore[misc]
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
        features, labels = check_features(self, X, y, reset=True)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self._check_classes()
        return features, np.where(codes == 1, 1.0, -1.0)

    def _check_classes(self) -> None:
        n_classes = len(self.classes_)
        if n_classes == 1:
            raise InputError(
                f"y holds one class only ({self.classes_[0]!r}); a classifier needs two classes over all agents."
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
