"""Tables that are joined, and statements that join them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest

from duckdb_adapter.sources import joined_keys
from lancefs.scan import selectivity

ROWS = 4096
DAY = datetime.date(2026, 1, 1)


def facts_rows() -> pa.Table:
    numbers = np.arange(ROWS)
    odd = np.random.default_rng(3).integers(0, 300, ROWS)
    days = [DAY + datetime.timedelta(days=int(n) // 40) for n in numbers]
    return pa.table(
        {
            "n": numbers,
            "k": pa.array(odd, pa.int32(), mask=odd % 11 == 0),
            "tiny": pa.array(numbers % 200 - 100, pa.int8()),
            "day": pa.array([None if n % 97 == 0 else day for n, day in enumerate(days)]),
            "at": pa.array(
                [None if n % 5 == 0 else int(n) * 10**6 for n in numbers], pa.timestamp("us")
            ),
            "ns": pa.array(numbers * 500, pa.timestamp("ns", "UTC")),
            "code": [None if n % 13 == 0 else f"c{n // 64:03d}" for n in numbers],
            "price": pa.array([Decimal(int(n)) / 4 for n in numbers], pa.decimal128(9, 2)),
            "x": [float("nan") if n % 7 == 0 else -0.0 if n % 7 == 1 else n / 8 for n in numbers],
            "s": pa.array([{"n": int(n) % 50} for n in numbers]),
        }
    )


def keys_rows() -> pa.Table:
    numbers = np.arange(60)
    return pa.table(
        {
            "id": pa.array(1000 + numbers * 3, mask=numbers % 10 == 9),
            "n": pa.array(numbers, pa.uint16()),
            "k": pa.array(numbers % 20 * 1000 - 9000, pa.int64()),
            "day": pa.array([DAY + datetime.timedelta(days=int(n) // 3 + 20) for n in numbers]),
            "at": pa.array((numbers + 70) * 10**6, pa.timestamp("us")),
            "ns": pa.array(numbers * 1000, pa.timestamp("ns", "UTC")),
            "code": pa.array([f"c{n // 2:03d}" for n in numbers], pa.large_string()),
            "price": pa.array([Decimal(int(n)) for n in numbers], pa.decimal128(9, 2)),
            "x": [float("nan") if n == 3 else 0.0 if n == 4 else float(n) for n in numbers],
            "kind": [("new", "old", None)[n % 3] for n in numbers],
            "is_new": pa.array(numbers % 20 == 0),
        }
    )


# Those of which rows of `facts` are left out.
NARROWED = [
    "SELECT * FROM {facts} WHERE n IN (SELECT id FROM {keys})",
    "SELECT count(*) FROM {facts} f WHERE f.n IN (SELECT j.id FROM {keys} j WHERE kind = 'new')",
    "SELECT n, x FROM {facts} WHERE day IN (SELECT day FROM {keys} WHERE is_new) AND x > 3",
    "SELECT f.n, kind FROM {facts} f JOIN {keys} j ON f.n = j.id",
    "SELECT f.n, kind FROM {facts} f, {keys} j WHERE j.id = f.n AND kind IS NOT NULL",
    "SELECT f.n, kind FROM {facts} f JOIN {keys} USING (day) WHERE kind = 'old'",
    "SELECT sum(f.n), kind FROM {facts} f JOIN {keys} j ON f.code = j.code GROUP BY kind",
    "SELECT sum(f.n) FROM {facts} f JOIN {keys} j ON f.price = j.price",
    "SELECT sum(f.n) FROM {facts} f JOIN {keys} j ON f.at = j.at WHERE j.kind = 'new'",
    "SELECT n FROM {facts} f WHERE EXISTS (SELECT 1 FROM {keys} j WHERE j.id = f.n AND kind = "
    "'new')",
    "SELECT n FROM {facts} f WHERE EXISTS (FROM {keys} WHERE id = f.n)",
    "WITH f AS (SELECT * FROM {facts} WHERE n IN (SELECT id FROM {keys})) SELECT count(*) FROM f",
    "SELECT f.n, o.kind FROM {facts} f JOIN {keys} j ON f.n = j.id LEFT JOIN {others} o ON f.n = "
    "o.id",
    "SELECT n FROM {facts} WHERE n IN (SELECT DISTINCT j.id FROM {keys} j JOIN {others} o USING "
    "(k))",
    "SELECT n FROM {facts} WHERE n IN (SELECT id FROM {keys} WHERE id > 1100 ORDER BY id LIMIT 5)",
    "SELECT f.n, j.kind FROM {facts} f JOIN (FROM {keys} WHERE kind = 'new') j ON f.n = j.id",
    "SELECT f.n FROM {facts} f JOIN (SELECT id AS n FROM {keys}) USING (n)",
    "WITH j AS (SELECT id, kind FROM {keys} WHERE n < 30) SELECT f.n FROM j, {facts} f WHERE "
    "j.id = f.n",
    "WITH j AS (SELECT id FROM {keys}) SELECT f.n FROM {facts} f WHERE n IN (FROM j)",
    "WITH i AS (FROM {keys}), j AS (SELECT id AS key FROM i) SELECT f.n FROM {facts} f WHERE n "
    "IN (SELECT key FROM j)",
    "SELECT j.id, f.n FROM {keys} j LEFT JOIN {facts} f ON f.n = j.id",
    "SELECT j.id, f.n FROM {facts} f RIGHT JOIN {keys} j ON f.n = j.id AND f.x > 3",
    "SELECT count(f.n), count(*) FROM {keys} j LEFT JOIN {facts} f USING (day)",
]
# The same by comparisons with a value, which tables of DuckDB, frames and files tell.
COMPARED = [
    "SELECT * FROM {facts} WHERE n = (SELECT max(id) FROM {keys})",
    "SELECT * FROM {facts} WHERE n = (SELECT id FROM {keys} WHERE id = 1003)",
    "SELECT * FROM {facts} f WHERE (SELECT j.id FROM {keys} j WHERE j.n = 7) = f.n",
    "SELECT * FROM {facts} WHERE n BETWEEN (SELECT min(id) FROM {keys}) AND (SELECT max(id) FROM "
    "{others})",
    "SELECT * FROM {facts} WHERE n < (SELECT min(id) FROM {keys} WHERE kind = 'new' AND n > 9)",
    "SELECT n, code FROM {facts} WHERE day < (SELECT min(day) FROM {keys}) AND x > 3",
    "SELECT n, code FROM {facts} WHERE code <= (SELECT min(code) FROM {keys})",
    "SELECT n, code FROM {facts} f WHERE f.at < (SELECT min(j.at) FROM {keys} j)",
    "SELECT n, price FROM {facts} WHERE price >= (SELECT max(price) * 1 FROM {keys}) AND price < "
    "(SELECT max(price) FROM {keys} WHERE n < 40)",
    "SELECT f.n, o.kind FROM {facts} f JOIN {others} o USING (day) WHERE f.n < (SELECT max(id) "
    "FROM {keys})",
]
OTHERS = [
    "SELECT count(*) FROM {facts} f WHERE n > (SELECT max(id) FROM {keys} WHERE id < f.n)",
    "SELECT count(*) FROM {facts} f WHERE n > (SELECT max(id) FROM {keys} WHERE id > x)",
    "SELECT count(*) FROM {facts} WHERE n > (SELECT max(id) FROM {keys} GROUP BY kind IS NULL "
    "HAVING kind IS NULL)",
    "SELECT count(*) FROM {facts} WHERE n > (SELECT min(DISTINCT id) FROM {keys})",
    "SELECT count(*) FROM {facts} WHERE n < (SELECT max(id) FILTER (n < 20) FROM {keys})",
    "SELECT count(*) FROM {facts} WHERE n > (SELECT max(id) FROM {keys}) OR n = 7",
    "SELECT count(*) FROM {facts} WHERE n > (SELECT max(x) FROM {keys} WHERE n < 3)",
    "SELECT count(*) FROM {facts} WHERE x > (SELECT max(id) FROM {keys}) / 8",
    "SELECT count(*) FROM {facts} WHERE tiny < (SELECT max(id) FROM {keys})",
    "SELECT count(*) FROM {facts} WHERE tiny > (SELECT max(id) FROM {keys})",
    "SELECT count(*) FROM {facts} WHERE n > (SELECT max(id) FROM {keys} WHERE kind = 'none')",
    "SELECT count(*) FROM {facts} WHERE n <> (SELECT max(id) FROM {keys})",
    "SELECT count(*) FROM {facts} WHERE n > (SELECT max(j.id) FROM {keys} j JOIN {others} o USING "
    "(n))",
    "SELECT count(*) FROM {facts} WHERE n > (SELECT id FROM {keys} ORDER BY id LIMIT 1)",
    "SELECT count(*) FROM {facts} WHERE n > (WITH k AS (FROM {keys}) SELECT max(id) FROM k)",
    "SELECT count(*) FROM {facts} WHERE n > ALL (SELECT max(id) FROM {keys})",
    "SELECT n FROM (SELECT n, x FROM {facts}) WHERE n IN (SELECT id FROM {keys})",
    "SELECT count(*) FROM {facts} f JOIN (SELECT n + 1 AS n FROM {keys}) j ON f.n = j.n",
    "SELECT count(*) FROM {facts} f JOIN (SELECT max(id) AS n FROM {keys}) j ON f.n = j.n",
    "SELECT count(*) FROM {facts} f JOIN (SELECT n AS m, id AS n FROM {keys}) j ON f.n = j.n",
    "SELECT count(*) FROM {facts} f JOIN (SELECT * REPLACE (id + 7 AS id) FROM {keys}) j ON f.n "
    "= j.id",
    "SELECT count(*) FROM {facts} f JOIN (SELECT * EXCLUDE (n) FROM {keys}) j ON f.n = j.id",
    "SELECT count(*) FROM {facts} f JOIN (SELECT * FROM {keys} JOIN {others} o USING (id)) j ON "
    "f.n = j.id",
    "SELECT count(*) FROM {facts} f JOIN (FROM {keys}) j(a, b) ON f.n = j.a",
    "WITH j(n, id) AS (SELECT id, n FROM {keys}) SELECT count(*) FROM {facts} f JOIN j USING (n)",
    "WITH j(n, id) AS (SELECT id, n FROM {keys}) SELECT count(*), sum(j.n) FROM {facts} f JOIN j "
    "ON f.n = j.id",
    "WITH j(id, n) AS (SELECT n, id FROM {keys}) SELECT count(*) FROM {facts} f WHERE n IN (SELECT "
    "id FROM j WHERE n > 0)",
    "WITH j AS (FROM {keys}) SELECT count(*) FROM {facts} f JOIN j ON f.n = j.id AND j.id > 1100 "
    "JOIN j i ON i.id < 1100",
    "WITH j AS (FROM {keys}) SELECT count(*) FROM {facts} f WHERE n IN (SELECT id FROM j WHERE n "
    "< 9) "
    "AND (SELECT count(*) FROM j WHERE n > 50) > 3",
    "SELECT count(f.n), count(*) FROM {keys} j LEFT JOIN {facts} f ON f.n = j.id OR j.id IS NULL",
    "SELECT count(f.n), count(*) FROM {facts} f LEFT JOIN {keys} j ON f.n = j.id WHERE j.id IS "
    "NULL",
    "SELECT count(f.n), count(*) FROM {others} o FULL JOIN {keys} j USING (n) LEFT JOIN {facts} "
    "f USING (n)",
    "SELECT count(f.n), count(*) FROM {others} o LEFT JOIN ({facts} f FULL JOIN {keys} j USING "
    "(n)) ON o.id = f.n",
    "SELECT n, count(*) OVER (PARTITION BY kind) FROM (SELECT f.n, kind FROM {facts} f JOIN "
    "{keys} j ON f.n = j.id)",
    "SELECT f.n FROM {facts} f JOIN {keys} j ON f.n = j.id QUALIFY count(*) OVER (PARTITION BY "
    "j.kind) > 15",
    "SELECT count(*) FROM {facts} WHERE n NOT IN (SELECT id FROM {keys} WHERE id IS NOT NULL)",
    "SELECT count(*) FROM {facts} WHERE n NOT IN (SELECT id FROM {keys})",
    "SELECT count(*) FROM {facts} WHERE n IN (SELECT id FROM {keys}) OR n = 7",
    "SELECT count(*) FROM {facts} WHERE (n IN (SELECT id FROM {keys})) IS NULL",
    "SELECT n, n IN (SELECT id FROM {keys}) FROM {facts}",
    "SELECT count(*) FROM {facts} f WHERE NOT EXISTS (FROM {keys} k WHERE k.id = f.n)",
    "SELECT count(*) FROM {facts} f WHERE EXISTS (SELECT count(*) FROM {keys} k WHERE k.id = f.n)",
    "SELECT count(*) FROM {facts} f WHERE EXISTS (FROM {keys} k WHERE k.id = f.n OR k.n = f.n)",
    "SELECT count(*) FROM {facts} f WHERE EXISTS (FROM {keys} k WHERE n = n)",
    "SELECT count(*), count(k.id) FROM {facts} f LEFT JOIN {keys} k ON f.n = k.id",
    "SELECT count(*), count(k.id), count(f.n) FROM {facts} f RIGHT JOIN {keys} k ON f.n = k.id",
    "SELECT count(*), count(k.id), count(f.n) FROM {facts} f FULL JOIN {keys} k ON f.n = k.id",
    "SELECT count(*) FROM {facts} f ANTI JOIN {keys} k ON f.n = k.id",
    "SELECT count(*) FROM {facts} f SEMI JOIN {keys} k ON f.n = k.id",
    "SELECT count(*) FROM {facts} f LEFT JOIN {keys} k USING (n) JOIN {others} o ON n = o.n",
    "SELECT count(*) FROM {others} o JOIN ({facts} f FULL JOIN {keys} k USING (n)) ON o.n = n",
    "SELECT count(*) FROM {keys} k FULL JOIN {others} o USING (n) JOIN {facts} f USING (n)",
    "SELECT count(*) FROM {keys} k FULL JOIN {others} o USING (n) JOIN {facts} f ON f.n = n",
    "SELECT count(*) FROM {facts} f NATURAL JOIN {keys}",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.n = k.id OR f.n = k.n",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.n IS NOT DISTINCT FROM k.id",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.n <= k.id",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.x = k.x",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.ns = k.ns",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.n = k.price",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.code = k.id::VARCHAR",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.tiny = k.id",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.tiny = k.k",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.k = k.n AND k.id = f.n",
    "SELECT count(*) FROM {facts} s JOIN {keys} k ON s.s.n = k.n",
    "SELECT count(*) FROM {facts} f, {keys} s WHERE s.n = f.n",
    "SELECT count(*) FROM {facts} WHERE n IN (SELECT n + 5 FROM {keys})",
    "SELECT count(*) FROM {facts} WHERE n IN (SELECT x FROM {keys})",
    "SELECT count(*) FROM {facts} f WHERE n IN (SELECT f.n FROM {keys} k)",
    "SELECT count(*) FROM {facts} f WHERE n IN (SELECT price FROM {keys} UNION SELECT 4000)",
    "SELECT count(*) FROM {facts} f WHERE n IN (SELECT id FROM {keys} UNION ALL SELECT 4000)",
    "SELECT count(*) FROM {facts} f WHERE n > ANY (SELECT id FROM {keys})",
    "SELECT count(*) FROM {facts} f WHERE n = ALL (SELECT id FROM {keys} WHERE id < 0)",
    "SELECT count(*) FROM {facts} WHERE n IN (SELECT id FROM {keys} WHERE kind = 'none')",
    "SELECT count(*) FROM {facts} WHERE n IN (SELECT id FROM {keys} WHERE id IS NULL)",
    "SELECT count(*), (SELECT count(*) FROM {facts}) FROM {facts} f JOIN {keys} k ON f.n = k.id",
    "SELECT count(*), (SELECT count(*) FROM {keys}) FROM {facts} f JOIN {keys} k ON f.n = k.id "
    "AND k.id = 1003",
    "SELECT count(*) FROM {facts} f JOIN {keys} k ON f.n = k.id AND k.id < 1030 "
    "UNION ALL SELECT count(*) FROM {facts} f JOIN {keys} k ON f.n = k.id AND k.id > 1100",
    "WITH k AS (SELECT * FROM {keys}), a AS (SELECT f.n FROM {facts} f JOIN k ON f.n = k.id AND "
    "k.id < 1030) SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM k WHERE id > 1100)",
    "SELECT f.n, sum(k.n) OVER (PARTITION BY k.kind) FROM {facts} f JOIN {keys} k ON f.n = k.id",
    "SELECT f.n FROM {facts} f JOIN {keys} k ON f.n = k.id QUALIFY k.n > avg(k.n) OVER "
    "(PARTITION BY f.k)",
    "SELECT o.n, (SELECT count(*) FROM {facts} f JOIN {keys} k ON f.n = k.id WHERE k.n > o.n) "
    "FROM {others} o",
    "WITH RECURSIVE r AS (SELECT 1000::BIGINT AS n UNION ALL SELECT f.n + 1 FROM r JOIN {facts} "
    "f ON f.n = r.n "
    "JOIN {keys} k ON f.n >= k.n AND k.kind IS NULL AND k.id = 1001 + k.n * 3 - 1 WHERE r.n < "
    "1005) FROM r",
    "SELECT n FROM {facts} WHERE n IN (SELECT id FROM {keys}) USING SAMPLE 100 PERCENT (bernoulli)",
    "SELECT count(*) FROM (FROM {facts} USING SAMPLE 100%) f JOIN {keys} k ON f.n = k.id",
    "SELECT f.n, k.id FROM {facts} f POSITIONAL JOIN {keys} k WHERE f.n = k.id",
    "SELECT f.n, k.id FROM {facts} f ASOF JOIN {keys} k ON f.k = k.n AND f.n >= k.id",
    "SELECT l.c, f.n FROM {keys} k, LATERAL (SELECT count(*) c FROM {others} o WHERE o.n < k.n) "
    "l, {facts} f WHERE f.n = k.id AND l.c = f.k",
    "SELECT f.n FROM {facts} f WHERE f.n IN (SELECT id FROM {keys}) ORDER BY f.x DESC NULLS "
    "LAST, n LIMIT 5",
    "SELECT f.n, row_number() OVER () FROM {facts} f WHERE f.n IN (SELECT id FROM {keys} WHERE "
    "kind = 'old')",
]


def write_facts(folder: Path) -> None:
    """Write the table `facts.lance` of several files, some of whose rows are deleted."""
    path = str(folder / "facts.lance")
    lance.write_dataset(facts_rows(), path, max_rows_per_file=1500)
    lance.dataset(path).delete("n % 500 = 3")


@contextmanager
def own_tables(folder: Path, made: Callable[[pa.Table], Any] = lambda rows: rows) -> Iterator[Any]:
    """Open a database whose own tables `facts`, `keys` and `others` tell the right answers.

    Args:
        folder: Where `facts.lance` is.
        made: Returns the rows of the other tables as something that DuckDB reads.
    """
    connection = duckdb.connect()
    connection.register("rows", lance.dataset(str(folder / "facts.lance")).to_table())
    connection.execute("CREATE TABLE facts AS FROM rows")
    for name, rows in (("keys", keys_rows()), ("others", keys_rows()[:40])):
        connection.register("rows", made(rows))
        connection.execute(f"CREATE TABLE {name} AS FROM rows")
    yield connection
    connection.close()


def make_long(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Have tables of some rows count as long ones, of which rows are left out."""
    monkeypatch.setattr(joined_keys, "_MIN_ROWS", rows)
    monkeypatch.setattr(selectivity, "_MIN_ROWS", rows)
    monkeypatch.setattr(selectivity, "_MIN_FRAGMENT_ROWS", 10)


def filled(query: str, folder: Path | None) -> str:
    names = ("facts", "keys", "others")
    return query.format(**{n: n if folder is None else f"'{folder / n}.lance'" for n in names})


def answer_of(connection: Any, text: str) -> list[str]:
    return sorted(map(repr, connection.execute(text).fetchall()))
