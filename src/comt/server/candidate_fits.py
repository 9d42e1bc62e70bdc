"""Fit every candidate without each fold of the trusted rows, under the very rule that the final fit follows.

All candidates share one batch of exchanges. Trusted-only candidates see trusted rows alone: a huge λ_trusted is not the
same, because the pull of rows that are far enough out is huger still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from comt.federation.base import Federation
from comt.optimize.points import Solution
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import SubsetSum
from comt.server import direct, dual
from comt.server.grids import Candidate, Teaching
from comt.server.selection import Rule, thresholds

#: certificate, and relative size of the next step, that are enough to compare candidates; that step squares them
SEARCH_TOL, SEARCH_SETTLE = 1e-5, 3e-3
#: the same where others wait for it
ROUGH_TOL, ROUGH_SETTLE = 1e-3, 3e-2
#: exchanges that a refit takes at most, as it starts near its solution, and a fit of trusted rows before others start from it
REFIT_ROUNDS, ALONE_ROUNDS, MANY = 6, 8, 1_000

Fit = tuple[Candidate, int]
#: (r, θ) of every candidate without every fold
Models = dict[Fit, tuple[Array, Array]]


@dataclass(frozen=True)
class Fits:
    """Everything that fitting candidates needs besides them."""

    federation: Federation
    preparation: Preparation
    teaching: Teaching
    n_folds: int
    start: Array  # a plain fit of the buggy rows
    max_rounds: int
    rule: Rule = "loss"
    weights: Array | None = None  # of agents, for direct teaching

    def models(self, fits: Sequence[Fit], thin: int, known: Models) -> Models:
        """Return the models of all (candidate, fold) on every thin-th buggy row; ``known`` ones are starts."""
        models = {fit: known[fit] for fit in fits if fit in known and fit[0].alone}
        wanted = [fit for fit in fits if fit not in models]
        if not wanted:
            return models
        return models | (self._dual if self.teaching == "dual" else self._direct)(wanted, thin, known)

    def _two_starts(self, fit: Fit, known: Models) -> bool:
        """With all rows one start is enough: the problem is convex, or nearly so where repairs are small."""
        return self.teaching == "direct" and fit[0].fraction < 1.0 and fit not in known

    def _alone(self, fits: Sequence[Fit], starting: Sequence[int], like: Candidate) -> tuple[Models, dict[int, Array]]:
        """Fit trusted rows alone: the candidates that are just that, and a place to start from for every fold."""
        anywhere = replace(like.problem, lambda_w=1.0, lambda_trusted=1.0, lambda_alpha=0.0, lambda_z=np.inf)
        problems = [(candidate.problem, fold) for candidate, fold in fits] + [(anywhere, fold) for fold in starting]
        tasks = [dual.Task(problem, self.start, self.start, held_out=fold, alone=True) for problem, fold in problems]
        solutions = self._attempt(tasks, 1, ALONE_ROUNDS, rough=True) if tasks else []
        models = {fit: (s.theta, s.theta) for fit, s in zip(fits, solutions, strict=False) if s is not None}
        ended = zip(starting, solutions[len(fits) :], strict=True)
        return models, {fold: self.start if solution is None else solution.theta for fold, solution in ended}

    def _dual(self, fits: Sequence[Fit], thin: int, known: Models) -> Models:
        """Solve all (candidate, fold); fractions then choose rows under the solution with all rows."""
        plain = (self.start, self.start)
        whole = list(dict.fromkeys((replace(candidate, fraction=1.0), fold) for candidate, fold in fits))
        tasks = [
            dual.Task(fit[0].problem, *known.get(fit, plain), held_out=fit[1], alone=fit[0].alone) for fit in whole
        ]
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
        if not some:
            return models
        return models | (self._cut(some, thin) if self.rule == "alpha" else self._refitted(some, thin, known))

    def _refitted(self, some: Sequence[tuple[Fit, tuple[Array, Array]]], thin: int, known: Models) -> Models:
        """Keep the rows of smallest loss and fit them again."""
        bases = np.stack([theta for _, (_, theta) in some])
        cuts = self._thresholds([fit for fit, _ in some], bases, thin)
        refits = [
            dual.Task(fit[0].problem, *known.get(fit, start), start[1], float(cut), fit[1])
            for (fit, start), cut in zip(some, cuts, strict=True)
        ]
        return {
            fit: (solved.r, solved.theta)
            for (fit, _), solved in zip(some, self._attempt(refits, thin, REFIT_ROUNDS), strict=True)
            if solved is not None
        }

    def _cut(self, some: Sequence[tuple[Fit, tuple[Array, Array]]], thin: int) -> Models:
        """Cut the sum that makes the model down to the largest |α|, as the paper does: one batch per (λ_α, λ_Z)."""
        models: Models = {}
        prices = dict.fromkeys((fit[0].problem.lambda_alpha, fit[0].problem.lambda_z) for fit, _ in some)
        for price in prices:
            own = [item for item in some if (item[0][0].problem.lambda_alpha, item[0][0].problem.lambda_z) == price]
            bases = np.stack([r for _, (r, _) in own])
            problem = own[0][0][0].problem
            query = SubsetSum(
                loss_name=problem.loss_name,
                preparation=self.preparation,
                r=bases,
                lambda_alpha=problem.lambda_alpha,
                lambda_z=problem.lambda_z,
                thresholds=self._thresholds([fit for fit, _ in own], bases, thin),
            )
            vectors = self.federation.sum(query)["vector"]
            for (fit, (r, _)), vector in zip(own, vectors, strict=True):
                models[fit] = (r, vector / fit[0].problem.lambda_w)
        return models

    def _thresholds(self, fits: Sequence[Fit], bases: Array, thin: int) -> Array:
        return thresholds(
            self.federation,
            self.preparation,
            fits[0][0].problem,
            self.rule,
            bases,
            np.array([candidate.fraction for candidate, _ in fits]),
            exact=thin == 1,
            thin=thin,
        )

    def _attempt(
        self, tasks: Sequence[dual.Task], thin: int, at_most: int = MANY, *, rough: bool = False
    ) -> list[Solution | None]:
        outcomes = dual.attempt(
            self.federation,
            self.preparation,
            tasks,
            tol=ROUGH_TOL if rough else SEARCH_TOL,
            settle=ROUGH_SETTLE if rough else SEARCH_SETTLE,
            max_rounds=self.max_rounds,
            max_exchanges=min(self.max_rounds, at_most),
            n_folds=self.n_folds,
            thin=thin,
        )
        return [outcome if isinstance(outcome, Solution) else None for outcome in outcomes]

    def _direct(self, wanted: Sequence[Fit], thin: int, known: Models) -> Models:
        """Solve all (candidate, fold); where rows are chosen, also from a fit of trusted rows: the lower objective counts."""
        fits = [fit for fit in wanted if not fit[0].alone]
        starting = sorted({fit[1] for fit in fits if self._two_starts(fit, known)})
        models, from_trusted = self._alone([fit for fit in wanted if fit[0].alone], starting, wanted[0][0])
        owner, tasks = [], []
        for candidate, fold in fits:
            starts = [known[candidate, fold][1]] if (candidate, fold) in known else [self.start]
            if self._two_starts((candidate, fold), known):
                starts.append(from_trusted[fold])
            for start in starts:
                owner.append((candidate, fold))
                tasks.append(
                    direct.DirectTask(
                        candidate.problem, start, fraction=candidate.fraction, weights=self.weights, held_out=fold
                    )
                )
        lowest: dict[Fit, float] = {}
        for fit, solution in zip(owner, self._descend(tasks, thin), strict=True):
            if solution.value < lowest.get(fit, np.inf):
                models[fit], lowest[fit] = (solution.theta, solution.theta), solution.value
        return models

    def _descend(self, tasks: Sequence[direct.DirectTask], thin: int) -> list[direct.DirectSolution]:
        if not tasks:
            return []
        return direct.solve(self.federation, self.preparation, tasks, n_folds=self.n_folds, thin=thin, rough=True)
