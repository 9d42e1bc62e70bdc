"""Which parameters to try: grids without units, turned into numbers by the size of the rows at hand.

    λ_w/n,   λ_trusted·m/λ_w (dual) or λ_trusted·m/n (direct: there trusted and buggy rows compete for θ itself),
    λ_α/median |residual|,   2λ_Z/‖r‖²,   the fraction ϱ of rows

λ_w and λ_trusted are tried in all combinations; λ_α, λ_Z and ϱ one at a time on top of them, at all but the largest λ_w.
λ_trusted = 0 (buggy only) and trusted rows alone, under a ridge of their own, are always candidates unless λ_trusted is given
as a number. Where many columns make every answer large, fewer combinations are tried.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from comt.losses import LossName
from comt.problem import TeachingProblem

Teaching = Literal["dual", "direct"]
Kind = Literal["buggy only", "plain", "extended", "trusted only"]
#: the simpler, the earlier: what a tie within the error of the comparison is decided by
SIMPLICITY: tuple[Kind, ...] = ("buggy only", "plain", "extended", "trusted only")
_IN_WORDS: dict[Kind, str] = {
    "buggy only": "unverified rows alone",
    "plain": "all rows",
    "extended": "all rows",
    "trusted only": "trusted rows alone",
}
#: λ_w/n without trusted rows to choose it
FALLBACK_RIDGE = 1e-3
#: bytes that the answers about all candidates in all folds may have together: more takes minutes, and memory at the server
SEARCH_BYTES = 96 * 2**20


@dataclass(frozen=True)
class Grids:
    """Values without units; ``alone`` is λ_w/(λ_trusted·m) of trusted rows alone."""

    ridge: tuple[float, ...] = (1e-4, 1e-2, 1.0)
    trust: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)
    alone: tuple[float, ...] = (1e-4, 1e-2, 0.1, 1.0)
    sparsity: tuple[float, ...] = (0.5, 1.5)
    price: tuple[float, ...] = (4.0, 20.0)
    fractions: tuple[float, ...] = (0.85, 0.7, 0.5)


@dataclass(frozen=True)
class Wanted:
    """What the user gave: a number stays as it is, None is to be chosen. ``fraction`` 1 keeps all rows."""

    loss_name: LossName
    teaching: Teaching = "dual"
    lambda_w: float | None = None
    lambda_trusted: float | None = None
    lambda_alpha: float | None = None
    lambda_z: float | None = None
    fraction: float | None = 1.0
    intercept: bool = False
    grids: Grids = field(default_factory=Grids)


@dataclass(frozen=True)
class Sizes:
    """What turns grids into numbers: counts of rows, the median |residual| and ‖r‖² of a plain fit of the buggy rows."""

    rows: float
    trusted_rows: float
    residual: float
    r_sq: float


@dataclass(frozen=True)
class Candidate:
    """One choice of all parameters."""

    kind: Kind
    problem: TeachingProblem
    fraction: float = 1.0

    @property
    def alone(self) -> bool:
        """Whether it looks at trusted rows only; the objectives, which take all rows, cannot say that."""
        return self.kind == "trusted only"

    @property
    def name(self) -> str:
        """What is learnt from, in words, and the parameters."""
        problem = self.problem
        parts = [f"lambda_w={problem.lambda_w:.3g}"]
        if problem.lambda_trusted > 0:
            parts.append(f"lambda_trusted={problem.lambda_trusted:.3g}")
        if problem.lambda_alpha > 0:
            parts.append(f"lambda_alpha={problem.lambda_alpha:.3g}")
        if np.isfinite(problem.lambda_z):
            parts.append(f"lambda_z={problem.lambda_z:.3g}")
        if self.fraction < 1.0:
            parts.append(f"select={self.fraction:g}")
        return f"{_IN_WORDS[self.kind]} ({', '.join(parts)})"


def fallback(wanted: Wanted, rows: float) -> Candidate:
    """Return what is trained without trusted rows to choose by: the buggy rows alone."""
    problem = TeachingProblem(
        wanted.loss_name,
        wanted.lambda_w if wanted.lambda_w is not None else FALLBACK_RIDGE * max(rows, 1.0),
        wanted.lambda_trusted if wanted.lambda_trusted is not None else 0.0,
        wanted.lambda_alpha if wanted.lambda_alpha is not None else 0.0,
        wanted.lambda_z if wanted.lambda_z is not None else np.inf,
        wanted.intercept,
    )
    kind: Kind = "buggy only" if problem.lambda_trusted == 0.0 else "plain"
    return Candidate(kind, problem, wanted.fraction if wanted.fraction is not None else 1.0)


def candidates(wanted: Wanted, sizes: Sizes, folds: int = 1, width: int = 1) -> list[Candidate]:
    """Return all choices to compare, fewer where their answers in so many folds at so many columns would be too large."""
    found = _combined(wanted, sizes) + _alone(wanted, sizes)
    for smaller in _smaller(wanted):
        # two matrices for every model; what looks at no trusted row is fitted once
        if 2 * 8 * width**2 * folds * len(found) <= SEARCH_BYTES:
            break
        found = _combined(smaller, sizes) + _alone(smaller, sizes)
    return found


def _smaller(wanted: Wanted) -> list[Wanted]:
    """Return what to search instead, the smaller the later: extensions go first, then values of λ."""
    grids = replace(wanted.grids, sparsity=(), price=(), fractions=())
    once = replace(grids, ridge=grids.ridge[len(grids.ridge) // 2 :][:1], alone=grids.alone[1:3] or grids.alone)
    least = replace(once, trust=grids.trust[-2:-1] or grids.trust)
    return [replace(wanted, grids=smaller) for smaller in (grids, once, least)]


def _alone(wanted: Wanted, sizes: Sizes) -> list[Candidate]:
    """Return fits of the trusted rows alone; only λ_w/λ_trusted matters to them, and a given λ_w stays."""
    found = []
    # labels of few rows are often parted cleanly: hardly any ridge then takes many exchanges to a bad model
    shares = wanted.grids.alone if wanted.loss_name == "squared" else wanted.grids.alone[1:] or wanted.grids.alone
    for share in shares if wanted.lambda_trusted is None else ():
        ridge = share * max(sizes.trusted_rows, 1.0)
        lambda_w, trust = (ridge, 1.0) if wanted.lambda_w is None else (wanted.lambda_w, wanted.lambda_w / ridge)
        problem = TeachingProblem(wanted.loss_name, lambda_w, trust, intercept=wanted.intercept)
        found.append(Candidate("trusted only", problem))
    return found


def _combined(wanted: Wanted, sizes: Sizes) -> list[Candidate]:
    grids = wanted.grids
    ridges = [wanted.lambda_w] if wanted.lambda_w is not None else [g * max(sizes.rows, 1.0) for g in grids.ridge]
    found: list[Candidate] = []
    extended = ridges[: max(len(ridges) - 1, 1)]
    for ridge in ridges:
        unit = (ridge if wanted.teaching == "dual" else max(sizes.rows, 1.0)) / max(sizes.trusted_rows, 1.0)
        if wanted.lambda_trusted is not None:
            given: Kind = "plain" if wanted.lambda_trusted > 0 else "buggy only"
            trusts: list[tuple[Kind, float]] = [(given, wanted.lambda_trusted)]
        else:
            trusts = [("buggy only", 0.0), *(("plain", g * unit) for g in grids.trust)]
        for kind, trust in trusts:
            for position, (alpha, price, fraction) in enumerate(_variants(wanted, sizes)):
                if position > 0 and (kind != "plain" or ridge not in extended):
                    break  # the simple choices stay simple; and rows chosen without trust may be those that agree in error
                problem = TeachingProblem(wanted.loss_name, ridge, trust, alpha, price, wanted.intercept)
                found.append(Candidate("extended" if position > 0 else kind, problem, fraction))
    return found


def _variants(wanted: Wanted, sizes: Sizes) -> list[tuple[float, float, float]]:
    """Return (λ_α, λ_Z, ϱ): the given or neutral values, then each alternative on its own."""
    alpha = wanted.lambda_alpha if wanted.lambda_alpha is not None else 0.0
    price = wanted.lambda_z if wanted.lambda_z is not None else np.inf
    fraction = wanted.fraction if wanted.fraction is not None else 1.0
    variants = [(alpha, price, fraction)]
    # for the logistic loss λ_α only shifts every logit (erratum E14), and direct teaching has none
    if wanted.lambda_alpha is None and wanted.loss_name == "squared" and wanted.teaching == "dual":
        variants += [(g * sizes.residual, price, fraction) for g in wanted.grids.sparsity if sizes.residual > 0]
    if wanted.lambda_z is None:
        variants += [(alpha, g * sizes.r_sq / 2.0, fraction) for g in wanted.grids.price if sizes.r_sq > 0]
    if wanted.fraction is None:
        variants += [(alpha, price, g) for g in wanted.grids.fractions]
    return variants
