"""DUTI: change the fewest targets such that the retrained model agrees with the trusted rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comt.baselines.base import AgentRows, Array, Baseline, LinearModel, Task
from comt.baselines.checks import check_agents, check_positive
from comt.baselines.duti_classification import ClassificationRepair, classification_path
from comt.baselines.duti_path import RepairPath
from comt.baselines.duti_regression import RegressionRepair, regression_path
from comt.baselines.linear import fit_exact, loss
from comt.errors import InputError

FEWEST_TRUSTED_FOR_FOLDS = 10  # below, held-out trusted loss says nothing about gamma
#: certificates of classification repairs: those that are handed out, and those that only serve to compare points
EXACT, COMPARED = 1e-5, 1e-3


def repair_path(
    features: Array,
    targets: Array,
    trusted_features: Array,
    trusted_targets: Array,
    task: Task,
    *,
    lambda_w: float = 1.0,
    confidence: float | Array = 100.0,
    path_points: int = 12,
    budget: float = 0.5,
    gammas: Array | None = None,
    tolerance: float = EXACT,
) -> RepairPath:
    """Rank the rows of one data set by how early DUTI changes their target; suggest targets along the path.

    >>> x = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> path = repair_path(x, np.array([1.0, 2.0, 3.0, -4.0]), x[:2], np.array([1.0, 2.0]), "regression")
    >>> int(path.rank.argmin())
    3
    """
    rows = (features, targets, trusted_features, trusted_targets)
    if task == "regression":
        regression = RegressionRepair(*rows, lambda_w=lambda_w, confidence=confidence)
        return regression_path(regression, path_points=path_points, gammas=gammas)
    classification = ClassificationRepair(*rows, lambda_w=lambda_w, confidence=confidence)
    return classification_path(
        classification, path_points=path_points, budget=budget, gammas=gammas, tolerance=tolerance
    )


@dataclass(frozen=True, kw_only=True)
class Duti(Baseline):
    """min_delta 1/m sum c L(trusted; f) + 1/n sum L(x, y + delta; f) + gamma/n |delta|,  f fits y + delta.

    Zhang, Zhu and Wright, "Training set debugging using trusted items" (AAAI 2018), with a linear learner.
    Each agent repairs its targets alone; then one federated fit on repaired and trusted rows, written here as
    its exact limit, the pooled fit. The method leaves gamma to a human; here it is the path point whose refit
    has the smallest cross-validated loss on the agent's trusted rows, or with fewer than 10 of them the first
    point that flags a row. An agent without trusted rows repairs nothing. ``found`` holds per agent the
    ``rank`` of its rows (small is suspicious), the ``repaired`` targets, the chosen path ``point`` and its
    ``gamma``.
    """

    lambda_w: float = 1.0
    confidence: float = 100.0
    path_points: int = 12
    budget: float = 0.5
    folds: int = 5
    seed: int = 0

    name: ClassVar[str] = "DUTI"
    tasks: ClassVar[frozenset[Task]] = frozenset({"regression", "classification"})
    sends: ClassVar[str] = "nothing while repairing, then the rounds of one federated ridge or logistic fit"

    def __post_init__(self) -> None:
        check_positive(lambda_w=self.lambda_w, confidence=self.confidence)
        if self.path_points < 1 or self.folds < 2:
            raise InputError(
                f"path_points={self.path_points} and folds={self.folds} must be at least 1 and 2; raise them."
            )

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Repair each agent's targets, then train on all repaired and trusted rows."""
        check_agents(self, agents, task)
        found: dict[str, list[object]] = {"rank": [], "repaired": [], "point": [], "gamma": []}
        repaired: list[Array] = []
        for agent in agents:
            path = self._path(agent, task)
            point = self._choose(agent, task, path) if agent.trusted_targets.size else 0
            repaired.append(path.repaired[point])
            outcome = (path.rank, path.repaired[point], point, float(path.gammas[point]))
            for values, value in zip(found.values(), outcome, strict=True):
                values.append(value)
        features, targets = _with_trusted(agents, repaired)
        return LinearModel(fit_exact(features, targets, task, self.lambda_w), found=dict(found))

    def fit_path(self, agents: Sequence[AgentRows], task: Task) -> list[LinearModel]:
        """Return the joint model of every path point, each agent at its own gamma of that number."""
        check_agents(self, agents, task)
        paths = [self._path(agent, task, COMPARED).repaired for agent in agents]
        models: list[LinearModel] = []
        for point in range(self.path_points):
            # a path that left its budget ends early: its last repairs stand
            features, targets = _with_trusted(agents, [path[min(point, len(path) - 1)] for path in paths])
            start = models[-1].coef if models else None
            coef = fit_exact(features, targets, task, self.lambda_w, start=start)
            models.append(LinearModel(coef, found={"point": point}))
        return models

    def _path(self, agent: AgentRows, task: Task, tolerance: float = EXACT) -> RepairPath:
        """Return an agent's repairs by all its trusted rows; without any it repairs nothing."""
        n = agent.targets.size
        if min(agent.trusted_targets.size, n) == 0:
            nothing = np.zeros((1, n), dtype=np.bool_)
            return RepairPath(np.array([np.inf]), agent.targets[None, :], nothing, np.full(n, self.path_points + 1.0))
        return self._repair(agent, task, np.arange(agent.trusted_targets.size), None, tolerance)

    def _repair(
        self, agent: AgentRows, task: Task, trusted: NDArray[np.intp], gammas: Array | None, tolerance: float
    ) -> RepairPath:
        return repair_path(
            agent.features,
            agent.targets,
            agent.trusted_features[trusted],
            agent.trusted_targets[trusted],
            task,
            lambda_w=self.lambda_w,
            confidence=self.confidence,
            path_points=self.path_points,
            # a fold follows the whole path, so that every point has a loss
            budget=self.budget if gammas is None else 1.0,
            tolerance=tolerance,
            gammas=gammas,
        )

    def _choose(self, agent: AgentRows, task: Task, path: RepairPath) -> int:
        """Return the path point whose refit predicts held-out trusted rows best; the earlier one on ties."""
        m = agent.trusted_targets.size
        if m < FEWEST_TRUSTED_FOR_FOLDS:
            return path.first_flagging()
        fold = np.random.default_rng(self.seed).permutation(m) % self.folds
        losses = np.zeros(path.gammas.size)
        for held_out in range(self.folds):
            outside = np.flatnonzero(fold == held_out)
            inside = np.flatnonzero(fold != held_out)
            repaired = self._repair(agent, task, inside, path.gammas, COMPARED).repaired
            coefs: list[Array] = []
            for targets in repaired:  # neighbours on the path differ in few rows
                start = coefs[-1] if coefs else None
                coefs.append(fit_exact(agent.features, targets, task, self.lambda_w, start=start))
            scores = agent.trusted_features[outside] @ np.array(coefs).T
            losses += loss(scores, agent.trusted_targets[outside, None], task).sum(axis=0)
        return int(losses.argmin())


def _with_trusted(agents: Sequence[AgentRows], repaired: Sequence[Array]) -> tuple[Array, Array]:
    """Return all rows, repaired and trusted, that the joint model is fitted to."""
    return (
        np.concatenate([rows for a in agents for rows in (a.features, a.trusted_features)]),
        np.concatenate([t for a, mended in zip(agents, repaired, strict=True) for t in (mended, a.trusted_targets)]),
    )
