"""From an estimator's parameters to the settings of a training: every check, each with one sentence."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from comt.errors import InputError, SelectionWarning
from comt.losses import LossName
from comt.problem import TeachingProblem
from comt.server.training import Settings

_SOLVERS = ("newton", "newton-cg", "admm")


def check_settings(estimator: Any, loss_name: LossName) -> Settings:
    """Check every parameter of an estimator before any work, and return them as the server takes them."""
    if estimator.teaching != "dual":
        raise InputError(
            f"teaching={estimator.teaching!r} is not available in this version; use teaching='dual', the paper's objective."
        )
    if estimator.solver not in _SOLVERS:
        raise InputError(f"solver={estimator.solver!r} is unknown; choose one of {', '.join(map(repr, _SOLVERS))}.")
    if estimator.select_by not in (None, "alpha", "loss"):
        raise InputError(f"select_by={estimator.select_by!r} is unknown; choose 'alpha', 'loss' or None.")
    _check_positive("tol", estimator.tol)
    _check_positive("gamma", estimator.gamma)
    if estimator.rho != "auto":
        _check_positive("rho", estimator.rho)
    if estimator.max_rounds is not None:
        _check_positive("max_rounds", estimator.max_rounds)
    if estimator.select is not None and estimator.select != "auto":
        _check_positive("select", estimator.select)
        if float(estimator.select) > 1.0:
            raise InputError(
                f"select={estimator.select!r} is not a fraction in (0, 1]; choose such a value, or 'auto'."
            )
        if estimator.select_by != "loss" and float(estimator.select) < 1.0:
            warnings.warn(
                "select keeps the rows with the largest |alpha|, as the paper does: those that fit worst (erratum "
                "E13); use select_by='loss' to keep the rows that fit best and refit.",
                SelectionWarning,
                stacklevel=4,
            )
    problem = TeachingProblem(
        loss_name,
        estimator.lambda_w,
        estimator.lambda_trusted,
        estimator.lambda_alpha,
        estimator.lambda_z,
        intercept=bool(estimator.fit_intercept),
    )
    return Settings(
        problem,
        standardize=bool(estimator.standardize),
        solver=estimator.solver,
        rho=estimator.rho,
        gamma=estimator.gamma,
        tol=estimator.tol,
        max_rounds=estimator.max_rounds,
        select=estimator.select,
        select_by=estimator.select_by,
    )


def _check_positive(name: str, value: Any) -> None:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not (number and value > 0 and np.isfinite(value)):
        raise InputError(f"{name}={value!r} is not a positive number; choose such a value.")
