"""A federation in one process: what it sums, in which order, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comt.agent import Agent, ArrayRows, Policy
from comt.errors import GateError, InputError, ProtocolError
from comt.federation import LocalFederation
from comt.preparation import Preparation
from comt.queries import Answer, DualSums, Histogram, Spread
from teaching import is_one_sentence, random_data, split_agents

DATA = random_data("logistic", n=200, d=3, m=20, seed=2)


def query(b=2):
    r = 0.3 * np.random.default_rng(0).normal(size=(b, 3))
    return DualSums(
        loss_name="logistic", preparation=Preparation.identity(3), r=r, theta=-r,
        lambda_alpha=np.full(b, 0.1), lambda_z=np.full(b, 2.0),
    )  # fmt: skip


@given(n_agents=st.integers(1, 8), seed=st.integers(0, 1000))
def test_sums_do_not_depend_on_the_partition(n_agents, seed):
    whole = LocalFederation(split_agents(DATA, 1)).sum(query())
    parts = LocalFederation(split_agents(DATA, n_agents, seed=seed), threads=1).sum(query())
    assert set(parts) == set(whole)
    for name, total in whole.items():
        np.testing.assert_allclose(parts[name], total, rtol=1e-11, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("threads", [1, 2, 6])
def test_bits_depend_neither_on_threads_nor_on_the_order_of_agents(threads):
    agents = split_agents(DATA, 6)
    reference = LocalFederation(agents, threads=1).sum(query())
    for _ in range(5):
        with LocalFederation(agents[::-1], threads=threads).open() as federation:
            totals = federation.sum(query())
        for name, total in reference.items():
            np.testing.assert_array_equal(totals[name], total)


def test_the_sum_leaves_the_answers_alone():
    """The first agent's arrays must not become the totals."""

    class Fixed:
        columns = ("x0",)

        def __init__(self, name):
            self.name, self.array = name, np.array(1.0)

        def check_columns(self, columns):
            pass

        def answer(self, query, round_number, *, individual=False):
            arrays = {"first": np.ones(1), "second": np.ones(1), "rows": self.array}
            return Answer(arrays, dict.fromkeys(arrays, 1))

    agents = [Fixed("a"), Fixed("b"), Fixed("c")]
    federation = LocalFederation(agents, threads=1)
    assert federation.sum(Spread(center=np.zeros(1)))["rows"] == 3.0
    assert federation.sum(Spread(center=np.zeros(1)))["rows"] == 3.0
    assert agents[0].array == 1.0


def test_rounds_are_counted_and_agents_are_in_order():
    agents = split_agents(DATA, 3)
    federation = LocalFederation([agents[2], agents[0], agents[1]])
    assert federation.agents == ("agent-0", "agent-1", "agent-2")
    assert federation.rounds == 0
    federation.sum(query())
    federation.sum(Histogram(n_columns=4))
    assert federation.rounds == 2


def test_every_array_is_in_every_ledger():
    agents = split_agents(DATA, 3)
    federation = LocalFederation(agents, threads=2)
    with federation.open():
        federation.sum(query())
        federation.sum(Histogram(n_columns=4))
    for agent in agents:
        entries = list(agent.ledger)
        assert [e.array for e in entries if e.round == 1] == list(query().shapes())
        assert [(e.array, e.shape) for e in entries if e.round == 2] == [("counts", (4, 513))]
        for entry in entries[:-1]:
            assert entry.shape == query().shapes()[entry.array]
            assert entry.bytes == 8 * int(np.prod(entry.shape))
            assert entry.purpose == "sums at a model"
            trusted = len(agent.rows.trusted()[1])
            assert entry.rows == (trusted if entry.array.startswith("trusted") else agent.rows.n_rows)
            assert not entry.individual


def test_no_agents_and_equal_names_are_refused():
    with pytest.raises(InputError, match="at least one agent") as caught:
        LocalFederation([])
    assert is_one_sentence(caught.value)
    twin = [Agent("north", ArrayRows(np.zeros((1, 1)), np.zeros(1))) for _ in range(2)]
    with pytest.raises(InputError, match=r"\['north'\] occur twice") as caught:
        LocalFederation(twin)
    assert is_one_sentence(caught.value)


@pytest.mark.parametrize("threads", [1, 3])
def test_one_refusing_gate_stops_the_sum(threads):
    agents = split_agents(DATA, 3)
    agents[1] = Agent("agent-1", agents[1].rows, Policy(min_rows=1000))
    federation = LocalFederation(agents, threads=threads)
    with federation.open(), pytest.raises(GateError, match="agent-1 refuses"):
        federation.sum(query())
    assert len(agents[1].ledger) == 0


def test_own_answers_are_refused_by_default():
    with pytest.raises(GateError, match="only as part of a sum"):
        LocalFederation(split_agents(DATA, 3)).each(query())


def test_own_answers_where_all_owners_allow_them():
    agents = split_agents(DATA, 3, policy=Policy(individual=True))
    federation = LocalFederation(agents)
    answers = federation.each(query())
    assert list(answers) == ["agent-0", "agent-1", "agent-2"]
    for agent in agents:
        assert (answers[agent.name]["rows"] == agent.rows.n_rows).all()
        assert all(entry.individual for entry in agent.ledger)
    total = federation.sum(query())["phi"]
    np.testing.assert_allclose(sum(a["phi"] for a in answers.values()), total)


def test_columns_are_agreed_on():
    rows = [ArrayRows(np.zeros((1, 2)), np.zeros(1), names=("age", "dose")) for _ in range(2)]
    federation = LocalFederation([Agent("a", rows[0]), Agent("b", rows[1])])
    assert federation.declare() == ("age", "dose")
    assert federation.rounds == 0  # nothing about rows was asked


@pytest.mark.parametrize(
    ("names", "words"),
    [(("age", "mass"), "dose.*mass"), (("dose", "age"), "another order"), (("age",), "1 columns .* 2")],
)
def test_other_columns_are_refused(names, words):
    first = Agent("a", ArrayRows(np.zeros((1, 2)), np.zeros(1), names=("age", "dose")))
    second = Agent("b", ArrayRows(np.zeros((1, len(names))), np.zeros(1), names=names))
    with pytest.raises(InputError, match=words) as caught:
        LocalFederation([first, second]).declare()
    assert is_one_sentence(caught.value)
    assert "agent b" in str(caught.value)


class Broken:
    """An agent whose answer is not what was asked for."""

    name, columns = "broken", ("x0",)

    def __init__(self, **arrays):
        self._arrays = {"first": np.zeros(1), "second": np.zeros(1), "rows": np.zeros(())} | arrays

    def check_columns(self, columns):
        pass

    def answer(self, query, round_number, *, individual=False):
        arrays = {name: array for name, array in self._arrays.items() if array is not None}
        return Answer(arrays, dict.fromkeys(arrays, 1))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"first": None}, "where"),
        ({"more": np.zeros(1)}, "more"),
        ({"first": np.zeros(2)}, r"shape \(2,\)"),
        ({"rows": np.zeros(1)}, r"shape \(1,\)"),
        ({"second": np.array([np.nan])}, "not finite"),
        ({"second": np.array([np.inf])}, "not finite"),
    ],
)
def test_wrong_answers_are_refused(arrays, words):
    with pytest.raises(ProtocolError, match=words) as caught:
        LocalFederation([Broken(**arrays)]).sum(Spread(center=np.zeros(1)))
    assert "broken" in str(caught.value)
