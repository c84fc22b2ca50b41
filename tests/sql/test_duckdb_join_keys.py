"""Join keys within a small range come with what tells DuckDB the range."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import connect, needs_install

from duckdb_adapter import rewrites
from duckdb_adapter.queries.joins import join_keys
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.sources import kept_rows
from duckdb_adapter.sources.number_ranges import ranged_keys
from duckdb_adapter.sources.rows import Rows

ROWS = 5000
TEAS = 300


def _orders() -> pa.Table:
    numbers = np.arange(ROWS)
    return pa.table(
        {
            "id": numbers,
            "tea": pa.array(numbers * 7 % TEAS, pa.int64(), mask=numbers % 50 == 3),
            "town": pa.array(numbers % 11, pa.int16()),
            "below": pa.array(numbers % 11 - 3, pa.int32()),
            "far": pa.array(numbers * 1000, pa.int64()),
            "amount": numbers % 17,
        }
    )


def _teas() -> pa.Table:
    numbers = np.arange(TEAS)
    return pa.table(
        {
            "tea_id": pa.array(numbers, pa.int64()),
            "name": pa.array([f"tea {n}" for n in numbers]),
            "kind": pa.array([f"kind {n % 5}" for n in numbers]),
            "far_id": pa.array(numbers * 1000, pa.int64()),
        }
    )


def _towns() -> pa.Table:
    numbers = np.arange(9)
    return pa.table(
        {
            "town": pa.array(numbers, pa.int16()),
            "city": pa.array([f"city {n}" for n in numbers]),
            "below": pa.array(numbers - 3, pa.int32()),
        }
    )


TABLES = {"orders": _orders(), "teas": _teas(), "towns": _towns()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("joins")
    for name, rows in TABLES.items():
        lance.write_dataset(rows, str(folder / f"{name}.lance"), max_rows_per_file=2000)
    lance.dataset(str(folder / "orders.lance")).delete("id % 13 = 5")
    return folder


@pytest.fixture(scope="module")
def native(folder: Path) -> Any:
    connection = duckdb.connect()
    for name in TABLES:
        rows = lance.dataset(str(folder / f"{name}.lance")).to_table()
        connection.register("rows", rows)
        connection.execute(f"CREATE TABLE {name} AS FROM rows")
    yield connection
    connection.close()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of which DuckDB is told the range."""
    noted: list[str] = []

    def note(rows: Rows, keys: Collection[str]) -> dict[str, str]:
        found = ranged_keys(rows, keys)
        noted.extend(found)
        return found

    monkeypatch.setattr(rewrites, "ranged_keys", note)
    return noted


# Queries over the tables; of how many keys DuckDB is told the range when they are run again.
JOINS = [
    ("SELECT name, sum(amount) FROM {orders} JOIN {teas} ON tea = tea_id GROUP BY 1", 2),
    ("SELECT kind, count(*) FROM {orders} o JOIN {teas} t ON o.tea = t.tea_id GROUP BY 1", 2),
    ("SELECT kind, sum(amount) FROM {orders}, {teas} WHERE tea = tea_id AND amount > 3 "
     "GROUP BY 1", 2),
    ("SELECT city, count(*) FROM {orders} JOIN {towns} USING (town) GROUP BY 1", 2),
    ("SELECT city, kind, sum(amount) FROM {orders} JOIN {teas} ON tea = tea_id "
     "JOIN {towns} USING (town) GROUP BY ALL", 4),
    ("SELECT id, name FROM {orders} JOIN {teas} ON tea_id = tea WHERE name LIKE '%7%'", 2),
    ("SELECT * FROM {orders} JOIN {teas} ON tea = tea_id AND amount = 4", 2),
    ("SELECT count(*) FROM (SELECT name FROM {orders} JOIN {teas} ON tea = tea_id)", 2),
    ("WITH j AS (SELECT * FROM {orders} JOIN {teas} ON tea = tea_id) SELECT kind, sum(tea) FROM j "
     "GROUP BY 1", 2),
    ("SELECT name FROM {orders} JOIN {teas} ON tea = tea_id WHERE tea_id = 5", 0),
    ("SELECT name FROM {orders} JOIN {teas} ON tea = tea_id WHERE tea BETWEEN 5 AND 9", 0),
    ("SELECT name FROM {orders} JOIN {teas} ON tea = tea_id WHERE tea IS NOT NULL", 0),
    ("SELECT name FROM {orders} LEFT JOIN {teas} ON tea = tea_id", 0),
    ("SELECT city FROM {orders} o JOIN {towns} t ON o.below = t.below", 0),
    ("SELECT name FROM {orders} JOIN {teas} ON far = far_id", 1),
    ("SELECT name FROM {orders} JOIN {teas} ON tea + 1 = tea_id", 0),
    ("SELECT name FROM {orders} JOIN {teas} ON tea < tea_id AND id < 40", 0),
    ("SELECT count(*) FROM {orders} WHERE tea IN (SELECT tea_id FROM {teas})", 0),
    ("SELECT count(*) FROM {orders} a JOIN {orders} b ON a.tea = b.id", 0),
]  # fmt: skip


def _rows(connection: Any, query: str) -> list[Any]:
    return sorted(connection.execute(query).fetchall(), key=repr)


def _names(folder: Path) -> dict[str, str]:
    return {name: f"'{folder / name}.lance'" for name in TABLES}


@needs_install
@pytest.mark.parametrize("kept", [0, 2 * ROWS], ids=["scanned", "kept in memory"])
@pytest.mark.parametrize(("query", "keys"), JOINS)
def test_joins_find_what_duckdbs_own_tables_hold(
    native: Any,
    folder: Path,
    told: list[str],
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    keys: int,
    kept: int,
) -> None:
    monkeypatch.setattr(kept_rows, "MAX_ROWS", kept)
    con, text = connect("shared"), query.format(**_names(folder))
    expected = _rows(native, query.format(**{name: name for name in TABLES}))
    for _ in range(5 if kept else 3):
        told.clear()
        assert _rows(con, text) == expected
    assert len(told) == keys


@needs_install
def test_the_first_statement_reads_no_column_twice(told: list[str], tmp_path: Path) -> None:
    names = {}
    for name, rows in TABLES.items():
        lance.write_dataset(rows, str(tmp_path / f"{name}.lance"))
        names[name] = f"'{tmp_path / name}.lance'"
    con, text = connect("install"), JOINS[0][0].format(**names)
    for keys in (0, 2, 4):
        con.execute(text).fetchall()
        assert len(told) == keys


@needs_install
def test_each_version_has_its_own_range(tmp_path: Path) -> None:
    facts, dims = tmp_path / "facts.lance", tmp_path / "dims.lance"
    lance.write_dataset(pa.table({"k": [0, 1, 2, 2]}), str(facts))
    lance.write_dataset(pa.table({"d": [0, 1, 2], "n": ["a", "b", "c"]}), str(dims))
    con = connect("install")
    query = "SELECT n, count(*) FROM '{}' JOIN '{}' ON k = d GROUP BY 1 ORDER BY 1"
    text = query.format(facts, dims)
    con.execute(f"PREPARE again AS {text}")
    con.execute(f"CREATE VIEW joined AS {text}")
    for run in (text, text, "EXECUTE again", "FROM joined"):
        assert con.execute(run).fetchall() == [("a", 1), ("b", 1), ("c", 2)]
    con.execute("BEGIN")
    assert con.execute(text).fetchall() == [("a", 1), ("b", 1), ("c", 2)]
    lance.write_dataset(pa.table({"k": [7, -3]}), str(facts), mode="append")
    lance.write_dataset(pa.table({"d": [7, -3], "n": ["d", "e"]}), str(dims), mode="append")
    assert con.execute(text).fetchall() == [("a", 1), ("b", 1), ("c", 2)]
    con.execute("COMMIT")
    relation = con.sql(text)
    for run in (text, text, text, "EXECUTE again", "FROM joined"):
        found = con.execute(run).fetchall()
        assert found == [("a", 1), ("b", 1), ("c", 2), ("d", 1), ("e", 1)]
    assert relation.fetchall() == found
    old = query.format(f"{facts}@v1", dims)
    for _ in range(3):
        assert con.execute(old).fetchall() == [("a", 1), ("b", 1), ("c", 2)]


@needs_install
def test_a_key_that_cannot_be_read_is_an_error_of_the_scan(told: list[str], tmp_path: Path) -> None:
    facts, dims = tmp_path / "facts.lance", tmp_path / "dims.lance"
    lance.write_dataset(pa.table({"k": [0, 1, 2]}), str(facts))
    lance.write_dataset(pa.table({"d": [0, 1, 2]}), str(dims))
    (file,) = (facts / "data").iterdir()
    file.unlink()
    con = connect("install")
    for _ in range(3):
        with pytest.raises(duckdb.Error, match=file.name):
            con.execute(f"SELECT * FROM '{facts}' JOIN '{dims}' ON k = d").fetchall()
    assert "k" not in told


KINDS = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
]


@needs_install
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_keys_of_any_type_up_to_their_greatest(kind: pa.DataType, tmp_path: Path) -> None:
    con = connect("shared")
    most = 2 ** (kind.bit_width - pa.types.is_signed_integer(kind)) - 1
    for greatest in sorted({0, min(most, 2**19 - 2), min(most, 2**19), most}):
        keys = pa.array([None, 0, greatest // 2, greatest], kind)
        path = tmp_path / f"{kind} {greatest}.lance"
        lance.write_dataset(pa.table({'a "key"': keys}), str(path))
        lance.write_dataset(pa.table({"b": keys, "n": ["-", "0", "1", "2"]}), f"{path}b.lance")
        query = f"""SELECT "a ""key\""", typeof("a ""key\"""), n FROM '{path}'
            JOIN '{path}b.lance' ON "a ""key\""" = b ORDER BY ALL"""
        first = con.execute(query).fetchall()
        assert {value for value, _, _ in first} == {0, greatest // 2, greatest}
        assert con.execute(query).fetchall() == first
        assert con.execute(query).fetchall() == first


@needs_install
def test_tables_of_a_folder_and_calls(native: Any, folder: Path) -> None:
    con = connect("install")
    import duckdb_adapter

    duckdb_adapter.attach(con, str(folder), "lake")
    query = JOINS[0][0]
    expected = _rows(native, query.format(**{name: name for name in TABLES}))
    lake = query.format(**{name: f"lake.{name}" for name in TABLES})
    calls = query.format(**{name: f"lance_scan({path})" for name, path in _names(folder).items()})
    for text in (lake, lake, calls, calls):
        assert _rows(con, text) == expected


def _keys(text: str) -> set[str]:
    schema = pa.schema([("k", pa.int64()), ("m", pa.int64()), ("Other", pa.int64())])
    return set(join_keys(TableQuery(text, "t.lance", "t", schema)))


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("FROM 't.lance' JOIN u ON k = x", {"k"}),
        ("SELECT * FROM u JOIN 't.lance' t ON u.k = t.k AND u.y = t.OTHER", {"k", "Other"}),
        ("FROM 't.lance', u WHERE x = k AND y = m", {"k", "m"}),
        ("FROM 't.lance' JOIN u USING (k, m)", {"k", "m"}),
        ("FROM 't.lance' JOIN u ON k = x JOIN v ON x = z WHERE z > 5", set()),
        ("SELECT * FROM (SELECT k FROM 't.lance' JOIN u ON k = x) WHERE k IN (1, 2)", set()),
        ("FROM 't.lance' JOIN u ON k = x GROUP BY k HAVING sum(y) > 3", {"k"}),
        ("FROM 't.lance' JOIN u ON k = x OR m = y", set()),
        ("FROM 't.lance' JOIN u ON k = m", set()),
        ("FROM 't.lance' WHERE k = m", set()),
        ("FROM u WHERE x = (SELECT max(k) FROM 't.lance')", set()),
        ("FROM 't.lance' t ASOF JOIN u ON t.k = u.x AND t.m >= u.y", set()),
    ],
)
def test_which_columns_are_join_keys(text: str, keys: set[str]) -> None:
    assert _keys(text) == keys
