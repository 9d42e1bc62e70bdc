"""What a training is told and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from comt.optimize.points import Solution
from comt.preparation import Preparation
from comt.problem import Array, TeachingProblem
from comt.server import selection
from comt.server.auto.choice import Choice

Teaching = Literal["auto", "dual", "direct"]
SolverName = Literal["newton", "newton-cg", "admm"]
#: beyond this many columns a d × d sum is no longer a small message, and vectors are asked for instead
MAX_MATRIX_WIDTH = 1000
DEFAULT_ROUNDS: dict[SolverName, int] = {"newton": 200, "newton-cg": 5_000, "admm": 5_000}


@dataclass(frozen=True)
class Settings:
    """Everything a training needs to know besides the data."""

    problem: TeachingProblem  # its ``intercept`` says whether one is fitted
    teaching: Teaching = "dual"
    #: names of the λ's that the trusted rows are to choose
    automatic: frozenset[str] = frozenset()
    standardize: bool = True
    solver: SolverName = "newton"
    rho: float | str = "auto"
    gamma: float = 1.0
    tol: float = 1e-8
    max_rounds: int | None = None
    select: float | str | None = None
    select_by: selection.Rule | None = None

    @property
    def rule(self) -> selection.Rule:
        """The rule that rows are selected by; the paper's if asked for by name, or where nothing at all is left to choose."""
        return self.select_by or ("loss" if self.automatic or self.select == "auto" else "alpha")

    @property
    def choosing(self) -> bool:
        """Whether cross-validation chooses anything of dual or direct teaching."""
        free_fraction = self.select == "auto" and self.teaching == "direct"
        return self.teaching != "auto" and (bool(self.automatic) or free_fraction)


@dataclass(frozen=True)
class Training:
    """The result: how rows are prepared, the solution before selection, the final θ, and what was selected."""

    settings: Settings
    preparation: Preparation
    solution: Solution
    theta: Array
    solver: SolverName
    rounds: int
    selected: selection.Selected | None = None
    curve: list[selection.CurvePoint] = field(default_factory=list)
    #: what the automatic choice found; None where nothing was chosen
    choice: Choice | None = None

    @property
    def problem(self) -> TeachingProblem:
        """The problem that was solved."""
        problem = self.settings.problem
        return problem if self.settings.teaching != "direct" else replace(problem, lambda_alpha=0.0, repair=True)
