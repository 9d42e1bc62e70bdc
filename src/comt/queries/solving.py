"""Questions of the solvers and of selection: sums at models, histograms of scores, steps of Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from comt.errors import ProtocolError
from comt.problem import Array, Sums
from comt.queries.base import ModelQuery, Totals, check_batch, slot_of

Curvature = Literal["none", "diagonal", "full"]


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
    #: sum only every thin-th buggy row: enough to find where a solver should start, or which parameters to try
    thin: int = 1

    def __post_init__(self) -> None:
        check_batch(self.r, "r")
        check_batch(self.theta, "theta")
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
        return _sums_shapes(len(self.r), self.preparation.width, self.curvature)

    def unpack(self, totals: Totals) -> list[Sums]:
        """Return one Sums per model of the batch."""
        return _unpack(totals, len(self.r))


def _sums_shapes(batch: int, width: int, curvature: Curvature) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(
        (*("phi", "alpha_sq", "active", "rows", "size_sq"), *("trusted_value", "trusted_rows", "trusted_size_sq")),
        (batch,),
    )
    shapes["alpha_x"] = shapes["trusted_slope"] = (batch, width)
    if curvature != "none":
        matrix = (batch, width) if curvature == "diagonal" else (batch, width, width)
        shapes |= {"weight_xx": matrix, "trusted_bend": matrix}
        shapes |= {"weight_alpha_x": (batch, width), "weight_alpha_sq": (batch,)}
    return shapes


def _unpack(totals: Totals, batch: int) -> list[Sums]:
    return [
        Sums(**{name: _item(array[index]) for name, array in totals.items()})  # type: ignore[arg-type]
        for index in range(batch)
    ]


def _item(value: Array) -> Array | float:
    return float(value) if value.ndim == 0 else value


@dataclass(frozen=True, kw_only=True)
class DirectSums(ModelQuery):
    """The sums of :class:`comt.problem.Sums` at B models θ of direct teaching: every row repaired towards the model.

    All sums over the buggy rows of agent k (their number, too) are multiplied by ``weights[b, k]`` where weights are given.
    """

    purpose: ClassVar[str] = "sums at a repaired model"
    theta: Array  # (B, p)
    lambda_z: Array  # (B,)
    keep: Keep | None = None
    held_out: NDArray[np.int64] | None = None  # (B,)
    n_folds: int = 0
    agents: tuple[str, ...] = ()
    weights: Array | None = None  # (B, K)
    thin: int = 1

    def __post_init__(self) -> None:
        check_batch(self.theta, "theta")
        check_weights(self.weights, len(self.theta), self.agents)
        for name, values in (("lambda_z", self.lambda_z), ("held_out", self.held_out)):
            if values is not None and values.shape != (len(self.theta),):
                raise ProtocolError(
                    f"{name} has shape {values.shape} where one value per model, ({len(self.theta)},), is due."
                )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the fields of Sums, with a leading batch axis."""
        return _sums_shapes(len(self.theta), self.preparation.width, "full")

    def weights_of(self, agent: str) -> Array:
        """Return how much the agent's rows count in every member of the batch (B,)."""
        return _weights_of(self, len(self.theta), agent)

    def unpack(self, totals: Totals) -> list[Sums]:
        """Return one Sums per model of the batch."""
        return _unpack(totals, len(self.theta))


def _weights_of(query: DirectSums | ScoreHistogram, batch: int, agent: str) -> Array:
    if query.weights is None:
        return np.ones(batch)
    return query.weights[:, slot_of(query.agents, agent, query.purpose)]


def check_weights(weights: Array | None, batch: int, agents: tuple[str, ...]) -> None:
    """Refuse weights of agents that are not one per model and agent, from 0 to 1."""
    if weights is None:
        return
    if weights.shape != (batch, len(agents)) or not ((weights >= 0) & (weights <= 1)).all():
        raise ProtocolError(
            f"weights of shape {weights.shape} are not one number from 0 to 1 per model and agent, {(batch, len(agents))}."
        )


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

    Bin 0 lies below the first edge, the last one from the last edge on. Rows of agent k count ``weights[b, k]`` times.
    """

    purpose: ClassVar[str] = "histogram of row scores"
    by: Literal["loss", "alpha"]
    model: Array  # (B, p)
    edges: Array  # (B, E)
    lambda_alpha: float = 0.0
    lambda_z: float = np.inf
    agents: tuple[str, ...] = ()
    weights: Array | None = None  # (B, K)
    thin: int = 1

    def __post_init__(self) -> None:
        check_batch(self.model, "model")
        check_weights(self.weights, len(self.model), self.agents)

    def weights_of(self, agent: str) -> Array:
        """Return how much the agent's rows count in every member of the batch (B,)."""
        return _weights_of(self, len(self.model), agent)

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
        check_batch(self.r, "r")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """One vector and one count per threshold."""
        return {"vector": self.r.shape, "rows": (len(self.r),)}


@dataclass(frozen=True, kw_only=True)
class TrustedScore(ModelQuery):
    """How well B models do on the trusted rows: Σ loss, Σ error², hits, and the targets' own moments.

    ``fold`` restricts each model to one fold (−1: all rows). With models to compare with (``against``, one each), Σ of the
    product of both losses tells how surely one is better than the other on the same rows, and ``tenths`` counts the rows on
    which it leaves less than a tenth of the other's loss.
    """

    purpose: ClassVar[str] = "score on trusted rows"
    theta: Array  # (B, p)
    fold: NDArray[np.int64] | None = None
    n_folds: int = 0
    against: Array | None = None  # (B, p)

    def __post_init__(self) -> None:
        check_batch(self.theta, "theta")
        if self.against is not None and self.against.shape != self.theta.shape:
            raise ProtocolError(
                f"against has shape {self.against.shape} where {self.theta.shape} is due: one model for each."
            )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Per model."""
        names = ("rows", "loss", "loss_sq", "hits", "target", "target_sq")
        return {
            name: (len(self.theta),) for name in (*names, *(("product", "tenths") if self.against is not None else ()))
        }


@dataclass(frozen=True, kw_only=True)
class ResidualScale(ModelQuery):
    """Σ (y − x·θ)² over the buggy and over the trusted rows: the yardstick for the issue table."""

    purpose: ClassVar[str] = "size of residuals"
    theta: Array  # (p,)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Two sums with their counts."""
        return {"buggy": (), "rows": (), "trusted": (), "trusted_rows": ()}


@dataclass(frozen=True, kw_only=True)
class Recursion:
    """What an agent needs in order to check a step: the constants of the recursion, and the sums of the round before."""

    lambda_trusted: float
    rho: float  # of round 0
    gamma: float
    sharing: bool
    n_agents: int
    #: see ``comt.optimize.algorithm1.NEEDED``; none in round 0
    totals: dict[str, Array]


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
    #: None: it cannot be checked; protective policies then refuse
    recursion: Recursion | None = None

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
