"""Was it worth joining? The agent's own model against the joint one on its own trusted rows; nothing leaves the agent."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from comt.agent.data import Block, RowSource
from comt.agent.folds import fold_of
from comt.agent.sampling import spread_sample
from comt.errors import InputError
from comt.problem import Array
from comt.report.private import Joining, Verdict

Task = Literal["regression", "classification"]
#: what predictions are scored by
METRICS: dict[Task, str] = {"regression": "R²", "classification": "share of right labels"}
#: penalties among which the own model may choose with hindsight: the comparison leans its way
PENALTIES = (0.1, 1.0, 10.0, 100.0)
#: unverified rows that the own model learns from at most; more hardly changes a linear model
MOST_ROWS = 5_000
#: trusted rows below which nothing can be said, and standard errors from which a difference counts
FEWEST, CLEAR = 8, 2.0


def worth_joining(rows: RowSource, joint: Array, *, task: Task, held_out: bool, n_folds: int = 5) -> Joining:
    """Score the joint model and the agent's own one on the agent's own trusted rows.

    The own model is a ridge or logistic regression of all the agent's rows or of its trusted rows alone, whichever
    does better, each trusted row being predicted without it (``n_folds`` folds).

    Parameters
    ----------
    rows:
        The agent's rows; classification targets are ±1.
    joint:
        What the joint model says of ``rows.trusted()``, in its order: target, or log-odds of the positive class. Rows for
        which it is NaN are learnt from only (rows that were reviewed because they looked bad are no fair sample).
    held_out:
        Whether ``joint`` comes from models that were trained without the rows they are asked about.
    """
    features, targets = rows.trusted()
    if joint.shape != targets.shape:
        raise InputError(f"{joint.shape} predictions were given for {targets.shape} trusted rows; give one per row.")
    metric, fair = METRICS[task], np.isfinite(joint)
    unfair = features[~fair], targets[~fair]
    features, targets, joint = features[fair], targets[fair], joint[fair]
    if not len(targets):
        return Joining(
            metric=metric,
            own=float("nan"),
            joint=float("nan"),
            own_kind="none",
            trusted_rows=0,
            held_out=held_out,
            verdict="too few",
        )
    buggy = spread_sample(rows, MOST_ROWS)
    tried = [("your trusted rows alone", cross_predicted(features, targets, unfair, task, n_folds))]
    if len(buggy[1]):
        both = np.concatenate([unfair[0], buggy[0]]), np.concatenate([unfair[1], buggy[1]])
        tried.append(("all your rows", cross_predicted(features, targets, both, task, n_folds)))
    own_kind, own = min(tried, key=lambda found: float(losses(found[1], targets, task).mean()))
    return Joining(
        metric=metric,
        own=score(own, targets, task),
        joint=score(joint, targets, task),
        own_kind=own_kind,
        trusted_rows=len(targets),
        held_out=held_out,
        verdict=_verdict(losses(own, targets, task) - losses(joint, targets, task)),
    )


def cross_predicted(features: Array, targets: Array, extra: Block | None, task: Task, n_folds: int = 5) -> Array:
    """Return what a plain linear model says of each row without it; its penalty is the one that does best so.

    ``extra`` rows are learnt from in every fold.
    """
    fold = fold_of(features, targets, n_folds)
    tried = []
    for penalty in PENALTIES:
        found = np.empty(len(targets))
        for held_out in np.unique(fold):
            kept, asked = fold != held_out, fold == held_out
            train = features[kept], targets[kept]
            if extra is not None:
                train = np.concatenate([train[0], extra[0]]), np.concatenate([train[1], extra[1]])
            found[asked] = _fit_predict(*train, features[asked], task, penalty)
        tried.append(found)
    return min(tried, key=lambda found: float(losses(found, targets, task).mean()))


def _fit_predict(features: Array, targets: Array, asked: Array, task: Task, penalty: float) -> Array:
    """Fit one linear model on robustly scaled features; without rows or with one class only, predict that."""
    from sklearn.linear_model import LogisticRegression, Ridge

    if len(targets) == 0:
        return np.zeros(len(asked))
    if np.ptp(targets) == 0.0:
        return np.full(len(asked), targets[0])
    low, center, high = np.percentile(features, [25, 50, 75], axis=0)
    spread = np.where(high > low, high - low, np.std(features, axis=0))
    scale = np.where(spread > 0, spread, 1.0)

    def scaled(block: Array) -> Array:
        return np.asarray(np.clip((block - center) / scale, -10.0, 10.0))  # one wild cell must not decide the model

    if task == "regression":
        found: Array = Ridge(alpha=penalty).fit(scaled(features), targets).predict(scaled(asked))
        return found
    model: Any = LogisticRegression(C=1.0 / penalty, max_iter=1000).fit(scaled(features), targets)
    log_odds: Array = model.decision_function(scaled(asked))
    return log_odds


def losses(predicted: Array, targets: Array, task: Task) -> Array:
    """Return each row's squared error, or 1 where the label is wrong."""
    if task == "regression":
        return (predicted - targets) ** 2
    wrong: NDArray[np.bool_] = (predicted > 0) != (targets > 0)
    return wrong.astype(np.float64)


def score(predicted: Array, targets: Array, task: Task) -> float:
    """Return R², or the share of right labels."""
    loss = float(losses(predicted, targets, task).sum())
    if task == "classification":
        return 1.0 - loss / len(targets)
    spread = float(((targets - targets.mean()) ** 2).sum())
    return 1.0 - loss / spread if spread > 0 else float("nan")


def _verdict(gain: Array) -> Verdict:
    """Judge the losses that joining saved, row by row: a paired comparison."""
    if len(gain) < FEWEST:
        return "too few"
    if not is_clear(gain):
        return "undecided"
    return "joint" if gain.mean() > 0 else "own"


def is_clear(gain: Array) -> bool:
    """Whether differences, one per row, are on average too large to be chance."""
    error = float(gain.std(ddof=1)) / np.sqrt(len(gain))
    return bool(gain.any()) and abs(float(gain.mean())) > CLEAR * error
