"""One descent of direct teaching: where it stands, and the questions that many descents ask together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array, Sums, TeachingProblem, direct_certificate, direct_value
from comt.queries import MAX_BATCH, DirectSums, Keep
from comt.server import dual
from comt.server.selection import thresholds


@dataclass(frozen=True)
class DirectTask:
    """One descent of a batch: the problem, where it starts, the fraction ϱ of rows, and how much each agent counts."""

    problem: TeachingProblem
    start: Array
    name: str = ""
    fraction: float = 1.0
    weights: Array | None = None  # (K,), from 0 to 1
    held_out: int = -1

    @property
    def repairing(self) -> TeachingProblem:
        """The problem as the row formulas take it."""
        return replace(self.problem, lambda_alpha=0.0, repair=True)


@dataclass(frozen=True)
class DirectSolution:
    """Where a descent ended.

    ``certificate`` is the relative norm of the gradient at the chosen rows; ``selection_gap`` the share of the objective
    that choosing the rows once more would still save (0: the rows of smallest loss are chosen).
    """

    name: str
    theta: Array
    sums: Sums
    value: float
    certificate: float
    selection_gap: float
    #: the rows that take part: their loss under ``keep_model`` lies below ``keep_threshold``
    keep_model: Array
    keep_threshold: float
    history: list[float]


@dataclass(frozen=True, eq=False)
class State:
    """A model, the rows that take part (loss under ``keep_model`` below ``threshold``), and the sums over them."""

    problem: TeachingProblem
    theta: Array
    keep_model: Array
    threshold: float
    sums: Sums

    @property
    def value(self) -> float:
        """The objective."""
        return direct_value(self.problem, self.theta, self.sums)

    @property
    def certificate(self) -> float:
        """The relative norm of the gradient at these rows."""
        return direct_certificate(self.problem, self.theta, self.sums)


class Run:
    """One descent between exchanges."""

    def __init__(self, task: DirectTask) -> None:
        self.task, self.problem = task, task.repairing
        self.at: State | None = None
        self.history: list[float] = []
        self.selection_gap = 0.0

    @property
    def trimmed(self) -> bool:
        """True: part of the rows is chosen."""
        return self.task.fraction < 1.0

    @property
    def state(self) -> State:
        """Where it stands."""
        assert self.at is not None
        return self.at

    def move(self, state: State) -> None:
        """Go there; the objective never rises but by rounding."""
        self.at = state
        self.history.append(min(state.value, self.history[-1]) if self.history else state.value)

    def ended(self) -> DirectSolution:
        """Return the result."""
        state = self.state
        return DirectSolution(
            self.task.name,
            state.theta,
            state.sums,
            state.value,
            state.certificate,
            self.selection_gap,
            state.keep_model,
            state.threshold,
            self.history,
        )


@dataclass(frozen=True, eq=False)
class Question:
    """Sums wanted at θ over the rows whose loss under ``keep_model`` lies below ``threshold``."""

    run: Run
    theta: Array
    keep_model: Array
    threshold: float = np.inf


class Exchange:
    """Asks the federation on behalf of many runs at once, about every thin-th row."""

    def __init__(self, federation: Federation, preparation: Preparation, n_folds: int = 0, thin: int = 1) -> None:
        self._federation, self._preparation = federation, preparation
        self._n_folds, self._thin = n_folds, thin

    def sums(self, questions: Sequence[Question]) -> list[State]:
        """Answer every question: one exchange, or more where the answers are too large for one."""
        if not questions:
            return []
        most = min(MAX_BATCH, max(1, dual.MAX_EXCHANGE_BYTES // dual.answer_bytes(len(questions[0].theta))))
        if len(questions) > most:
            return [*self.sums(questions[:most]), *self.sums(questions[most:])]
        runs = [question.run for question in questions]
        weights = self._weights(runs)
        keep = None
        if any(np.isfinite(question.threshold) for question in questions):
            keep = Keep("loss", np.stack([q.keep_model for q in questions]), np.array([q.threshold for q in questions]))
        query = DirectSums(
            loss_name=runs[0].problem.loss_name,
            preparation=self._preparation,
            theta=np.stack([question.theta for question in questions]),
            lambda_z=np.array([run.problem.lambda_z for run in runs]),
            keep=keep,
            held_out=np.array([run.task.held_out for run in runs]) if self._n_folds else None,
            n_folds=self._n_folds,
            agents=() if weights is None else self._federation.agents,
            weights=weights,
            thin=self._thin,
        )
        answers = query.unpack(self._federation.sum(query))
        return [
            State(q.run.problem, q.theta, q.keep_model, q.threshold, self._scaled(sums))
            for q, sums in zip(questions, answers, strict=True)
        ]

    def chosen(self, proposals: Sequence[tuple[Run, Array, float]], *, exact: bool = True) -> list[Question]:
        """Return, for every (run, θ, threshold nearby), the question over the rows of smallest loss under θ."""
        if not proposals:
            return []
        models = np.stack([theta for _, theta, _ in proposals])
        runs = [run for run, _, _ in proposals]
        found = thresholds(
            self._federation,
            self._preparation,
            runs[0].problem,
            "loss",
            models,
            np.array([run.task.fraction for run in runs]),
            near=np.array([near for _, _, near in proposals]),
            exact=exact,
            weights=self._weights(runs),
            thin=self._thin,
        )
        return [Question(run, theta, theta, float(t)) for (run, theta, _), t in zip(proposals, found, strict=True)]

    def thinner(self, thin: int) -> Exchange:
        """Return the same exchange about fewer rows."""
        return Exchange(self._federation, self._preparation, self._n_folds, max(thin, self._thin))

    def _scaled(self, sums: Sums) -> Sums:
        if self._thin == 1:
            return sums
        scaled = dual.scaled(sums, self._thin)
        return replace(scaled, size_sq=self._thin * sums.size_sq, rows=self._thin * sums.rows)

    def _weights(self, runs: Sequence[Run]) -> Array | None:
        given = [run.task.weights for run in runs]
        if all(weights is None for weights in given):
            return None
        everybody = np.ones(len(self._federation.agents))
        return np.stack([everybody if weights is None else weights for weights in given])
