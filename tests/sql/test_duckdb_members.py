"""Queries that name members of structs read these members alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest
from roads import (
    EACH_INTERFACE,
    assert_same_rows,
    connect,
    needs_install,
    note_scans,
)
from support import CorpusCase, corpus_cases, needs_corpus

ROWS = 400


def _request(n: int) -> dict[str, Any] | None:
    if n % 11 == 0:
        return None
    place = {"city": f"c{n % 3}", "zip": n} if n % 5 else None
    return {"trace": f"t{n}", "status": None if n % 7 == 0 else n % 4, "at": place, "w.x": n}


def _deep(n: int) -> dict[str, Any]:
    place = {"City": f"c{n % 3}", "at": {"x": n % 7, "y": n, "tags": ["a"] * (n % 3)}}
    return {"geo": None if n % 4 == 1 else place, "n": n % 5, "note": f"note {n % 9}"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = pa.table(
        {
            "id": pa.array(range(ROWS)),
            "req": pa.array([_request(n) for n in range(ROWS)]),
            "status": pa.array([n % 6 for n in range(ROWS)]),
            "Other": pa.array([{"A": n, "b": float(n), "half": n} for n in range(ROWS)]),
            "half": pa.array([n / 8 for n in range(ROWS)], pa.float16()),
            "deep": pa.array([_deep(n) for n in range(ROWS)]),
        }
    )
    path = tmp_path_factory.mktemp("members") / "logs.lance"
    lance.write_dataset(rows, str(path), max_rows_per_file=150)
    lance.dataset(str(path)).delete("id % 9 = 5")
    return path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The columns of all scans."""
    seen: set[str] = set()
    note_scans(monkeypatch, lambda options: seen.update(options["columns"]))
    return seen


# Queries over {t} that use some members, and what is read.
MEMBERS = [
    ("SELECT sum(req.status), count(req.status), count(*) FROM {t}", {"req.status"}),
    ("SELECT REQ.STATUS FROM {t} ORDER BY id", {"req.status", "id"}),
    ("SELECT t.req.status, id FROM {t} AS t ORDER BY t.id", {"req.status", "id"}),
    ("SELECT l.req.trace FROM {t} AS l ORDER BY l.id", {"req.trace", "id"}),
    ("SELECT req.status IS NULL AS s, count(*) FROM {t} GROUP BY s ORDER BY s", {"req.status"}),
    ("SELECT req.at.zip FROM {t} WHERE req.at.city = 'c1' ORDER BY id", {"req.at", "id"}),
    ("SELECT id FROM {t} WHERE req.status = 2 AND req.trace LIKE '%1%' ORDER BY 1",
     {"req.trace", "req.status", "id"}),
    ("SELECT count(*) FROM {t} WHERE req.status = 2", set()),
    ("SELECT req.trace, other.a FROM {t} WHERE other.B > 7 ORDER BY id LIMIT 5",
     {"req.trace", "Other.A", "Other.b", "id"}),
    ("SELECT max(CASE WHEN req.status > 1 THEN length(req.trace) END) FROM {t}",
     {"req.trace", "req.status"}),
    ("SELECT id, sum(req.status) OVER (ORDER BY id) FROM {t} ORDER BY id", {"req.status", "id"}),
    ("SELECT half, req.status FROM {t} WHERE half > 3 AND req.status > 1 ORDER BY id",
     {"half", "id", "req.status"}),
    ("SELECT req.status AS status, count(*) FROM {t} GROUP BY ALL HAVING min(req.status) >= 0 "
     "ORDER BY 1", {"req.status"}),
    ("SELECT deep.geo.city, sum(deep.geo.at.y) FROM {t} GROUP BY 1 ORDER BY 1",
     {"deep.geo.City", "deep.geo.at.y"}),
    ("SELECT deep.geo.at.x, deep.n FROM {t} WHERE deep.GEO.city = 'c1' AND deep.geo.at.x > 3 ORDER "
     "BY id", {"deep.geo.City", "deep.geo.at.x", "deep.n", "id"}),
    ("SELECT d.deep.geo.at, d.deep.geo.at.x FROM {t} AS d ORDER BY id", {"deep.geo.at", "id"}),
    ("SELECT count(deep.geo), count(deep.geo.at.x), sum(deep.n) FROM {t}",
     {"deep.geo", "deep.n"}),
    ("SELECT count(deep.geo.at), count(*) FROM {t} WHERE deep.note LIKE '%3'",
     {"deep.geo.at", "deep.note"}),
    ("SELECT deep.geo.at.tags FROM {t} WHERE deep.geo.at.x IS NULL ORDER BY id",
     {"deep.geo.at.tags", "deep.geo.at.x", "id"}),
    ("SELECT (req.status + 1)::VARCHAR, status FROM {t} ORDER BY id",
     {"req.status", "status", "id"}),
]  # fmt: skip


@needs_install
@pytest.mark.parametrize(("query", "expected"), MEMBERS)
def test_members_that_a_query_names_are_read_alone(
    native: Any, table: Path, read: set[str], query: str, expected: set[str]
) -> None:
    assert_same_rows(connect("shared"), native, table, query)
    assert read == expected


# Queries over {t} that use structs as a whole, too, or may do so.
WHOLE = [
    "SELECT * FROM {t} ORDER BY id",
    "SELECT req FROM {t} ORDER BY id",
    "SELECT req, req.status FROM {t} ORDER BY id",
    "SELECT req.* FROM {t} ORDER BY id",
    "SELECT deep, deep.geo.at.x FROM {t} ORDER BY id",
    "SELECT deep.geo.at.tags[1], deep['geo'].city FROM {t} ORDER BY id",
    "SELECT t FROM {t} AS t WHERE t.req.status = 1 ORDER BY id",
    "SELECT l FROM {t} AS l WHERE req.status = 1 ORDER BY id",
    "SELECT req.status, typeof(req) FROM {t} ORDER BY id",
    "SELECT req['status'], req.trace FROM {t} ORDER BY id",
    "SELECT struct_extract(req, 'status'), req.trace FROM {t} ORDER BY id",
    'SELECT req."w.x", req.status FROM {t} ORDER BY id',
    "SELECT unnest(req), req.status FROM {t} ORDER BY id",
    "SELECT COLUMNS('req'), req.status AS s FROM {t} ORDER BY id",
    "SELECT req.status, (SELECT max(req.trace) FROM {t}) FROM {t} ORDER BY id",
    "SELECT a.req.status, b.req FROM {t} a JOIN {t} b USING (id) ORDER BY a.id",
    "SELECT req.status FROM {t} AS req ORDER BY id",
    "SELECT req.status AS req, count(*) FROM {t} GROUP BY 1 ORDER BY 1",
    "WITH c AS (SELECT * FROM {t}) SELECT req.status FROM c ORDER BY id",
    "SELECT req.status FROM (SELECT * FROM {t}) ORDER BY id",
    "SELECT req.status, row_to_json(l) FROM {t} AS l ORDER BY id",
    "SELECT DISTINCT ON (req.status) req.status, req FROM {t} ORDER BY req.status, id",
    "SELECT list_transform([1], lambda x: x + req.status) FROM {t} ORDER BY id",
    "SELECT req.status, req.trace, req.at, req.\"w.x\" FROM {t} ORDER BY id",
]  # fmt: skip


@EACH_INTERFACE
@pytest.mark.parametrize("query", WHOLE + [query for query, _ in MEMBERS])
def test_queries_find_what_duckdbs_own_table_holds(
    con: Any, native: Any, table: Path, query: str
) -> None:
    assert_same_rows(con, native, table, query)


def test_a_macro_may_use_other_members(con: Any, native: Any, table: Path) -> None:
    for connection, name in ((con, f"'{table}'"), (native, "native")):
        connection.execute(f"CREATE OR REPLACE MACRO most() AS (SELECT max(req.trace) FROM {name})")
    query = "SELECT req.status, most() FROM {t} WHERE req.status > 0 ORDER BY id"
    assert_same_rows(con, native, table, query)
    assert_same_rows(con, native, table, query)
    con.execute("BEGIN")
    assert_same_rows(con, native, table, query)
    assert_same_rows(con, native, table, query)


def test_macros_cannot_name_members_of_the_query_that_calls_them(con: Any) -> None:
    with pytest.raises(
        duckdb.BinderException
    ):  # if they could, a query would use more than it says
        con.execute("CREATE MACRO traced(x) AS x || req.trace")


@needs_install
def test_members_of_structs_of_a_name_that_is_the_tables(tmp_path: Path) -> None:
    con = connect("install")
    rows = pa.table({"req": [{"status": 1, "b": 2}], "status": [3]})
    lance.write_dataset(rows, str(tmp_path / "req.lance"))
    con.register("req_rows", rows)
    con.execute("CREATE TABLE req AS FROM req_rows")
    expected = con.execute("SELECT req.status FROM req").fetchall()
    assert con.execute(f"SELECT req.status FROM '{tmp_path}/req.lance'").fetchall() == expected


@EACH_INTERFACE
@needs_corpus
@pytest.mark.parametrize("case", corpus_cases("blob_v"), ids=lambda case: case.name)
def test_descriptors_of_blobs_are_read_whole(con: Any, case: CorpusCase) -> None:
    name = f"'{case.table()}'"
    if "blob" not in [row[0] for row in con.execute(f"DESCRIBE FROM {name}").fetchall()]:
        return  # one of pylance that wrote none
    whole = [row[0] for row in con.execute(f"SELECT blob FROM {name} ORDER BY id").fetchall()]
    sizes = [None if blob is None else blob["size"] for blob in whole]
    found = con.execute(f"SELECT blob.size FROM {name} ORDER BY id").fetchall()
    assert found == [(size,) for size in sizes]
    found = con.execute(f"SELECT max(blob.size), count(blob.position), count(*) FROM {name}")
    there = [size for size in sizes if size is not None]
    assert found.fetchall() == [(max(there, default=None), len(there), len(sizes))]
    (count,) = con.execute(f"SELECT count(*) FROM {name} WHERE blob.size > 50").fetchone()
    assert count == sum(size > 50 for size in there)
