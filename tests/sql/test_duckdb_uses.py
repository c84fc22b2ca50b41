"""Of what a query names, no more is read than it uses: members of structs, and the first rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckdb_adapter import used_rows
from duckdb_adapter.first_rows import find_first
from lancefs.lance_dataset import LanceDataset

ROWS = 3000
STRUCT = pa.struct(
    [
        ("status", pa.int32()),
        ("half", pa.float16()),
        ("Text", pa.string()),
        ("inner", pa.struct([("a", pa.int64()), ("b", pa.string())])),
    ]
)


def _structs() -> list[dict[str, Any] | None]:
    inner = [None if n % 7 == 0 else {"a": n, "b": f"b{n}"} for n in range(ROWS)]
    return [
        None
        if n % 11 == 0
        else {
            "status": n % 5 or None,
            "half": np.float16(n % 3),
            "Text": f"t{n}",
            "inner": inner[n],
        }
        for n in range(ROWS)
    ]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(7)
    latency = random.integers(0, 900, ROWS) / 8
    rows = pa.table(
        {
            "id": pa.array(range(ROWS)),
            "level": pa.array([("debug", "info")[n % 2] for n in range(ROWS)]),
            "req": pa.array(_structs(), STRUCT),
            "latency": pa.array([None if n % 301 == 0 else latency[n] for n in range(ROWS)]),
            "price": pa.array([Decimal(int(n)) / 100 for n in random.integers(-500, 500, ROWS)]),
            "many": pa.array([n % 2 for n in range(ROWS)]),
        }
    )
    path = tmp_path_factory.mktemp("uses") / "logs.lance"
    lance.write_dataset(rows, str(path), max_rows_per_file=1100)
    lance.dataset(str(path)).delete("id % 97 = 5")
    return path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The columns and members of each scan, in order; tables of any length are long."""
    seen: list[list[str]] = []
    scanner = LanceDataset.scanner

    def noted(self: LanceDataset, *args: Any, **options: Any) -> Any:
        seen.append(list(options["columns"]))
        return scanner(self, *args, **options)

    monkeypatch.setattr(LanceDataset, "scanner", noted)
    monkeypatch.setattr(used_rows, "_LEAST_ROWS", 10)
    return seen


def _wide(member: pa.Field) -> pa.Field:
    """Return a member of a type that DuckDB knows."""
    return member.with_type(pa.float32()) if member.type == pa.float16() else member


@pytest.fixture(scope="module")
def native(table: Path) -> Iterator[Any]:
    """A connection to DuckDB's own table of the same rows, which tells the right answers."""
    connection = duckdb.connect()
    rows = lance.dataset(str(table)).to_table()
    schema = rows.schema.set(2, pa.field("req", pa.struct(map(_wide, STRUCT))))
    connection.register("rows", pa.Table.from_pylist(rows.to_pylist(), schema))
    connection.execute("CREATE TABLE native AS FROM rows")
    yield connection
    connection.close()


# Queries over {t}, and what is read of the struct.
MEMBERS = {
    "SELECT sum(req.status) FROM {t}": {"req.status"},
    "SELECT SUM(REQ.STATUS), max(req.text) FROM {t} WHERE id > 5": {"req.status", "req.Text"},
    "SELECT t.req.inner.a FROM {t} AS t ORDER BY 1": {"req.inner.a"},
    "SELECT req.inner.a, req.inner FROM {t} ORDER BY id": {"req.inner"},
    "SELECT req.half, count(*) FROM {t} GROUP BY ALL ORDER BY 1": {"req.half"},
    "SELECT req.half FROM {t} ORDER BY id": {"req.half"},
    "SELECT count(*) FROM {t} WHERE req.status > 2": {"req.status"},
    "SELECT max(req.text) FROM {t} WHERE req.status % 2 = 1 OR req.inner.a < 9": {
        "req.Text",
        "req.inner.a",
        "req.status",
    },
    "SELECT x.req.status, y.req.text FROM {t} x JOIN {t} y USING (id) ORDER BY id": {
        "req.Text",
        "req.status",
    },
    "SELECT s FROM (SELECT req.status AS s, id FROM {t}) ORDER BY id": {"req.status"},
    "SELECT CASE WHEN req.status > 1 THEN req.text END FROM {t} ORDER BY id": {
        "req.Text",
        "req.status",
    },
    "SELECT req.status::DECIMAL(9, 2) FROM {t} ORDER BY id": {"req.status"},
    "SELECT DISTINCT req.status FROM {t} UNION ALL SELECT req.inner.a FROM {t} ORDER BY 1": {
        "req.inner.a",
        "req.status",
    },
    "SELECT sum(req.status) OVER (ORDER BY id) FROM {t} ORDER BY id": {"req.status"},
}


@pytest.mark.parametrize("query", MEMBERS)
def test_only_the_members_that_a_query_names_are_read(
    con: Any, native: Any, table: Path, read: list[list[str]], query: str
) -> None:
    expected = native.execute(query.format(t="native")).fetchall()
    assert con.execute(query.format(t=f"'{table}'")).fetchall() == expected
    assert {name for names in read for name in names if name.startswith("req")} == MEMBERS[query]


# Queries over {t} that use more of the struct than members that they name.
WHOLE = [
    "SELECT req, req.status FROM {t} ORDER BY id",
    "SELECT *, req.status FROM {t} ORDER BY id",
    "SELECT t, t.req.status FROM {t} AS t ORDER BY id",
    "SELECT req['status'], req.text FROM {t} ORDER BY id",
    "SELECT struct_extract(req, 'status'), req.text FROM {t} ORDER BY id",
    "SELECT COLUMNS('req'), req.status FROM {t} ORDER BY id",
    "SELECT a.req.status FROM {t} a NATURAL JOIN {t} b ORDER BY a.id",
    "SELECT req.status FROM {t} a JOIN {t} b USING (req) ORDER BY a.id",
    "SELECT y.trace.text, y.id.status FROM {t} AS y(id2, trace, id, l, p, m) ORDER BY id2",
    "WITH q AS (SELECT req AS r, id FROM {t}) SELECT r.status FROM q ORDER BY id",
    "SELECT req.status FROM {t} WHERE req IS NOT NULL ORDER BY id",
    "SELECT unnest(req) FROM {t} ORDER BY id",
    "SELECT req.* FROM {t} ORDER BY id",
    "FROM {t} ORDER BY req.status, id",
    "SELECT x.req.status FROM (FROM {t}) x ORDER BY x.id",
    "SELECT list_transform([1], lambda n: n + req.status) FROM {t} ORDER BY id",
    "PIVOT (SELECT level, req FROM {t}) ON level USING count(req.status)",
]


@pytest.mark.parametrize("query", WHOLE)
def test_other_uses_read_the_whole_struct(con: Any, native: Any, table: Path, query: str) -> None:
    def answer(connection: Any, name: str) -> tuple[str, list[Any]]:
        try:
            return "", connection.execute(query.format(t=name)).fetchall()
        except duckdb.Error as error:
            return type(error).__name__, []

    assert answer(con, f"'{table}'") == answer(native, "native")


def test_a_view_or_macro_hides_nothing(con: Any, native: Any, table: Path) -> None:
    con.execute(f"CREATE VIEW v AS SELECT req AS whole, id FROM '{table}'")
    con.execute(f"CREATE MACRO m() AS TABLE SELECT req AS whole, id FROM '{table}'")
    con.execute("CREATE MACRO joined(s) AS s.status || s.text")
    for text in (
        "SELECT whole FROM v WHERE id IN (SELECT id FROM '{t}' WHERE req.status > 1) ORDER BY id",
        "SELECT whole FROM m() WHERE id IN (SELECT id FROM '{t}' WHERE req.status > 1) ORDER BY id",
    ):
        answer = con.execute(text.format(t=table)).fetchall()
        expected = "SELECT req FROM native WHERE req.status > 1 ORDER BY id"
        assert answer == native.execute(expected).fetchall()
    answer = con.execute(f"SELECT joined(req), req.status FROM '{table}' ORDER BY id").fetchall()
    assert (
        answer
        == native.execute(
            "SELECT req.status || req.text, req.status FROM native ORDER BY id"
        ).fetchall()
    )


def test_a_long_query_is_not_parsed_twice(
    con: Any, native: Any, table: Path, read: list[list[str]]
) -> None:
    query = "SELECT sum(req.status) FROM {t} -- " + "long " * 2000
    expected = native.execute(query.format(t="native")).fetchall()
    assert con.execute(query.format(t=f"'{table}'")).fetchall() == expected
    assert read == [["req"]]


def test_a_missing_member_is_the_error_that_duckdb_has(con: Any, table: Path) -> None:
    with pytest.raises(duckdb.BinderException, match="nowhere"):
        con.execute(f"SELECT req.nowhere, req.status FROM '{table}'")


def test_relations_and_prepared_statements_of_members(con: Any, native: Any, table: Path) -> None:
    expected = native.execute("SELECT sum(req.status) FROM native").fetchall()
    relation = con.sql(f"SELECT req.status AS s, id FROM '{table}'")
    assert relation.aggregate("sum(s)").fetchall() == expected
    assert con.sql("SELECT sum(s) FROM relation").fetchall() == expected
    con.execute(f"PREPARE total AS SELECT sum(req.status) FROM '{table}'")
    assert con.execute("EXECUTE total").fetchall() == expected
    given = con.execute(f"SELECT sum(req.status) FROM '{table}' WHERE id >= ?", [0])
    assert given.fetchall() == expected


# Queries over {t} of which the order and the limit tell the rows; each order is total.
FIRST = [
    "SELECT * FROM {t} ORDER BY latency, id LIMIT 10",
    "SELECT * FROM {t} ORDER BY latency DESC, id LIMIT 10 OFFSET 5",
    "SELECT * FROM {t} ORDER BY latency ASC NULLS FIRST, id LIMIT 20",
    "SELECT * FROM {t} ORDER BY latency DESC NULLS LAST, id DESC LIMIT 20",
    "SELECT id, req.status AS s, level FROM {t} AS t ORDER BY t.latency, id LIMIT 3",
    "SELECT * EXCLUDE (many) FROM {t} ORDER BY price, id LIMIT 7",
    "FROM {t} ORDER BY id DESC LIMIT 1",
    "FROM {t} ORDER BY many, id LIMIT 4",
]


@pytest.mark.parametrize("query", FIRST)
def test_first_rows_are_those_of_all_rows(
    con: Any, native: Any, table: Path, read: list[list[str]], query: str
) -> None:
    expected = native.execute(query.format(t="native")).fetchall()
    assert con.execute(query.format(t=f"'{table}'")).fetchall() == expected
    order = query.partition("ORDER BY ")[2].partition(" ")[0].strip(",").removeprefix("t.")
    assert read[0] == [order]
    assert len(read) == 2


@pytest.mark.parametrize(
    "setting", ["default_order = 'DESC'", "default_null_order = 'NULLS_FIRST'"]
)
def test_first_rows_follow_the_settings(
    con: Any, native: Any, table: Path, read: list[list[str]], setting: str
) -> None:
    con.execute(f"SET {setting}")
    mine = native.cursor()
    mine.execute(f"SET {setting}")
    query = "SELECT * FROM {t} ORDER BY latency, id LIMIT 15"
    expected = mine.execute(query.format(t="native")).fetchall()
    mine.execute(f"RESET {setting.partition(' ')[0]}")
    assert con.execute(query.format(t=f"'{table}'")).fetchall() == expected
    assert read[0] == ["latency"]


# Queries over {t} of which other rows than the first ones by the column decide.
ALL_ROWS = [
    "SELECT * FROM {t} WHERE id % 3 = 1 ORDER BY latency, id LIMIT 10",
    "SELECT * REPLACE (-latency AS latency) FROM {t} ORDER BY latency, id LIMIT 10",
    "SELECT id AS latency, price FROM {t} ORDER BY latency LIMIT 10",
    "SELECT -latency AS l, id FROM {t} ORDER BY l, id LIMIT 10",
    "SELECT DISTINCT level, many FROM {t} ORDER BY many LIMIT 1",
    "SELECT level, max(many) FROM {t} GROUP BY level ORDER BY level LIMIT 1",
    "SELECT many, count(*) OVER () AS c FROM {t} ORDER BY many LIMIT 2",
    "SELECT req.status, id FROM {t} ORDER BY req.status, id LIMIT 5",
    "SELECT * FROM {t} ORDER BY abs(price), id LIMIT 5",
    "SELECT * FROM {t} ORDER BY level, id LIMIT 5",
    "SELECT a.id, b.id FROM {t} a JOIN {t} b ON a.id = b.id + 1 ORDER BY a.id LIMIT 5",
    "SELECT id, (SELECT count(*) FROM {t}) AS c FROM {t} ORDER BY id LIMIT 2",
    "SELECT * FROM {t} AS t(latency, b, c, id) ORDER BY latency, id LIMIT 5",
    "SELECT * FROM {t} ORDER BY latency, id LIMIT 1%",
    "SELECT id FROM {t} ORDER BY ALL LIMIT 5",
    "SELECT id, price FROM {t} WINDOW w AS (ORDER BY id) QUALIFY rank() OVER w > 9 "
    "ORDER BY price, id LIMIT 3",
]


@pytest.mark.parametrize("query", ALL_ROWS)
def test_other_orders_see_all_rows(
    con: Any, native: Any, table: Path, read: list[list[str]], query: str
) -> None:
    expected = native.execute(query.format(t="native")).fetchall()
    assert con.execute(query.format(t=f"'{table}'")).fetchall() == expected


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(
        st.one_of(st.none(), st.floats(width=16), st.sampled_from([0.0, -0.0, math.nan])),
        max_size=60,
    ),
    cuts=st.lists(st.integers(0, 60), max_size=3),
    rows=st.integers(0, 9),
    descending=st.sampled_from([(False,), (True,), (False, True)]),
)
def test_rows_that_may_be_first_are_found(
    values: list[float | None], cuts: list[int], rows: int, descending: tuple[bool, ...]
) -> None:
    array = pa.array(values, pa.float64())
    edges = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    parts = [array.slice(a, b - a) for a, b in pairwise(edges)]
    found = find_first(parts, rows, descending)
    assert found is not None
    expected = {n for n, one in enumerate(values) if one is None or math.isnan(one)}
    numbers = [(one, n) for n, one in enumerate(values) if n not in expected]
    for is_reversed in descending:
        best = sorted((one for one, _ in numbers), reverse=is_reversed)[:rows]
        expected |= {n for one, n in numbers if one in best}
    assert set(found.tolist()) == expected


def test_too_many_rows_that_may_be_first_are_not_found() -> None:
    for values in (np.zeros(20_000), np.full(20_000, math.nan)):
        assert find_first([pa.array(values)], 1, (False,)) is None
