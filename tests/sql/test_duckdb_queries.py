"""SQL of every kind over Lance tables gives what it gives over DuckDB's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from roads import EACH_ROAD, ORDERS_ROWS, connect
from support import ORDERS

# `{t}` is the table; without the times, for which DuckDB needs one more package in Python.
QUERIES = [
    "SELECT city, sum(quantity), avg(price) FROM {t} GROUP BY city ORDER BY city",
    "SELECT count(DISTINCT tea), max(total) FROM {t} WHERE note IS NOT NULL",
    "SELECT order_id, tea FROM {t} WHERE price > 15 AND city LIKE 'G%' ORDER BY ALL LIMIT 20",
    "SELECT a.city, count(*) FROM {t} a JOIN {t} b USING (city, tea) GROUP BY 1 ORDER BY 1",
    "WITH x AS (FROM {t}), y AS (SELECT max(order_id) AS m FROM x) SELECT tea FROM x, y"
    " WHERE order_id = m",
    "SELECT city, tea, rank() OVER (PARTITION BY city ORDER BY total DESC, order_id) FROM {t}"
    " QUALIFY rank() OVER (PARTITION BY city ORDER BY total DESC, order_id) <= 2 ORDER BY ALL",
    "SELECT order_id FROM {t} EXCEPT SELECT order_id FROM {t} WHERE city <> 'Graz' ORDER BY 1",
    "SELECT (SELECT count(*) FROM {t} i WHERE i.order_id < o.order_id) FROM {t} o"
    " WHERE order_id % 200 = 1 ORDER BY 1",
    "FROM (SELECT city, tea, quantity FROM {t}) PIVOT (sum(quantity) FOR city IN ('Gent', 'Graz'))"
    " ORDER BY ALL",
    "SELECT columns('.*i.*') FROM {t} WHERE order_id IN (SELECT max(order_id) FROM {t})",
    "SELECT month(ordered_at) AS m, round(sum(total), 2) FROM {t} GROUP BY ROLLUP (m) ORDER BY 1",
    "SELECT count(*) FROM {t} TABLESAMPLE 100%",
    "SELECT order_id FROM {t} ORDER BY price DESC, order_id LIMIT 5 OFFSET 3",
]

# Deeper than Python allows calls within each other: programs write sums and texts of many columns.
DEEPLY_NESTED = [
    f"SELECT max(order_id{' + 0' * 250}) FROM {{t}}",
    f"SELECT city{' || tea' * 400} AS c, count(*) FROM {{t}} GROUP BY c ORDER BY c",
    f"SELECT order_id FROM {{t}} WHERE {'NOT ' * 600}city = 'Graz' ORDER BY price, 1 LIMIT 3",
    f"SELECT count(*) FROM {'(FROM ' * 90}{{t}}{')' * 90}",
    f"SELECT {'CASE WHEN order_id > 9 THEN 1 ELSE ' * 90}0{' END' * 90} AS c, count(*) FROM {{t}} "
    "GROUP BY 1 ORDER BY 1",
]


@pytest.mark.parametrize("query", [*QUERIES, *DEEPLY_NESTED])
def test_a_query_gives_what_it_gives_on_a_copy(con: Any, query: str) -> None:
    con.execute("SET TimeZone = 'UTC'")
    con.execute(f"CREATE TABLE copied AS FROM '{ORDERS}'")
    found = con.execute(query.replace("{t}", f"'{ORDERS}'")).fetchall()
    assert found == con.execute(query.replace("{t}", "copied")).fetchall()
    assert found


def test_versions_of_a_table_can_be_joined(con: Any) -> None:
    query = f"""
        SELECT count(*), min(a.order_id), bool_and(a.tea = 'test order')
        FROM '{ORDERS}@v1' AS a ANTI JOIN '{ORDERS}@v2' AS b USING (order_id)
    """
    assert con.execute(query).fetchone() == (12, 97, True)
    query = f"SELECT sum(b.total - a.price * a.quantity) FROM '{ORDERS}@v2' a JOIN '{ORDERS}' b"
    assert con.execute(query + " USING (order_id)").fetchone() == (0,)


def test_views_keep_pointing_to_the_newest_version(con: Any, tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    table = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": [1, 2]}), table)
    con.execute(f"CREATE VIEW v AS FROM '{table}'")
    con.execute(f"CREATE VIEW first AS FROM '{table}@v1'")
    con.execute(f"CREATE MACRO m(least) AS TABLE SELECT * FROM '{table}' WHERE a >= least")
    assert con.execute("SELECT sum(a) FROM v").fetchone() == (3,)
    lance.write_dataset(pa.table({"a": [10]}), table, mode="append")
    assert con.execute("SELECT sum(a) FROM v").fetchone() == (13,)
    assert con.execute("SELECT sum(a) FROM first").fetchone() == (3,)
    assert con.execute("SELECT sum(a) FROM m(2)").fetchone() == (12,)


def test_prepared_statements_take_parameters(con: Any) -> None:
    query = f"SELECT count(*) FROM '{ORDERS}' WHERE order_id > ? AND city = ?"
    for least in (0, 600, 5000):
        expected = f"SELECT count(*) FROM '{ORDERS}' WHERE order_id > {least} AND city = 'Gent'"
        found = con.execute(query, [least, "Gent"]).fetchone()
        assert found == con.execute(expected).fetchone()
    con.execute(f"PREPARE s AS SELECT count(*) FROM '{ORDERS}@v1' WHERE order_id > $1")
    assert con.execute("EXECUTE s(1000)").fetchone() == (200,)
    assert con.execute("EXECUTE s(0)").fetchone() == (1200,)


def test_rows_can_be_copied_out(con: Any, tmp_path: Path) -> None:
    for target, suffix in ((tmp_path / "a.parquet", ""), (tmp_path / "b.csv", " (HEADER)")):
        con.execute(f"COPY (FROM '{ORDERS}') TO '{target}'{suffix}")
        assert con.execute(f"SELECT count(*) FROM '{target}'").fetchone() == (ORDERS_ROWS[4],)
    con.execute(f"CREATE TABLE few AS SELECT order_id FROM '{ORDERS}' LIMIT 0")
    con.execute(f"INSERT INTO few SELECT order_id FROM '{ORDERS}@v1'")
    con.execute(f"DELETE FROM few WHERE order_id IN (SELECT order_id FROM '{ORDERS}@v2')")
    assert con.execute("SELECT count(*) FROM few").fetchone() == (12,)


def test_several_statements_run_once_each(con: Any) -> None:
    con.execute(f"CREATE TABLE n AS SELECT 1 AS a; CREATE VIEW v AS FROM '{ORDERS}'")
    last = f"SELECT n.a, o.city FROM n, '{ORDERS}@v1' AS o"
    found = con.execute(f"INSERT INTO n VALUES (2); SELECT count(*) FROM v, n; {last}")
    assert len(found.fetchall()) == 2 * ORDERS_ROWS[1]
    assert con.execute("FROM n ORDER BY a").fetchall() == [(1,), (2,)]


def test_a_transaction_survives_the_search_for_a_name(con: Any) -> None:
    con.execute("CREATE TABLE n (a int)")
    con.execute("BEGIN")
    con.execute("INSERT INTO n VALUES (1)")
    con.execute(f"INSERT INTO n SELECT count(*) FROM '{ORDERS}'")
    con.execute(f"INSERT INTO n SELECT count(*) FROM lance_scan('{ORDERS}', version := 1)")
    con.execute("COMMIT")
    assert con.execute("FROM n ORDER BY a").fetchall() == [(1,), (1191,), (1200,)]


def test_explain_and_describe_and_summarize_work(con: Any) -> None:
    assert con.execute(f"EXPLAIN SELECT city FROM '{ORDERS}'").fetchall()
    assert con.execute(f"EXPLAIN ANALYZE SELECT city FROM '{ORDERS}'").fetchall()
    described = con.execute(f"DESCRIBE FROM '{ORDERS}'").fetchall()
    assert [row[0] for row in described][:3] == ["order_id", "ordered_at", "city"]
    assert len(con.execute(f"SUMMARIZE '{ORDERS}'").fetchall()) == 8


def test_relations_can_be_built_on(con: Any) -> None:
    orders = con.sql(f"FROM '{ORDERS}'")
    assert orders.columns[-1] == "total"
    assert orders.filter("order_id <= 4").aggregate("count(*)").fetchall() == [(4,)]
    few = orders.filter("order_id <= 4").project("order_id, city").order("order_id")
    assert few.fetchall()[0] == (1, "Gent")
    first = con.sql(f"FROM '{ORDERS}@v1'").set_alias("first")
    joined = orders.set_alias("last").join(first, "order_id")
    assert joined.aggregate("count(*)").fetchall() == [(ORDERS_ROWS[2],)]
    assert con.table(ORDERS).aggregate("count(*)").fetchall() == [(ORDERS_ROWS[4],)]


def test_variables_of_the_caller_can_be_joined(con: Any) -> None:
    chosen = pa.table({"order_id": pa.array([1, 97, 1201], pa.int32())})
    query = f"SELECT order_id FROM '{ORDERS}' JOIN chosen USING (order_id) ORDER BY 1"
    assert con.execute(query).fetchall() == [(1,), (1201,)]
    assert chosen.num_rows == 3


def test_results_come_as_arrow_pandas_and_polars(con: Any) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    query = f"SELECT order_id, city, price FROM '{ORDERS}'"
    assert isinstance(con.sql(query).df(), pandas.DataFrame)
    frame = con.sql(query).pl()
    assert isinstance(frame, polars.DataFrame)
    assert frame.height == ORDERS_ROWS[4]


@pytest.mark.parametrize("road", EACH_ROAD)
def test_a_database_in_a_file_can_be_read_only(road: str, tmp_path: Path) -> None:
    path = str(tmp_path / "x.duckdb")
    duckdb.connect(path).close()
    con = connect(road, path, read_only=True)
    query = f"SELECT count(*) FROM lance_scan('{ORDERS}')"
    assert con.execute(query).fetchone() == (ORDERS_ROWS[4],)
    assert con.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (0,)
    con.close()


def test_rows_keep_their_order(con: Any) -> None:
    ids = [row[0] for row in con.execute(f"SELECT order_id FROM '{ORDERS}@v2'").fetchall()]
    assert ids == sorted(ids)
