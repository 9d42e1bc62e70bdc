"""Tables in files: what an agent says about them, how rows are encoded, what experts changed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from comt.agent import Agent, Policy, TableRows, libsvm
from comt.agent.tables import Verdict
from comt.declaration import Declare, MissingCells, PresentHistogram
from comt.errors import GateError, InputError, ProtocolError
from comt.noise import Noise
from comt.schema import Column, Schema
from teaching import is_one_sentence

N = 60
SCHEMA = Schema((Column("age", "number", fill=7.0), Column("city", "category", levels=("Bern", "Zug"))))


def table_of(n=N):
    city = np.where(np.arange(n) % 3 == 0, "Bern", "Zug").astype(object)
    city[:3], city[3:5] = "Rare", None
    age = np.arange(n) * 1.0
    age[10:14] = np.nan
    return pd.DataFrame({"age": age, "city": city, "y": np.arange(n) % 7, "ok": np.arange(n) < 6})


def rows_of(folder, ending=".csv", table=None, **options):
    table = table_of() if table is None else table
    path = folder / f"rows{ending}"
    table.to_csv(path, index=False) if ending == ".csv" else table.to_parquet(path)
    return TableRows(path, **{"target": "y", "trusted": "ok", **options})


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_rows_are_encoded_as_agreed(tmp_path, ending):
    rows = rows_of(tmp_path, ending)
    with pytest.raises(ProtocolError, match="before the columns were agreed on"):
        next(rows.blocks())
    rows.use_schema(SCHEMA)
    assert rows.names == ("age", "city=Bern", "city=Zug")
    ((features, targets),), table = list(rows.blocks()), table_of()
    np.testing.assert_array_equal(features[:, 0], table["age"].fillna(7.0)[6:])
    np.testing.assert_array_equal(features[:, 1], (table["city"] == "Bern")[6:])
    np.testing.assert_array_equal(targets, table["y"][6:])
    trusted, _ = rows.trusted()
    np.testing.assert_array_equal(trusted[:, 2], (table["city"] == "Zug")[:6])
    assert (rows.n_rows, rows.n_trusted) == (N - 6, 6)
    again = next(rows.blocks())
    assert again[0] is features  # small tables are kept


def test_only_levels_that_enough_rows_share_are_told(tmp_path):
    agent = Agent("A", rows_of(tmp_path))
    declaration = agent.declare(Declare(), 1)
    age, city = declaration.columns
    assert (age.kind, city.kind, city.levels) == ("number", "category", ("Bern", "Zug"))
    assert city.fewest_rows == 18
    assert "Rare" not in repr(declaration)
    assert agent.declare(Declare(min_count=3), 2).columns[1].levels == ("Bern", "Rare", "Zug")
    assert agent.declare(Declare(min_count=30), 3).columns[1].levels == ("Zug",)
    ledger = agent.ledger.to_frame()
    assert set(ledger["purpose"]) == {"declaration of columns"}
    assert list(ledger["array"]) == ["age", "city"] * 3
    assert ledger["individual"].all()
    assert list(ledger["rows"][:2]) == [60, 18]
    assert ledger["bytes"][1] == len("city" + "category" + "Bern" + "Zug")


def test_the_owner_decides_what_is_told(tmp_path):
    strict = Agent("A", rows_of(tmp_path), Policy(min_rows=30))
    assert strict.declare(Declare(min_count=5), 1).columns[1].levels == ("Zug",)
    with pytest.raises(GateError, match="does not answer 'declaration of columns'"):
        Agent("A", rows_of(tmp_path), Policy(purposes=frozenset())).declare(Declare(), 1)
    with pytest.raises(GateError, match="its limit is 10"):
        Agent("A", rows_of(tmp_path), Policy(max_bytes=10)).declare(Declare(), 1)


def test_missing_cells_are_counted_and_left_out_of_histograms(tmp_path):
    agent = Agent("A", rows_of(tmp_path))
    counts = agent.answer(MissingCells(columns=("age", "city")), 1).arrays
    assert counts["missing"].tolist() == [4.0, 2.0]
    assert counts["rows"] == N
    query = PresentHistogram(n_columns=1, columns=("age",), low=np.array([0.0]), high=np.array([60.0]), bins=60)
    found = agent.answer(query, 2).arrays["counts"][0]
    present = np.ones(60)
    present[10:14] = 0
    np.testing.assert_array_equal(found[1:-1], present)


def test_a_minimum_hides_few_gaps_which_are_then_filled_at_home(tmp_path):
    rows = rows_of(tmp_path)
    agent = Agent("A", rows, Policy(min_rows=5))
    counts = agent.answer(MissingCells(columns=("age", "city")), 1).arrays
    assert counts["missing"].tolist() == [0.0, 0.0]  # 4 and 2 cells
    rows.use_schema(Schema((Column("age", "number"),)))
    features = next(rows.blocks())[0]
    assert features[4, 0] == table_of()["age"].median()
    assert np.isfinite(features).all()
    assert rows.schema.columns[0].fill is None  # nobody is told
    query = PresentHistogram(n_columns=1, columns=("age",), low=np.array([0.0]), high=np.array([60.0]), bins=60)
    binned = agent.answer(query, 2).arrays["counts"]
    assert binned.sum() == N - 4
    assert ((binned == 0) | (binned >= 5)).all()


def test_under_noise_no_level_is_told(tmp_path):
    agent = Agent("A", rows_of(tmp_path), Policy(noise=Noise(multiplier=5.0, clip_rows=3.0, clip_targets=3.0)))
    declaration = agent.declare(Declare(), 1)
    assert [column.levels for column in declaration.columns] == [(), ()]
    counts = agent.answer(MissingCells(columns=("age",)), 2).arrays
    assert counts["missing"] != 4.0


def test_experts_values_take_the_place_of_the_files(tmp_path):
    verdicts = {
        20: Verdict(5.5, {"age": "33", "city": "Bern", "ignored": 1}),
        21: Verdict(1.0, {"age": None}, random=True),
        0: Verdict(4.0),
    }
    rows = rows_of(tmp_path, verdicts=verdicts)
    rows.use_schema(SCHEMA)
    assert rows.n_trusted == 8
    assert rows.trusted_places.tolist() == [0, 1, 2, 3, 4, 5, 20, 21]
    features, targets = rows.trusted()
    assert features[6].tolist() == [33.0, 1.0, 0.0]
    assert features[7, 0] == 7.0
    assert targets[[0, 6, 7]].tolist() == [4.0, 5.5, 1.0]
    # row 0 was trusted before, row 21 was drawn at random; row 20 was shown because it looked bad
    assert rows.scored.tolist() == [True] * 6 + [False, True]
    assert not {20, 21} & set(rows.positions())
    for wrong, words in (({99: Verdict(1.0)}, "row 99"), ({20: Verdict(1.0, {"age": "old"})}, "'old'")):
        with pytest.raises(InputError, match=words) as caught:
            rows_of(tmp_path, verdicts=wrong)
        assert is_one_sentence(caught.value)


def test_a_file_of_trusted_rows(tmp_path):
    extra = table_of().drop(columns="ok").head(4)
    extra.to_csv(tmp_path / "extra.csv", index=False)
    rows = rows_of(tmp_path, trusted_path=tmp_path / "extra.csv")
    rows.use_schema(SCHEMA)
    assert rows.n_trusted == 10
    assert rows.trusted_places.tolist()[-4:] == [-1, -2, -3, -4]
    assert rows.trusted()[0].shape == (10, 3)
    extra.drop(columns="age").to_csv(tmp_path / "extra.csv", index=False)
    with pytest.raises(InputError, match="differ in the columns age"):
        rows_of(tmp_path, trusted_path=tmp_path / "extra.csv")


def test_identifiers_are_recognised(tmp_path):
    table = pd.DataFrame(
        {
            "key": [f"k{i}" for i in range(N)],
            "number": np.arange(N) + 1000,
            "measure": np.linspace(0, 1, N),
            "count": np.arange(N) % 9,
            "y": np.arange(N) * 0.5,
        }
    )
    rows = rows_of(tmp_path, table=table, trusted=None)
    found = {name: scan.identifier for name, scan in rows.scans.items()}
    assert found == {"key": True, "number": True, "measure": False, "count": False}


def test_numbers_that_are_codes(tmp_path):
    rows = rows_of(tmp_path, table=table_of().assign(code=np.arange(N) % 3), categorical=["code"])
    declared = {column.name: column for column in Agent("A", rows).declare(Declare(), 1).columns}
    assert declared["code"].levels == (0.0, 1.0, 2.0)
    rows.use_schema(Schema((Column("code", "category", levels=(1.0, 2.0)),)))
    np.testing.assert_array_equal(next(rows.blocks())[0][:3], [[0, 0], [1, 0], [0, 1]])
    # another agent has text there: the numbers are read as text, too
    rows.use_schema(Schema((Column("code", "category", levels=("1", "x")),)))
    np.testing.assert_array_equal(next(rows.blocks())[0][:3], [[0, 0], [1, 0], [0, 0]])


@pytest.mark.parametrize("piece", [40, 8 * 2**20])
def test_libsvm(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(libsvm, "PIECE", piece)
    libsvm._width.cache_clear()
    lines = [f"{i} 1:{i}.5 {'3:1 ' if i % 2 else ''}# row {i}" for i in range(30)]
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    rows = TableRows(tmp_path / "rows.svm", target="price")
    assert list(rows.scans) == ["x1", "x2", "x3"]
    rows.use_schema(Schema(tuple(Column(f"x{i}", "number") for i in (1, 3, 4))))
    features, targets = (np.concatenate(parts) for parts in zip(*rows.blocks(), strict=True))
    np.testing.assert_array_equal(targets, np.arange(30.0))
    np.testing.assert_array_equal(features[:, 0], np.arange(30) + 0.5)
    np.testing.assert_array_equal(features[:, 1], np.arange(30) % 2)
    assert not features[:, 2].any()  # a column that this agent never mentions


@pytest.mark.parametrize("text", ["1 0:3\n", "1 a:3\n", "x 1:3\n", "1 2:1 1:1\n"])
def test_wrong_libsvm_files(tmp_path, text):
    (tmp_path / "rows.svm").write_text(text)
    with pytest.raises(InputError, match=r"rows\.svm is no LIBSVM file") as caught:
        TableRows(tmp_path / "rows.svm", target="y")
    assert is_one_sentence(caught.value)
