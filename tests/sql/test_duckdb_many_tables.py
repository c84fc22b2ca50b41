"""Several tables as one: patterns and lists, with the rules that DuckDB has for Parquet."""

from __future__ import annotations

import tarfile
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import lance
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.tar import TarFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st
from leaks import own_threads_since
from roads import EACH_INTERFACE, ROADS, connect
from store_doubles import SlowFileSystem
from support import examples

import duckdb_adapter
import lancefs
from duckdb_adapter import open_names, version_cache
from duckdb_adapter.patterns import expand
from duckdb_adapter.sources.rows import Rows
from duckdb_adapter.sources.unions import TableUnion
from duckdb_adapter.storage import Storage
from lancefs.filesystem import LanceFileSystem
from lancefs.storage.filesystems import in_turn
from lancefs.table.dictionary_columns import ENCODED

FIRST = pa.table({"id": pa.array([1, 2], pa.int32()), "city": ["Gent", "Lyon"]})
SECOND = pa.table({"city": ["Oslo", None], "id": pa.array([3, 4], pa.int64()), "price": [1.5, 2.5]})


def write(where: Path, **tables: pa.Table) -> Path:
    """Write tables, each as Lance and as Parquet."""
    for name, table in tables.items():
        lance.write_dataset(table, str(where / f"{name}.lance"))
        pq.write_table(table, where / f"{name}.parquet")
    return where


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two tables that a test may change."""
    return write(tmp_path, a=FIRST, b=SECOND)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same tables, for all tests that only read."""
    return write(tmp_path_factory.mktemp("lake"), a=FIRST, b=SECOND)


def both(con: Any, query: str, lake: Path) -> list[Any]:
    """Run a query over Lance; check that over Parquet it says the same."""
    found = []
    for suffix, scan in (("lance", "lance_scan"), ("parquet", "read_parquet")):
        text = query.replace("SCAN", scan).replace("SUFFIX", suffix)
        relation = con.sql(text.replace("{lake}", str(lake)))
        rows = [[str(v).replace(f".{suffix}", "") for v in row] for row in relation.fetchall()]
        found.append((relation.columns, list(map(str, relation.types)), rows))
    assert found[0] == found[1]
    return found[0][2]


def test_a_pattern_is_its_tables(con: Any, unchanged: Path) -> None:
    rows = con.sql(f"FROM '{unchanged}/*.lance'").fetchall()
    assert rows == [(1, "Gent"), (2, "Lyon"), (3, "Oslo"), (4, None)]


def test_links_to_tables_are_tables(con: Any, unchanged: Path, tmp_path: Path) -> None:
    (tmp_path / "a.lance").symlink_to(unchanged / "a.lance")
    (tmp_path / "b.lance").symlink_to(unchanged / "b.lance")
    (tmp_path / "gone.lance").symlink_to(tmp_path / "nothing")
    query = "SELECT count(*) FROM '{}/*.lance'"
    expected = con.execute(query.format(unchanged)).fetchall()
    assert con.execute(query.format(tmp_path)).fetchall() == expected
    assert duckdb_adapter.attach(con, tmp_path, as_="links") == ["a", "b"]
    fs = LanceFileSystem(fo=tmp_path)
    assert fs.glob("*/latest.arrow") == ["a.lance/latest.arrow", "b.lance/latest.arrow"]
    con.execute("DETACH links")


def test_a_list_tells_where_rows_come_from(con: Any, lake: Path) -> None:
    lance.write_dataset(SECOND, str(lake / "b.lance"), mode="append")
    query = f"""
        SELECT filename, count(*), sum(id), max(price) FROM lance_scan(
            ['{lake}/a.lance', '{lake}/b.lance@v1'], filename := true, union_by_name := true)
        GROUP BY ALL ORDER BY ALL"""
    expected = [(f"{lake}/a.lance", 2, 3, None), (f"{lake}/b.lance@v1", 2, 7, 2.5)]
    assert con.sql(query).fetchall() == expected


QUERIES = [
    "FROM '{lake}/*.SUFFIX' ORDER BY id",
    "SELECT * FROM '{lake}/[ab].SUFFIX' WHERE id > 1 AND city IS NOT NULL ORDER BY id",
    "SELECT count(*), count(city) FROM '{lake}/?.SUFFIX'",
    "FROM SCAN(['{lake}/a.SUFFIX', '{lake}/b.SUFFIX'], filename := true) ORDER BY id",
    "FROM SCAN(['{lake}/b.SUFFIX', '{lake}/a.SUFFIX'], union_by_name := true, filename := true) "
    "ORDER BY id",
    "SELECT price, id FROM SCAN('{lake}/*.SUFFIX', union_by_name := true) "
    "WHERE price IS NULL OR price > 2 ORDER BY id",
    "SELECT id, price FROM SCAN('{lake}/*.SUFFIX', union_by_name := true) WHERE price < 2",
    "SELECT city FROM SCAN('{lake}/*.SUFFIX', filename := true) "
    "WHERE filename LIKE '%/b.%' AND id = 3",
    "SELECT max(id) FROM SCAN('{lake}/*.SUFFIX', filename := true) WHERE filename = 'none'",
    "SELECT count(DISTINCT filename) FROM SCAN(['{lake}/a.SUFFIX', '{lake}/a.SUFFIX'], "
    "filename := true)",
]


@EACH_INTERFACE
@pytest.mark.parametrize("query", QUERIES)
def test_the_rules_are_those_of_parquet(con: Any, unchanged: Path, query: str) -> None:
    assert both(con, query, unchanged)


def test_structs_get_the_members_of_all_tables(con: Any, tmp_path: Path) -> None:
    first, second = pa.table({"s": [{"a": 1}]}), pa.table({"s": [{"b": "x", "a": 2}]})
    lake = write(tmp_path, a=first, b=second)
    query = "SELECT s.a, s.b FROM SCAN('{lake}/*.SUFFIX', union_by_name := true) ORDER BY 1"
    assert both(con, query, lake) == [["1", "None"], ["2", "x"]]


def test_letters_are_those_of_the_first_table(con: Any, tmp_path: Path) -> None:
    lake = write(tmp_path, a=pa.table({"Id": [1]}), b=pa.table({"ID": [2]}))
    for option in ("false", "true"):
        query = f"FROM SCAN('{{lake}}/*.SUFFIX', union_by_name := {option}) WHERE id > 1"
        assert both(con, query, lake) == [["2"]]


def test_names_that_differ_in_letters_are_two_columns(con: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "ID": [2]})
    lake = write(tmp_path, a=rows, b=rows, c=pa.table({"ID": [3]}))
    found = con.sql(f"FROM lance_scan('{lake}/*.lance', union_by_name := true)").fetchall()
    assert found == [(1, 2), (1, 2), (None, 3)]


def test_schemas_that_do_not_agree_are_an_error(con: Any, unchanged: Path) -> None:
    expected = r"a\.lance: there is no column 'price'.*union_by_name := true"
    with pytest.raises(duckdb.InvalidInputException, match=expected):
        con.sql(f"FROM lance_scan(['{unchanged}/b.lance', '{unchanged}/a.lance'])").fetchall()


def test_types_that_do_not_agree_are_an_error(con: Any, tmp_path: Path) -> None:
    lake = write(tmp_path, a=pa.table({"x": [1]}), b=pa.table({"x": [[1]]}))
    for option in ("false", "true"):
        expected = r"b\.lance: column 'x' is of type list.*of type int64 in the tables before"
        with pytest.raises(duckdb.InvalidInputException, match=expected):
            con.sql(f"FROM lance_scan('{lake}/*.lance', union_by_name := {option})").fetchall()


def test_a_value_that_does_not_fit_is_an_error(con: Any, tmp_path: Path) -> None:
    narrow = pa.table({"x": pa.array([1], pa.int8())})
    lake = write(tmp_path, a=narrow, b=pa.table({"x": [1, 1000]}))
    with pytest.raises(duckdb.Error, match=r"b\.lance: column 'x'.*1000.*union_by_name := true"):
        con.sql(f"FROM '{lake}/*.lance'").fetchall()
    assert con.sql(
        f"SELECT sum(x) FROM lance_scan('{lake}/*.lance', union_by_name := true)"
    ).fetchall() == [(1002,)]


@pytest.mark.parametrize("where", ["", "memory://"])
def test_a_pattern_without_tables_is_an_error(con: Any, tmp_path: Path, where: str) -> None:
    pattern = f"{where}{tmp_path}/none-*.lance"
    with pytest.raises(duckdb.Error, match=r"no Lance table matches the pattern .*none-\*\.lance"):
        con.sql(f"FROM '{pattern}'")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("lance_scan([])", "the path of a table was expected"),
        ("lance_scan(['{a}', NULL])", "the path of a table was expected"),
        ("lance_scan(['{a}'], filename := 'CITY')", "adds the column 'CITY'"),
        ("lance_scan(['{a}'], row_ids := [0])", "row_ids are those of one table"),
        ("lance_fields(['{a}'])", "the path of one table was expected"),
    ],
)
def test_calls_that_make_no_sense_are_refused(
    con: Any, unchanged: Path, call: str, expected: str
) -> None:
    with pytest.raises(duckdb.Error, match=expected):
        con.sql(f"FROM {call.format(a=unchanged / 'a.lance')}").fetchall()


def test_one_table_can_tell_its_name_too(con: Any, unchanged: Path) -> None:
    query = f"SELECT DISTINCT path FROM lance_scan('{unchanged}/a.lance', filename := 'path')"
    assert con.sql(query).fetchall() == [(f"{unchanged}/a.lance",)]


def test_each_table_has_its_row_metadata(con: Any, unchanged: Path) -> None:
    query = (
        f"SELECT _rowid, id FROM lance_scan('{unchanged}/*.lance', with_row_id := true) ORDER BY id"
    )
    assert con.sql(query).fetchall() == [(0, 1), (1, 2), (0, 3), (1, 4)]


def test_a_ref_after_a_pattern_is_that_of_each_table(con: Any, lake: Path) -> None:
    for name in ("a", "b"):
        lance.dataset(str(lake / f"{name}.lance")).delete("id > 0")
    assert con.sql(f"SELECT count(*) FROM '{lake}/*.lance'").fetchall() == [(0,)]
    assert con.sql(f"SELECT count(*) FROM '{lake}/*.lance@v1'").fetchall() == [(4,)]


def test_a_view_sees_tables_that_are_added(con: Any, lake: Path) -> None:
    con.execute(f"CREATE TEMP VIEW all_tables AS FROM '{lake}/*.lance'")
    con.execute(f"PREPARE total AS SELECT sum(id) FROM '{lake}/*.lance'")
    write(lake, c=FIRST)
    assert con.execute("SELECT count(*) FROM all_tables").fetchall() == [(6,)]
    assert con.execute("EXECUTE total").fetchall() == [(13,)]


def test_a_transaction_keeps_the_version_of_each_table(con: Any, lake: Path) -> None:
    con.execute("BEGIN")
    count = f"SELECT count(*) FROM '{lake}/*.lance'"
    assert con.execute(count).fetchall() == [(4,)]
    lance.write_dataset(SECOND, str(lake / "b.lance"), mode="append")
    assert con.execute(count).fetchall() == [(4,)]
    con.execute("COMMIT")
    assert con.execute(count).fetchall() == [(6,)]


def test_a_table_whose_name_has_signs_is_itself(con: Any, tmp_path: Path) -> None:
    write(tmp_path, **{"t[1]": FIRST, "t1": SECOND})
    assert con.sql(f"SELECT max(id) FROM '{tmp_path}/t[1].lance'").fetchall() == [(2,)]


def test_a_pattern_matches_tables_only(con: Any, lake: Path) -> None:
    (lake / "notes").mkdir()
    (lake / "x.lance").write_bytes(b"no table")
    lance.dataset(str(lake / "a.lance")).create_branch("exp")
    query = f"SELECT DISTINCT filename FROM lance_scan('{lake}/**', filename := true) ORDER BY 1"
    found = con.sql(query).fetchall()
    assert found == [(f"{lake}/a.lance",), (f"{lake}/b.lance",)]


@pytest.fixture
def remote(lake: Path) -> Iterator[str]:
    """The tables in a store that is no disk."""
    fs, where = fsspec.filesystem("memory"), f"/{uuid.uuid4()}"
    fs.put(str(lake), where, recursive=True)
    yield f"memory:/{where}"
    fs.rm(where, recursive=True)


def test_patterns_work_on_remote_stores(con: Any, remote: str) -> None:
    tables = f"lance_scan('{remote}/*.lance', filename := true)"
    found = con.sql(f"SELECT filename, max(id) FROM {tables} GROUP BY ALL ORDER BY ALL")
    assert found.fetchall() == [(f"{remote}/a.lance", 2), (f"{remote}/b.lance", 4)]
    assert con.sql(f"SELECT sum(id) FROM '{remote}/**/*.lance'").fetchall() == [(10,)]
    with pytest.raises(duckdb.Error, match="no Lance table matches"):
        con.sql(f"FROM '{remote}/data*/*.lance'")


def test_the_requests_of_remote_tables_are_under_way_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"t{number:02}" for number in range(12)]
    write(tmp_path, **{name: pa.table({"id": range(10), "name": [name] * 10}) for name in names})
    fs = SlowFileSystem(0.1)  # longer than a busy machine takes to start a thread
    monkeypatch.setattr(open_names, "open_url", lambda url, options: (fs, url.removeprefix("s3:/")))
    urls = [f"s3:/{tmp_path}/{name}.lance" for name in names]

    def read(paths: list[str]) -> tuple[int, int, list[str]]:
        version_cache.forget()
        before = fs.rounds
        tables = open_names.open_tables(paths, Storage({}))
        opened = fs.rounds
        rows = TableUnion(
            [(path, t.dataset) for path, t in zip(paths, tables, strict=True)], False, None
        )
        batches = list(rows.rows().batches(["name"], [pc.field("id") < 3]))
        found = [name for batch in batches for name in batch["name"].to_pylist()]
        return opened - before, fs.rounds - opened, found

    one_opened, one_read, _ = read(urls[:1])
    all_opened, all_read, found = read(urls)
    assert found == [name for name in names for _ in range(3)]
    assert all_opened < 3 * one_opened
    assert all_read < 4 * one_read  # the first table is read before the others


def test_a_query_that_has_its_rows_does_not_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, **{name: pa.table({"id": range(10)}) for name in "abc"})
    fs = SlowFileSystem(0.0)
    monkeypatch.setattr(open_names, "open_url", lambda url, options: (fs, url.removeprefix("s3:/")))
    urls = [f"s3:/{tmp_path}/{name}.lance" for name in "abc"]
    tables = open_names.open_tables(urls, Storage({}))
    rows = TableUnion([(url, t.dataset) for url, t in zip(urls, tables, strict=True)], False, None)
    before = threading.enumerate()
    batches = rows.rows().batches(["id"], [])
    assert next(batches)["id"].to_pylist() == list(range(10))
    assert not any("b.lance/data" in request for request in fs.requests)
    next(batches)
    started = own_threads_since(before)
    batches.close()
    assert not any(one.is_alive() for one in started)


@pytest.mark.parametrize("cache", ["simplecache", "filecache"])
def test_patterns_work_behind_caches(con: Any, remote: str, cache: str) -> None:
    tables = f"lance_scan('{cache}::{remote}/*.lance', filename := true)"
    found = con.sql(f"SELECT filename, max(id) FROM {tables} GROUP BY ALL ORDER BY ALL")
    where = f"{cache}::{remote}"
    assert found.fetchall() == [(f"{where}/a.lance", 2), (f"{where}/b.lance", 4)]
    assert con.sql(f"SELECT sum(id) FROM '{where}/[ab].lance@v1'").fetchall() == [(10,)]
    assert con.sql(f"SELECT sum(id) FROM '{where}/b.lance'").fetchall() == [(7,)]


def test_a_pattern_is_read_without_a_connection(unchanged: Path) -> None:
    assert lancefs.sql(f"SELECT sum(id) FROM '{unchanged}/*.lance'").fetchall() == [(10,)]


def test_strings_of_few_values_stay_encoded(con: Any, tmp_path: Path) -> None:
    rows = pa.table({"mode": ["by air", "free on board"] * 20_000})
    lake = write(tmp_path, a=rows, b=rows, c=rows.append_column("x", [list(range(40_000))]))
    tables = [(name, lancefs.open(f"{lake}/{name}.lance")) for name in "abc"]
    assert Rows(tables[0][1]).schema.field("mode").type == ENCODED
    union = TableUnion(tables, True, None).rows()
    assert union.schema.field("mode").type == ENCODED
    query = (
        "SELECT mode, count(*), sum(x) FROM SCAN('{lake}/*.SUFFIX', union_by_name := true) "
        "WHERE mode > 'by' AND (x IS NULL OR x > 9) GROUP BY ALL ORDER BY ALL"
    )
    assert both(con, query, lake)[0][:2] == ["by air", "59995"]


def test_whole_numbers_and_decimals_are_decimals_together(con: Any, tmp_path: Path) -> None:
    prices = pa.array([Decimal("1.25"), None], pa.decimal128(6, 2))
    kinds = [pa.int16(), pa.int64(), pa.uint64()]
    numbers = {str(kind): pa.table({"v": pa.array([7, None], kind)}) for kind in kinds}
    lake = write(tmp_path, price=pa.table({"v": prices}), **numbers)
    for name in numbers:
        for first, second in (("price", name), (name, "price")):
            tables = f"['{lake}/{first}.SUFFIX', '{lake}/{second}.SUFFIX']"
            query = f"SELECT v, typeof(v) FROM SCAN({tables}, union_by_name := true) ORDER BY v"
            assert [row[0] for row in both(con, query, lake)] == ["1.25", "7.00", "None", "None"]
    tables = f"['{lake}/price.SUFFIX', '{lake}/int64.SUFFIX']"
    assert both(con, f"SELECT max(v), typeof(any_value(v)) FROM SCAN({tables})", lake) == [
        ["7.00", "DECIMAL(6,2)"]
    ]


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (pa.array([1], pa.int32()), pa.array([1], pa.date32()), "numbers are no times"),
        (pa.array([1], pa.timestamp("us")), pa.array([1], pa.int64()), "numbers are no times"),
        (
            pa.array([{"a": [1]}], pa.struct({"a": pa.list_(pa.int64())})),
            pa.array([{"a": [1]}], pa.struct({"a": pa.list_(pa.timestamp("us"))})),
            "numbers are no times",
        ),
        (pa.array([1.0], pa.float32()), pa.array([1.0, 1e300]), "1e[+]?300 is out of the range"),
    ],
)
def test_no_other_values_are_made_of_values(
    con: Any, tmp_path: Path, first: pa.Array, second: pa.Array, reason: str
) -> None:
    """DuckDB refuses the same of Parquet files."""
    lake = write(tmp_path, a=pa.table({"v": first}), b=pa.table({"v": second}))
    for scan, suffix, message in (
        ("lance_scan", "lance", reason),
        ("read_parquet", "parquet", "failed to cast column|Unimplemented type"),
    ):
        with pytest.raises(duckdb.Error, match=message):
            con.sql(f"FROM {scan}(['{lake}/a.{suffix}', '{lake}/b.{suffix}'])").fetchall()


def test_infinite_and_missing_numbers_are_numbers(con: Any, tmp_path: Path) -> None:
    wide = pa.array([1.5, float("inf"), float("-inf"), float("nan"), None])
    first = pa.table({"v": pa.array([0.5], pa.float32())})
    lake = write(tmp_path, a=first, b=pa.table({"v": wide}))
    query = "FROM '{lake}/*.SUFFIX' ORDER BY v"
    found = [row[0] for row in both(con, query, lake)]
    assert found == ["-inf", "0.5", "1.5", "inf", "nan", "None"]


COLUMNS = st.dictionaries(
    st.sampled_from("abc"),
    st.sampled_from([pa.int8(), pa.int64(), pa.float64()]),
    min_size=1,
)


@settings(max_examples=examples(8))
@given(
    schemas=st.lists(COLUMNS, min_size=1, max_size=3),
    limit=st.integers(0, 5),
    column=st.sampled_from("abc"),
)
def test_any_union_by_name_is_that_of_parquet(
    tmp_path_factory: pytest.TempPathFactory,
    schemas: list[dict[str, pa.DataType]],
    limit: int,
    column: str,
) -> None:
    tables = {
        f"t{number}": pa.table(
            {n: pa.array(range(number, number + 4), kind) for n, kind in one.items()}
        )
        for number, one in enumerate(schemas)
    }
    lake = write(tmp_path_factory.mktemp("lake"), **tables)
    if not any(column in one for one in schemas):
        column = next(iter(schemas[0]))
    query = (
        "FROM SCAN('{lake}/*.SUFFIX', union_by_name := true, filename := true) "
        f"WHERE {column} > {limit} OR {column} IS NULL ORDER BY ALL"
    )
    with connect(ROADS[0]) as con:
        both(con, query, lake)


def test_a_pattern_waits_for_other_requests_of_the_same_connection(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an archive, as over FTP, all requests go through one open file."""
    with tarfile.open(tmp_path / "lake.tar", "w") as archive:
        archive.add(lake / "a.lance", "a.lance")
    glob, are_in_turn = TarFileSystem.glob, []

    def watched(fs: Any, path: str, **options: Any) -> Any:
        turn: Any = in_turn(fs)
        are_in_turn.append(turn._lock.locked())
        return glob(fs, path, **options)

    monkeypatch.setattr(TarFileSystem, "glob", watched)
    found = expand(f"tar://*.lance::file://{tmp_path}/lake.tar", Storage({}), is_claimed=True)
    assert found == [f"tar://a.lance::file://{tmp_path}/lake.tar"]
    assert are_in_turn == [True]
