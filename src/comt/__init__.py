"""Collaborative machine teaching: one model over buggy data at several owners, guided by a few trusted rows.

Names are loaded when they are first used, so that ``import comt`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comt.agent import Agent, ArrayRows, FileRows, Ledger, Policy, TableRows
    from comt.curves import selection_curve
    from comt.errors import (
        ComtError,
        ConvergenceError,
        GateError,
        InputError,
        NoTrustedRowsWarning,
        SelectionWarning,
        SparsityWarning,
    )
    from comt.estimators import CoMTClassifier, CoMTRegressor
    from comt.model_file import load
    from comt.model_selection import TrustedKFold
    from comt.reviews import Decision, Reviews

__version__ = "0.1.0"

_HOMES = {
    "Agent": "comt.agent",
    "ArrayRows": "comt.agent",
    "CoMTClassifier": "comt.estimators",
    "CoMTRegressor": "comt.estimators",
    "ComtError": "comt.errors",
    "ConvergenceError": "comt.errors",
    "Decision": "comt.reviews",
    "FileRows": "comt.agent",
    "GateError": "comt.errors",
    "InputError": "comt.errors",
    "Ledger": "comt.agent",
    "Policy": "comt.agent",
    "NoTrustedRowsWarning": "comt.errors",
    "Reviews": "comt.reviews",
    "SelectionWarning": "comt.errors",
    "SparsityWarning": "comt.errors",
    "TableRows": "comt.agent",
    "TrustedKFold": "comt.model_selection",
    "load": "comt.model_file",
    "selection_curve": "comt.curves",
}

__all__ = [
    "Agent",
    "ArrayRows",
    "CoMTClassifier",
    "CoMTRegressor",
    "ComtError",
    "ConvergenceError",
    "Decision",
    "FileRows",
    "GateError",
    "InputError",
    "Ledger",
    "NoTrustedRowsWarning",
    "Policy",
    "Reviews",
    "SelectionWarning",
    "SparsityWarning",
    "TableRows",
    "TrustedKFold",
    "load",
    "selection_curve",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'comt' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
