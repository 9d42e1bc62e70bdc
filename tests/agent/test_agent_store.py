"""A site's memory of Algorithm 1 on disk: the two latest rounds, whole or not at all, private, and never a refused step."""

from __future__ import annotations

import numpy as np
import pytest

from comt.agent import Agent, ArrayRows, Policy
from comt.agent.proximal import BEFORE, LATEST, AdmmState
from comt.agent.store import DiskStore
from comt.errors import GateError
from comt.preparation import Preparation
from comt.queries import Answer, Histogram


def state(number, size=40):
    values = np.arange(size) + float(number)
    return AdmmState("t", number, values, values[:2], values[:2], Answer({"tau": values[:3]}, {"tau": 40}))


def filled(folder, last=3):
    store = DiskStore(folder)
    for number in range(last + 1):
        store[LATEST] = state(number)
    return store


def test_a_new_process_finds_the_two_latest_rounds(tmp_path):
    filled(tmp_path)
    found = DiskStore(tmp_path)
    assert (found[LATEST].round, found[BEFORE].round) == (3, 2)
    np.testing.assert_array_equal(found[LATEST].alpha, state(3).alpha)
    assert found[LATEST].answer.rows == {"tau": 40}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize("cut", [0, 20, 60, 300])
def test_a_write_cut_short_leaves_the_round_before(tmp_path, cut):
    filled(tmp_path)
    newest = tmp_path / "algorithm1.0.state"  # four writes: 1, 0, 1, 0
    newest.write_bytes(newest.read_bytes()[:cut])
    found = DiskStore(tmp_path)
    assert found[LATEST].round == 2
    found[LATEST] = state(3)
    assert DiskStore(tmp_path)[LATEST].round == 3


def test_a_shorter_state_over_a_longer_one(tmp_path):
    store = filled(tmp_path)
    store[LATEST] = state(4, size=5)
    assert len(DiskStore(tmp_path)[LATEST].alpha) == 5


def test_after_a_refusal_steps_are_still_kept_on_disk(tmp_path):
    rows = ArrayRows(np.ones((30, 2)), np.ones(30), np.ones((3, 2)), np.ones(3))
    agent = Agent("north", rows, Policy(purposes=frozenset({"histogram of columns"})))
    agent.store = filled(tmp_path)
    from comt.queries import TrustedSums

    with pytest.raises(GateError):
        agent.answer(TrustedSums(loss_name="squared", preparation=Preparation.identity(2), theta=np.zeros((1, 2))), 1)
    agent.answer(Histogram(n_columns=2), 2)
    agent.store[LATEST] = state(9)
    assert DiskStore(tmp_path)[LATEST].round == 9
