"""Score every candidate on trusted rows it was not fitted to, and compare it with the simple choices row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from comt.problem import Array
from comt.queries import DualSums, TrustedScore
from comt.server.candidate_fits import Fits, Models
from comt.server.grids import Candidate, Kind

#: a model whose buggy loss is this many times that of predicting nothing (and of the plain fit) is absurd on some rows
ABSURD = 1.5
#: such a model replaces buggy-only only if its held-out losses are clearly below this share of buggy-only's: either those
#: rows are wrong, or trusted rows hold nothing like them; then a model that is only somewhat better elsewhere is a trap
ABSURD_SHARE = 0.5
#: confidence with which a candidate must be better than buggy-only; fewer than FEW rows hardly ever are enough
CLEARLY, CLEARLY_OF_FEW, FEW = 0.975, 0.999, 10


@dataclass(frozen=True)
class Scored:
    """A candidate with its mean held-out loss and the standard error of that mean.

    ``beats`` names the simple choices that it does clearly better than on the same rows: buggy-only by a t-test,
    trusted-only by a standard error. ``absurd``: it predicts some buggy rows absurdly. ``excluded`` says why it cannot win.
    """

    candidate: Candidate
    loss: float
    loss_error: float
    excluded: str = ""
    absurd: bool = False
    beats: frozenset[Kind] = frozenset()


@dataclass(frozen=True)
class Folds:
    """How trusted rows are dealt out: the folds that hold rows, of so many."""

    n_folds: int
    occupied: tuple[int, ...]
    #: whether all trusted labels are the same but for one at most: how far apart classes lie is then not to be seen
    one_class: bool = False


@dataclass(frozen=True)
class _Totals:
    """Σ ℓ and Σ ℓ² over the trusted rows of every candidate."""

    rows: float
    loss: Array
    loss_sq: Array


@dataclass(frozen=True)
class Search:
    """Everything that scoring candidates needs besides them."""

    fits: Fits
    folds: Folds

    def scores(
        self, candidates: Sequence[Candidate], thin: int, known: Models | None = None
    ) -> tuple[list[Scored], Models]:
        """Return held-out losses of all candidates, on every thin-th buggy row, and the models; ``known`` ones are starts."""
        # what does not look at the trusted rows is the same in every fold
        fits = list(dict.fromkeys((c, self._fold(c, fold)) for c in candidates for fold in self.folds.occupied))
        models = self.fits.models(fits, thin, known or {})
        thetas = np.zeros((len(candidates), len(self.folds.occupied), self.fits.preparation.width))
        solved = np.ones(len(candidates), dtype=bool)
        for row, candidate in enumerate(candidates):
            for column, fold in enumerate(self.folds.occupied):
                model = models.get((candidate, self._fold(candidate, fold)))
                if model is None:
                    solved[row] = False
                else:
                    thetas[row, column] = model[1]
        absurd = self._absurd(candidates, thetas, thin)
        totals = self._held_out(candidates, thetas)
        mean, error = _mean_and_error(totals.rows, totals.loss, totals.loss_sq)
        beaten = self._beaten(candidates, thetas, totals, np.where(solved, mean, np.inf), absurd)
        scored = [
            Scored(c, float(mean[i]), float(error[i]), "", bool(absurd[i]), beaten[i])
            if solved[i]
            else Scored(c, np.inf, np.inf, "no solution")
            for i, c in enumerate(candidates)
        ]
        return scored, models

    @staticmethod
    def _fold(candidate: Candidate, fold: int) -> int:
        return fold if candidate.problem.lambda_trusted > 0 else -1

    def _question(self, candidates: Sequence[Candidate], thetas: Array, against: Array | None = None) -> TrustedScore:
        count, _, width = thetas.shape
        return TrustedScore(
            loss_name=candidates[0].problem.loss_name,
            preparation=self.fits.preparation,
            theta=thetas.reshape(-1, width),
            fold=np.tile(np.array(self.folds.occupied), count),
            n_folds=self.folds.n_folds,
            against=against,
        )

    def _held_out(self, candidates: Sequence[Candidate], thetas: Array) -> _Totals:
        """Score each trusted row by models that have not seen it."""
        answer = self.fits.federation.sum(self._question(candidates, thetas))
        totals = {name: array.reshape(thetas.shape[:2]).sum(axis=1) for name, array in answer.items()}
        return _Totals(float(totals["rows"][0]), totals["loss"], totals["loss_sq"])

    def _beaten(
        self, candidates: Sequence[Candidate], thetas: Array, totals: _Totals, mean: Array, absurd: NDArray[np.bool_]
    ) -> list[frozenset[Kind]]:
        """Return which simple choices every candidate does clearly better than: differences row by row, one exchange."""
        rivals = simple_choices(candidates, mean)
        beaten: list[set[Kind]] = [set() for _ in candidates]
        count, _, width = thetas.shape
        against = [np.tile(thetas[rival], (count, 1)) for rival in rivals.values()]
        everything = np.concatenate([thetas] * len(rivals))
        query = self._question([*candidates] * len(rivals), everything, np.concatenate(against).reshape(-1, width))
        answer = self.fits.federation.sum(query)
        products, tenths = (answer[name].reshape(len(rivals), count, -1).sum(axis=2) for name in ("product", "tenths"))
        for (kind, rival), product, tenth in zip(rivals.items(), products, tenths, strict=True):
            # trusted-only is held against others once buggy-only is refuted; between these two, evidence is what counts
            share = np.where(absurd & (not absurd[rival]) & (kind != "trusted only"), ABSURD_SHARE, 1.0)
            lead = share * totals.loss[rival] - totals.loss
            lead_sq = share**2 * totals.loss_sq[rival] - 2.0 * share * product + totals.loss_sq
            ahead, spread = _mean_and_error(totals.rows, lead, lead_sq)
            quantile = _quantile(kind, totals.rows)
            clearly = ahead > quantile * spread
            # one trusted row far out must not hide that nearly all others speak against the rival
            nearly_all = 2.0 * tenth - totals.rows > quantile * np.sqrt(totals.rows)
            clearly |= nearly_all & (mean < mean[rival])
            for index in np.flatnonzero(clearly & np.isfinite(mean)).tolist():
                beaten[index].add(kind)
        return [frozenset(kinds) for kinds in beaten]

    def _absurd(self, candidates: Sequence[Candidate], thetas: Array, thin: int) -> NDArray[np.bool_]:
        """Return which candidates predict some of the buggy rows absurdly: a few trusted rows need not show it.

        Squared losses only: where a third of the targets are negated, a right model costs 1.3 times the targets' variance,
        while a coefficient that was never tested on the tail of its column costs any amount.
        """
        loss = candidates[0].problem.loss
        if not loss.piecewise_quadratic:
            return np.zeros(len(candidates), dtype=bool)
        width = thetas.shape[-1]
        models = np.concatenate([np.zeros((1, width)), self.fits.start[None], thetas.reshape(-1, width)])
        query = DualSums(
            loss_name=loss.name,
            preparation=self.fits.preparation,
            r=models,
            theta=np.zeros_like(models),
            lambda_alpha=np.zeros(len(models)),
            lambda_z=np.full(len(models), np.inf),
            curvature="none",
            thin=thin,
        )
        value = self.fits.federation.sum(query)["phi"]
        limit = ABSURD * max(float(value[0]), float(value[1]))
        absurd: NDArray[np.bool_] = np.median(value[2:].reshape(thetas.shape[:2]), axis=1) > limit
        return absurd


def simple_choices(candidates: Sequence[Candidate], mean: Array) -> dict[Kind, int]:
    """Return where buggy-only and trusted-only are, the best of each; "plain" stands in where λ_trusted is given."""
    best: dict[Kind, int] = {}
    for index in np.argsort(mean, kind="stable").tolist():
        best.setdefault(candidates[index].kind, index)
    simple: tuple[Kind, ...] = ("buggy only", "trusted only")
    return {kind: best[kind] for kind in simple if kind in best} or {"plain": best["plain"]}


def _quantile(kind: Kind, rows: float) -> float:
    if kind == "trusted only":
        return 1.0
    level = CLEARLY if rows >= FEW else CLEARLY_OF_FEW
    return float(stdtrit(max(rows - 1.0, 1.0), level))


def _mean_and_error(rows: float, total: Array, total_sq: Array) -> tuple[Array, Array]:
    mean = total / rows
    variance = np.maximum(total_sq / rows - mean**2, 0.0) * rows / max(rows - 1.0, 1.0)
    return mean, np.sqrt(variance / rows)
