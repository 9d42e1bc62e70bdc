"""CoCoA: communication-efficient training in the dual, averaging or adding the agents' answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.special import xlogy

from comt.baselines.base import AgentRows, Array, Baseline, LinearModel, Task
from comt.baselines.checks import UseTrusted, check_agents, check_choice, check_positive, training_rows
from comt.baselines.linear import fit_exact, loss, loss_slope

Rows = tuple[Array, Array]


@dataclass(frozen=True)
class CocoaRun:
    """The model, dual objective and duality gap after each round, and whether the gap met the tolerance."""

    coef: Array
    dual_values: tuple[float, ...]
    gaps: tuple[float, ...]
    converged: bool


def conjugate(dual: Array, targets: Array, task: Task) -> float:
    """Return sum_i loss*(-dual_i), the rows' part of the dual objective."""
    if task == "regression":
        return float(dual @ (0.5 * dual - targets))
    chance = np.clip(dual * targets, 0.0, 1.0)  # outside by rounding only
    return float(np.sum(xlogy(chance, chance) + xlogy(1 - chance, 1 - chance)))


def _same_sums(features: Array, targets: Array) -> Rows:
    """Return d + 1 rows with the same X'X, X'y and y'y: Q'X and Q'y, where the columns of Q span those of X and y.

    Duals of squared loss are combinations of these columns, a = Q b, so that every sum of a round is the same for b.
    """
    triangle: Array = np.asarray(np.linalg.qr(np.column_stack([features, targets]), mode="r"))
    return triangle[:, :-1], triangle[:, -1]


def cocoa(
    rows: Sequence[Rows],
    task: Task,
    lambda_w: float,
    *,
    gamma: float,
    sigma: float,
    n_rounds: int,
    tolerance: float = 1e-6,
) -> CocoaRun:
    """Run CoCoA until gap <= tolerance * max(1, P) or the rounds are used up.

    The local problem, min over da of sum_i loss*(-a_i - da_i) + w.X_k'da + sigma/(2 lambda_w) |X_k'da|^2,
    is the dual of a fit of the agent's rows with the penalty (lambda_w/sigma)/2 |u - c_k|^2 around
    c_k = w - (sigma/lambda_w) X_k'a_k, and a_i + da_i = -loss'(x_i.u). So it is solved exactly, in d
    unknowns.
    """
    if task == "regression":
        rows = [_same_sums(*part) for part in rows]
    coef = np.zeros(rows[0][0].shape[1])
    duals = [np.zeros(len(targets)) for _, targets in rows]
    local = [coef] * len(rows)
    dual_values: list[float] = []
    gaps: list[float] = []
    for _ in range(n_rounds):
        change = np.zeros_like(coef)
        for k, (features, targets) in enumerate(rows):
            centre = coef - (sigma / lambda_w) * (features.T @ duals[k])
            local[k] = fit_exact(features, targets, task, lambda_w / sigma, centre=centre, start=local[k])
            move = -loss_slope(features @ local[k], targets, task) - duals[k]
            duals[k] = duals[k] + gamma * move
            change += gamma * (features.T @ move)
        coef = coef + change / lambda_w
        ridge = lambda_w * float(coef @ coef)  # half of it in each of primal and dual
        primal = 0.5 * ridge + sum(float(loss(x @ coef, y, task).sum()) for x, y in rows)
        dual = 0.5 * ridge + sum(conjugate(a, y, task) for a, (_, y) in zip(duals, rows, strict=True))
        dual_values.append(dual)
        gaps.append(primal + dual)
        if gaps[-1] <= tolerance * max(1.0, primal):
            return CocoaRun(coef, tuple(dual_values), tuple(gaps), converged=True)
    return CocoaRun(coef, tuple(dual_values), tuple(gaps), converged=False)


@dataclass(frozen=True, kw_only=True)
class CoCoA(Baseline):
    """a_k <- a_k + gamma da_k, w <- w + (gamma/lambda_w) sum_k X_k'da_k; da_k solves the sigma'-subproblem.

    ``combine="add"``: gamma = 1, sigma' = K (CoCoA+; Ma et al. 2015, Smith et al. 2018). ``"average"``:
    gamma = 1/K, sigma' = 1 (Jaggi et al. 2014). Both converge to Buggy-only's model, but what the agents
    disagree about shrinks by no more than 1 - lambda_w/(K |X_k|^2) in a round. Agents with many rows and
    unlike bugs therefore need very many rounds, and a spent budget is no error: ``found`` has the gap, the
    rounds used and whether the gap met the tolerance.
    """

    lambda_w: float = 1.0
    use_trusted: UseTrusted = "append"
    combine: Literal["add", "average"] = "add"
    n_rounds: int = 1000
    tolerance: float = 1e-6

    name: ClassVar[str] = "CoCoA"
    tasks: ClassVar[frozenset[Task]] = frozenset({"regression", "classification"})
    sends: ClassVar[str] = "d numbers per agent and round (X_k'da_k), and one number for the duality gap"

    def __post_init__(self) -> None:
        check_positive(lambda_w=self.lambda_w, n_rounds=self.n_rounds, tolerance=self.tolerance)
        check_choice("combine", self.combine, ("add", "average"))

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Run CoCoA on the agents' rows."""
        check_agents(self, agents, task)
        rows = [training_rows(agent, self.use_trusted) for agent in agents]
        gamma, sigma = (1.0, float(len(rows))) if self.combine == "add" else (1.0 / len(rows), 1.0)
        run = cocoa(
            rows,
            task,
            self.lambda_w,
            gamma=gamma,
            sigma=sigma,
            n_rounds=self.n_rounds,
            tolerance=self.tolerance,
        )
        return LinearModel(run.coef, found={"gap": run.gaps[-1], "rounds": len(run.gaps), "converged": run.converged})
