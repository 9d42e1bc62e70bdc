"""Columns become features as agreed, come back from JSON as they were, and collisions are refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars
import pytest

from comt.errors import InputError
from comt.schema import Column, Schema, as_text, texts
from teaching import is_one_sentence

SCHEMA = Schema(
    (
        Column("age", "number", fill=40.0, missing_feature=True),
        Column("city", "category", missing_feature=True, levels=("Bern", "Genf, GE")),
        Column("code", "category", levels=(1.0, 2.5)),
        Column("rare", "category"),
        Column("plain", "number"),
    ),
    target="y",
    min_count=5,
    missing={"age": 3},
)
TABLE = pd.DataFrame(
    {
        "plain": [1.0, 2.0, 3.0, 4.0],
        "rare": ["a", "b", "c", None],
        "code": [1, 2.5, 7, np.nan],
        "city": ["Genf, GE", "", None, "Zug"],
        "age": [np.nan, 30, 31, 32],
    }
)
EXPECTED = [
    # age, age is missing, Bern, Genf, city is missing, code=1, code=2.5, plain
    [40, 1, 0, 1, 0, 1, 0, 1],
    [30, 0, 0, 0, 1, 0, 1, 2],
    [31, 0, 0, 0, 1, 0, 0, 3],
    [32, 0, 0, 0, 0, 0, 0, 4],
]


@pytest.mark.parametrize("table", [TABLE, polars.from_pandas(TABLE), TABLE.astype({"city": object})], ids=str)
def test_every_cell_has_its_place(table):
    assert SCHEMA.features == (
        *("age", "age is missing", "city=Bern", "city=Genf, GE", "city is missing", "code=1", "code=2.5", "plain"),
    )
    np.testing.assert_array_equal(SCHEMA.encode(SCHEMA.cells(table)), EXPECTED)
    assert not SCHEMA.plain


def test_a_schema_comes_back_from_json():
    again = Schema.from_json(json.loads(json.dumps(SCHEMA.to_json())))
    assert again == SCHEMA


@pytest.mark.parametrize(
    "change",
    [
        {"columns": "age"},
        {"target": 3},
        {"missing_cells": {"age": 1.5}},
        {"columns": [{"name": "age", "kind": "number", "missing_feature": False, "missing_becomes": "many"}]},
        {"columns": [{"name": "age", "kind": "number", "missing_feature": False, "missing_becomes": float("inf")}]},
        {"columns": [{"name": "age", "kind": "date", "missing_feature": False}]},
        {"columns": [{"name": "c", "kind": "category", "missing_feature": False, "levels": ["a", 1]}]},
        {"columns": [{"name": "c", "kind": "category", "missing_feature": False, "levels": ["a"]}] * 2},
        {"columns": [{"name": "c", "kind": "category", "missing_feature": 1, "levels": ["a"]}]},
        {"columns": [{"kind": "number"}]},
    ],
)
def test_a_damaged_schema_is_refused(change):
    with pytest.raises((TypeError, ValueError, KeyError)):
        Schema.from_json(SCHEMA.to_json() | change)


def test_collisions_and_wrong_tables_are_refused_in_one_sentence():
    with pytest.raises(InputError, match="'city=Bern'") as caught:
        Schema((Column("city=Bern", "number"), Column("city", "category", levels=("Bern",))))
    assert is_one_sentence(caught.value)
    for wrong, words in (
        (TABLE.drop(columns="age"), "no columns"),
        (TABLE.assign(age="old"), "'age' does not hold numbers"),
        (TABLE.assign(age=np.inf), "infinite in row 0"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            SCHEMA.cells(wrong)
        assert is_one_sentence(caught.value)


def test_numbers_are_written_alike_however_the_file_had_them():
    assert [as_text(level) for level in ("1.0", 1.0, 0.5, -3.0)] == ["1.0", "1", "0.5", "-3"]
    assert list(texts([1, 2.0, "x", None, np.nan, pd.NA, "", True])) == ["1", "2", "x", None, None, None, None, "True"]
