"""THE VOCABULARY: every question a server may ask, and the exact shape, meaning and limits of every answer.

A query is broadcast to all agents; each answers with arrays that are *sums over its rows*; only their sum over agents is
used. Queries carry everything an agent needs (the preparation of the features included), so an agent keeps nothing
between rounds, with one exception that says so: :class:`ProximalStep` of Algorithm 1.

A query carries a batch of B models, so that a whole path of parameters costs the rounds of one fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from comt.errors import ProtocolError
from comt.losses import LossName
from comt.preparation import Preparation
from comt.problem import Array, Sums, TeachingProblem

Curvature = Literal["none", "diagonal", "full"]
Totals = Mapping[str, Array]

#: limits of one message; more is a mistake or an attempt to wear an agent down
MAX_BATCH = 4096
MAX_FEATURES = 100_000
MAX_ANSWER_BYTES = 256 * 2**20

#: the public grid of the first histogram: one bin per octave, 2⁻¹²⁸ to 2¹²⁸, both signs, one bin around zero
OCTAVES = 128
COARSE_SIDE = 2 * OCTAVES
COARSE_BINS = 2 * COARSE_SIDE + 1


def coarse_edges() -> Array:
    """Return the edges (COARSE_BINS + 1) of the public grid, outermost ones infinite."""
    positive = 2.0 ** np.arange(-OCTAVES, OCTAVES)
    return np.concatenate([[-np.inf], -positive[:0:-1], [-positive[0]], positive[:1], positive[1:], [np.inf]])


@dataclass(frozen=True)
class Keep:
    """Which buggy rows take part: those whose loss under θ lies below a threshold, or (the paper's rule) whose |α|
    under r reaches it.

    One model and one threshold per member of the batch. The agent applies them to its own rows; nobody is told which
    rows they are.
    """

    by: Literal["loss", "alpha"]
    model: Array  # (B, p): θ for "loss", r for "alpha"
    thresholds: Array  # (B,)


@dataclass(frozen=True, kw_only=True)
class Query(ABC):
    """A question to every agent. ``purpose`` is what the data holder reads in its ledger."""

    purpose: ClassVar[str]

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return name and exact shape of every array of the answer."""

    def check_answer(self, arrays: Totals, sender: str) -> None:
        """Refuse an answer that is not exactly what was asked for."""
        shapes = self.shapes()
        if set(arrays) != set(shapes):
            raise ProtocolError(
                f"agent {sender} answered {sorted(arrays)} to '{self.purpose}' where {sorted(shapes)} was asked; "
                "update its software to the federation's version."
            )
        for name, shape in shapes.items():
            array = arrays[name]
            if array.shape != shape or array.dtype != np.float64:
                raise ProtocolError(
                    f"agent {sender} answered '{name}' of shape {array.shape} and type {array.dtype} to "
                    f"'{self.purpose}' where float64 {shape} was asked; update its software."
                )
            if not np.isfinite(array).all():
                raise ProtocolError(
                    f"agent {sender} answered '{name}' with values that are not finite to '{self.purpose}'; "
                    "have it check its rows for values too large to square."
                )


def _check_batch(vectors: Array, what: str) -> None:
    if vectors.ndim != 2 or vectors.shape[0] > MAX_BATCH or vectors.shape[1] > MAX_FEATURES:
        raise ProtocolError(
            f"{what} has shape {vectors.shape}; a query takes at most {MAX_BATCH} models of {MAX_FEATURES} features."
        )
    if not np.isfinite(vectors).all():
        raise ProtocolError(f"{what} holds values that are not finite; the training has diverged.")


@dataclass(frozen=True, kw_only=True)
class Histogram(Query):
    """How many rows, buggy and trusted, fall into each bin of each column (the target is the last column).

    Without edges the bins are the public grid; otherwise ``bins`` equal ones between low and high per column, with
    one more on either side.
    """

    purpose: ClassVar[str] = "histogram of columns"
    n_columns: int
    low: Array | None = None
    high: Array | None = None
    bins: int = 256

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """One row of counts per column."""
        return {"counts": (self.n_columns, COARSE_BINS if self.low is None else self.bins + 2)}


@dataclass(frozen=True, kw_only=True)
class Spread(Query):
    """First and second moments of every column around a given centre, for columns whose quartiles coincide."""

    purpose: ClassVar[str] = "spread of columns"
    center: Array

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Σ(x − c), Σ(x − c)², n."""
        width = len(self.center)
        return {"first": (width,), "second": (width,), "rows": ()}


@dataclass(frozen=True, kw_only=True)
class ModelQuery(Query):
    """What all questions about models share: the loss and how rows are prepared."""

    loss_name: LossName
    preparation: Preparation

    def problem(self, lambda_alpha: float = 0.0, lambda_z: float = np.inf, lambda_w: float = 1.0) -> TeachingProblem:
        """Return the problem an agent has to know: λ_w and λ_trusted act at the server only."""
        return TeachingProblem(
            self.loss_name, lambda_w, 1.0, lambda_alpha, lambda_z, intercept=self.preparation.constant != 0.0
        )


@dataclass(frozen=True, kw_only=True)
class DualSums(ModelQuery):
    """The sums of :class:`comt.problem.Sums` at B points (r, θ): what every solver lives on.

    ``held_out`` leaves one fold of the trusted rows out (−1: none), for cross-validation.
    """

    purpose: ClassVar[str] = "sums at a model"
    r: Array  # (B, p)
    theta: Array  # (B, p)
    lambda_alpha: Array  # (B,)
    lambda_z: Array  # (B,)
    curvature: Curvature = "full"
    keep: Keep | None = None
    held_out: NDArray[np.int64] | None = None  # (B,)
    n_folds: int = 0
    #: sum only the first 1/thin of every block of buggy rows: enough to find where a solver should start
    thin: int = 1

    def __post_init__(self) -> None:
        _check_batch(self.r, "r")
        _check_batch(self.theta, "theta")
        if self.r.shape != self.theta.shape or self.r.shape[1] != self.preparation.width:
            raise ProtocolError(
                f"r {self.r.shape} and theta {self.theta.shape} must both have {self.preparation.width} columns."
            )
        for name, values in (
            ("lambda_alpha", self.lambda_alpha),
            ("lambda_z", self.lambda_z),
            ("held_out", self.held_out),
        ):
            if values is not None and values.shape != (len(self.r),):
                raise ProtocolError(
                    f"{name} has shape {values.shape} where one value per model, ({len(self.r)},), is due."
                )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the fields of Sums, with a leading batch axis."""
        batch, width = self.r.shape
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(
            (*("phi", "alpha_sq", "active", "rows", "size_sq"), *("trusted_value", "trusted_rows", "trusted_size_sq")),
            (batch,),
        )
        shapes["alpha_x"] = shapes["trusted_slope"] = (batch, width)
        if self.curvature != "none":
            matrix = (batch, width) if self.curvature == "diagonal" else (batch, width, width)
            shapes |= {"weight_xx": matrix, "trusted_bend": matrix}
            shapes |= {"weight_alpha_x": (batch, width), "weight_alpha_sq": (batch,)}
        return shapes

    def unpack(self, totals: Totals) -> list[Sums]:
        """Return one Sums per model of the batch."""
        return [
            Sums(**{name: _item(array[index]) for name, array in totals.items()})  # type: ignore[arg-type]
            for index in range(len(self.r))
        ]


def _item(value: Array) -> Array | float:
    return float(value) if value.ndim == 0 else value


@dataclass(frozen=True, kw_only=True)
class CurvatureTimes(ModelQuery):
    """Σ w x(x·v) over buggy rows at r and over trusted rows at θ: curvature without a matrix leaving an agent."""

    purpose: ClassVar[str] = "curvature along a direction"
    r: Array  # (p,)
    theta: Array  # (p,)
    lambda_alpha: float
    lambda_z: float
    along_r: Array  # (p,)
    along_theta: Array  # (p,)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Two vectors."""
        width = self.preparation.width
        return {"buggy": (width,), "trusted": (width,), "rows": (), "trusted_rows": ()}


@dataclass(frozen=True, kw_only=True)
class ScoreHistogram(ModelQuery):
    """How many buggy rows have a score (loss under θ, or |α| under r) in each bin of increasing grids, one per model.

    Bin 0 lies below the first edge, the last one from the last edge on.
    """

    purpose: ClassVar[str] = "histogram of row scores"
    by: Literal["loss", "alpha"]
    model: Array  # (B, p)
    edges: Array  # (B, E)
    lambda_alpha: float = 0.0
    lambda_z: float = np.inf

    def __post_init__(self) -> None:
        _check_batch(self.model, "model")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Counts per model."""
        return {"counts": (len(self.model), self.edges.shape[1] + 1)}


@dataclass(frozen=True, kw_only=True)
class SubsetSum(ModelQuery):
    """Σ α s (x + β) over the rows whose |α| under r reaches a threshold: the paper's final model, times λ_w."""

    purpose: ClassVar[str] = "sum over selected rows"
    r: Array  # (B, p)
    lambda_alpha: float
    lambda_z: float
    thresholds: Array  # (B,)

    def __post_init__(self) -> None:
        _check_batch(self.r, "r")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """One vector and one count per threshold."""
        return {"vector": self.r.shape, "rows": (len(self.r),)}


@dataclass(frozen=True, kw_only=True)
class TrustedScore(ModelQuery):
    """How well B models do on the trusted rows: Σ loss, Σ error², hits, and the targets' own moments.

    ``fold`` restricts each model to one fold (−1: all rows).
    """

    purpose: ClassVar[str] = "score on trusted rows"
    theta: Array  # (B, p)
    fold: NDArray[np.int64] | None = None
    n_folds: int = 0

    def __post_init__(self) -> None:
        _check_batch(self.theta, "theta")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Per model."""
        return {name: (len(self.theta),) for name in ("rows", "loss", "loss_sq", "hits", "target", "target_sq")}


@dataclass(frozen=True, kw_only=True)
class ResidualScale(ModelQuery):
    """Σ (y − x·θ)² over the buggy and over the trusted rows: the yardstick for the issue table."""

    purpose: ClassVar[str] = "size of residuals"
    theta: Array  # (p,)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Two sums with their counts."""
        return {"buggy": (), "rows": (), "trusted": (), "trusted_rows": ()}


@dataclass(frozen=True, kw_only=True)
class ProximalStep(ModelQuery):
    """One agent step of Algorithm 1: minimise over own (α, β) with the others' contribution broadcast as ``shift``.

    The one stateful question: the agent keeps (α_k, q_k, round) in its own store. Round 0 starts afresh; a repeated
    round is answered again, never applied twice; any other jump is refused.
    """

    purpose: ClassVar[str] = "step of Algorithm 1"
    training: str
    round: int
    lambda_w: float
    lambda_alpha: float
    lambda_z: float
    shift: Array  # (p,)
    sigma: float
    damping: float
    theta: Array  # (p,): where the trusted sums are wanted

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """τ_k, the agent's terms of the objective, and the trusted sums at θ."""
        width = self.preparation.width
        scalars = (
            "conjugate",
            "alpha_abs",
            "beta_sq",
            "moved_sq",
            "rows",
            "size_sq",
            "trusted_value",
            "trusted_rows",
        )
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(scalars, ())
        return shapes | {"tau": (width,), "trusted_slope": (width,), "trusted_bend": (width, width)}


@dataclass(frozen=True)
class Answer:
    """What an agent lets out: named arrays and, for each, the number of rows it sums."""

    arrays: dict[str, Array]
    rows: dict[str, int] = field(default_factory=dict)
