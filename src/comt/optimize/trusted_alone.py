"""Fit trusted rows alone with the questions of other solvers, so that it takes part in their exchanges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from comt.optimize import primal
from comt.optimize.points import Asking, Points, Solution
from comt.problem import Array, Sums, TeachingProblem


def solve(problem: TeachingProblem, start: Array, *, tol: float, settle: float, max_rounds: int) -> Asking[Solution]:
    """Minimise λ_trusted L̃(θ) + (λ_w/2)‖θ‖²: what answers say about other rows is left out. There is no r."""
    descent = primal.solve(replace(problem, repair=True), start, tol=tol, settle=settle, max_rounds=max_rounds)
    asked = next(descent)
    while True:
        answers = yield Points(np.zeros_like(asked.theta), asked.theta)
        try:
            asked = descent.send([_silent(sums) for sums in answers])
        except StopIteration as stop:
            found: primal.Descent = stop.value
            return Solution(found.theta, found.theta, found.sums, found.certificate)


def _silent(sums: Sums) -> Sums:
    assert sums.weight_xx is not None
    assert sums.weight_alpha_x is not None
    nothing = dict.fromkeys(("phi", "alpha_sq", "active", "rows", "size_sq", "weight_alpha_sq"), 0.0)
    arrays = {name: np.zeros_like(getattr(sums, name)) for name in ("alpha_x", "weight_xx", "weight_alpha_x")}
    return replace(sums, **nothing, **arrays)  # type: ignore[arg-type]
