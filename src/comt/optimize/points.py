"""What solvers ask and what they get: the questions are points (r, θ), the answers sums over rows."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TypeVar

from comt.problem import Array, Sums

Result = TypeVar("Result")


@dataclass(frozen=True)
class Points:
    """A batch of points (b × p each) to be evaluated in one exchange."""

    r: Array
    theta: Array
    curvature: str = "full"
    #: another λ_α than the problem's (0: all rows count, which gives the plain moments)
    lambda_alpha: float | None = None

    @classmethod
    def one(cls, r: Array, theta: Array, curvature: str = "full", lambda_alpha: float | None = None) -> Points:
        """Return a batch of a single point."""
        return cls(r[None, :], theta[None, :], curvature, lambda_alpha)


@dataclass(frozen=True)
class Solution:
    """Where a solver ended, with the sums there and the certificate they give."""

    r: Array
    theta: Array
    sums: Sums
    certificate: float
    history: list[dict[str, float]] = field(default_factory=list)


Asking = Generator[Points, list[Sums], Result]


def drive(asking: Asking[Result], answer: Callable[[Points], list[Sums]]) -> Result:
    """Run one solver against a function that answers its questions on the spot."""
    try:
        question = next(asking)
        while True:
            question = asking.send(answer(question))
    except StopIteration as done:
        result: Result = done.value
        return result
