"""Agreement on columns: the union of shared levels, medians over all agents, one sentence where files differ."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from comt.agent import Agent, ArrayRows, TableRows
from comt.declaration import Declare
from comt.errors import InputError, ProtocolError
from comt.federation import LocalFederation
from comt.server.schema import agree_on_schema
from teaching import is_one_sentence


def federation_of(folder, *, categorical=(), **tables):
    agents = []
    for name, columns in tables.items():
        table = pd.DataFrame(columns)
        table.assign(y=np.arange(len(table)) * 0.5).to_csv(folder / f"{name}.csv", index=False)
        agents.append(Agent(name, TableRows(folder / f"{name}.csv", target="y", categorical=categorical)))
    return LocalFederation(agents)


def agree(federation, **options):
    return agree_on_schema(federation, Declare(min_count=5), target="y", **options)


def test_levels_are_the_union_of_what_enough_rows_of_one_agent_share(tmp_path):
    federation = federation_of(
        tmp_path,
        A={"city": ["Bern"] * 6 + ["secret"] * 4},
        B={"city": ["Zug"] * 5 + ["secret"] * 4 + [None]},
        C={"city": [None] * 10},
    )
    schema = agree(federation)
    (column,) = schema.columns
    assert column.levels == ("Bern", "Zug")  # 8 rows in all have "secret", but no agent has 5
    assert column.missing_feature
    assert schema.missing == {"city": 11}
    assert schema.target == "y"
    assert "secret" not in repr(schema)


def test_missing_numbers_become_the_median_over_all_agents(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.gamma(2.0, 3.0, 900)
    values[rng.choice(900, 200, replace=False)] = np.nan
    tables = {name: {"x": values[i::3], "z": np.arange(300.0)} for i, name in enumerate("ABC")}
    tables["C"]["x"] = np.where(np.arange(300) < 100, np.nan, tables["C"]["x"])
    present = np.concatenate([tables[name]["x"] for name in "ABC"])
    schema = agree(federation_of(tmp_path, **tables))
    x, z = schema.columns
    spread = np.subtract(*np.nanpercentile(present, [75, 25]))
    assert abs(x.fill - np.nanmedian(present)) < 0.02 * spread
    assert z.fill is None
    assert x.missing_feature  # C lacks a third of them
    assert schema.missing["x"] == np.isnan(present).sum()


def test_few_gaps_have_no_feature_of_their_own(tmp_path):
    x = np.arange(100.0)
    x[3] = np.nan
    city = np.where(np.arange(100) % 2, "a", "b").astype(object)
    city[5] = None
    schema = agree(federation_of(tmp_path, A={"x": x, "city": city}))
    assert schema.features == ("x", "city=a", "city=b")


def test_order_and_empty_columns(tmp_path):
    tables = {"A": {"b": np.arange(9.0), "a": np.arange(9.0), "void": [None] * 9}}
    tables["B"] = {name: tables["A"][name] for name in ("void", "a", "b")}
    federation = federation_of(tmp_path, **tables)
    assert agree(federation).names == ("b", "a")
    assert agree(federation, first="B").names == ("a", "b")
    tables["B"]["void"] = ["x"] * 9  # empty here, a category there
    assert agree(federation_of(tmp_path, **tables)).features == ("b", "a", "void=x", "void is missing")


def test_files_that_differ_are_refused_in_one_sentence(tmp_path):
    for tables, words in (
        (
            {"A": {"x": [1.0] * 9, "u": [1.0] * 9}, "B": {"x": [1.0] * 9, "v": [1.0] * 9}},
            "B and A differ in the columns u, v",
        ),
        ({"A": {"x": [1.0] * 9}, "B": {"x": ["a"] * 9}}, "'x' holds numbers at A and text at B"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            agree(federation_of(tmp_path, **tables))
        assert is_one_sentence(caught.value)
    codes = federation_of(tmp_path, categorical=["x"], A={"x": [1, 2, 1] * 5}, B={"x": ["1", "b", "c"] * 5})
    (column,) = agree(codes, categorical=["x"]).columns
    assert column.levels == ("1", "2", "b", "c")


def test_sparse_files_may_end_early(tmp_path):
    (tmp_path / "A.svm").write_text("1 1:2\n2 2:3\n" * 5)
    (tmp_path / "B.svm").write_text("1 4:2\n2 2:3\n" * 5)
    agents = [Agent(name, TableRows(tmp_path / f"{name}.svm", target="y")) for name in "AB"]
    assert agree(LocalFederation(agents)).names == ("x1", "x2", "x3", "x4")
    dense = pd.DataFrame({f"x{i}": np.arange(9.0) for i in (1, 2, 3, 4)})
    dense.assign(y=np.arange(9.0)).to_csv(tmp_path / "C.csv", index=False)
    agents.append(Agent("C", TableRows(tmp_path / "C.csv", target="y")))
    assert agree(LocalFederation(agents), first="C").names == ("x1", "x2", "x3", "x4")
    dense.assign(y=0.0, age=1.0).to_csv(tmp_path / "D.csv", index=False)
    agents.append(Agent("D", TableRows(tmp_path / "D.csv", target="y")))
    with pytest.raises(InputError, match="differ in the columns age"):
        agree(LocalFederation(agents), first="D")


def test_agents_without_a_table_declare_nothing():
    plain = Agent("A", ArrayRows(np.ones((5, 1)), np.ones(5)))
    with pytest.raises(ProtocolError, match="declares no table"):
        agree(LocalFederation([plain]))
