"""The automatic choice where no agent may be seen by itself: agents as one, and questions that owners refuse left out."""

from __future__ import annotations

import numpy as np
import pytest

from comt import CoMTClassifier, CoMTRegressor
from comt.agent import Agent, ArrayRows, Policy
from comt.datasets import noisy_federation
from comt.errors import GateError
from comt.federation import LocalFederation
from comt.queries import EVERYBODY, MomentsByAgent, RankCounts, RobustMoments
from comt.server.training import train
from comt.settings import check_settings


def data(task, *, n_trusted=100, corruption="clean", n_rows=900, seed=0):
    return noisy_federation(
        task, corruption=corruption, n_rows=n_rows, n_trusted=n_trusted, n_test=2000, seed=seed
    )  # fmt: skip


def rows_of(agents):
    parts = zip(*((a.features, a.targets, a.trusted_features, a.trusted_targets) for a in agents), strict=True)
    return ArrayRows(*(np.concatenate(part) for part in parts))


def pooled(task, agents, policy=None):
    federation = LocalFederation([Agent(a.name, rows_of([a]), policy) for a in agents], threads=1)
    return choose(task, federation, by_agent=False), federation


def choose(task, federation, **options):
    estimator, loss = (CoMTRegressor, "squared") if task == "regression" else (CoMTClassifier, "logistic")
    return train(federation, check_settings(estimator(), loss), **options)


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("corruption", ["clean", "label_flips", "wrong_agents"])
def test_agents_together_choose_as_one_agent_that_holds_all_rows(task, corruption):
    if (task, corruption) == ("regression", "label_flips"):
        corruption = "negated_targets"
    agents = data(task, corruption=corruption).agents
    together, _ = pooled(task, agents)
    one = choose(task, LocalFederation([Agent("one", rows_of(agents))], threads=1))
    np.testing.assert_allclose(together.theta, one.theta, rtol=0, atol=1e-8)
    assert together.choice.agents == (EVERYBODY,)
    assert [line.candidate for line in together.choice.lines] == [line.candidate for line in one.choice.lines]


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_owners_who_allow_no_sum_by_agent_answer_all_of_it(task):
    """The very same choice agent by agent is refused."""
    agents = data(task).agents
    strict = Policy(by_agent=False)
    pooled(task, agents, strict)
    with pytest.raises(GateError, match="shows every agent by itself"):
        choose(task, LocalFederation([Agent(a.name, rows_of([a]), strict) for a in agents], threads=1))


class Refuses(LocalFederation):
    """Refuses some questions, as owners may; counts what was asked."""

    def __init__(self, agents, refuses):
        super().__init__(agents, threads=1)
        self._refuses, self.refused = refuses, 0

    def sum(self, query):
        if self._refuses(query):
            self.refused += 1
            raise GateError("it is refused")
        return super().sum(query)


REFUSALS = {
    "sums over rows without far-out values": lambda q: isinstance(q, MomentsByAgent) and q.whole,
    "folds of trusted rows": lambda q: isinstance(q, (MomentsByAgent, RankCounts)) and q.n_folds > 1,
    "robust fits": lambda q: isinstance(q, RobustMoments),
}


@pytest.mark.parametrize("what", REFUSALS)
@pytest.mark.parametrize("corruption", ["clean", "negated_targets", "missing_codes"])
def test_a_question_that_is_refused_costs_candidates_and_not_the_training(what, corruption):
    given = data("regression", corruption=corruption)
    agents = [Agent(a.name, rows_of([a])) for a in given.agents]
    federation = Refuses(agents, REFUSALS[what])
    training = choose("regression", federation, by_agent=False)
    assert federation.refused == 1
    coef, intercept = training.preparation.to_raw(training.theta)
    error = np.mean((given.test_targets - given.test_features @ coef - intercept) ** 2)
    assert 1.0 - error / given.test_targets.var() > 0.85  # the true model has .92
    lines = " ".join(line.candidate for line in training.choice.lines)
    gone = {"folds of trusted rows": "fit trusted rows best", "robust fits": "fit best"}.get(what, "without far-out")
    assert gone not in lines
