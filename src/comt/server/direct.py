"""Direct teaching: the smallest repairs, and the rows, that agree with a model that is right on the trusted rows.

    min over θ, β, b   Σ b_i [ℓ(θ; x_i + β_i, y_i) + λ_Z‖β_i‖²] + λ_trusted L̃(θ) + (λ_w/2)‖θ‖²,    Σ b = ϱ n

β is explicit; θ (Newton, :mod:`comt.optimize.primal`) and b (the rows of smallest loss, a threshold found by counts) take
turns, and the objective falls at every turn. It is not convex: several starts run side by side, every exchange serves all
of them, and the lowest objective wins. Agents can be weighted: the rows of agent k, and their number in Σ b = ϱ n, count
w_k times. A repaired loss grows with the loss itself, so a threshold on one is a threshold on the other.

λ_α has no part in this objective and is taken as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from comt.errors import ConvergenceError
from comt.federation.base import Federation
from comt.optimize import primal
from comt.optimize.points import Asking, Points
from comt.optimize.primal import Descent
from comt.preparation import Preparation
from comt.problem import Array, Sums, TeachingProblem, direct_value
from comt.queries import DirectSums, Keep
from comt.server import dual
from comt.server.selection import thresholds

#: turns of choosing rows; the objective falls strictly, so it ends by itself far earlier
MAX_TURNS = 100
#: rows are settled when choosing them again would lower the objective by less than this share
SETTLED = 1e-10
#: at most this many agents give a start of their own
MAX_AGENT_STARTS = 16


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


@dataclass(frozen=True)
class Direct:
    """The result: the start with the lowest objective, and how all of them ended (best first)."""

    best: DirectSolution
    solutions: list[DirectSolution]

    @property
    def theta(self) -> Array:
        """The model."""
        return self.best.theta

    def sentence(self) -> str:
        """Say which start won."""
        others = ", ".join(f"{s.name} {s.value:.6g}" for s in self.solutions[1:])
        told = f" (others: {others})" if others else ""
        return f"The descent from '{self.best.name}' reached the lowest objective, {self.best.value:.6g}{told}."


class _Progress:
    """What is known of one descent between exchanges."""

    def __init__(self, task: DirectTask) -> None:
        self.task, self.problem = task, task.repairing
        self.theta = task.start
        self.keep_model, self.keep_threshold = task.start, np.inf
        self.rows = 0.0
        self.known: Sums | None = None  # the sums at θ over the chosen rows, where they have been asked for
        self.descent: Descent | None = None
        self.history: list[float] = []
        self.selection_gap = 0.0
        self.done = False

    def choose(self, threshold: float) -> None:
        self.keep_model, self.keep_threshold, self.known = self.theta, threshold, None

    def ended(self) -> DirectSolution:
        assert self.descent is not None
        return DirectSolution(
            self.task.name,
            self.theta,
            self.descent.sums,
            self.descent.value,
            self.descent.certificate,
            self.selection_gap,
            self.keep_model,
            self.keep_threshold,
            self.history,
        )


def solve(
    federation: Federation,
    preparation: Preparation,
    tasks: Sequence[DirectTask],
    *,
    tol: float = 1e-8,
    max_rounds: int = 200,
    max_turns: int = MAX_TURNS,
    n_folds: int = 0,
    thin: int = 1,
) -> list[DirectSolution]:
    """Run all descents together; every exchange serves all that are not finished."""
    runs = [_Progress(task) for task in tasks]
    ask = _Exchange(federation, preparation, n_folds, thin)
    trimmed = [run for run in runs if run.task.fraction < 1.0]
    if trimmed:
        for run, sums in zip(trimmed, ask.at_theta(trimmed), strict=True):
            run.rows = sums.rows
        for run, threshold in zip(trimmed, ask.thresholds(trimmed), strict=True):
            run.choose(threshold)
    live = runs
    for _ in range(max_turns):
        _descend(ask, live, tol, max_rounds)
        live = [run for run in live if run.task.fraction < 1.0]
        if not live:
            break
        before = [(run.keep_model, run.keep_threshold) for run in live]
        for run, threshold in zip(live, ask.thresholds(live), strict=True):
            run.choose(threshold)
        for run, sums, kept in zip(live, ask.at_theta(live), before, strict=True):
            assert run.descent is not None
            value = direct_value(run.problem, run.theta, sums)
            saved = run.descent.value - value
            run.selection_gap = max(saved, 0.0) / max(abs(run.descent.value), np.finfo(np.float64).tiny)
            if run.selection_gap <= SETTLED:
                run.keep_model, run.keep_threshold = kept
                run.done = True
            else:
                run.known = sums
        live = [run for run in live if not run.done]
    return [run.ended() for run in runs]


def _descend(ask: _Exchange, runs: Sequence[_Progress], tol: float, max_rounds: int) -> None:
    """Let every run minimise over θ with its rows fixed."""
    solvers: dict[int, Asking[Descent]] = {}
    asked: dict[int, Points] = {}

    def advance(index: int, answers: list[Sums] | None) -> None:
        run, solver = runs[index], solvers[index]
        try:
            asked[index] = next(solver) if answers is None else solver.send(answers)
        except StopIteration as stop:
            run.descent = stop.value
            run.theta = stop.value.theta
            run.history += stop.value.values

    for index, run in enumerate(runs):
        solvers[index] = primal.solve(run.problem, run.theta, tol=tol, max_rounds=max_rounds)
        advance(index, None)
        if run.known is not None:
            del asked[index]
            advance(index, [run.known])
    while asked:
        order = sorted(asked)
        questions = [(runs[i], theta) for i in order for theta in asked[i].theta]
        answers = iter(ask(questions))
        waiting = {i: [next(answers) for _ in asked[i].theta] for i in order}
        asked.clear()
        for i in order:
            advance(i, waiting[i])


class _Exchange:
    """Asks the federation on behalf of many runs at once."""

    def __init__(self, federation: Federation, preparation: Preparation, n_folds: int, thin: int) -> None:
        self._federation, self._preparation = federation, preparation
        self._n_folds, self._thin = n_folds, thin

    def __call__(self, questions: Sequence[tuple[_Progress, Array]]) -> list[Sums]:
        """Return the sums of every (run, θ)."""
        runs = [run for run, _ in questions]
        weights = self._weights(runs)
        keep = None
        if any(np.isfinite(run.keep_threshold) for run in runs):
            keep = Keep(
                "loss", np.stack([run.keep_model for run in runs]), np.array([run.keep_threshold for run in runs])
            )
        query = DirectSums(
            loss_name=runs[0].problem.loss_name,
            preparation=self._preparation,
            theta=np.stack([theta for _, theta in questions]),
            lambda_z=np.array([run.problem.lambda_z for run in runs]),
            keep=keep,
            held_out=np.array([run.task.held_out for run in runs]) if self._n_folds else None,
            n_folds=self._n_folds,
            agents=() if weights is None else self._federation.agents,
            weights=weights,
            thin=self._thin,
        )
        sums = query.unpack(self._federation.sum(query))
        if self._thin == 1:
            return sums
        return [replace(dual.scaled(part, self._thin), size_sq=self._thin * part.size_sq) for part in sums]

    def at_theta(self, runs: Sequence[_Progress]) -> list[Sums]:
        """Return the sums of every run where it stands."""
        return self([(run, run.theta) for run in runs])

    def thresholds(self, runs: Sequence[_Progress]) -> list[float]:
        """Return, for every run, the loss below which its fraction of the rows lies under its model."""
        found = thresholds(
            self._federation,
            self._preparation,
            runs[0].problem,
            "loss",
            np.stack([run.theta for run in runs]),
            np.array([run.task.fraction for run in runs]),
            np.array([run.rows for run in runs]),
            weights=self._weights(runs),
            thin=self._thin,
        )
        return [float(threshold) for threshold in found]

    def _weights(self, runs: Sequence[_Progress]) -> Array | None:
        given = [run.task.weights for run in runs]
        if all(weights is None for weights in given):
            return None
        everybody = np.ones(len(self._federation.agents))
        return np.stack([everybody if weights is None else weights for weights in given])


def starts(
    federation: Federation,
    preparation: Preparation,
    problem: TeachingProblem,
    *,
    weights: Array | None = None,
    single_agents: bool = True,
    tol: float = 1e-8,
    max_rounds: int = 200,
) -> dict[str, Array]:
    """Return the models that descents start from: trusted-only, buggy-only, dual, and single agents.

    They are solutions of convex problems without repairs, all but the dual one in a single batch. Starts of single agents
    need sums over one agent's rows; ``single_agents=False`` does without.
    """
    zero = np.zeros(preparation.width)
    agents = federation.agents
    plain = replace(problem, lambda_z=np.inf)
    buggy = replace(plain, lambda_trusted=0.0)
    tasks = [
        DirectTask(plain, zero, "trusted only", weights=np.zeros(len(agents))),
        DirectTask(buggy, zero, "buggy only", weights=weights),
    ]
    if single_agents and 1 < len(agents) <= MAX_AGENT_STARTS:
        alone = np.eye(len(agents))
        tasks += [DirectTask(buggy, zero, f"agent {agent}", weights=alone[k]) for k, agent in enumerate(agents)]
    solved = solve(federation, preparation, tasks, tol=tol, max_rounds=max_rounds)
    found = {solution.name: solution.theta for solution in solved}
    if solved[0].sums.trusted_rows == 0:
        del found["trusted only"]
    try:
        (taught,) = dual.solve(
            federation, preparation, [dual.Task(problem, zero, zero)], tol=tol, max_rounds=max_rounds
        )
        found["dual"] = taught.theta
    except ConvergenceError:
        pass  # the paper's crafting has no solution at this λ_Z; the other starts need none
    return found


def teach(
    federation: Federation,
    preparation: Preparation,
    problem: TeachingProblem,
    *,
    fraction: float = 1.0,
    weights: Array | None = None,
    single_agents: bool = True,
    tol: float = 1e-8,
    max_rounds: int = 200,
) -> Direct:
    """Solve direct teaching from several starts side by side and return the lowest objective."""
    models = starts(
        federation,
        preparation,
        problem,
        weights=weights,
        single_agents=single_agents,
        tol=tol,
        max_rounds=max_rounds,
    )
    tasks = [DirectTask(problem, model, name, fraction, weights) for name, model in models.items()]
    solutions = sorted(
        solve(federation, preparation, tasks, tol=tol, max_rounds=max_rounds), key=lambda solution: solution.value
    )
    best = solutions[0]
    if not best.certificate <= tol:
        raise ConvergenceError(
            f"direct teaching stopped at a certificate of {best.certificate:.1e} where tol={tol:g} is wanted; raise "
            f"lambda_w (now {problem.lambda_w:g}) or lambda_z (now {problem.lambda_z:g}), or raise tol.",
            certificate=best.certificate,
        )
    return Direct(best, solutions)
