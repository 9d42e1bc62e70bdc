"""A coordinator that departs from Algorithm 1's public recursion is refused and named, also if it lies about sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from comt.agent import Agent, ArrayRows, Policy
from comt.agent.store import DiskStore
from comt.errors import ConvergenceError, GateError
from comt.federation import LocalFederation
from comt.optimize.algorithm1 import Schedule, State
from comt.preparation import Preparation
from comt.problem import TeachingProblem
from comt.queries import ProximalStep
from comt.server import admm
from masked_sites import BadChannel, MaskedFederation, make_sites, mask_federation
from teaching import is_one_sentence, random_data, split_agents

DATA = random_data("logistic", n=120, d=3, m=30, seed=4)
PROBLEM = TeachingProblem("logistic", 1.0, 2.0, 0.05, 20.0)


class Liar:
    """A federation whose coordinator changes steps of Algorithm 1 on their way out."""

    def __init__(self, inner, lie, at=3):
        self.inner, self.lie, self.at = inner, lie, at
        self.steps = []

    agents = property(lambda self: self.inner.agents)
    rounds = property(lambda self: self.inner.rounds)

    def sum(self, query):
        if isinstance(query, ProximalStep):
            if query.round == self.at:
                query = self.lie(query, self.steps)
            self.steps.append(query)
        return self.inner.sum(query)


def run(federation, **kwargs):
    values = {"rho": "auto", "tol": 1e-3, "max_rounds": 60} | kwargs
    return admm.solve(federation, Preparation.identity(3), PROBLEM, **values)


def masked(**kwargs):
    return mask_federation(split_agents(DATA, 4, **kwargs))


def plain(**kwargs):
    return LocalFederation(split_agents(DATA, 4, **kwargs))


def schedule_of(query):
    return Schedule(PROBLEM, query.recursion.n_agents, query.recursion.gamma, query.recursion.sharing)


def consistent(query, steps, **totals):
    """Change the sums that are shown, and everything that follows from them."""
    recursion = replace(query.recursion, totals=query.recursion.totals | totals)
    state = State.first(3, recursion.rho)
    for step in [*steps[1:], replace(query, recursion=recursion)]:
        state = schedule_of(query).update(state, step.recursion.totals)
    shift, sigma, damping = schedule_of(query).broadcast(state)
    return replace(query, recursion=recursion, theta=state.theta, shift=shift, sigma=sigma, damping=damping)


LIES = {
    "shift": lambda query, steps: replace(query, shift=query.shift + 1e-3),
    "theta": lambda query, steps: replace(query, theta=np.array([50.0, 0.0, 0.0])),
    "sigma": lambda query, steps: replace(query, sigma=2.0 * query.sigma),
    "damping": lambda query, steps: replace(query, damping=0.5),
    "lambda_w": lambda query, steps: replace(query, lambda_w=2.0),
    "preparation": lambda query, steps: replace(query, preparation=Preparation(np.ones(3), np.ones(3))),
    "no sums": lambda query, steps: replace(query, recursion=replace(query.recursion, totals={})),
    "sums that do not fit": lambda query, steps: replace(
        query, recursion=replace(query.recursion, totals=query.recursion.totals | {"tau": np.zeros(3)})
    ),
}


@pytest.mark.parametrize("make", [plain, masked])
@pytest.mark.parametrize("lie", LIES)
def test_steps_that_do_not_follow_are_refused(make, lie):
    liar = Liar(make(), LIES[lie])
    with pytest.raises(GateError, match="the coordinator departs from the recursion") as caught:
        run(liar)
    assert is_one_sentence(caught.value)
    assert len(liar.steps) == 4  # three were honest


@pytest.mark.parametrize("make", [plain, masked])
def test_an_honest_coordinator_is_followed_to_the_end(make):
    """Beyond the rounds at which ρ is balanced."""
    honest = Liar(make(), None, at=-1)
    assert run(honest, tol=1e-8, max_rounds=400).certificate <= 1e-8
    assert len(honest.steps) > 10


def test_the_printed_form_is_followed_too():
    honest = Liar(plain(), None, at=-1)
    with pytest.raises(ConvergenceError):
        run(honest, rho=100.0, tol=1e-12, max_rounds=40)
    assert len(honest.steps) == 40


def test_a_lie_about_sums_with_all_that_follows_from_it():
    """The recursion alone cannot tell: without masks the step is taken where the coordinator likes. Receipts can."""

    def lie(query, steps):
        slope = query.recursion.totals["trusted_slope"] + np.array([40.0, 0.0, 0.0])
        return consistent(query, steps, trusted_slope=slope)

    steered = {}
    for make in (plain, masked):
        honest, liar = Liar(make(), None, at=-1), Liar(make(), lie)
        run(honest)
        with pytest.raises(GateError) as caught:  # at the latest when it goes on as if nothing had been
            run(liar)
        assert is_one_sentence(caught.value)
        answered = len(liar.steps) > 4
        steered[make] = float(np.abs(liar.steps[3].theta - honest.steps[3].theta).max()) if answered else 0.0
    assert steered[plain] > 0.5  # the trusted gradient was summed at a model of the liar's choice
    assert steered[masked] == 0.0
    assert "other sums of the round before than the sites have opened" in str(caught.value)


@pytest.mark.parametrize("name", ["tau", "trusted_slope", "trusted_bend", "moved_sq"])
def test_small_lies_about_any_sum(name):
    def lie(query, steps):
        told = np.asarray(query.recursion.totals[name] * (1.0 + 1e-7))
        return consistent(query, steps, **{name: told})

    with pytest.raises(GateError, match="than the sites have opened"):
        run(Liar(masked(), lie))


def test_a_wrong_number_of_sites():
    def lie(query, steps):
        return replace(query, recursion=replace(query.recursion, n_agents=1))

    with pytest.raises(GateError, match="1 sites where 4 take part"):
        run(Liar(masked(), lie, at=0))


def test_protective_policies_want_the_recursion():
    def lie(query, steps):
        return replace(query, recursion=None)

    policy = Policy(max_magnitude=1e6)
    with pytest.raises(GateError, match="does not say what it follows from"):
        run(Liar(plain(policy=policy), lie, at=0))
    with pytest.raises(GateError, match="does not say what it follows from"):
        run(Liar(plain(policy=policy), lie))


def test_a_refused_step_leaves_everything_as_it_was(tmp_path):
    """The honest step can still be taken afterwards, and what is on disk is that of the last honest step."""
    agents = split_agents(DATA, 3)
    for agent in agents:
        (tmp_path / agent.name).mkdir()
        agent.store = DiskStore(tmp_path / agent.name)
    liar = Liar(LocalFederation(agents), LIES["shift"])
    with pytest.raises(GateError):
        run(liar)
    honest = replace(liar.steps[3], shift=liar.steps[3].shift - 1e-3)
    again = [Agent(agent.name, agent.rows) for agent in agents]
    for agent in again:  # as after a restart
        agent.store = DiskStore(tmp_path / agent.name)
        assert agent.store["admm"].round == 2
    found = LocalFederation(again).sum(honest)["tau"]
    np.testing.assert_allclose(found, LocalFederation(agents).sum(honest)["tau"])


def test_receipts_survive_a_restart(tmp_path):
    agents = split_agents(DATA, 3)
    for agent in agents:
        (tmp_path / agent.name).mkdir()
        agent.store = DiskStore(tmp_path / agent.name)
    honest = Liar(mask_federation(agents), None, at=-1)
    run(honest, tol=1e-7, max_rounds=400)
    cut = honest.steps[:4]
    for agent in agents:
        for path in (tmp_path / agent.name).iterdir():
            assert path.stat().st_mode & 0o077 == 0
            path.unlink()
        agent.store = DiskStore(tmp_path / agent.name)
    first = mask_federation(agents)
    for step in cut[:3]:
        first.sum(step)
    again = [
        Agent(agent.name, ArrayRows(agent.rows.features, agent.rows.targets, *agent.rows.trusted())) for agent in agents
    ]
    for agent in again:
        agent.store = DiskStore(tmp_path / agent.name)
    lied = replace(cut[3], recursion=replace(cut[3].recursion, totals=cut[3].recursion.totals | {"tau": np.ones(3)}))
    with pytest.raises(GateError, match="than the sites have opened"):
        mask_federation(again).sum(lied)
    assert mask_federation(again).sum(cut[3])["tau"].shape == (3,)


def test_a_site_that_died_in_between_ends_the_recursion():
    """Its contribution is missing from every later sum, and the receipt of its last round cannot be read: fails closed."""
    channel = BadChannel(make_sites(split_agents(DATA, 4)))
    federation = MaskedFederation(channel)

    def die(query, steps):
        channel.dies_at = {"agent-3": "Ask"}
        return query

    with pytest.raises(GateError, match="4 sites where 3 take part"):
        run(Liar(federation, die))
