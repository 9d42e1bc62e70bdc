"""Messages as bytes: what is read back is what was sent, and nothing else is ever read."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np
import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from hypothesis import example, given
from hypothesis import strategies as st

from comt import wire
from comt.errors import ComtError, ProtocolError
from comt.masking import seeds
from comt.masking.messages import MESSAGES, Ask, Begin, Masked, Refused, Revealed, Unmask, query_classes, read_query
from comt.preparation import Preparation
from comt.queries import DualSums, Histogram, Keep, SubsetSum, TrustedScore


def example_query(**kwargs):
    return DualSums(
        loss_name="squared",
        preparation=Preparation(np.zeros(2), np.array([1.0, np.inf]), constant=10.0),
        r=np.ones((2, 3)),
        theta=np.zeros((2, 3)),
        lambda_alpha=np.zeros(2),
        lambda_z=np.full(2, np.inf),
        **kwargs,
    )


QUERIES = [
    Histogram(n_columns=3),
    Histogram(n_columns=2, low=np.zeros(2), high=np.ones(2), bins=16),
    example_query(),
    example_query(keep=Keep("loss", np.zeros((2, 3)), np.array([1.0, np.inf])), held_out=np.array([0, -1]), n_folds=5),
    TrustedScore(loss_name="logistic", preparation=Preparation.identity(2), theta=np.zeros((1, 2))),
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
def test_queries_survive_the_way(query):
    packed = wire.pack(query)
    found = read_query(packed)
    assert type(found) is type(query)
    assert found.shapes() == query.shapes()
    assert wire.pack(found) == packed


def test_every_question_of_the_vocabulary_can_travel():
    assert {"DualSums", "Histogram", "SubsetSum", "ProximalStep", "Preparation", "Keep"} <= set(query_classes())


def test_equal_values_have_equal_bytes():
    one = Refused("gate", "no.")
    assert wire.pack({"b": 1, "a": one}) == wire.pack({"a": Refused("gate", "no."), "b": 1})


@dataclass(frozen=True)
class Stranger:
    value: int


def test_only_the_vocabulary_is_built():
    with pytest.raises(ProtocolError):
        wire.unpack(wire.pack(Stranger(1)), MESSAGES)
    with pytest.raises(ProtocolError, match="vocabulary"):
        read_query(wire.pack(Preparation.identity(2)))
    with pytest.raises(TypeError):
        wire.pack(object())


@pytest.mark.parametrize(
    "message",
    [
        Begin("t", 0, 0, "64"),
        Begin(3, 0, 0, 64),
        Begin("t", True, 0, 64),
        Masked(np.zeros((2, 3)), {}),
        Unmask(0, ("a", 1), {}, {}),
        Unmask(0, ("a",), {"a": "text"}, {}),
        Refused("unheard of", "reason"),
        Revealed(np.zeros((2, 32)), np.zeros((0, 2, 32), np.uint8)),
        Ask("t", 0, 1.5, ("a",), {}, b""),
    ],
    ids=str,
)
def test_fields_of_the_wrong_type_are_refused(message):
    with pytest.raises(ProtocolError, match="wrong type"):
        wire.unpack(wire.pack(message), MESSAGES)


def test_not_a_number_is_refused():
    for value in (float("nan"), np.array([1.0, np.nan])):
        with pytest.raises(ProtocolError):
            wire.unpack(wire.pack(value), {})


def test_numbers_of_any_size_travel():
    """Whether they are believed is decided elsewhere."""
    values = np.array([1e300, -np.inf, np.inf, 5e-324])
    np.testing.assert_array_equal(wire.unpack(wire.pack(values), {}), values)
    assert wire.unpack(wire.pack(np.empty((0, 3))), {}).shape == (0, 3)


def test_too_much_is_refused():
    with pytest.raises(ProtocolError, match="limit"):
        wire.unpack(bytes(11), {}, limit=10)
    with pytest.raises(ProtocolError, match="too many"):
        wire.unpack(wire.pack(1) + b"N", {})
    nested = 1
    for _ in range(50):
        nested = (nested,)
    with pytest.raises(ProtocolError):
        wire.unpack(wire.pack(nested), {})


def test_a_message_that_claims_to_be_huge_costs_nothing():
    """A length field of four billion must not reserve four billion of anything."""
    for claim in (
        b"L\xff\xff\xff\xff",
        b"B\xff\xff\xff\xff",
        b"Ad\x02\xff\xff\xff\xff\xff\xff\xff\xff",
        b"M\xff\xff\xff\xff",
    ):
        with pytest.raises(ProtocolError):
            wire.unpack(claim, {})


_MESSAGES = [
    wire.pack(Ask("training", 1, 2, ("a", "b"), {"x": 3}, wire.pack(QUERIES[2]))),
    wire.pack(Masked(np.arange(6, dtype=np.uint64).reshape(2, 3), {"b": b"note"})),
    wire.pack(Unmask(2, ("a", "b"), {"a": b"x"}, {"a": b"y"})),
]


@given(st.binary(max_size=200))
@example(b"")
@example(b"C")
def test_arbitrary_bytes_are_read_or_refused(message):
    for classes in (MESSAGES, query_classes()):
        with contextlib.suppress(ComtError):
            wire.unpack(message, classes)


@given(st.sampled_from([*_MESSAGES, wire.pack(QUERIES[3])]), st.data())
def test_damaged_messages_are_read_or_refused(message, data):
    damaged = bytearray(message)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    for classes in (MESSAGES, query_classes()):
        with contextlib.suppress(ComtError):
            wire.unpack(bytes(damaged), classes)


def test_keys_are_derived_as_hkdf_does():
    """The first block of HKDF-Expand, compared with the library's own."""
    info = seeds._joined((b"self", b"context"))
    assert seeds.derive(b"s" * 32, b"self", b"context") == HKDFExpand(SHA256(), 32, info).derive(b"s" * 32)


def test_a_subset_sum_travels_with_its_thresholds():
    query = SubsetSum(
        loss_name="squared", preparation=Preparation.identity(1), r=np.zeros((2, 1)), lambda_alpha=0.0, lambda_z=np.inf,
        thresholds=np.array([0.0, np.inf]),
    )  # fmt: skip
    np.testing.assert_array_equal(read_query(wire.pack(query)).thresholds, [0.0, np.inf])
