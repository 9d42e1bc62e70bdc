"""Confident learning: let cleanlab find label issues at each agent, drop them, and train on the rest."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import Ridge
from sklearn.model_selection import StratifiedKFold

from comt.baselines.base import AgentRows, Array, Baseline, LinearModel, Task
from comt.baselines.checks import UseTrusted, check_agents, check_choice, check_positive
from comt.baselines.linear import fit_exact
from comt.errors import InputError, MissingExtraError

Mask = NDArray[np.bool_]


def _cleanlab(module: str) -> ModuleType:
    try:
        return importlib.import_module(f"cleanlab.{module}")
    except ImportError as error:
        raise MissingExtraError(
            'confident learning found no cleanlab and needs it; run pip install "comt[bench]".'
        ) from error


def held_out_chances(features: Array, targets: Array, lambda_w: float, n_folds: int, seed: int) -> Array:
    """Return for each row (p(-1), p(+1)) from a logistic fit on the other folds."""
    scores = np.zeros(len(targets))
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    for train, test in folds.split(features, targets):
        coef = fit_exact(features[train], targets[train], "classification", lambda_w)
        scores[test] = features[test] @ coef
    return np.column_stack([expit(-scores), expit(scores)])


@dataclass(frozen=True, kw_only=True)
class ConfidentLearning(Baseline):
    """min_w sum_{i kept} loss(x_i.w, y_i) + (lambda_w/2) |w|^2, kept = cleanlab finds no issue.

    Each agent judges its buggy rows alone (Northcutt et al. 2021). Classification: label issues from
    held-out chances. Regression: the ``drop_fraction`` of rows with the lowest label quality, because
    cleanlab's own regression flags are erratic while its ranking is good. An agent with too few rows to
    be split into folds keeps them all. ``found["kept"]`` has one mask per agent; trusted rows join the
    final fit or are ignored.
    """

    lambda_w: float = 1.0
    use_trusted: UseTrusted = "append"
    n_folds: int = 5
    drop_fraction: float = 0.1
    seed: int = 0

    name: ClassVar[str] = "Confident learning"
    tasks: ClassVar[frozenset[Task]] = frozenset({"regression", "classification"})
    sends: ClassVar[str] = "d numbers per agent and round (gradients over kept rows), until converged"

    def __post_init__(self) -> None:
        check_positive(lambda_w=self.lambda_w)
        check_choice("use_trusted", self.use_trusted, ("append", "ignore"))
        if not (self.n_folds >= 2 and 0 <= self.drop_fraction < 1):
            raise InputError(
                f"n_folds={self.n_folds} and drop_fraction={self.drop_fraction} must be at least 2 and "
                "in [0, 1); change the one that is not."
            )

    def fit(self, agents: Sequence[AgentRows], task: Task) -> LinearModel:
        """Judge the rows at each agent, then fit the kept rows of all agents together."""
        check_agents(self, agents, task)
        judge = self._keep_labels if task == "classification" else self._keep_targets
        kept = [judge(agent.features, agent.targets) for agent in agents]
        features = [a.features[mask] for a, mask in zip(agents, kept, strict=True)]
        targets = [a.targets[mask] for a, mask in zip(agents, kept, strict=True)]
        if self.use_trusted == "append":
            features += [a.trusted_features for a in agents]
            targets += [a.trusted_targets for a in agents]
        coef = fit_exact(np.concatenate(features), np.concatenate(targets), task, self.lambda_w)
        return LinearModel(coef, found={"kept": tuple(kept)})

    def _keep_labels(self, features: Array, targets: Array) -> Mask:
        finder = _cleanlab("filter")
        positive = int(np.sum(targets > 0))
        n_folds = min(self.n_folds, positive, len(targets) - positive)
        if n_folds < 2:
            return np.ones(len(targets), dtype=np.bool_)
        chances = held_out_chances(features, targets, self.lambda_w, n_folds, self.seed)
        # one process: the agents are simulated already, and a pool costs more than the search
        issues = finder.find_label_issues((targets > 0).astype(int), chances, n_jobs=1)
        return ~np.asarray(issues, dtype=np.bool_)

    def _keep_targets(self, features: Array, targets: Array) -> Mask:
        learner = _cleanlab("regression.learn")
        kept = np.ones(len(targets), dtype=np.bool_)
        n_drop = int(self.drop_fraction * len(targets))
        if len(targets) < 2 * self.n_folds or n_drop == 0:
            return kept
        model = Ridge(alpha=self.lambda_w, fit_intercept=False)
        # cleanlab seeds NumPy's global generator, which belongs to the caller
        state = np.random.get_state()
        try:
            finder = learner.CleanLearning(model, cv_n_folds=self.n_folds, seed=self.seed)
            issues = finder.find_label_issues(features, targets)
        finally:
            np.random.set_state(state)
        quality = np.asarray(issues["label_quality"], dtype=np.float64)
        kept[np.argsort(quality, kind="stable")[:n_drop]] = False
        return kept
