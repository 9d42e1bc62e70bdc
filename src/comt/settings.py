"""From an estimator's parameters to the settings of a training: every check, each with one sentence."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from comt.errors import IgnoredParameterWarning, InputError, SelectionWarning
from comt.losses import LossName
from comt.problem import TeachingProblem
from comt.server.training import Settings

_TEACHINGS = ("auto", "dual", "direct")
_SOLVERS = ("newton", "newton-cg", "admm")
_LAMBDAS = ("lambda_w", "lambda_trusted", "lambda_alpha", "lambda_z")
#: what stands for a λ until it is chosen
_UNCHOSEN = {"lambda_w": 1.0, "lambda_trusted": 1.0, "lambda_alpha": 0.0, "lambda_z": np.inf}


def check_settings(estimator: Any, loss_name: LossName) -> Settings:
    """Check every parameter of an estimator before any work, and return them as the server takes them."""
    if estimator.teaching not in _TEACHINGS:
        raise InputError(
            f"teaching={estimator.teaching!r} is unknown; choose one of {', '.join(map(repr, _TEACHINGS))}."
        )
    if estimator.solver not in _SOLVERS:
        raise InputError(f"solver={estimator.solver!r} is unknown; choose one of {', '.join(map(repr, _SOLVERS))}.")
    if estimator.select_by not in (None, "alpha", "loss"):
        raise InputError(f"select_by={estimator.select_by!r} is unknown; choose 'alpha', 'loss' or None.")
    _check_positive("tol", estimator.tol, "1e-8")
    _check_positive("gamma", estimator.gamma, "1.0")
    if not _is_auto(estimator.rho):
        _check_positive("rho", estimator.rho, "1.0, or 'auto'")
    if estimator.max_rounds is not None:
        _check_positive("max_rounds", estimator.max_rounds, "200, or None")
    chosen = estimator.select is None or _is_auto(estimator.select)
    if not (chosen or (_is_positive(estimator.select) and float(estimator.select) <= 1.0)):
        raise InputError(
            f"select={estimator.select!r} is not a fraction in (0, 1]; choose such a value, for example 0.7, 'auto', "
            "or None to learn from all rows."
        )
    given = {name: getattr(estimator, name) for name in _LAMBDAS}
    for name, value in given.items():
        if isinstance(value, str) and value != "auto":
            raise InputError(f"{name}={value!r} is not a number; choose one, for example {name}=1.0, or 'auto'.")
    automatic = frozenset(name for name, value in given.items() if _is_auto(value))
    numbers = {name: _UNCHOSEN[name] if name in automatic else value for name, value in given.items()}
    problem = TeachingProblem(
        loss_name,
        numbers["lambda_w"],
        numbers["lambda_trusted"],
        numbers["lambda_alpha"],
        numbers["lambda_z"],
        intercept=bool(estimator.fit_intercept),
    )
    teaching = estimator.teaching
    if teaching == "auto" and (len(automatic) < len(_LAMBDAS) or not _is_auto(estimator.select)):
        teaching = "dual"  # a number for one of its parameters says which objective is meant
    settings = Settings(
        problem,
        teaching=teaching,
        automatic=automatic if teaching != "auto" else frozenset(),
        standardize=bool(estimator.standardize),
        solver=estimator.solver,
        rho=estimator.rho,
        gamma=estimator.gamma,
        tol=estimator.tol,
        max_rounds=estimator.max_rounds,
        select=estimator.select,
        select_by=estimator.select_by,
    )
    part = isinstance(estimator.select, (int, float)) and estimator.select < 1.0
    if estimator.teaching != "direct" and part and settings.rule == "alpha":
        warnings.warn(
            "select keeps the rows with the largest |alpha|, as the paper does: those that fit worst (erratum "
            "E13); use select_by='loss' to keep the rows that fit best and refit.",
            SelectionWarning,
            stacklevel=4,
        )
    _warn_of_ignored(estimator, teaching)
    return settings


def _warn_of_ignored(estimator: Any, teaching: str) -> None:
    """Say which parameters have no effect: whoever sets one expects that it does something."""
    given = {
        "solver": estimator.solver != "newton",
        "rho": not _is_auto(estimator.rho),
        "gamma": estimator.gamma != 1.0,
    }
    if teaching == "auto":
        given |= {"max_rounds": estimator.max_rounds is not None, "select_by": estimator.select_by is not None}
        why = "averages many models and solves them its own way"
    elif teaching == "direct":
        given |= {
            "lambda_alpha": not _is_auto(estimator.lambda_alpha) and estimator.lambda_alpha != 0,
            "select_by": estimator.select_by == "alpha",
        }
        why = "descends on the rows' losses and has no duals"
    else:
        return
    ignored = [f"{name}={getattr(estimator, name)!r}" for name, is_given in given.items() if is_given]
    if ignored:
        warnings.warn(
            f"{', '.join(ignored)} has no effect under teaching={teaching!r}, which {why}; pass teaching='dual' or leave "
            "it out.",
            IgnoredParameterWarning,
            stacklevel=5,
        )


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _is_positive(value: Any) -> bool:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return bool(number and value > 0 and np.isfinite(value))


def _check_positive(name: str, value: Any, example: str) -> None:
    if not _is_positive(value):
        raise InputError(f"{name}={value!r} is not a positive number; choose such a value, for example {example}.")
