"""An issue table from the model and one number alone: what a site can make where policies refuse the questions that
:mod:`comt.agent.issues` lives on. It is made at the data holder and stays there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr

from comt.agent.agent import Agent
from comt.preparation import Preparation
from comt.problem import Array

#: rows at or above this score are flagged: at most about one in five of them should be a false alarm
FLAG_AT = 0.8


def regression_issues(agent: Agent, preparation: Preparation, theta: Array, sigma: float) -> pd.DataFrame:
    """Score = 1 − the false discovery rate at which a row's residual stands out from those of trusted rows.

    ``sigma`` is the size of a trusted row's residual, in prepared units.
    """
    predicted = agent.scores(preparation, theta)
    given = _targets(agent, preparation)
    surprise = 2.0 * ndtr(-np.abs(given - predicted) / max(sigma, 1e-12))
    score = 1.0 - _false_discovery_rate(surprise)
    scale, center = preparation.target_scale, preparation.target_center
    return _table(agent, score, score >= FLAG_AT, given * scale + center, predicted * scale + center, "target")


def classification_issues(agent: Agent, preparation: Preparation, theta: Array, classes: Any) -> pd.DataFrame:
    """Score = the model's probability that the given label is not the right one; flagged from one half on."""
    margin = agent.scores(preparation, theta)
    given = _targets(agent, preparation)
    score = expit(-given * margin)
    labels = np.asarray(classes)
    return _table(agent, score, score > 0.5, labels[(given > 0).astype(int)], labels[(margin > 0).astype(int)], "label")


def _targets(agent: Agent, preparation: Preparation) -> Array:
    parts = [targets for _, targets in agent.prepared(preparation).blocks()]
    return np.concatenate(parts) if parts else np.empty(0)


def _false_discovery_rate(p_values: Array) -> Array:
    """Return Benjamini and Hochberg's q-value of every row."""
    order = np.argsort(p_values)
    rates = p_values[order] * len(p_values) / np.arange(1, len(p_values) + 1)
    smallest = np.minimum.accumulate(rates[::-1])[::-1]
    result = np.empty_like(p_values)
    result[order] = np.minimum(smallest, 1.0)
    return result


def _table(agent: Agent, score: Array, flagged: Any, given: Any, suggested: Any, kind: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "row": np.arange(len(score)),
            "agent": agent.name,
            "score": score,
            "flagged": flagged,
            "given": given,
            "suggested": suggested,
            "kind": kind,
            "column": "",
        }
    )
