"""Of tables of many columns, DuckDB is shown those that a statement names."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest
from roads import EACH_INTERFACE, assert_same_rows, connect, needs_install

from duckdb_adapter.sources import kept_rows
from duckdb_adapter.sources.rows import Rows
from lancefs.table.per_version import PerVersion

ROWS = 90


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    columns = {f"c{k}": [(n * k) % 17 for n in range(ROWS)] for k in range(30)}
    rows = pa.table(
        {
            "id": range(ROWS),
            **columns,
            "Word": [f"w{n % 4}" for n in range(ROWS)],
            "half": pa.array([n / 8 for n in range(ROWS)], pa.float16()),
            "price": pa.array([None if n % 9 == 0 else n for n in range(ROWS)], pa.decimal128(9)),
            "req": [{"a": n, "b": f"b{n % 3}"} for n in range(ROWS)],
        }
    )
    path = tmp_path_factory.mktemp("wide") / "wide.lance"
    lance.write_dataset(rows, str(path), max_rows_per_file=40)
    return path


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The columns of tables that DuckDB is shown a part of."""
    seen: list[set[str]] = []
    with_columns = Rows.with_columns

    def noted(self: Rows, names: Collection[str]) -> Rows:
        seen.append(set(names))
        return with_columns(self, names)

    monkeypatch.setattr(Rows, "with_columns", noted)
    return seen


# Queries over {t}, and the columns that they name.
NAMED = [
    ("SELECT sum(c1), max(c2) FROM {t} WHERE c3 > 4", {"c1", "c2", "c3"}),
    ("SELECT WORD, count(*), avg(half) FROM {t} GROUP BY word ORDER BY ALL", {"Word", "half"}),
    ("SELECT c1 AS c2, id FROM {t} ORDER BY c2, id LIMIT 5", {"c1", "c2", "id"}),
    ("SELECT id, req.a FROM {t} AS w WHERE w.req.b = 'b1' ORDER BY w.id", {"id", "req"}),
    ("SELECT count(price), count(*) FROM {t} WHERE c4 IN (1, 2)", {"price", "c4"}),
    ("SELECT id, price * 2 FROM {t} WHERE price > 40 ORDER BY id", {"id", "price"}),
    ("SELECT id FROM {t} WHERE word LIKE '%3' ORDER BY 1", {"id", "Word"}),
    ("SELECT id, c5 FROM {t} QUALIFY row_number() OVER (PARTITION BY c5 ORDER BY id) = 1 "
     "ORDER BY id", {"id", "c5"}),
    ("SELECT column_name, min, max, count FROM (SUMMARIZE SELECT c1, word FROM {t} WHERE c4 > 3)",
     {"c1", "Word", "c4"}),
    ("SELECT column_name, max FROM (SUMMARIZE SELECT c1 + c2 AS s, req.a FROM {t}) "
     "WHERE max <> '3'", {"c1", "c2", "req"}),
    ("SELECT id, COLUMNS('^(c2|pri|C1)') FROM {t} ORDER BY id",
     {"id", "c2", "price", *(f"c2{k}" for k in range(10))}),
    ("SELECT sum(COLUMNS('c1.')) FROM {t} WHERE c3 > 4", {"c3", *(f"c1{k}" for k in range(10))}),
    ("SELECT coalesce(*COLUMNS('c[45]$')) AS c, id FROM {t} ORDER BY id", {"id", "c4", "c5"}),
    ("SELECT c6 + c7 AS s, count(*) FROM {t} GROUP BY ALL HAVING s > 3 ORDER BY ALL",
     {"c6", "c7"}),
]  # fmt: skip

# Queries that use columns which they do not name, or may do so.
WHOLE = [
    "SELECT * FROM {t} WHERE c3 > 4 ORDER BY id",
    "SELECT * EXCLUDE (c1) FROM {t} ORDER BY id LIMIT 3",
    "SELECT COLUMNS(lambda c: c LIKE 'c1%') FROM {t} ORDER BY ALL LIMIT 3",
    "SELECT max(COLUMNS(* EXCLUDE (half, req))) FROM {t}",
    "SELECT w FROM {t} AS w WHERE w.c3 = 4 ORDER BY id",
    "SELECT row_to_json(w) FROM {t} AS w WHERE c3 = 4 ORDER BY id",
    "SELECT a.c1, b.c2 FROM {t} a JOIN {t} b USING (id) ORDER BY a.id",
    "SELECT c1, (SELECT max(c2) FROM {t}) FROM {t} ORDER BY id",
    "FROM {t} ORDER BY id LIMIT 3",
    "SELECT column_name, min, max, count FROM (SUMMARIZE {t})",
    "SELECT max, (SELECT max(c2) FROM {t}) FROM (SUMMARIZE SELECT * FROM {t} WHERE c3 > 4)",
    "SELECT count(*) FROM {t}",
    "SELECT count(*) FROM (SELECT DISTINCT * FROM {t})",
    "PIVOT {t} ON word USING sum(c1) GROUP BY c2 ORDER BY c2",
]


@needs_install
@pytest.mark.parametrize(("query", "columns"), NAMED)
def test_columns_that_a_query_names_are_shown(
    native: Any, table: Path, shown: list[set[str]], query: str, columns: set[str]
) -> None:
    assert_same_rows(connect("shared"), native, table, query)
    assert shown != []
    assert all(each == columns for each in shown)


@EACH_INTERFACE
@pytest.mark.parametrize("query", WHOLE + [query for query, _ in NAMED])
def test_queries_find_what_duckdbs_own_table_holds(
    con: Any, native: Any, table: Path, query: str
) -> None:
    assert_same_rows(con, native, table, query)


@needs_install
@pytest.mark.parametrize("query", WHOLE + [query for query, _ in NAMED])
def test_rows_that_are_kept_are_the_same(
    native: Any, table: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(kept_rows, "MAX_ROWS", 1000)
    monkeypatch.setattr(kept_rows, "_KEPT", PerVersion(kept_rows._Kept))
    con = connect("shared")
    for _ in range(4):
        assert_same_rows(con, native, table, query)


def test_macros_may_use_other_columns(con: Any, native: Any, table: Path) -> None:
    for connection, name in ((con, f"'{table}'"), (native, "native")):
        connection.execute(f"CREATE OR REPLACE MACRO most() AS (SELECT max(c2) FROM {name})")
        connection.execute(f"CREATE OR REPLACE VIEW several AS SELECT * FROM {name} WHERE c1 > 3")
    for _ in range(2):
        assert_same_rows(con, native, table, "SELECT c1, most() FROM {t} ORDER BY id")
        query = "SELECT c1 FROM {t} WHERE id IN (SELECT id FROM several WHERE c5 > 2) ORDER BY id"
        assert_same_rows(con, native, table, query)
        assert con.execute("SELECT sum(c9) FROM several").fetchall() == (
            native.execute("SELECT sum(c9) FROM several").fetchall()
        )


def test_a_column_that_is_not_there_is_an_error(con: Any, table: Path) -> None:
    with pytest.raises(duckdb.BinderException, match="c99"):
        con.execute(f"SELECT c1, c99 FROM '{table}'")
