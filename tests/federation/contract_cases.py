"""What every federation promises, as functions of a federation: for the local one, and inside one job for the distributed.

Each case returns arrays; the tests compare them with what the pooled rows give.
"""

from __future__ import annotations

import numpy as np

from comt.errors import ComtError
from comt.preparation import Preparation
from comt.problem import TeachingProblem
from comt.queries import DualSums, Histogram, ResidualScale, ScoreHistogram, Spread, TrustedScore
from comt.server.training import Settings, train

WIDTH = 3
#: what sites and agents of the contract hold
DATA = {"n": 60, "d": WIDTH, "seed": 5}
N_SITES = 4


def spread(federation):
    federation.declare()
    return dict(federation.sum(Spread(center=np.linspace(-1, 1, WIDTH + 1))))


def histogram(federation):
    low, high = np.full(WIDTH + 1, -3.0), np.full(WIDTH + 1, 3.0)
    return dict(federation.sum(Histogram(n_columns=WIDTH + 1, low=low, high=high, bins=16)))


def dual_sums(federation):
    r = np.random.default_rng(0).normal(size=(3, WIDTH + 1)) * 0.1
    preparation = Preparation(np.ones(WIDTH), np.full(WIDTH, 2.0), 0.5, 3.0, 10.0)
    query = DualSums(
        loss_name="squared", preparation=preparation, r=r, theta=-r,
        lambda_alpha=np.full(3, 0.1), lambda_z=np.array([1.0, 5.0, np.inf]),
    )  # fmt: skip
    return dict(federation.sum(query))


def scores(federation):
    model = np.ones((2, WIDTH)) * [[0.5], [-0.5]]
    preparation = Preparation.identity(WIDTH)
    counts = federation.sum(
        ScoreHistogram(
            loss_name="squared", preparation=preparation, by="loss", model=model, edges=np.tile(np.arange(9.0), (2, 1))
        )
    )
    size = federation.sum(ResidualScale(loss_name="squared", preparation=preparation, theta=model[0]))
    trusted = federation.sum(TrustedScore(loss_name="squared", preparation=preparation, theta=model))
    return {**counts, **{f"size {k}": v for k, v in size.items()}, **{f"trusted {k}": v for k, v in trusted.items()}}


def _trained(federation, **settings):
    problem = TeachingProblem("squared", 1.0, 2.0, 0.05, 8.0, intercept=True)
    training = train(federation, Settings(problem, **settings))
    return {"theta": training.theta, "r": training.solution.r}


def newton(federation):
    return _trained(federation)


def newton_cg(federation):
    return _trained(federation, solver="newton-cg")


def admm(federation):
    return _trained(federation, solver="admm", tol=1e-3)


def select_by_loss(federation):
    return _trained(federation, select=0.8, select_by="loss")


def select_automatically(federation):
    return _trained(federation, select="auto")


def own_answers_are_refused(federation):
    try:
        federation.each(Spread(center=np.zeros(WIDTH + 1)))
    except ComtError:
        return {"refused": np.ones(())}
    return {"refused": np.zeros(())}


CASES = {
    case.__name__: case
    for case in (
        spread, histogram, dual_sums, scores, newton, newton_cg, admm, select_by_loss, select_automatically,
        own_answers_are_refused,
    )
}  # fmt: skip
