"""The ledger holds every array that left, and says how many rows it sums."""

from __future__ import annotations

import numpy as np

from comt.agent import Agent, ArrayRows, Ledger, Policy
from comt.agent.ledger import Entry
from comt.preparation import Preparation
from comt.queries import Histogram, ResidualScale


def test_entries_and_totals():
    ledger = Ledger()
    assert len(ledger) == ledger.total_bytes == 0
    ledger.append(Entry("north", 1, "histogram of columns", "counts", (2, 3), 48, 10))
    ledger.append(Entry("north", 2, "spread of columns", "rows", (), 8, 10, individual=True))
    assert [entry.round for entry in ledger] == [1, 2]
    assert ledger.total_bytes == 56
    frame = ledger.to_frame()
    assert list(frame.columns) == [
        "agent",
        "round",
        "purpose",
        "array",
        "shape",
        "bytes",
        "rows",
        "individual",
        "masked",
    ]
    assert frame["bytes"].sum() == 56
    assert frame["individual"].tolist() == [False, True]


def test_every_array_of_an_answer_is_entered():
    rng = np.random.default_rng(0)
    rows = ArrayRows(rng.normal(size=(30, 2)), rng.normal(size=30), rng.normal(size=(4, 2)), rng.normal(size=4))
    agent = Agent("north", rows, Policy(individual=True))
    prepared = Preparation.identity(2)
    agent.answer(Histogram(n_columns=3), 1)
    agent.answer(ResidualScale(loss_name="squared", preparation=prepared, theta=np.zeros(2)), 2, individual=True)
    entries = list(agent.ledger)
    assert entries[0] == Entry("north", 1, "histogram of columns", "counts", (3, 513), 3 * 513 * 8, 34)
    rest = {entry.array: entry for entry in entries[1:]}
    assert set(rest) == {"buggy", "rows", "trusted", "trusted_rows"}
    assert {entry.round for entry in rest.values()} == {2}
    assert all(entry.individual for entry in rest.values())
    assert (rest["buggy"].rows, rest["trusted"].rows) == (30, 4)
    assert agent.ledger.total_bytes == 3 * 513 * 8 + 4 * 8
