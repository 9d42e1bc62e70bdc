"""Sums under masks are the sums without them, whoever dies on the way, or there is no sum at all."""

from __future__ import annotations

import numpy as np
import pytest

from comt.agent import Agent, ArrayRows, Policy
from comt.errors import ComtError, DropoutError, GateError, ProtocolError
from comt.federation import LocalFederation
from comt.masking.messages import Masked
from comt.masking.seeds import threshold
from comt.preparation import Preparation
from comt.problem import TeachingProblem
from comt.queries import DualSums, Histogram, Spread
from comt.server.training import Settings, train
from masked_sites import BadChannel, MaskedFederation, make_sites, mask_federation
from teaching import random_data, split_agents

DATA = random_data("logistic", n=300, d=3, m=40, seed=2)


def query(b=2, seed=0):
    r = 0.3 * np.random.default_rng(seed).normal(size=(b, 3))
    return DualSums(
        loss_name="logistic", preparation=Preparation.identity(3), r=r, theta=-r,
        lambda_alpha=np.full(b, 0.1), lambda_z=np.full(b, 2.0),
    )  # fmt: skip


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, total in expected.items():
        np.testing.assert_allclose(found[name], total, rtol=1e-13, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("n_agents", [3, 4, 7])
def test_the_sum_is_that_without_masks(n_agents):
    agents = split_agents(DATA, n_agents)
    federation = mask_federation(agents)
    for question in (query(), Histogram(n_columns=4), query(1, seed=1)):
        assert_same(federation.sum(question), LocalFederation(agents).sum(question))
    np.testing.assert_array_equal(  # integers are exact
        federation.sum(Histogram(n_columns=4))["counts"], LocalFederation(agents).sum(Histogram(n_columns=4))["counts"]
    )
    assert federation.rounds == 4
    assert federation.exchanges == 3 + 2 * 4  # one key exchange, two exchanges a round


def test_bits_do_not_depend_on_names_or_order():
    """The same rows under other names are summed in another order, with other masks and signs."""
    agents = split_agents(DATA, 5)
    renamed = [Agent(name, agent.rows) for name, agent in zip("eadbc", agents, strict=True)]
    first, second = mask_federation(agents).sum(query()), mask_federation(renamed[::-1]).sum(query())
    for name, total in first.items():
        np.testing.assert_array_equal(second[name], total)


@pytest.mark.parametrize("loss_name", ["squared", "logistic"])
@pytest.mark.parametrize("solver", ["newton", "newton-cg"])
def test_the_model_is_that_without_masks(loss_name, solver):
    data = random_data(loss_name, n=200, d=4, m=30, seed=5)
    settings = Settings(TeachingProblem(loss_name, 1.0, 3.0, 0.05, 20.0, intercept=True), solver=solver)
    plain = train(LocalFederation(split_agents(data, 4)), settings)
    masked = train(mask_federation(split_agents(data, 4)), settings)
    np.testing.assert_allclose(masked.theta, plain.theta, atol=1e-7)
    assert masked.rounds == plain.rounds


def test_algorithm_1_under_masks():
    data = random_data("squared", n=200, d=3, m=30, seed=6)
    settings = Settings(TeachingProblem("squared", 1.0, 3.0), solver="admm", tol=1e-6, standardize=False)
    plain = train(LocalFederation(split_agents(data, 3)), settings)
    masked = train(mask_federation(split_agents(data, 3), window=16), settings)
    np.testing.assert_allclose(masked.theta, plain.theta, atol=1e-7)


def test_keys_are_renewed():
    federation = mask_federation(split_agents(DATA, 3), window=2)
    expected = LocalFederation(split_agents(DATA, 3)).sum(query())
    for _ in range(5):
        assert_same(federation.sum(query()), expected)
    assert federation.exchanges == 3 * 3 + 5 * 2


def test_numbers_beyond_the_scale_are_asked_for_again():
    """Columns of 1e11 have second moments of 1e23, beyond the default scale."""
    rng = np.random.default_rng(0)
    rows = [ArrayRows(rng.normal(size=(50, 2)) * [1e11, 1.0], rng.normal(size=50)) for _ in range(3)]
    agents = [Agent(name, part) for name, part in zip("abc", rows, strict=True)]
    federation = mask_federation(agents)
    question = Spread(center=np.zeros(3))
    expected = LocalFederation(agents).sum(question)
    found = federation.sum(question)
    for name, total in expected.items():
        np.testing.assert_allclose(found[name], total, rtol=1e-9)
    before = federation.rounds
    assert before > 1
    federation.sum(question)
    assert federation.rounds == before + 1  # the scale is remembered


# who dies, and when: seven sites, five of them needed

NAMES = [f"agent-{k}" for k in range(7)]
NEEDED = threshold(7)


def run(dies_at):
    agents = split_agents(DATA, 7)
    channel = BadChannel(make_sites(agents), dies_at)
    federation = MaskedFederation(channel)
    return agents, channel, federation


@pytest.mark.parametrize("stage", ["Begin", "Roster", "Deliver", "Ask", "Unmask"])
@pytest.mark.parametrize("left", [1, NEEDED - 1, NEEDED, NEEDED + 1, 7])
def test_deaths_give_the_exact_sum_or_a_clean_end(stage, left):
    dead = NAMES[left:]
    agents, _, federation = run(dict.fromkeys(dead, stage))
    enough = left >= (3 if stage == "Begin" else NEEDED)  # before keys are made, the rest make theirs among themselves
    if not enough:
        with pytest.raises((DropoutError, GateError)):
            federation.sum(query())
        return
    # an answer that arrived counts, even if its site dies before the masks are opened
    summed = agents if stage == "Unmask" else agents[:left]
    assert_same(federation.sum(query()), LocalFederation(summed).sum(query()))
    assert federation.dropped == dead
    assert federation.agents == tuple(NAMES[:left])
    assert_same(federation.sum(query(1, seed=9)), LocalFederation(agents[:left]).sum(query(1, seed=9)))


@pytest.mark.parametrize("left", [1, NEEDED - 1, NEEDED, NEEDED + 1])
def test_deaths_while_survivors_sign(left):
    """One dies before answering, so survivors sign; others die while they do. Their answers have arrived and count."""
    agents, _, federation = run({NAMES[6]: "Ask"} | dict.fromkeys(NAMES[left:6], "Agree"))
    if left < NEEDED:
        with pytest.raises(DropoutError):
            federation.sum(query())
        return
    assert_same(federation.sum(query()), LocalFederation(agents[:6]).sum(query()))


@pytest.mark.parametrize("left", [1, NEEDED - 1, NEEDED, NEEDED + 1])
def test_deaths_after_survivors_signed(left):
    agents, _, federation = run({NAMES[6]: "Ask"} | dict.fromkeys(NAMES[left:6], "Unmask"))
    if left < NEEDED:
        with pytest.raises(DropoutError):
            federation.sum(query())
        return
    assert_same(federation.sum(query()), LocalFederation(agents[:6]).sum(query()))


def test_a_death_costs_one_exchange():
    _, _, federation = run({NAMES[3]: "Ask"})
    federation.sum(query())
    assert federation.exchanges == 3 + 2 + 1


def test_deaths_one_after_the_other_lead_to_new_keys():
    agents, channel, federation = run({})
    federation.sum(query())
    for gone in (6, 5, 4):
        channel.dies_at = {NAMES[gone]: "Ask"}
        question = query(1, seed=gone)
        try:
            found = federation.sum(question)
        except DropoutError:
            found = federation.sum(query(1, seed=100 + gone))
            question = query(1, seed=100 + gone)
        assert_same(found, LocalFederation(agents[:gone]).sum(question))


def test_an_answer_of_the_wrong_length_is_refused_with_its_sender():
    def short(name, reply):
        return Masked(reply.words[:, :-1], reply.notes) if isinstance(reply, Masked) and name == "agent-2" else reply

    channel = BadChannel(make_sites(split_agents(DATA, 3)), reply=short)
    with pytest.raises(ProtocolError, match="agent-2"):
        MaskedFederation(channel).sum(query())


def test_an_answer_that_is_not_finite_is_refused():
    class Broken(ArrayRows):
        def blocks(self):
            yield np.full((20, 3), 1e200), np.ones(20)

    agents = split_agents(DATA, 3)
    agents[1] = Agent("agent-1", Broken(np.zeros((20, 3)), np.zeros(20)))
    with np.errstate(all="ignore"), pytest.raises(ComtError, match="not finite"):
        mask_federation(agents).sum(Spread(center=np.zeros(4)))


def test_single_answers_do_not_exist():
    with pytest.raises(GateError, match="under masks"):
        mask_federation(split_agents(DATA, 3, policy=Policy(individual=True))).each(query())
