"""Choosing a method's setting on the trusted rows: the same cross-validation for every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.metrics import r2_score, roc_auc_score

from comt.baselines.base import AgentRows, Array, Baseline, LinearModel, Task, pooled
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
    """Fit the setting that does best on held-out trusted rows (the only one, if there is no choice).

    What a method reads off one path (DUTI's γ) counts as part of the setting and is chosen with it.
    """
    n_trusted = sum(len(a.trusted_targets) for a in agents)
    settings = candidate.settings
    if len(settings) == 1 or n_trusted < 2:
        return settings[len(settings) // 2].fit(agents, task)
    if candidate.uses_trusted:
        quality = [_held_out(setting, agents, task, seed) for setting in settings]
        best = max(range(len(settings)), key=lambda index: max(quality[index]))
        return settings[best].fit_path(agents, task)[int(np.argmax(quality[best]))]
    # trusted rows took no part in the fit, so every one of them is held out already
    *_, features, targets = pooled(agents)
    models = [model for setting in settings for model in _attempt(setting, agents, task)]
    if not models:
        raise ComtError(f"{candidate.name} failed with every setting.")
    return models[int(np.argmax([_quality(task, targets, model.predict(features)) for model in models]))]


def _attempt(setting: Baseline, agents: Sequence[AgentRows], task: Task) -> list[LinearModel]:
    try:
        return setting.fit_path(agents, task)
    except ComtError:
        return []  # a setting that does not converge is not chosen


def _held_out(setting: Baseline, agents: Sequence[AgentRows], task: Task, seed: int) -> list[float]:
    """Return the quality on held-out trusted rows of each model that the setting's path has."""
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
        models = _attempt(setting, training, task)
        if not models:
            return [-np.inf]
        features = np.concatenate([a.trusted_features[~mask] for a, mask in zip(agents, masks, strict=True)])
        predicted.append(np.array([model.predict(features) for model in models]))
        wanted += [a.trusted_targets[~mask] for a, mask in zip(agents, masks, strict=True)]
    return [_quality(task, np.concatenate(wanted), along) for along in np.concatenate(predicted, axis=1)]


def _quality(task: Task, targets: Array, predicted: Array) -> float:
    """Negative squared error, or AUC: what a setting is chosen by."""
    if not np.isfinite(predicted).all():
        return -np.inf
    if task == "regression":
        return -float(np.mean((targets - predicted) ** 2))
    return score(task, targets, predicted)
