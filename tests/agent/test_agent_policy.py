"""The data holder's policy file: what it does not say is protective, what it says wrongly is refused."""

from __future__ import annotations

import pytest

from comt.agent.policy import Policy, read_policy
from comt.errors import InputError
from teaching import is_one_sentence


def written(tmp_path, text):
    path = tmp_path / "site.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", ["", "[policy]", '[data]\nfile = "a.csv"'])
def test_what_is_not_said_is_protective(tmp_path, text):
    policy = read_policy(written(tmp_path, text))
    assert policy == Policy.protective()
    assert policy.masked
    assert policy.min_participants == 3
    assert policy.min_rows == 10
    assert policy.min_trusted_rows == "columns"
    assert not policy.individual


def test_every_entry(tmp_path):
    text = """
    [policy]
    min_rows = 20
    max_bytes = 1_000_000
    purposes = ["sums at a model", "histogram of columns"]
    individual = false
    by_agent = false
    masked = true
    min_participants = 4
    min_trusted_rows = 30
    max_rounds = 100
    max_refusals = 7
    max_close = 3
    allow_leavers = true
    max_magnitude = 1000
    peers = ["north", "south"]
    """
    assert read_policy(written(tmp_path, text)) == Policy(
        min_rows=20,
        max_bytes=1_000_000,
        purposes=frozenset({"sums at a model", "histogram of columns"}),
        by_agent=False,
        masked=True,
        min_participants=4,
        min_trusted_rows=30,
        max_rounds=100,
        max_refusals=7,
        max_close=3,
        allow_leavers=True,
        max_magnitude=1000,
        peers=frozenset({"north", "south"}),
    )


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("min_row = 3", "no entry 'min_row'"),
        ("min_rows = 0", "from 1 on"),
        ("min_rows = true", "from 1 on"),
        ("min_rows = 2.5", "from 1 on"),
        ("min_participants = 1", "from 2 on"),
        ('min_trusted_rows = "rows"', '"columns"'),
        ("masked = 1", "true or false"),
        ('purposes = "all"', "list of texts"),
        ("peers = [1]", "list of texts"),
        ("max_magnitude = -1", "positive"),
        ("max_magnitude = inf", "positive"),
        ("max_magnitude = nan", "positive"),
    ],
)
def test_wrong_entries_are_refused_not_passed_over(tmp_path, entry, words):
    with pytest.raises(InputError, match=words) as caught:
        read_policy(written(tmp_path, f"[policy]\n{entry}"))
    assert is_one_sentence(caught.value)


@pytest.mark.parametrize("text", ["[policy", "policy = 3", "\x00"])
def test_files_that_are_no_policy(tmp_path, text):
    with pytest.raises(InputError):
        read_policy(written(tmp_path, text))
    with pytest.raises(InputError, match="cannot be read"):
        read_policy(tmp_path / "absent.toml")
