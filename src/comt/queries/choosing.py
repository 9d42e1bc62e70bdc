"""Questions of the automatic choice: moments agent by agent, ranks of trusted rows, robust and noisy-label fits.

Some answers have one slot per agent. Each agent fills its own slot and leaves the others zero, so the sum over agents
shows the agents one by one: sums over an agent's rows, never a row. A data holder's policy may refuse these questions
(``Policy.by_agent``); the automatic choice then asks with one slot that all agents share (:data:`comt.queries.EVERYBODY`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comt.errors import ProtocolError
from comt.problem import Array
from comt.queries.base import ModelQuery, check_batch, slot_of

#: the public grid on which ranks are taken: symmetric, fine around zero, logarithmic far out (in prepared units)
RANK_BINS = 320
#: what a row is ranked by under a model: |e|, e·(x·θ), mean |z|, e, e·(x·towards)
RANK_STATISTICS = 5


def rank_edges() -> Array:
    """Return the inner edges (RANK_BINS − 1) of the public grid of ranks."""
    reach = float(np.arcsinh(400.0 / 0.05))
    return 0.05 * np.sinh(np.linspace(-reach, reach, RANK_BINS - 1))


def rank_middles() -> Array:
    """Return a value for every bin of the grid of ranks: its middle, or the only edge that it has."""
    edges = rank_edges()
    return np.concatenate([edges[:1], 0.5 * (edges[1:] + edges[:-1]), edges[-1:]])


@dataclass(frozen=True, kw_only=True)
class SlotQuery(ModelQuery):
    """What questions with slots share: the names of the agents, in the order of the slots."""

    agents: tuple[str, ...]

    def slot(self, agent: str) -> int:
        """Return the slot of an agent."""
        return slot_of(self.agents, agent, self.purpose)


@dataclass(frozen=True, kw_only=True)
class MomentsByAgent(SlotQuery):
    """Second moments of (x, y) of every agent's buggy rows, of its rows without a capped cell, and of trusted folds.

    ``columns`` counts how often each column (the target is the last), and its absolute value, falls into each bin of
    the grid of ranks. Without ``whole`` nothing is said about capped cells: where few rows have one, two sums that differ
    by these rows are a question that data holders refuse.
    """

    purpose: ClassVar[str] = "moments agent by agent"
    n_folds: int
    whole: bool = True

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Matrices over (x, y): one per agent, one per fold."""
        agents, side, columns = len(self.agents), self.preparation.width + 1, len(self.preparation.center) + 1
        whole = {"whole": (agents, side, side), "whole_rows": (agents,), "trusted_whole_rows": ()}
        return {
            "moments": (agents, side, side),
            "rows": (agents,),
            "columns": (agents, 2 * columns, RANK_BINS),
            "trusted": (self.n_folds, side, side),
            "trusted_rows": (self.n_folds,),
            "trusted_columns": (2 * columns, RANK_BINS),
            **(whole if self.whole else {}),
        }


@dataclass(frozen=True, kw_only=True)
class RankCounts(SlotQuery):
    """How buggy and trusted rows spread over the grid of ranks, by the RANK_STATISTICS of each of B models.

    Buggy rows of agent k count ``weights[b, k]`` times in member b; of the trusted rows only fold ``fold[b]`` is counted
    (−1: all). A model meets the rows it was fitted to too well: with ``inflation``, errors of buggy rows count so many times.
    """

    purpose: ClassVar[str] = "ranks under models"
    theta: Array  # (B, p)
    towards: Array  # (B, p)
    weights: Array  # (B, K)
    fold: NDArray[np.int64]  # (B,)
    n_folds: int
    inflation: Array | None = None  # (B,)

    def __post_init__(self) -> None:
        check_batch(self.theta, "theta")
        check_batch(self.towards, "towards")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Counts per model, statistic and bin."""
        shape = (len(self.theta), RANK_STATISTICS, RANK_BINS)
        return {"buggy": shape, "trusted": shape}


@dataclass(frozen=True, kw_only=True)
class RobustMoments(ModelQuery):
    """Second moments of (x, y) over rows that fit model b: |e| below ``limit[b]``, or weighted by (1 − (e/limit)²)²."""

    purpose: ClassVar[str] = "moments of rows that fit"
    theta: Array  # (B, p)
    limit: Array  # (B,)
    smooth: NDArray[np.bool_]  # (B,)
    thin: int = 1

    def __post_init__(self) -> None:
        check_batch(self.theta, "theta")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """One matrix and one (weighted) count per model."""
        side = self.preparation.width + 1
        return {"moments": (len(self.theta), side, side), "rows": (len(self.theta),)}


@dataclass(frozen=True, kw_only=True)
class ErrorCounts(ModelQuery):
    """How many buggy rows have an error |e| in each bin of the grid of ranks, for B models."""

    purpose: ClassVar[str] = "histogram of errors"
    theta: Array  # (B, p)
    thin: int = 1

    def __post_init__(self) -> None:
        check_batch(self.theta, "theta")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Counts per model."""
        return {"counts": (len(self.theta), RANK_BINS)}


@dataclass(frozen=True, kw_only=True)
class ErrorsByPrediction(SlotQuery):
    """How many buggy rows have an error e in each bin of the grid of ranks, for B models, by ranges of predictions.

    ``edges`` part the predictions of a model into ranges; rows of agent k count ``weights[k]`` times.
    """

    purpose: ClassVar[str] = "histogram of errors by predictions"
    theta: Array  # (B, p)
    edges: Array  # (B, ranges − 1), ascending
    weights: Array  # (K,)
    thin: int = 1

    def __post_init__(self) -> None:
        check_batch(self.theta, "theta")
        check_batch(self.edges, "edges")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Counts per model and range of predictions."""
        return {"counts": (len(self.theta), self.edges.shape[1] + 1, RANK_BINS)}


@dataclass(frozen=True, kw_only=True)
class MultipliedSums(ModelQuery):
    """Sums over buggy rows whose targets follow x·θ with probability ``share[b]``, and were multiplied otherwise.

    The factor[b] multiplies error and all: −1 turns signs. Targets y count from raw zero, errors have variance noise[b]. With
    p_i the probability that row i was left as it is and q_i = 1 − p_i: Σ log density, Σ p_i, and Σ y_i x_i and Σ y_i² weighted
    by p_i (kept) and by q_i (multiplied).
    """

    purpose: ClassVar[str] = "sums over targets multiplied in part"
    theta: Array  # (B, p)
    factor: Array  # (B,)
    noise: Array  # (B,)
    share: Array  # (B,)
    thin: int = 1

    def __post_init__(self) -> None:
        check_batch(self.theta, "theta")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Per model."""
        batch, width = self.theta.shape
        vectors = dict.fromkeys(("kept_cross", "multiplied_cross"), (batch, width))
        return {**dict.fromkeys(("value", "kept", "kept_square", "multiplied_square"), (batch,)), **vectors}


@dataclass(frozen=True, kw_only=True)
class NoisyLabelSums(SlotQuery):
    """Value, slope and bend of the logistic loss of B models over buggy rows, agent k weighted by ``weights[b, k]``.

    A negative weight reverses the agent's labels. With ``flips`` the labels of agent k are taken to be wrong with
    probability flips[b, k, 0] where the right label is +1, and flips[b, k, 1] where it is −1; ``right`` then returns, per
    agent, Σ P(right label +1), Σ P(right +1, given −1), Σ P(right −1), Σ P(right −1, given +1).

    With ``axes`` and ``leans`` flips follow the features: leans[b, 0]·(x·axes[b]) is added to the log-odds of a flip where the
    right label is +1, leans[b, 1]·(x·axes[b]) where it is −1. ``lean_slope`` and ``lean_bend`` are then slope and bend of the
    expected log loss of flips in (log-odds, lean), for either right label.
    """

    purpose: ClassVar[str] = "noisy-label sums at models"
    theta: Array  # (B, p)
    weights: Array  # (B, K)
    flips: Array | None = None  # (B, K, 2)
    axes: Array | None = None  # (B, p)
    leans: Array | None = None  # (B, 2)
    #: leave out rows with a capped cell
    whole: bool = False
    thin: int = 1

    def __post_init__(self) -> None:
        check_batch(self.theta, "theta")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Per model; ``right`` per model and agent."""
        batch, width = self.theta.shape
        shapes: dict[str, tuple[int, ...]] = {
            "value": (batch,),
            "slope": (batch, width),
            "bend": (batch, width, width),
            "rows": (batch,),
        }
        if self.flips is not None:
            shapes["right"] = (batch, len(self.agents), 4)
        if self.axes is not None:
            shapes |= {"lean_slope": (batch, 2, 2), "lean_bend": (batch, 2, 2, 2)}
        return shapes


@dataclass(frozen=True, kw_only=True)
class TrustedSums(ModelQuery):
    """Value, slope and bend of the loss of B models over the trusted rows."""

    purpose: ClassVar[str] = "trusted sums at models"
    theta: Array  # (B, p)

    def __post_init__(self) -> None:
        check_batch(self.theta, "theta")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Per model."""
        batch, width = self.theta.shape
        return {"value": (batch,), "slope": (batch, width), "bend": (batch, width, width), "rows": (batch,)}


@dataclass(frozen=True, kw_only=True)
class TrustedLeftOut(ModelQuery):
    """Σ loss of the trusted rows, each under the model without it: B models and their covariances, the row itself included.

    No model is fitted again: leaving a row out moves its score by what one step of Newton's method moves it.
    """

    purpose: ClassVar[str] = "losses of trusted rows left out"
    theta: Array  # (B, p)
    covariance: Array  # (B, p, p)

    def __post_init__(self) -> None:
        check_batch(self.theta, "theta")
        batch, width = self.theta.shape
        if self.covariance.shape != (batch, width, width) or not np.isfinite(self.covariance).all():
            raise ProtocolError(
                f"covariance has shape {self.covariance.shape} where finite {(batch, width, width)} is due."
            )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Per model."""
        return {"value": (len(self.theta),)}
