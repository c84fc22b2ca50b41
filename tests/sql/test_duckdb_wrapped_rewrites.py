"""Wrapped connections read less where the text alone proves what a statement uses of a table."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest
from roads import assert_same_rows, connect, scanned

from duckdb_adapter.releases import is_new
from duckdb_adapter.sources import groups, row_counts

pytestmark = pytest.mark.usefixtures("any_table_is_long")

ROWS = 3000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wrapped") / "logs.lance"
    numbers = range(ROWS)
    rows = pa.table(
        {
            "id": pa.array(numbers),
            "level": [("info", "warn", None)[n % 3] for n in numbers],
            "host": [f"host-{n % 7}" for n in numbers],
            "price": pa.array([n % 50 / 4 for n in numbers]).cast(pa.decimal128(9, 2)),
            "day": [date.fromordinal(700_000 + n % 20) for n in numbers],
            "latency": [None if n % 11 == 3 else n / 8 for n in numbers],
            "note": [f"note {n}" if n % 5 else None for n in numbers],
            "word": [("Ab", "aB")[n % 2] + str(n * 7919 % ROWS) for n in numbers],
            "req": [{"status": n % 4, "trace": str(n)} for n in numbers],
        }
    )
    lance.write_dataset(rows, str(path), max_rows_per_file=1200)
    lance.dataset(str(path)).delete("id % 50 = 3")
    return path


@pytest.fixture(autouse=True)
def counted_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are counted over a file, too."""
    monkeypatch.setattr(row_counts, "_MIN_IN_FILE", 10)


# Statements over {t}, and the columns that are read of it when they are run a second time.
PROVED = [
    ("SELECT count(*) FROM {t}", []),
    ("SELECT count(id) FROM {t}", []),
    ("SELECT min(id), max(id), count(*) FROM {t}", []),
    ("SELECT min(latency), max(day) FROM {t}", []),
    ("SELECT level, count(*) FROM {t} GROUP BY level ORDER BY 1", []),
    ("SELECT host, count(host) FROM {t} WHERE host > 'host-2' GROUP BY 1 ORDER BY 1", []),
    ("SELECT count(*) FROM {t} WHERE host LIKE '%-3'", []),
    ("SELECT sum(req.status) FROM {t}", []),
    ("SELECT max(req.trace), min(note) FROM {t}", []),
    ("SELECT id, host FROM {t} LIMIT 4 OFFSET 2000", [["id", "host"]]),
]
# Others, which use all rows, or may do so.
OTHERS = [
    "SELECT count(note) FROM {t} WHERE id > 70",
    "SELECT max(req.trace), count(*) FROM {t} WHERE id > 9",
    "SELECT * FROM {t} LIMIT 4",
    "SELECT id, row_number() OVER (ORDER BY id DESC) FROM {t} ORDER BY id LIMIT 3",
    "SELECT level, count(*), (SELECT max(note) FROM {t}) FROM {t} GROUP BY level ORDER BY ALL",
    "SELECT count(*) FROM {t} WHERE id IN (SELECT id FROM {t} WHERE req.status = 2)",
    "SELECT a.level, count(*) FROM {t} a JOIN {t} b USING (id) GROUP BY ALL ORDER BY ALL",
    "WITH few AS (FROM {t} LIMIT 5) SELECT count(*), min(f.id) FROM few f, few g",
    "SELECT upper(host), count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT list(id ORDER BY id DESC)[:3] FROM {t}",
    "SELECT count(*) FROM {t} WHERE note IS NULL",
    "SELECT req.status, count(*) FROM {t} GROUP BY ALL HAVING count(*) > 5 ORDER BY ALL",
    "SELECT DISTINCT level, host FROM {t} ORDER BY ALL",
    "SELECT quantile_cont(id, 0.5), bool_and(id >= 0) FROM {t}",
    "SELECT count(*) FROM {t} USING SAMPLE 10 ROWS",
    "FROM {t} SELECT max(latency) WHERE latency > 20.0",
    "SELECT id FROM {t} ORDER BY latency DESC NULLS LAST, id LIMIT 5",
]


@pytest.mark.parametrize(("query", "columns"), PROVED)
def test_a_wrapped_connection_reads_the_columns_that_a_query_needs(
    native: Any, table: Path, reads: list[dict[str, Any]], query: str, columns: list[list[str]]
) -> None:
    con = connect("wrap")
    assert_same_rows(con, native, table, query)
    found = scanned(reads, lambda: assert_same_rows(con, native, table, query))
    assert [each for each, _ in found] == columns


@pytest.mark.parametrize("query", OTHERS)
def test_other_statements_have_the_same_rows(native: Any, table: Path, query: str) -> None:
    con = connect("wrap")
    assert_same_rows(con, native, table, query)
    assert_same_rows(con, native, table, query)


def test_a_limit_reads_no_further(table: Path, reads: list[dict[str, Any]]) -> None:
    con = connect("wrap")
    con.execute(f"SELECT * FROM '{table}' LIMIT 4").fetchall()
    assert [read["limit"] for read in reads] == [4]


@pytest.mark.parametrize("kind", ["MACRO", "TEMP MACRO"])
@pytest.mark.parametrize("is_transaction", [False, True])
def test_macros_by_the_names_of_functions_use_all_rows(
    native: Any, table: Path, kind: str, is_transaction: bool
) -> None:
    con, own = connect("wrap"), native.cursor()
    for connection, name in ((con, f"'{table}'"), (own, "native")):
        body = f"(SELECT max(note) FROM {name}) || x"
        connection.execute(f"CREATE OR REPLACE {kind} sum(x) AS {body}")
        if is_transaction:
            connection.execute("BEGIN")
    query = "SELECT level, sum(level) FROM {t} GROUP BY level ORDER BY ALL"
    assert_same_rows(con, own, table, query)
    assert_same_rows(con, own, table, query)
    if is_transaction:  # which is still open
        con.execute("COMMIT")
        own.execute("COMMIT")
    own.execute("DROP MACRO sum")


# Operators, what a macro of their name does, and a statement over {t}.
OPERATORS = [
    ('"-"(x)', "(SELECT count(note) FROM {t})", "SELECT -id FROM {t} WHERE note LIKE '%99'"),
    ('"~~"(x, y)', "ends_with(x, '1')", "SELECT id FROM {t} WHERE note LIKE '%99' ORDER BY ALL"),
    (
        '"||"(x, y)',
        "concat(x, (SELECT max(id) FROM {t}))",
        "SELECT level || '!', count(*) FROM {t} GROUP BY level ORDER BY ALL",
    ),
]


@pytest.mark.parametrize(("operator", "body", "query"), OPERATORS)
def test_macros_by_the_names_of_operators_use_all_rows(
    native: Any, table: Path, operator: str, body: str, query: str
) -> None:
    con, own = connect("wrap"), native.cursor()
    assert_same_rows(con, own, table, query)
    for connection, name in ((con, f"'{table}'"), (own, "native")):
        connection.execute(f"CREATE TEMP MACRO {operator} AS {body.format(t=name)}")
    assert_same_rows(con, own, table, query)
    assert_same_rows(con, own, table, query)


@pytest.mark.parametrize(
    "setting",
    [
        "default_collation = 'NOCASE'",
        "default_order = 'DESC'",
        "preserve_insertion_order = false",
    ],
)
@pytest.mark.parametrize("scope", ["", "SESSION "])
def test_settings_are_followed(table: Path, setting: str, scope: str) -> None:
    con, own = connect("wrap"), connect("wrap")
    own.register("rows", lance.dataset(str(table)).to_table())
    own.execute("CREATE TABLE native AS FROM rows")
    for connection in (con, own):
        connection.execute(f"SET {scope}{setting}")
    for query in (
        "SELECT count(*) FROM {t}",
        "SELECT min(host), max(level) FROM {t}",
        "SELECT min(word), max(word) FROM {t}",
        "SELECT word FROM {t} ORDER BY word, id LIMIT 3",
        "SELECT count(*) FROM {t} WHERE host LIKE 'HOST%'",
        "SELECT id FROM {t} ORDER BY id LIMIT 3",
        "SELECT lower(level), count(*) FROM {t} GROUP BY 1 ORDER BY ALL",
    ):
        assert_same_rows(con, own, table, query)


def test_without_local_files_duckdb_counts_a_range(table: Path) -> None:
    con = connect("wrap")
    con.execute("SET disabled_filesystems = 'LocalFileSystem'")
    try:
        found = con.execute(f"SELECT count(*) FROM '{table}'").fetchall()
    except duckdb.PermissionException:
        pytest.skip("this DuckDB looks for files of any name")
    assert found == [(2940,)]


def test_relations_keep_what_their_text_uses(native: Any, table: Path) -> None:
    con = connect("wrap")
    counts = con.sql(f"SELECT level, count(*) AS n FROM '{table}' GROUP BY level")
    expected = native.sql("SELECT level, count(*) AS n FROM native GROUP BY level")
    assert counts.filter("n > 5").order("level").fetchall() == (
        expected.filter("n > 5").order("level").fetchall()
    )
    first = con.sql(f"SELECT id FROM '{table}' LIMIT 5")
    assert first.aggregate("count(*), max(id)").fetchall() == [(5, 5)]


def test_prepared_statements_and_stored_rows(native: Any, table: Path) -> None:
    con = connect("wrap")
    query = "SELECT level, count(*) FROM {t} WHERE price > ? GROUP BY level ORDER BY ALL"
    for price in (1, 100):
        found = con.execute(query.format(t=f"'{table}'"), [price]).fetchall()
        assert found == native.execute(query.format(t="native"), [price]).fetchall()
    con.execute(f"PREPARE counted AS SELECT count(*) FROM '{table}' WHERE id > $1")
    assert con.execute("EXECUTE counted(2500)").fetchall() == [(489,)]
    con.execute(f"CREATE TABLE stored AS SELECT host, count(*) AS n FROM '{table}' GROUP BY host")
    assert con.execute("SELECT sum(n) FROM stored").fetchall() == [(2940,)]


def test_texts_are_grouped_of_which_a_fragment_has_none(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    for texts in (["x", "y", "z", "x"], [None]):
        columns = {"a": pa.array(texts * 400, pa.string()), "b": ["p", "q"] * (len(texts) * 200)}
        lance.write_dataset(pa.table(columns), path, mode="append" if texts == [None] else "create")
    query = f"SELECT a, b, count(*), sum(length(a)) FROM '{path}' GROUP BY ALL ORDER BY a, b"
    found = connect("wrap").execute(query).fetchall()
    assert found[-2:] == [(None, "p", 200, None), (None, "q", 200, None)]
    assert sum(count for _, _, count, _ in found) == 2000


def test_groups_by_several_strings_are_made_by_numbers_where_that_is_quicker(
    native: Any, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_MIN_ROWS", 10)
    con, query = connect("wrap"), "SELECT level, host, avg(id) FROM {t} GROUP BY ALL ORDER BY ALL"
    assert_same_rows(con, native, table, query)
    plans = con.execute("EXPLAIN " + query.format(t=f"'{table}'")).fetchall()
    assert any(groups.GROUP in plan for _, plan in plans) == is_new()
