"""What both estimators share: parameters, training, the issue table. It holds both sides, rows and sums, and says so."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils.validation import check_is_fitted

from comt.agent import Agent
from comt.agent.files import FileRows
from comt.errors import InputError, NoTrustedRowsWarning, SparsityWarning
from comt.federation import LocalFederation
from comt.federation.transcript import Transcript
from comt.inputs import check_features, check_trusted, group
from comt.losses import LossName
from comt.problem import Array
from comt.progress import RoundReporter
from comt.server.issues_context import gather_context
from comt.server.training import Settings, Training, train
from comt.settings import check_settings
from comt.used_rows import used_rows

if TYPE_CHECKING:
    import pandas as pd

#: rows in all from which agents run in threads
THREADS_FROM = 1_000_000


class CoMTLinear(CallbackSupportMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """What both estimators share: parameters, training, the issue table."""

    _loss_name: ClassVar[LossName]
    theta_: Array
    r_: Array

    def __init__(
        self,
        *,
        teaching: str = "auto",
        lambda_w: float | str = "auto",
        lambda_trusted: float | str = "auto",
        lambda_alpha: float | str = "auto",
        lambda_z: float | str = "auto",
        select: float | str | None = "auto",
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
        # α is the derivative of a row's loss: under the paper's objective at r, otherwise at the model itself
        at = solution.theta if np.isnan(solution.r).any() else solution.r
        for agent, rows in zip(grouped.agents, grouped.positions, strict=True):
            alpha[rows] = agent.alphas(problem, training.preparation, at)
            selected[rows] = used_rows(agent, training)
        self.alpha_, self.selected_ = alpha, selected
        self._positions = grouped.positions
        return self

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit_agents(self, agents: Sequence[Agent], *, transcript: Transcript | None = None) -> Self:
        """Train over agents that have their rows wherever they are, such as files larger than memory.

        ``alpha_`` and ``selected_`` are then left out: per-row values stay with the agents (``Agent.alphas``).

        Parameters
        ----------
        agents:
            Agents with numeric targets; for classification, over files (labels are read there) or with targets ±1.
        transcript:
            Records what a coordinator would see of the training; ``comt audit`` attacks it.
        """
        settings = check_settings(self, self._loss_name)
        if not agents:
            raise InputError("fit_agents was given no agents; pass at least one.")
        self._agree_on_targets(agents)
        self.n_features_in_ = len(agents[0].columns)
        self.feature_names_in_ = np.array(agents[0].columns, dtype=object)
        for stale in ("alpha_", "selected_"):
            self.__dict__.pop(stale, None)
        self._train(list(agents), settings, None, None, transcript)
        self._positions = [
            agent.rows.positions() if isinstance(agent.rows, FileRows) else np.arange(agent.rows.n_rows)
            for agent in agents
        ]
        return self

    def _train(
        self, agents: list[Agent], settings: Settings, X: Any, y: Any, transcript: Transcript | None = None
    ) -> Training:
        if not any(agent.rows.n_rows for agent in agents):
            raise InputError(
                "every row is trusted, but teaching needs rows that may be wrong; fit an ordinary model to trusted rows alone."
            )
        start = None
        if self.warm_start and hasattr(self, "theta_"):
            start = (self.r_, self.theta_)
        # below this size handing work to threads costs more than it saves
        n_rows = sum(agent.rows.n_rows for agent in agents)
        federation = LocalFederation(agents, threads=1 if n_rows < THREADS_FROM else None, transcript=transcript)
        with RoundReporter(self, X, y) as reporter, federation.open():
            training = train(federation, settings, start=start, n_rows=n_rows, watch=reporter.round_done)
        sums = training.solution.sums
        if settings.teaching == "auto" and sums.trusted_rows == 0:
            warnings.warn(
                "no row is trusted, so nothing can tell right rows from wrong ones: this is plain training on the rows as "
                "they are; mark verified rows with trusted=.",
                NoTrustedRowsWarning,
                stacklevel=4,
            )
        if settings.choosing and training.choice is not None and training.choice.undecided:
            warnings.warn(training.choice.sentence, NoTrustedRowsWarning, stacklevel=4)
        if settings.problem.lambda_alpha > 0 and sums.rows > 0 and sums.active <= len(training.theta):
            warnings.warn(
                f"only {sums.active:.0f} of {sums.rows:.0f} rows have an alpha other than 0, fewer than coefficients; lower "
                f"lambda_alpha (now {settings.problem.lambda_alpha:g}) to learn from more rows.",
                SparsityWarning,
                stacklevel=4,
            )
        self._agents, self._training = agents, training
        self.preparation_, self.choice_ = training.preparation, training.choice
        self.theta_, self.r_ = training.theta, training.solution.r
        self.certificate_ = float(training.solution.certificate)
        self.history_ = training.solution.history
        self.n_rounds_ = training.rounds
        self.solver_ = training.solver
        self.teaching_ = settings.teaching
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
        coef, intercept = np.ravel(self.coef_), float(np.ravel(self.intercept_)[0])
        return self.preparation_.predict(features, self.theta_, coef, intercept)

    def summary(self) -> str:
        """Say in a few lines what was trained, what was chosen and why."""
        check_is_fitted(self, "theta_")
        lines = [
            f"{type(self).__name__}: {self.n_rounds_} exchanges, certificate {self.certificate_:.1e}, "
            f"teaching {self.teaching_!r}."
        ]
        if self.choice_ is not None:
            lines.append(self.choice_.sentence)
            beside = any(line.share == 0.0 for line in self.choice_.lines)
            lines += [
                f"  {line.share:6.1%}  {line.candidate}{f': held-out loss {line.loss:.4g}' if beside else ''}"
                for line in self.choice_.lines[:8]
            ]
        return "\n".join(lines)

    def issues(self, changes: bool = False) -> pd.DataFrame:
        """Return one line per buggy training row, worst first: what looks wrong, and what it should be.

        Columns: ``row`` (position in X; after ``fit_agents`` in the agent's file, or among its buggy rows), ``agent``,
        ``score`` (the probability, 0 to 1, that the row is wrong), ``flagged`` (a score of 0.8 or more), ``given`` and
        ``suggested`` target or label, the ``kind`` of error it looks like ("label" or "target", "feature", "agent",
        "unit", "missing code", "duplicate") and the ``column`` concerned, or "". Where a column is named, given and
        suggested are its values (those of the first, if there are several). With ``changes`` there is one more
        column per feature, ``change <name>``: the change that would repair it, in its own unit. The rows are those of
        the last fit in this process: they are not stored with a pickled model.
        """
        check_is_fitted(self, "theta_")
        import pandas as pd

        from comt.agent.issues import issue_table
        from comt.issue_table import IssueTable

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
        return IssueTable(table.sort_values("score", ascending=False, kind="stable", ignore_index=True))

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
