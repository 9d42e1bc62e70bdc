"""The question how labels bend where no straight model does: along products of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from comt.problem import Array
from comt.queries.base import ModelQuery, check_batch


@dataclass(frozen=True, kw_only=True)
class BendingSums(ModelQuery):
    """Sums of errors e = y − x·θ over products of z = axes·x: ``bent`` is Σ e z zᵀ.

    With a ``bend`` B, they are instead those of q = zᵀBz, one product for all: Σ q², Σ q·x, and ``own``, Σ e²‖z‖⁴, which is
    what a row adds to ‖Σ e z zᵀ‖² by itself.
    """

    purpose: ClassVar[str] = "errors over products of features"
    theta: Array  # (1, p)
    axes: Array  # (r, p)
    bend: Array | None = None  # (r, r)
    #: leave out rows with a capped cell
    whole: bool = False
    thin: int = 1

    def __post_init__(self) -> None:
        check_batch(self.theta, "theta")
        check_batch(self.axes, "axes")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """One matrix, or three sums."""
        rank, width = self.axes.shape
        return {"bent": (rank, rank)} if self.bend is None else {"square": (), "along": (width,), "own": ()}
