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
#: turns of choosing rows in the search: most of the way, and enough to compare
SEARCH_TURNS = 4


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


@dataclass(frozen=True)
class Search:
    """Everything that scoring candidates needs besides them."""

    federation: Federation
    preparation: Preparation
    teaching: Teaching
    folds: Folds
    start: Array  # a plain fit of the buggy rows
    tol: float
    max_rounds: int
    weights: Array | None = None  # of agents, for direct teaching

    def scores(self, candidates: Sequence[Candidate], thin: int) -> list[Scored]:
        """Return held-out losses of all candidates, on every thin-th buggy row."""
        fit = self._fit_dual if self.teaching == "dual" else self._fit_direct
        # what does not look at the trusted rows is the same in every fold
        fits = list(
            dict.fromkeys(
                (candidate, fold if candidate.problem.lambda_trusted > 0 else -1)
                for candidate in candidates
                for fold in self.folds.occupied
            )
        )
        models = dict(zip(fits, fit(fits, thin), strict=True))
        width = self.preparation.width
        thetas = np.zeros((len(candidates), len(self.folds.occupied), width))
        excluded = [""] * len(candidates)
        for row, candidate in enumerate(candidates):
            for column, fold in enumerate(self.folds.occupied):
                model = models[candidate, fold if candidate.problem.lambda_trusted > 0 else -1]
                if model is None:
                    excluded[row] = "no solution"
                else:
                    thetas[row, column] = model
        for row in np.flatnonzero(self._catastrophes(candidates, thetas, thin)).tolist():
            excluded[row] = "absurd on buggy rows"
        mean, error = self._held_out(candidates, thetas)
        return [
            Scored(candidate, float(loss), float(spread), why)
            if why != "no solution"
            else Scored(candidate, np.inf, np.inf, why)
            for candidate, loss, spread, why in zip(candidates, mean, error, excluded, strict=True)
        ]

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

    def _fit_dual(self, fits: Sequence[tuple[Candidate, int]], thin: int) -> list[Array | None]:
        """Solve all (candidate, fold); fractions keep the smallest losses under the solution with all rows, and refit."""
        whole = list(dict.fromkeys((replace(candidate, fraction=1.0), fold) for candidate, fold in fits))
        tasks = [dual.Task(c.problem, self.start, self.start, held_out=fold) for c, fold in whole]
        base = dict(zip(whole, self._attempt(tasks, thin), strict=True))
        solutions = [base[replace(candidate, fraction=1.0), fold] for candidate, fold in fits]
        models: list[Array | None] = [None if s is None else s.theta for s in solutions]
        some = [(i, s) for i, s in enumerate(solutions) if s is not None and fits[i][0].fraction < 1.0]
        if some:
            cuts = thresholds(
                self.federation,
                self.preparation,
                fits[0][0].problem,
                "loss",
                np.stack([s.theta for _, s in some]),
                np.array([fits[i][0].fraction for i, _ in some]),
                some[0][1].sums.rows,
                thin=thin,
            )
            refits = [
                dual.Task(fits[i][0].problem, s.r, s.theta, s.theta, float(cut), fits[i][1])
                for (i, s), cut in zip(some, cuts, strict=True)
            ]
            for (i, _), refitted in zip(some, self._attempt(refits, thin), strict=True):
                models[i] = None if refitted is None else refitted.theta
        return models

    def _attempt(self, tasks: Sequence[dual.Task], thin: int) -> list[Solution | None]:
        outcomes = dual.attempt(
            self.federation,
            self.preparation,
            tasks,
            tol=self.tol,
            max_rounds=self.max_rounds,
            n_folds=self.folds.n_folds,
            thin=thin,
        )
        return [outcome if isinstance(outcome, Solution) else None for outcome in outcomes]

    def _fit_direct(self, fits: Sequence[tuple[Candidate, int]], thin: int) -> list[Array | None]:
        """Solve all (candidate, fold) from the plain fit and from a fit of the trusted rows; the lower objective counts.

        Without repairs and with all rows the problem is convex, and one start is enough.
        """
        silent = np.zeros(len(self.federation.agents))
        folds = sorted({fold for _, fold in fits})
        problem = fits[0][0].problem
        trusted = replace(problem, lambda_w=1.0, lambda_trusted=1.0, lambda_alpha=0.0, lambda_z=np.inf)
        alone = self._descend(
            [direct.DirectTask(trusted, self.start, weights=silent, held_out=fold) for fold in folds], thin
        )
        from_trusted = {fold: solution.theta for fold, solution in zip(folds, alone, strict=True)}
        owner, tasks = [], []
        for index, (candidate, fold) in enumerate(fits):
            convex = candidate.fraction == 1.0 and not np.isfinite(candidate.problem.lambda_z)
            for start in (self.start,) if convex else (self.start, from_trusted[fold]):
                owner.append(index)
                tasks.append(
                    direct.DirectTask(
                        candidate.problem, start, fraction=candidate.fraction, weights=self.weights, held_out=fold
                    )
                )
        best: list[direct.DirectSolution | None] = [None] * len(fits)
        for index, solution in zip(owner, self._descend(tasks, thin), strict=True):
            rival = best[index]
            if solution.certificate <= self.tol and (rival is None or solution.value < rival.value):
                best[index] = solution
        return [None if solution is None else solution.theta for solution in best]

    def _descend(self, tasks: Sequence[direct.DirectTask], thin: int) -> list[direct.DirectSolution]:
        return direct.solve(
            self.federation,
            self.preparation,
            tasks,
            tol=self.tol,
            max_rounds=self.max_rounds,
            max_turns=SEARCH_TURNS,
            n_folds=self.folds.n_folds,
            thin=thin,
        )
