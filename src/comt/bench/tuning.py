"""Choosing a method's setting on the trusted rows: the same cross-validation for every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.metrics import r2_score, roc_auc_score

from comt.baselines.base import AgentRows, Array, LinearModel, Task
from comt.bench.methods import Candidate
from comt.errors import ComtError

FOLDS = 5


def score(task: Task, targets: Array, predicted: Array) -> float:
    """R² or AUC; 0.5 where an AUC is not defined."""
    if not np.isfinite(predicted).all():
        return float("nan")
    if task == "regression":
        return float(r2_score(targets, predicted))
    return 0.5 if len(np.unique(targets)) < 2 else float(roc_auc_score(targets, predicted))


def fit_tuned(candidate: Candidate, agents: Sequence[AgentRows], task: Task, seed: int) -> LinearModel:
    """Fit the setting that does best on held-out trusted rows (the only one, if there is no choice)."""
    n_trusted = sum(len(a.trusted_targets) for a in agents)
    settings = candidate.settings
    if len(settings) == 1 or n_trusted < 2:
        return settings[len(settings) // 2].fit(agents, task)
    if candidate.uses_trusted:
        quality = [_held_out(candidate, index, agents, task, seed) for index in range(len(settings))]
        return settings[int(np.argmax(quality))].fit(agents, task)
    # trusted rows took no part in the fit, so every one of them is held out already
    models = [_attempt(candidate, index, agents, task) for index in range(len(settings))]
    features = np.concatenate([a.trusted_features for a in agents])
    targets = np.concatenate([a.trusted_targets for a in agents])
    quality = [-np.inf if m is None else _quality(task, targets, m.predict(features)) for m in models]
    best = models[int(np.argmax(quality))]
    if best is None:
        raise ComtError(f"{candidate.name} failed with every setting.")
    return best


def _attempt(candidate: Candidate, index: int, agents: Sequence[AgentRows], task: Task) -> LinearModel | None:
    try:
        return candidate.settings[index].fit(agents, task)
    except ComtError:
        return None  # a setting that does not converge is not chosen


def _held_out(candidate: Candidate, index: int, agents: Sequence[AgentRows], task: Task, seed: int) -> float:
    rng = np.random.default_rng(seed)
    sizes = [len(a.trusted_targets) for a in agents]
    total = sum(sizes)
    fold = rng.permutation(np.arange(total) % min(FOLDS, total))
    per_agent = np.split(fold, np.cumsum(sizes)[:-1])
    predicted, wanted = [], []
    for held in range(min(FOLDS, total)):
        masks = [part != held for part in per_agent]
        training = [
            replace(a, trusted_features=a.trusted_features[mask], trusted_targets=a.trusted_targets[mask])
            for a, mask in zip(agents, masks, strict=True)
        ]
        model = _attempt(candidate, index, training, task)
        if model is None:
            return -np.inf
        for a, mask in zip(agents, masks, strict=True):
            predicted.append(model.predict(a.trusted_features[~mask]))
            wanted.append(a.trusted_targets[~mask])
    return _quality(task, np.concatenate(wanted), np.concatenate(predicted))


def _quality(task: Task, targets: Array, predicted: Array) -> float:
    """Negative squared error, or AUC: what a setting is chosen by."""
    if not np.isfinite(predicted).all():
        return -np.inf
    if task == "regression":
        return -float(np.mean((targets - predicted) ** 2))
    return score(task, targets, predicted)
