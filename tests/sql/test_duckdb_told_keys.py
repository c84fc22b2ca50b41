"""Rows are left out whose keys a table, DataFrame or file that is joined does not have."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import lance
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from joined_tables import (
    COMPARED,
    NARROWED,
    OTHERS,
    answer_of,
    facts_rows,
    filled,
    keys_rows,
    make_long,
    own_tables,
    write_facts,
)
from roads import connect, needs_install, scanned

import duckdb_adapter
from duckdb_adapter.sources import found_keys, told_keys

pytestmark = needs_install

# What the keys are in, and how that stands in a statement.
PLACES = (
    *("tables", "temporary", "frames", "arrow", "files", "calls", "registered", "views", "readers"),
)
JOIN = "SELECT f.n, kind FROM {facts} f JOIN {keys} j ON f.n = j.id"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("outside")
    write_facts(path)
    for name, rows in (("keys", keys_rows()), ("others", keys_rows()[:40])):
        pq.write_table(rows, path / f"{name}.parquet")
        lance.write_dataset(rows, str(path / f"{name}.lance"))
    return path


@pytest.fixture(scope="module")
def native(folder: Path) -> Iterator[Any]:
    """A database whose own tables tell the right answers."""
    with own_tables(folder) as connection:
        yield connection


@pytest.fixture(scope="module")
def native_frames(folder: Path) -> Iterator[Any]:
    """The same with the types that pandas has."""
    with own_tables(folder, lambda rows: rows.to_pandas()) as connection:
        yield connection


@pytest.fixture(autouse=True)
def facts_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    make_long(monkeypatch, 1000)


class Place:
    """A connection on which the keys are somewhere, and statements find them there.

    Args:
        kind: One of PLACES.
        folder: Where the tables are.
        threads: How many threads DuckDB has.
    """

    def __init__(self, kind: str, folder: Path, threads: int = 1) -> None:
        self.con = connect("install")
        self.con.execute(f"SET threads = {threads}")
        self.names = {"facts": f"'{folder / 'facts.lance'}'", "keys": "keys", "others": "others"}
        self.variables: dict[str, Any] = {}
        for name, rows in (("keys", keys_rows()), ("others", keys_rows()[:40])):
            self._add(kind, name, rows, folder)

    def _add(self, kind: str, name: str, rows: pa.Table, folder: Path) -> None:
        if kind in ("tables", "temporary"):
            self.con.register("rows", rows)
            self.con.execute(
                f"CREATE {'TEMP' if kind == 'temporary' else ''} TABLE {name} AS FROM rows"
            )
            self.con.unregister("rows")
        elif kind == "registered":
            self.con.register(name, rows.to_pandas())
        elif kind == "views":
            self.con.execute(f"CREATE VIEW {name} AS FROM '{folder / name}.lance'")
        elif kind == "files":
            self.names[name] = f"'{folder / name}.parquet'"
        elif kind == "calls":
            self.names[name] = f"read_parquet(['{folder / name}.parquet'])"
        elif kind == "readers":
            self.variables[name] = rows.to_reader
        else:
            self.variables[name] = rows.to_pandas() if kind == "frames" else rows

    def run(self, query: str, method: str = "execute") -> list[str]:
        """Return the rows of a query, as texts in order."""
        text = query.format(**self.names)
        variables = {
            name: value() if callable(value) else value for name, value in self.variables.items()
        }
        space = {"con": self.con, "text": text, **variables}
        exec(f"rows = con.{method}(text).fetchall()", space)
        return sorted(map(repr, space["rows"]))


def _reads_once(query: str) -> bool:
    return query.count("{keys}") < 2 and query.count("{others}") < 2 and "RECURSIVE" not in query


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("method", ["execute", "sql"])
def test_joins_have_the_answers_of_duckdbs_own_tables(
    folder: Path, native: Any, native_frames: Any, kind: str, method: str
) -> None:
    place, own = Place(kind, folder), native_frames if kind in ("frames", "registered") else native
    for query in [*NARROWED, *COMPARED, *OTHERS]:
        if kind != "readers" or _reads_once(query):
            assert place.run(query, method) == answer_of(own, filled(query, None)), query


@pytest.mark.parametrize("kind", ["tables", "frames", "files"])
def test_more_keys_than_are_looked_for_one_by_one(
    folder: Path, native: Any, native_frames: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = native_frames if kind == "frames" else native
    monkeypatch.setattr(found_keys, "MAX_KEYS", 3)
    monkeypatch.setattr(told_keys, "MAX_KEYS", 3)
    place = Place(kind, folder, threads=4)
    for query in NARROWED:
        assert place.run(query) == answer_of(own, filled(query, None)), query


@pytest.mark.parametrize("kind", ["tables", "frames", "files"])
def test_keys_among_more_rows_than_are_read_are_not_known(
    folder: Path,
    native: Any,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    reads: list[dict[str, Any]],
) -> None:
    monkeypatch.setattr(told_keys, "_MAX_ROWS", 5)
    monkeypatch.setattr(told_keys, "_MAX_PASSING", 3)
    place = Place(kind, folder)
    answers = list[list[str]]()
    for query in (JOIN, f"{JOIN} WHERE kind = 'new'"):
        (_, filter), *_ = scanned(reads, lambda text=query: answers.append(place.run(text)))
        assert answers.pop() == answer_of(native, filled(query, None))
        assert filter == "None"


def _filter_of(place: Place, query: str, reads: list[dict[str, Any]], method: str) -> str:
    found = scanned(reads, lambda: place.run(query, method))
    return str(found[-1][1])


@pytest.mark.parametrize("kind", ["tables", "temporary", "frames", "arrow", "files", "calls"])
@pytest.mark.parametrize("method", ["execute", "sql"])
def test_rows_with_other_keys_are_left_out(
    folder: Path, kind: str, method: str, reads: list[dict[str, Any]]
) -> None:
    place = Place(kind, folder)
    for query in [*NARROWED, *COMPARED]:
        # Of a frame: floats, as ids are missing; texts.
        if kind != "frames" or "f.n = j.id" in query or "f.code = j.code" in query:
            filter = _filter_of(place, query, reads, method)
            assert "is_in" in filter or "<=" in filter or ">=" in filter, query


@pytest.mark.parametrize("shown", ["nope", "max(nope)", "min(nope), 3"])
def test_a_column_that_is_missing_is_named(folder: Path, shown: str) -> None:
    place = Place("tables", folder)
    with pytest.raises(duckdb.BinderException, match=r"nope|one column"):
        place.run(f"SELECT * FROM {{facts}} WHERE n > (SELECT {shown} FROM {{keys}})")


@pytest.mark.parametrize("is_registered", [True, False])
def test_a_frame_is_found_as_it_is_spelled(
    folder: Path, is_registered: bool, reads: list[dict[str, Any]]
) -> None:
    con, Keys = connect("install"), pd.DataFrame({"id": [1001, 1500]})
    if is_registered:
        con.register("Keys", Keys)
    text = f"SELECT n FROM '{folder}/facts.lance' WHERE n IN (SELECT id FROM Keys) ORDER BY n"
    del reads[:]
    assert con.execute(text).fetchall() == [(1001,), (1500,)]
    assert "1500" in str(reads[-1]["filter"])
    assert len(Keys) == 2


def test_a_table_of_an_attached_folder_is_joined_with_what_a_relation_captured(
    folder: Path,
) -> None:
    con = connect("install")
    duckdb_adapter.attach(con, folder, as_="lake")

    def relation(name: str) -> Any:
        wanted = pd.DataFrame({"id": [1001, 1500]})
        assert len(wanted) == 2
        return con.sql(f"SELECT n FROM {name} WHERE n IN (SELECT id FROM wanted) ORDER BY n")

    found = [relation("lake.facts"), relation(f"'{folder}/facts.lance'")]
    wanted = pd.DataFrame({"id": [1, 2, 3]})  # another one, where the relations are run
    assert [one.fetchall() for one in found] == [[(1001,), (1500,)]] * 2
    assert len(wanted) == 3


@pytest.mark.parametrize(
    "rest",
    [
        "WHERE n IN (SELECT n FROM part)",
        "JOIN part USING (n)",
        "WHERE n <= (SELECT max(n) FROM part)",
    ],
)
@pytest.mark.parametrize("name", ["lance_scan({t})", "{t}"])
def test_a_view_with_the_call_that_stands_for_the_table(
    folder: Path, native: Any, name: str, rest: str
) -> None:
    con, table = connect("install"), f"'{folder}/facts.lance'"
    con.execute(f"CREATE VIEW part AS FROM lance_scan({table}) WHERE n < 40")
    found = con.execute(f"SELECT count(*), sum(n) FROM {name.format(t=table)} {rest}").fetchall()
    part = rest.replace("part", "(FROM facts WHERE n < 40) AS part")
    assert found == native.execute(f"SELECT count(*), sum(n) FROM facts {part}").fetchall()


def test_a_pipe_is_read_once(folder: Path, tmp_path: Path) -> None:
    pipe, text = tmp_path / "keys.csv", "SELECT n FROM '{}/facts.lance' WHERE n IN ({}) ORDER BY n"
    os.mkfifo(pipe)
    for keys in (f"FROM '{pipe}'", f"SELECT id FROM read_csv('{pipe}', header := true)"):
        writer = threading.Thread(target=pipe.write_text, args=("id\n1001\n1500\n",))
        writer.start()
        found = connect("install").execute(text.format(folder, keys)).fetchall()
        writer.join()
        assert found == [(1001,), (1500,)]


@pytest.mark.parametrize("kind", ["views", "registered"])
def test_a_view_is_not_read_twice(folder: Path, kind: str, reads: list[dict[str, Any]]) -> None:
    found = scanned(reads, lambda: Place(kind, folder).run(JOIN))
    assert [filter for _, filter in found] == ["None"] * len(found)


def test_a_view_that_hides_a_frame_may_return_other_rows_another_time(folder: Path) -> None:
    con, keys = connect("install"), pd.DataFrame({"id": [1, 2]})
    con.execute("CREATE VIEW keys AS SELECT (random() * 4000)::BIGINT AS id FROM range(2000)")
    text = f"SELECT count(*), count(DISTINCT n) FROM keys JOIN '{folder}/facts.lance' ON n = id"
    rows, distinct = con.execute(text).fetchone()
    assert rows > 1500
    assert 1000 < distinct < rows
    assert len(keys) == 2


@pytest.mark.parametrize("kind", ["tables", "frames", "files"])
def test_only_keys_of_rows_that_pass_are_looked_for(
    folder: Path, kind: str, reads: list[dict[str, Any]]
) -> None:
    place = Place(kind, folder)
    for query in (
        f"{JOIN} WHERE j.kind = 'new'",
        f"{JOIN} WHERE f.x IS NOT NULL AND upper(kind) = 'NEW' AND j.n >= 0",
        "SELECT n FROM {facts} WHERE n IN (SELECT id FROM {keys} WHERE kind = 'new')",
        "WITH j AS (SELECT id, kind FROM {keys} WHERE kind = 'new') "
        "SELECT f.n FROM {facts} f JOIN j ON f.n = j.id",
    ):
        filter = _filter_of(place, query, reads, "execute")
        assert "1000" in filter, query
        assert "1003" not in filter, query  # is old


def test_a_condition_on_both_tables_leaves_out_no_key(folder: Path, native: Any) -> None:
    place = Place("tables", folder)
    for query in (
        f"{JOIN} WHERE j.kind = 'new' OR f.k > 100",
        "SELECT n FROM {facts} f WHERE n IN (SELECT id FROM {keys} j WHERE kind = 'new' OR k > 9)",
        "SELECT n FROM {facts} f WHERE n IN (SELECT id FROM {keys} j WHERE n = 3 OR tiny > 9)",
        "SELECT n FROM {facts} WHERE n IN (SELECT id FROM {keys} WHERE price = 5 OR tiny = 0)",
        "SELECT f.n FROM {facts} f WHERE EXISTS (FROM {keys} j WHERE j.id = f.n AND tiny > 0)",
        "SELECT n FROM {facts} WHERE n IN (SELECT tiny FROM {keys})",
    ):
        assert place.run(query) == answer_of(native, filled(query, None)), query


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT", "NFC", "de"])
def test_strings_of_a_column_with_a_collation_are_all_read(folder: Path, collation: str) -> None:
    con = connect("install")
    con.execute(f"CREATE TABLE keys (code VARCHAR COLLATE {collation})")
    con.execute("INSERT INTO keys VALUES ('C001'), ('c002'), ('ç003')")
    facts = pa.Table.from_batches(lance.dataset(str(folder / "facts.lance")).to_batches())
    con.register("facts", facts)
    text = "SELECT count(*) FROM {} f JOIN keys USING (code)"
    expected = con.execute(text.format("facts")).fetchall()
    assert con.execute(text.format(f"'{folder}/facts.lance'")).fetchall() == expected


TYPED = [
    ("n", "DOUBLE", "('7'), ('8.5'), ('1e300'), ('nan'), ('-inf'), (NULL)"),
    ("n", "DOUBLE", "(7), (8.5), (9), (NULL)"),
    ("n", "DOUBLE", "(9007199254740992), (7)"),
    ("n", "FLOAT", "(7), (8)"),
    ("n", "HUGEINT", "(7), (170141183460469231731687303715884105727)"),
    ("n", "UBIGINT", "(7), (18446744073709551615)"),
    ("n", "BOOLEAN", "(true)"),
    ("n", "DECIMAL(20, 2)", "(7), (8.5)"),
    ("tiny", "BIGINT", "(7), (-100), (300), (-9223372036854775808)"),
    ("tiny", "BIGINT", "(300), (-9223372036854775808)"),
    ("code", "ENUM('c003', 'c001', 'x', 'c002')", "('c003'), ('c001'), ('x')"),
    ("code", "VARCHAR", "('c003'), (''), ('é\"''\\'), (NULL)"),
    ("day", "DATE", "('2026-01-03'), ('infinity'), ('0044-03-15 (BC)')"),
    ("day", "DATE", "('2026-01-03'), ('2026-02-03'), (NULL)"),
    ("day", "TIMESTAMP", "('2026-01-03'), ('2026-02-03 01:00:00')"),
    ("at", "TIMESTAMP", "('1970-01-01 00:00:07'), ('1970-01-01 00:00:08.000001'), ('infinity')"),
    ("at", "TIMESTAMP", "('1970-01-01 00:00:07'), ('1970-01-01 00:00:08.000001')"),
    ("at", "TIMESTAMP_NS", "('1970-01-01 00:00:07'), ('1970-01-01 00:00:08.000001')"),
    ("at", "DATE", "('1970-01-01')"),
    ("ns", "TIMESTAMPTZ", "('1970-01-01 00:00:00.000001+00'), ('1970-01-01 00:00:00+00')"),
    ("price", "DECIMAL(9, 2)", "(7), (8.25), (-1)"),
    ("price", "DECIMAL(9, 3)", "(7), (8.25), (-1)"),
    ("price", "INTEGER", "(7), (8)"),
    ("x", "DOUBLE", "('7.25'), ('nan'), ('0'), ('-0.0')"),
    ("s", "STRUCT(n BIGINT)", "('{n: 7}')"),
]


@pytest.mark.parametrize(("column", "kind", "values"), TYPED)
def test_keys_of_any_type(folder: Path, native: Any, column: str, kind: str, values: str) -> None:
    con, own = connect("install"), native.cursor()
    text = f"SELECT f.n, j.v FROM {{facts}} f JOIN typed j ON f.{column} = j.v"
    for connection in (con, own):
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE typed AS SELECT v::VARCHAR::"
            f"{kind} AS v FROM (VALUES {values}) t(v)"
        )
    assert answer_of(con, filled(text, folder)) == answer_of(own, filled(text, None))


def test_types_that_duckdb_does_not_compare_are_its_error(folder: Path) -> None:
    con = connect("install")
    con.execute("CREATE TABLE keys AS SELECT 5 AS code")
    with pytest.raises(duckdb.BinderException, match="cast"):
        con.execute(f"SELECT * FROM '{folder}/facts.lance' JOIN keys USING (code)")


def test_tables_and_columns_that_are_not_there_are_duckdbs_errors(folder: Path) -> None:
    con, facts = connect("install"), f"'{folder}/facts.lance'"
    con.execute("CREATE TABLE keys AS SELECT 5 AS id")
    with pytest.raises(duckdb.CatalogException, match="Table with name nokeys does not exist"):
        con.execute(f"SELECT * FROM {facts} f JOIN nokeys ON f.n = nokeys.id")
    for condition in ("f.n = keys.idd", "f.n = keys.id AND keys.old", "n = idd"):
        with pytest.raises(duckdb.BinderException, match=r"idd|old"):
            con.execute(f"SELECT * FROM {facts} f JOIN keys ON {condition}")


def test_columns_are_named_in_any_case_and_by_rowid(folder: Path, native: Any) -> None:
    place, own = Place("tables", folder), native.cursor()
    for query in (
        "SELECT f.N, KIND FROM {facts} F JOIN {keys} J ON f.n = j.ID WHERE j.N > 3 AND J.n < 50",
        "SELECT f.n FROM {facts} f JOIN {keys} j ON f.n = j.rowid WHERE j.RowId < 7",
        "SELECT n FROM {facts} WHERE n IN (SELECT ROWID FROM {keys} WHERE rowid > 50)",
    ):
        assert place.run(query) == answer_of(own, filled(query, None)), query
    own.execute("CREATE OR REPLACE TEMP MACRO min(x) AS 5")
    place.con.execute("CREATE OR REPLACE TEMP MACRO min(x) AS 5")
    assert place.run(JOIN) == answer_of(own, filled(JOIN, None))
    own.execute("DROP MACRO temp.min")


def test_macros_mean_what_they_do_in_the_statement(folder: Path, native: Any) -> None:
    place, own = Place("tables", folder), native.cursor()
    query = f"{JOIN} WHERE upper(j.kind) = 'new'"
    for con in (place.con, own):
        con.execute("CREATE TEMP MACRO upper(x) AS lower(x)")
    found = place.run(query)
    assert found == answer_of(own, filled(query, None))
    assert len(found) > 10
    own.execute("DROP MACRO upper")


def test_a_prepared_statement_finds_the_keys_of_each_run(folder: Path) -> None:
    con = connect("install")
    con.execute("CREATE TABLE keys AS SELECT 7 AS id")
    con.execute(
        f"PREPARE found AS SELECT n FROM '{folder}/facts.lance' JOIN keys ON n = id WHERE id < $1"
    )
    assert con.execute("EXECUTE found(10)").fetchall() == [(7,)]
    con.execute("INSERT INTO keys VALUES (9), (12)")
    assert sorted(con.execute("EXECUTE found(10)").fetchall()) == [(7,), (9,)]
    con.execute("DELETE FROM keys WHERE id = 7")
    assert con.execute("EXECUTE found(100)").fetchall() == [(9,), (12,)]


LISTS = [
    "n = ANY([1000, 1003, 1010])",
    "n IN (SELECT unnest([1000, 1003, 1010]))",
    "n = ANY($1)",
    "n IN (SELECT unnest($1))",
    "x > 3 AND n IN (SELECT unnest([1000, 1000 + 1]))",
]


@pytest.mark.parametrize("condition", LISTS)
def test_rows_of_a_list_are_read_alone(
    folder: Path, native: Any, condition: str, reads: list[dict[str, Any]]
) -> None:
    con, values = connect("install"), [[1000, 1003, None]] if "$1" in condition else []
    text = f"SELECT n, code FROM {{facts}} WHERE {condition}"
    del reads[:]
    found = con.execute(filled(text, folder), values).fetchall()
    assert sorted(found) == sorted(native.execute(filled(text, None), values).fetchall())
    assert found
    assert "1000" in str(reads[-1]["filter"])


@pytest.mark.parametrize(
    "condition", ["n <> ALL([1000, 1003])", "n > ANY([1000])", "n NOT IN (SELECT unnest([1, 2]))"]
)
def test_other_comparisons_with_lists(folder: Path, native: Any, condition: str) -> None:
    text = f"SELECT n FROM {{facts}} WHERE {condition}"
    assert answer_of(connect("shared"), filled(text, folder)) == answer_of(
        native, filled(text, None)
    )


def test_parameters_choose_the_keys(folder: Path, reads: list[dict[str, Any]]) -> None:
    con, facts = connect("install"), f"'{folder}/facts.lance'"
    con.execute("CREATE TABLE keys AS SELECT range AS key, range % 2 AS rows FROM range(100)")
    text = f"SELECT count(*) FROM {facts} JOIN keys ON n = key WHERE rows = ? AND key < ?"
    for values, rows in (([1, 10], 4), ([0, 10], 5), ([0, 0], 0)):  # 3 was deleted
        assert con.execute(text, values).fetchone() == (rows,)
    assert "<=" in str(reads[-2]["filter"])
    many = ", ".join(map(str, range(0, 99, 2)))
    text = f"SELECT count(*) FROM {facts} JOIN keys ON n = key WHERE key IN ({many}) AND rows = 0"
    assert con.execute(text).fetchone() == (50,)


def test_an_index_finds_the_rows_with_the_keys_of_a_frame(
    tmp_path: Path, reads: list[dict[str, Any]]
) -> None:
    url = str(tmp_path / "facts.lance")
    lance.write_dataset(facts_rows(), url)
    lance.dataset(url).create_scalar_index("code", "BTREE")
    con, wanted = connect("install"), pd.DataFrame({"code": ["c001", "c050", "none"]})
    text = f"SELECT n FROM '{url}' WHERE code IN (SELECT code FROM wanted) ORDER BY n"
    del reads[:]
    found = con.execute(text).fetchall()
    assert "is_in" in str(reads[-1]["filter"])
    codes = facts_rows()["code"].to_pylist()
    assert found == [(n,) for n, code in enumerate(codes) if code in set(wanted["code"])]
