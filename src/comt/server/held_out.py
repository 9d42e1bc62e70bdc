"""Fit every candidate without each fold of the trusted rows, and score it on the fold: one batch, whatever its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from comt.federation.base import Federation
from comt.optimize.points import Solution
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import DualSums, TrustedScore
from comt.server import direct, dual
from comt.server.grids import Candidate, Teaching
from comt.server.selection import thresholds

#: a candidate whose buggy loss is this many times that of predicting nothing (and of the plain fit) is a catastrophe
CATASTROPHE = 5.0
#: certificate, and relative size of the next step, that are enough to compare candidates; that step squares them
SEARCH_TOL, SEARCH_SETTLE = 1e-5, 3e-3


@dataclass(frozen=True)
class Scored:
    """A candidate with its mean held-out loss and the standard error of that mean; ``excluded`` says why it cannot win."""

    candidate: Candidate
    loss: float
    loss_error: float
    excluded: str = ""


@dataclass(frozen=True)
class Folds:
    """How trusted rows are dealt out: the folds that hold rows, of so many."""

    n_folds: int
    occupied: tuple[int, ...]


#: (r, θ) of every candidate without every fold
Models = dict[tuple[Candidate, int], tuple[Array, Array]]


@dataclass(frozen=True)
class Search:
    """Everything that scoring candidates needs besides them."""

    federation: Federation
    preparation: Preparation
    teaching: Teaching
    folds: Folds
    start: Array  # a plain fit of the buggy rows
    max_rounds: int
    weights: Array | None = None  # of agents, for direct teaching

    def scores(
        self, candidates: Sequence[Candidate], thin: int, known: Models | None = None
    ) -> tuple[list[Scored], Models]:
        """Return held-out losses of all candidates, on every thin-th buggy row, and the models; ``known`` ones are starts."""
        fit = self._fit_dual if self.teaching == "dual" else self._fit_direct
        # what does not look at the trusted rows is the same in every fold
        fits = list(dict.fromkeys((c, self._fold(c, fold)) for c in candidates for fold in self.folds.occupied))
        models = fit(fits, thin, known or {})
        width = self.preparation.width
        thetas = np.zeros((len(candidates), len(self.folds.occupied), width))
        excluded = [""] * len(candidates)
        for row, candidate in enumerate(candidates):
            for column, fold in enumerate(self.folds.occupied):
                model = models.get((candidate, self._fold(candidate, fold)))
                if model is None:
                    excluded[row] = "no solution"
                else:
                    thetas[row, column] = model[1]
        for row in np.flatnonzero(self._catastrophes(candidates, thetas, thin)).tolist():
            excluded[row] = "absurd on buggy rows"
        mean, error = self._held_out(candidates, thetas)
        scored = [
            Scored(candidate, float(loss), float(spread), why)
            if why != "no solution"
            else Scored(candidate, np.inf, np.inf, why)
            for candidate, loss, spread, why in zip(candidates, mean, error, excluded, strict=True)
        ]
        return scored, models

    @staticmethod
    def _fold(candidate: Candidate, fold: int) -> int:
        return fold if candidate.problem.lambda_trusted > 0 else -1

    def _held_out(self, candidates: Sequence[Candidate], thetas: Array) -> tuple[Array, Array]:
        """Return mean loss and its standard error over the trusted rows, each scored by models that have not seen it."""
        count, folds, width = thetas.shape
        query = TrustedScore(
            loss_name=candidates[0].problem.loss_name,
            preparation=self.preparation,
            theta=thetas.reshape(-1, width),
            fold=np.tile(np.array(self.folds.occupied), count),
            n_folds=self.folds.n_folds,
        )
        answer = self.federation.sum(query)
        totals = {name: array.reshape(count, folds).sum(axis=1) for name, array in answer.items()}
        rows = totals["rows"]
        mean = totals["loss"] / rows
        variance = np.maximum(totals["loss_sq"] / rows - mean**2, 0.0) * rows / np.maximum(rows - 1.0, 1.0)
        return mean, np.sqrt(variance / rows)

    def _catastrophes(self, candidates: Sequence[Candidate], thetas: Array, thin: int) -> NDArray[np.bool_]:
        """Return which candidates predict the buggy rows absurdly: a few trusted rows need not show it.

        Squared losses only: negated targets cost a right model at most four times the targets' variance, while a
        coefficient that was never tested on the tail of its column costs any amount.
        """
        loss = candidates[0].problem.loss
        if not loss.piecewise_quadratic:
            return np.zeros(len(candidates), dtype=bool)
        width = thetas.shape[-1]
        models = np.concatenate([np.zeros((1, width)), self.start[None], thetas.reshape(-1, width)])
        query = DualSums(
            loss_name=loss.name,
            preparation=self.preparation,
            r=models,
            theta=np.zeros_like(models),
            lambda_alpha=np.zeros(len(models)),
            lambda_z=np.full(len(models), np.inf),
            curvature="none",
            thin=thin,
        )
        value = self.federation.sum(query)["phi"]
        limit = CATASTROPHE * max(float(value[0]), float(value[1]))
        absurd: NDArray[np.bool_] = np.median(value[2:].reshape(thetas.shape[:2]), axis=1) > limit
        return absurd

    def _fit_dual(self, fits: Sequence[tuple[Candidate, int]], thin: int, known: Models) -> Models:
        """Solve all (candidate, fold); fractions keep the smallest losses under the solution with all rows, and refit."""
        plain = (self.start, self.start)
        whole = list(dict.fromkeys((replace(candidate, fraction=1.0), fold) for candidate, fold in fits))
        tasks = [dual.Task(fit[0].problem, *known.get(fit, plain), held_out=fit[1]) for fit in whole]
        models: Models = {
            fit: (solved.r, solved.theta)
            for fit, solved in zip(whole, self._attempt(tasks, thin), strict=True)
            if solved is not None
        }
        some = [
            (fit, models[base])
            for fit in fits
            if fit[0].fraction < 1.0 and (base := (replace(fit[0], fraction=1.0), fit[1])) in models
        ]
        if some:
            cuts = thresholds(
                self.federation,
                self.preparation,
                fits[0][0].problem,
                "loss",
                np.stack([theta for _, (_, theta) in some]),
                np.array([candidate.fraction for (candidate, _), _ in some]),
                exact=thin == 1,
                thin=thin,
            )
            refits = [
                dual.Task(fit[0].problem, *known.get(fit, start), start[1], float(cut), fit[1])
                for (fit, start), cut in zip(some, cuts, strict=True)
            ]
            for (fit, _), solved in zip(some, self._attempt(refits, thin), strict=True):
                if solved is not None:
                    models[fit] = (solved.r, solved.theta)
        return models

    def _attempt(self, tasks: Sequence[dual.Task], thin: int) -> list[Solution | None]:
        outcomes = dual.attempt(
            self.federation,
            self.preparation,
            tasks,
            tol=SEARCH_TOL,
            settle=SEARCH_SETTLE,
            max_rounds=self.max_rounds,
            max_exchanges=self.max_rounds,
            n_folds=self.folds.n_folds,
            thin=thin,
        )
        return [outcome if isinstance(outcome, Solution) else None for outcome in outcomes]

    def _fit_direct(self, fits: Sequence[tuple[Candidate, int]], thin: int, known: Models) -> Models:
        """Solve all (candidate, fold) from the plain fit and from a fit of the trusted rows; the lower objective counts.

        With all rows one start is enough: the problem is convex, or nearly so where repairs are small.
        """
        fresh = sorted({fold for candidate, fold in fits if (candidate, fold) not in known})
        problem = fits[0][0].problem
        trusted = replace(problem, lambda_w=1.0, lambda_trusted=1.0, lambda_alpha=0.0, lambda_z=np.inf)
        silent = np.zeros(len(self.federation.agents))
        alone = self._descend(
            [direct.DirectTask(trusted, self.start, weights=silent, held_out=fold) for fold in fresh], thin
        )
        from_trusted = {fold: solution.theta for fold, solution in zip(fresh, alone, strict=True)}
        owner, tasks = [], []
        for candidate, fold in fits:
            if (candidate, fold) in known:
                starts = [known[candidate, fold][1]]
            else:
                starts = [self.start] if candidate.fraction == 1.0 else [self.start, from_trusted[fold]]
            for start in starts:
                owner.append((candidate, fold))
                tasks.append(
                    direct.DirectTask(
                        candidate.problem, start, fraction=candidate.fraction, weights=self.weights, held_out=fold
                    )
                )
        models: Models = {}
        lowest: dict[tuple[Candidate, int], float] = {}
        for fit, solution in zip(owner, self._descend(tasks, thin), strict=True):
            if solution.value < lowest.get(fit, np.inf):
                models[fit], lowest[fit] = (solution.theta, solution.theta), solution.value
        return models

    def _descend(self, tasks: Sequence[direct.DirectTask], thin: int) -> list[direct.DirectSolution]:
        return direct.solve(self.federation, self.preparation, tasks, n_folds=self.folds.n_folds, thin=thin, rough=True)
