"""``comt ledger``: what left, verified line by line, and compared with what the coordinator says."""

from __future__ import annotations

import json
import stat

import numpy as np
import pytest

from comt.agent import Agent, Ledger, Policy
from comt.agent.ledger import Entry, read_lines
from comt.cli import main
from comt.errors import GateError, InputError, ProtocolError
from comt.federation.channel import LocalChannel
from comt.federation.masked import MaskedFederation
from comt.federation.transcript import Transcript, read_transcript
from comt.masking.identity import KeyIdentity, KnownKeys
from comt.queries import Histogram, Spread
from masked_sites import make_sites
from teaching import random_data, split_agents

DATA = random_data("squared", n=120, d=2, m=20, seed=3)


@pytest.fixture
def run(tmp_path):
    """Three sites with ledgers on disk, a signed transcript, one refused question."""
    agents = [
        Agent(agent.name, agent.rows, Policy(max_bytes=100_000), Ledger(tmp_path / f"{agent.name}.jsonl"))
        for agent in split_agents(DATA, 3)
    ]
    transcript = Transcript(tmp_path / "transcript.comt")
    federation = MaskedFederation(LocalChannel(make_sites(agents)), transcript=transcript)
    federation.sum(Histogram(n_columns=3))
    federation.sum(Spread(center=np.zeros(3)))
    with pytest.raises(GateError):
        federation.sum(Histogram(n_columns=3, low=np.zeros(3), high=np.ones(3), bins=10_000))
    coordinator = KeyIdentity("coordinator")
    transcript.sign(coordinator)
    return tmp_path, agents, coordinator


def test_what_left(run, capsys):
    folder, agents, _ = run
    path = folder / "agent-0.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert main(["ledger", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["agent"] == "agent-0"
    assert found["bytes"] == agents[0].ledger.total_bytes == 8 * (3 * 513 + 7)
    assert found["rounds"] == 2
    assert (found["unmasked"], found["individual"]) == (0, 0)
    assert [part["purpose"] for part in found["purposes"]] == ["histogram of columns", "spread of columns"]
    rows = agents[0].rows.n_rows + len(agents[0].rows.trusted()[1])
    assert [part["fewest_rows"] for part in found["purposes"]] == [rows, rows]
    (refusal,) = found["refused"]
    assert "bytes" in refusal["reason"]


def test_in_words(run, capsys):
    folder, _, _ = run
    (folder / "agent-1.jsonl").rename(folder / "ledger.jsonl")
    assert main(["ledger", str(folder), "--transcript", str(folder / "transcript.comt"), "--rounds"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("Agent agent-1", "histogram of columns", "is intact", "1 questions refused", "signed by coordinator"):
        assert words in shown


@pytest.mark.parametrize("tamper", ["change", "remove", "insert", "reorder", "garbage"])
def test_a_changed_ledger_is_noticed(run, capsys, tamper):
    path = run[0] / "agent-0.jsonl"
    lines = path.read_text().splitlines()
    if tamper == "change":
        lines[0] = lines[0].replace('"rows": ', '"rows": 1')
    elif tamper == "remove":
        del lines[1]
    elif tamper == "insert":
        lines.insert(2, lines[1])
    elif tamper == "reorder":
        lines[1], lines[2] = lines[2], lines[1]
    else:
        lines[1] = "no line"
    path.write_text("\n".join(lines))
    assert main(["ledger", str(path)]) == 2
    message = capsys.readouterr().err
    assert "was changed: line" in message
    assert message.count("\n") == 1


def test_a_ledger_goes_on_where_it_stopped(run):
    path = run[0] / "agent-0.jsonl"
    before = read_lines(path)
    ledger = Ledger(path)
    assert len(ledger) == 4
    assert ledger.head == before[-1]["digest"]
    ledger.append(Entry("agent-0", 9, "histogram of columns", "counts", (2,), 16, 5))
    assert len(read_lines(path)) == len(before) + 1


def test_a_coordinator_that_tells_another_story(run, capsys):
    folder, _, _ = run
    other = Transcript(folder / "other.comt")
    for seen in read_transcript(folder / "transcript.comt").rounds:
        words = {site: part.copy() for site, part in seen.words.items()}
        if seen.round == 1:
            words["agent-0"][0, 0] += np.uint64(1)
        other.record(
            seen.question(),
            seen.totals,
            training=seen.training,
            round_number=seen.round,
            context=seen.context,
            words=words,
        )
    path = folder / "agent-0.jsonl"
    assert main(["ledger", str(path), "--transcript", str(folder / "other.comt"), "--json"]) == 1
    assert "another answer" in json.loads(capsys.readouterr().out)["disagreements"][0]
    assert main(["ledger", str(folder / "agent-1.jsonl"), "--transcript", str(folder / "other.comt")]) == 0
    assert "signed by nobody" in " ".join(capsys.readouterr().out.split())


def test_a_transcript_is_chained_and_signed(run):
    folder, _, coordinator = run
    path = folder / "transcript.comt"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    transcript = read_transcript(path)
    assert [seen.round for seen in transcript.rounds] == [0, 1]
    assert transcript.check_seal(KnownKeys({"coordinator": coordinator.credential})) == "coordinator"
    with pytest.raises(ProtocolError):
        transcript.check_seal(KnownKeys({"coordinator": KeyIdentity("x").credential}))
    with pytest.raises(ProtocolError, match="not signed"):
        Transcript().check_seal(KnownKeys({}))
    content = bytearray(path.read_bytes())
    for place in (40, len(content) // 2, len(content) - 5):
        damaged = content.copy()
        damaged[place] ^= 1
        path.write_bytes(damaged)
        try:
            found = read_transcript(path)
        except InputError:
            continue
        with pytest.raises(ProtocolError):  # what is left to change is the signature itself
            found.check_seal(KnownKeys({"coordinator": coordinator.credential}))
    path.write_bytes(content[:-3])
    with pytest.raises(InputError, match="changed or cut off"):
        read_transcript(path)


@pytest.mark.parametrize("name", ["absent", "image"])
def test_no_ledger(tmp_path, capsys, name):
    (tmp_path / "image").write_bytes(b"\xff\xd8\xff")
    assert main(["ledger", str(tmp_path / name)]) == 2
    assert capsys.readouterr().err.startswith("comt ledger: ")
