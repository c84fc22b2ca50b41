"""Queries that only count values, or test whether they are missing, read no values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import (
    EACH_INTERFACE,
    assert_same_rows,
    connect,
    native_rows,
    needs_install,
    note_scans,
)

ROWS = 3000


def _request(n: int) -> dict[str, Any] | None:
    if n % 11 == 0:
        return None
    place = {"city": f"c{n % 3}", "zip": n} if n % 5 else None
    return {"trace": None if n % 13 == 1 else f"t{n}", "status": n % 4 or None, "at": place}


def _rows() -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(ROWS)),
            "message": pa.array([f"message {n}" for n in range(ROWS)]),
            "note": pa.array([f"note {n}" if n % 6 else None for n in range(ROWS)]),
            "level": pa.array([("info", "error", None)[n % 3] for n in range(ROWS)]),
            "none": pa.array([None] * ROWS, pa.float64()),
            "tags": pa.array([["a"] * (n % 4) if n % 9 else None for n in range(ROWS)]),
            "half": pa.array([n / 8 if n % 7 else None for n in range(ROWS)], pa.float16()),
            "one": pa.array([{"a": n if n % 4 else None} for n in range(ROWS)]),
            "req": pa.array([_request(n) for n in range(ROWS)]),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nulls") / "logs.lance"
    lance.write_dataset(_rows(), str(path), max_rows_per_file=1700)
    dataset = lance.dataset(str(path))
    dataset.delete("id % 9 = 5")
    dataset.add_columns(pa.field("later", pa.string()))
    return path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """The columns of all scans, and whether only their validity is read."""
    seen: dict[str, bool] = {}

    def note(options: dict[str, Any]) -> None:
        validity = options.get("validity_columns", ())
        seen.update((name, name in validity) for name in options["columns"])

    note_scans(monkeypatch, note)
    return seen


# Queries over {t}; the columns of which they read values, and those of which they read nulls.
TESTED = [
    ("SELECT count(note) FROM {t}", set(), {"note"}),
    ("SELECT count(note), count(message), count(*) FROM {t}", set(), {"note", "message"}),
    ("SELECT COUNT(l.Note) FROM {t} AS l", set(), {"note"}),
    ("SELECT count(req.trace) FROM {t}", set(), {"req.trace"}),
    ("SELECT count(req.trace), sum(req.status) FROM {t}", {"req.status"}, {"req.trace"}),
    ("SELECT count(req.trace), count(req.status), count(req.at) FROM {t}", set(),
     {"req.trace", "req.status", "req.at"}),
    ("SELECT count(req) FROM {t}", set(), {"req"}),
    ("SELECT count(one.a) FROM {t}", set(), {"one.a"}),
    ("SELECT count(tags), count(none), count(later), count(half) FROM {t}", set(),
     {"tags", "none", "later", "half"}),
    ("SELECT note IS NULL AS n, count(*) FROM {t} GROUP BY n ORDER BY n", set(), {"note"}),
    ("SELECT level, count(note) FROM {t} GROUP BY level ORDER BY 1", {"level"}, {"note"}),
    ("SELECT count(note) FILTER (WHERE id > 100) FROM {t}", {"id"}, {"note"}),
    ("SELECT count(note) FILTER (WHERE tags IS NOT NULL) FROM {t}", set(), {"note", "tags"}),
    ("SELECT sum(CASE WHEN note IS NULL THEN id END) FROM {t}", {"id"}, {"note"}),
    ("SELECT count(note), count(tags) FROM {t} WHERE id > 700", set(), {"note", "tags"}),
    ("SELECT count(message) FROM {t} WHERE note IS NOT NULL", set(), {"message"}),
    ("SELECT count(note) FROM {t} WHERE note IS NOT NULL AND level = 'info'", set(), {"note"}),
    ("SELECT count(*) FROM {t} WHERE note IS NULL", set(), set()),
    ("SELECT count(*) FROM {t} WHERE req.trace IS NULL AND req.status = 2", set(), set()),
    ("SELECT count(*) FROM {t} WHERE half IS NULL", set(), {"half"}),
    ("SELECT id FROM {t} WHERE tags IS NULL ORDER BY id", {"id"}, set()),
    ("SELECT count(note) AS note, count(*) AS n FROM {t} HAVING count(note) > 3", set(), {"note"}),
    ("SELECT count(COLUMNS(*)), count(*) FROM {t}", set(), {*_rows().column_names, "later"}),
    ("SELECT count(COLUMNS('note|tags')), max(id) FROM {t}", {"id"}, {"note", "tags"}),
    ("SELECT count(note) + count(message), count(note) IS NULL FROM {t}", set(),
     {"note", "message"}),
    ("SELECT count(note) FROM {t} WHERE half > 3", {"half"}, {"note"}),
    ("SELECT count(message) OVER () FROM {t} ORDER BY id LIMIT 3", {"message", "id"}, set()),
]  # fmt: skip


@needs_install
@pytest.mark.parametrize(("query", "values", "nulls"), TESTED)
def test_values_are_not_read_where_only_nulls_count(
    native: Any, table: Path, read: dict[str, bool], query: str, values: set[str], nulls: set[str]
) -> None:
    assert_same_rows(connect("shared"), native, table, query)
    assert {name for name, is_tested in read.items() if not is_tested} == values
    assert {name for name, is_tested in read.items() if is_tested} == nulls


# Queries over {t} for which it is enough to know how many rows there are.
COUNTED = [
    "SELECT count(*) FROM {t}",
    "SELECT count() AS n, count(*) + 1 FROM {t} AS l HAVING n > 3",
    "SELECT count(message), count(*), count(l.message) FROM {t} AS l",
    "SELECT count(*) FILTER (WHERE message IS NULL) FROM {t}",
    "SELECT message IS NULL AS missing, count(*) FROM {t} GROUP BY ALL",
    "SELECT count(message) FROM {t} WHERE message IS NOT NULL",
    "SELECT count(*) FROM {t} WHERE id IS NULL",
    "SELECT id IS NULL FROM {t} LIMIT 3 OFFSET 5",
    "SELECT count(*) OVER () FROM {t} LIMIT 2",
]


@needs_install
@pytest.mark.parametrize("query", COUNTED)
def test_rows_are_counted_without_a_scan(
    native: Any, table: Path, read: dict[str, bool], query: str
) -> None:
    con = connect("shared")
    assert_same_rows(con, native, table, query)
    plan = con.execute("EXPLAIN " + query.format(t=f"'{table}'")).fetchall()[0][1]
    assert "RANGE" in plan or "EMPTY" in plan.upper()
    assert read == {}


@needs_install
@pytest.mark.parametrize("column", ["s", "count", "t", "from", "*"])
def test_rows_are_counted_without_a_scan_whatever_columns_are_called(
    tmp_path: Path, read: dict[str, bool], column: str
) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({column: [1, None, 3]}), str(path))
    assert connect("shared").execute(f"SELECT count(*) FROM '{path}'").fetchall() == [(3,)]
    assert read == {}


def test_each_run_counts_the_rows_of_the_newest_version(con: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": [1, None, 3]}), str(path))
    con.execute(f"PREPARE n AS SELECT count(*), count(a) FROM '{path}' WHERE $1")
    assert con.execute("EXECUTE n(true)").fetchall() == [(3, 2)]
    relation = con.sql(f"SELECT count(*) FROM '{path}'")
    con.execute("BEGIN")
    assert con.execute(f"SELECT count(*) FROM '{path}'").fetchall() == [(3,)]
    lance.write_dataset(pa.table({"a": [4]}), str(path), mode="append")
    assert con.execute(f"SELECT count(*) FROM '{path}'").fetchall() == [(3,)]
    con.execute("COMMIT")
    assert con.execute("EXECUTE n(true)").fetchall() == [(4, 3)]
    assert con.execute(f"SELECT count(*) FROM '{path}@v1'").fetchall() == [(3,)]
    assert relation.fetchall() in ([(3,)], [(4,)])  # of its binding, or of its execution


# Queries over {t} that use values, too, or may do so.
USED = [
    "SELECT count(DISTINCT note) FROM {t}",
    "SELECT count(note ORDER BY note) FROM {t}",
    "SELECT count(note), max(note) FROM {t}",
    "SELECT count(note), min(length(note)) FROM {t}",
    "SELECT count(note) OVER (ORDER BY note), note FROM {t} ORDER BY id LIMIT 7",
    "SELECT count(note) FROM {t} GROUP BY note ORDER BY 1",
    "SELECT note IS NULL, count(*) FROM {t} GROUP BY note, level ORDER BY ALL",
    "SELECT note IS NULL FROM {t} ORDER BY note, id",
    "SELECT DISTINCT ON (note) note IS NULL, id FROM {t} ORDER BY note, id",
    "SELECT count(note) FROM {t} HAVING max(note) > 'a'",
    "SELECT count(note) FROM {t} WHERE note LIKE '%7%'",
    "SELECT count(note) FROM {t} WHERE note > 'note 2'",
    "SELECT count(note) FILTER (WHERE note > 'note 2') FROM {t}",
    "SELECT count(note || 'x'), count(upper(message)) FROM {t}",
    "SELECT count(note), typeof(any_value(note)) FROM {t}",
    "SELECT count(note), any_value(typeof(note)) FROM {t}",
    "SELECT count(COLUMNS(*)), max(note) FROM {t}",
    "SELECT count(*COLUMNS('note')) FROM {t}",
    "SELECT *, note IS NULL FROM {t} ORDER BY id LIMIT 5",
    "SELECT * EXCLUDE (half), note IS NULL FROM {t} ORDER BY id LIMIT 5",
    "SELECT count(note), count(l) FROM {t} AS l",
    "SELECT l, l.note IS NULL FROM {t} AS l ORDER BY id LIMIT 4",
    "SELECT count(l.note), first(l ORDER BY id) AS l FROM {t} AS l",
    "SELECT count(req), max(req.status) FROM {t}",
    "SELECT count(req.at), max(req.at.zip) FROM {t}",
    "SELECT count(req.at.zip) FROM {t}",
    "SELECT count(req.trace), max(req.trace) FROM {t}",
    "SELECT req.trace IS NULL, req FROM {t} ORDER BY id LIMIT 3",
    "SELECT count(tags[1]), count(req['trace']) FROM {t}",
    "SELECT note IS NOT DISTINCT FROM NULL, count(*) FROM {t} GROUP BY 1 ORDER BY 1",
    "SELECT coalesce(note, 'none') IS NULL FROM {t} ORDER BY id LIMIT 9",
    "SELECT ifnull(note, 'none') FROM {t} WHERE note IS NULL ORDER BY id LIMIT 9",
    "SELECT count(note), (SELECT max(note) FROM {t}) FROM {t}",
    "SELECT count(a.note), max(b.note) FROM {t} a JOIN {t} b USING (id)",
    "WITH c AS (SELECT * FROM {t}) SELECT count(note) FROM c",
    "SELECT count(note) FROM (SELECT * FROM {t})",
    "SELECT count(note) FROM {t} UNION ALL SELECT count(message) FROM {t} ORDER BY 1",
    "SELECT count(note), list(note ORDER BY id) FROM {t}",
    "SELECT count(note), count(x) FROM {t}, (SELECT unnest([1, NULL]) AS x)",
    "SELECT count(note) FROM {t} AS note",
    "SELECT (note IS NULL)::VARCHAR, note::VARCHAR FROM {t} ORDER BY id LIMIT 9",
    "SELECT id, note IS NULL FROM {t} ORDER BY id LIMIT 20",
    "SELECT id FROM {t} WHERE note IS NULL ORDER BY id LIMIT 20",
    "SELECT note IS NULL AS note, id FROM {t} ORDER BY note, id LIMIT 20",
    "SELECT count(note) AS l, sum(id) AS id FROM {t} AS l",
    "SELECT list_transform([1], lambda x: x) FROM {t} WHERE note IS NULL LIMIT 2",
    "SELECT count(note) FROM {t} USING SAMPLE 100%",
    "SELECT count_if(note IS NULL), countif(tags IS NOT NULL) FROM {t}",
    "SELECT count(note) FROM {t} WHERE id IN (SELECT id FROM {t} WHERE note > 'note 5')",
    "FROM {t} SELECT count(note)",
    "SELECT message IS NULL OR note ISNULL OR tags NOTNULL, count(*) FROM {t} GROUP BY ALL "
    "ORDER BY ALL",
]  # fmt: skip


@EACH_INTERFACE
@pytest.mark.parametrize("query", USED + [query for query, _, _ in TESTED])
def test_queries_find_what_duckdbs_own_table_holds(
    con: Any, native: Any, table: Path, query: str
) -> None:
    assert_same_rows(con, native, table, query)


def test_results_have_the_same_names_and_types(con: Any, native: Any, table: Path) -> None:
    query = "SELECT count(note), note IS NULL, count(tags IS NULL) FROM {t} GROUP BY note IS NULL"
    described = con.execute("DESCRIBE " + query.format(t=f"'{table}'")).fetchall()
    assert described == native.execute("DESCRIBE " + query.format(t="native")).fetchall()


def test_prepared_statements_count_again(con: Any, native: Any, table: Path) -> None:
    for connection, name in ((con, f"'{table}'"), (native, "native")):
        connection.execute(f"PREPARE counts AS SELECT count(note) FROM {name} WHERE id > $1")
    for least in (0, 1000, 2999):
        expected = native.execute(f"EXECUTE counts({least})").fetchall()
        assert con.execute(f"EXECUTE counts({least})").fetchall() == expected


def test_a_macro_may_use_values(con: Any, native: Any, table: Path) -> None:
    for connection, name in ((con, f"'{table}'"), (native, "native")):
        connection.execute(f"CREATE OR REPLACE MACRO last() AS (SELECT max(note) FROM {name})")
        connection.execute("CREATE OR REPLACE MACRO shown(x) AS max(x)")
    for query in (
        "SELECT count(note), last() FROM {t}",
        "SELECT shown(note), count(tags) FROM {t}",
    ):
        assert_same_rows(con, native, table, query)
        assert_same_rows(con, native, table, query)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """A table of more rows than are read at first, and these."""
    numbers = np.arange(400_000)
    texts = pa.array([f"text {n}" for n in numbers])
    maybe = pa.array(numbers / 3, mask=numbers % 7 == 2)
    members = [texts, maybe]
    rows = pa.table(
        {
            "id": numbers,
            "text": texts,
            "maybe": maybe,
            "req": pa.StructArray.from_arrays(members, ["trace", "seconds"]),
        }
    )
    path = tmp_path_factory.mktemp("long") / "long.lance"
    lance.write_dataset(rows, str(path), max_rows_per_file=250_000)
    lance.dataset(str(path)).delete("id % 9 = 5")
    return path, lance.dataset(str(path)).to_table()


@pytest.fixture(scope="module")
def native_long(long: tuple[Path, pa.Table]) -> Iterator[Any]:
    """A database whose own table `native` has the same rows."""
    with native_rows(long[1]) as connection:
        yield connection


LONG = [
    "SELECT count(text), count(*) FROM {t}",
    "SELECT count(req.trace) FROM {t}",
    "SELECT count(req.trace), count(req.seconds) FROM {t}",
    "SELECT count(maybe), count(text) FROM {t}",
    "SELECT count(maybe), max(text) FROM {t}",
    "SELECT count(text), count(maybe) FROM {t} WHERE id > 123456",
    "SELECT maybe IS NULL, text IS NULL, count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT count(*) FROM {t} WHERE text IS NULL",
    "SELECT count(*) FROM {t} WHERE req.seconds IS NULL",
    "SELECT text IS NULL FROM {t} LIMIT 4",
    "SELECT count(id) FILTER (WHERE maybe IS NULL) FROM {t}",
]


@EACH_INTERFACE
@pytest.mark.parametrize("query", LONG)
def test_counts_of_long_tables_are_those_of_duckdbs_own_table(
    con: Any, long: tuple[Path, pa.Table], native_long: Any, query: str
) -> None:
    assert_same_rows(con, native_long, long[0], query)


@needs_install
def test_nothing_is_read_where_metadata_tells(
    long: tuple[Path, pa.Table], read: dict[str, bool]
) -> None:
    found = connect("install").execute(f"SELECT count(req.trace) FROM '{long[0]}'").fetchall()
    assert found == [(long[1].num_rows,)]
    assert read == {}


@needs_install
def test_what_a_scan_of_many_fragments_saw_is_known(
    tmp_path: Path, read: dict[str, bool], any_table_is_long: None
) -> None:
    rows = [{"trace": f"t{n}", "status": n % 4 or None} for n in range(700)]
    path = tmp_path / "fragments.lance"
    table = pa.table({"req": rows})
    lance.write_dataset(table, str(path), max_rows_per_file=10)
    con = connect("install")
    query = f"SELECT count(req.trace), count(req.status) FROM '{path}'"
    assert con.execute(query).fetchall() == [(700, 525)]
    assert read == {"req.trace": True, "req.status": True}
    read.clear()
    assert con.execute(f"SELECT count(req.trace) FROM '{path}'").fetchall() == [(700,)]
    assert read == {}
    assert con.execute(query).fetchall() == [(700, 525)]
    later = pa.table(
        {"req": pa.array([{"trace": None, "status": 1}], table.schema.field("req").type)}
    )
    lance.write_dataset(later, str(path), mode="append")
    assert con.execute(query).fetchall() == [(700, 526)]


@needs_install
def test_a_macro_called_count_is_never_given_less_than_values(table: Path) -> None:
    con = connect("install")
    con.execute("CREATE MACRO count(x) AS max(x)")
    with pytest.raises(duckdb.Error, match='"count" is a Macro'):
        con.execute(f"SELECT count(note) FROM '{table}'")
    query = f"SELECT count(note) FROM '{table}' WHERE length(note) > 0"
    assert con.execute(query).fetchall() == [("note 999",)]
    assert con.execute(f"SELECT count(id) FROM '{table}', (SELECT 1)").fetchall() == [(ROWS - 1,)]


@needs_install
def test_names_of_the_table_and_of_a_column_alike(tmp_path: Path) -> None:
    con = connect("install")
    rows = pa.table({"note": ["a", None], "id": [1, 2]})
    lance.write_dataset(rows, str(tmp_path / "note.lance"))
    lance.write_dataset(rows, str(tmp_path / "rows.lance"))
    assert con.execute(f"SELECT count(note) FROM '{tmp_path}/note.lance'").fetchall() == [(1,)]
    name = f"'{tmp_path}/rows.lance'"
    found = con.execute(f"SELECT rows AS rows, note IS NULL FROM {name} ORDER BY id").fetchall()
    assert found == [({"note": "a", "id": 1}, False), ({"note": None, "id": 2}, True)]
