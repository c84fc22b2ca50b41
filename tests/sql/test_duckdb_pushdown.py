"""Columns and filters reach the scan, and the answers are DuckDB's own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from roads import HAS_EXTENSIONS, INTERFACES, connect, needs_install
from support import ORDERS

from duckdb_adapter.sources import rows as scanned_rows
from lancefs.lance_dataset import LanceDataset, LanceScanner
from lancefs.scan.settings import BATCH_ROWS

_INF = math.inf
_TIMES = [datetime(2026, 1, day, 12, 30, 1, 250_000) for day in (1, 2, 3, 4)]

# Column -> type and values; each gets a NULL too.
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [-128, -1, 0, 1, 127]),
    "i16": (pa.int16(), [-32768, -1, 0, 1, 32767]),
    "i32": (pa.int32(), [-(2**31), -1, 0, 1, 2**31 - 1]),
    "i64": (pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    "u8": (pa.uint8(), [0, 1, 127, 128, 255]),
    "u16": (pa.uint16(), [0, 1, 32768, 65535]),
    "u32": (pa.uint32(), [0, 1, 2**31, 2**32 - 1]),
    "u64": (pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
    "f16": (pa.float16(), [-1.5, -0.0, 0.0, 2.0, math.nan, _INF]),
    "f32": (pa.float32(), [-_INF, -1.5, -0.0, 0.0, 1.5, _INF, math.nan]),
    "f64": (pa.float64(), [-_INF, -1.5, -0.0, 0.0, 0.1, 1.5, _INF, math.nan]),
    "flag": (pa.bool_(), [False, True]),
    "text": (pa.string(), ["", "a", "A", "ab", "é", "zebra", "a\0b"]),
    "large_text": (pa.large_string(), ["", "a", "b", "ab"]),
    "data": (pa.binary(), [b"", b"a", b"\x00", b"\xff\xfe"]),
    "large_data": (pa.large_binary(), [b"", b"a", b"\xff"]),
    "fixed": (pa.binary(2), [b"aa", b"ab", b"\x00\xff"]),
    "day": (pa.date32(), [date(1969, 12, 31), date(2026, 1, 1), date(2026, 1, 2)]),
    "millis": (pa.date64(), [date(2026, 1, 1), date(2026, 1, 2)]),
    "ts_s": (pa.timestamp("s"), [time.replace(microsecond=0) for time in _TIMES]),
    "ts_ms": (pa.timestamp("ms"), _TIMES),
    "ts_us": (pa.timestamp("us"), _TIMES),
    "ts_ns": (pa.timestamp("ns"), _TIMES),
    "ts_utc": (pa.timestamp("us", tz="UTC"), [time.replace(tzinfo=UTC) for time in _TIMES]),
    "ts_zone": (
        pa.timestamp("ms", tz="Europe/Berlin"),
        [time.replace(tzinfo=UTC) for time in _TIMES],
    ),
    "seconds": (pa.time32("s"), [time(0), time(12, 30), time(23, 59, 59)]),
    "clock": (pa.time64("us"), [time(0), time(12, 30), time(23, 59, 59, 999_999)]),
    "span": (pa.duration("us"), [timedelta(0), timedelta(days=1), timedelta(microseconds=-1)]),
    "money": (pa.decimal128(12, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("9999.99")]),
    "huge": (pa.decimal128(38, 10), [Decimal("-1e-10"), Decimal("0"), Decimal("1e20")]),
    "word": (pa.dictionary(pa.int8(), pa.string()), ["red", "green", "blue"]),
    "point": (
        pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.string())]))]),
        [{"x": 1, "y": {"z": "a"}}, {"x": 2, "y": None}, {"x": None, "y": {"z": None}}],
    ),
    "shape": (
        pa.struct([("f", pa.float32()), ("u", pa.uint64())]),
        [{"f": 1.5, "u": 2**64 - 1}, {"f": math.nan, "u": 1}, {"f": -0.0, "u": None}],
    ),
    "items": (pa.list_(pa.int32()), [[], [1], [1, None], [2, 3]]),
    "vector": (pa.list_(pa.float32(), 2), [[0.5, 1.0], [0.5, -1.0], [2.0, 0.0]]),
}
_NAIVE = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}
# Columns whose filters DuckDB does not offer, or that pyarrow would not apply as DuckDB does.
NOT_PUSHED = {"f16", "millis", "ts_ns", "span", "items", "vector", "point", "shape", "word"}
NESTED = {"items", "vector", "point", "shape"}
CONSTANTS = {
    name: [value for value in values if not isinstance(value, float) or not math.isnan(value)][1:3]
    for name, (_, values) in COLUMNS.items()
}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with all types, some rows of which are deleted, in two fragments."""
    lance = pytest.importorskip("lance")
    url = str(tmp_path_factory.mktemp("tables") / "everything.lance")
    rows = 3 * max(len(values) + 1 for _, values in COLUMNS.values())
    columns: dict[str, Any] = {"id": pa.array(range(rows), pa.int32())}
    for name, (kind, values) in COLUMNS.items():
        column = [[*values, None][row % (len(values) + 1)] for row in range(rows)]
        columns[name] = pa.array(column, kind)
    lance.write_dataset(pa.table(columns), url, max_rows_per_file=20, data_storage_version="2.1")
    lance.dataset(url).delete("id IN (3, 21)")
    return url


# The second road is for the slow tests: that it is as exact, its own DuckDBs say as well.
SLOWER = [pytest.param(road, marks=pytest.mark.slow) for road in INTERFACES[1:]]


@pytest.fixture(scope="module", params=[INTERFACES[0], *SLOWER])
def both(request: pytest.FixtureRequest, everything: str) -> Iterator[Any]:
    """A connection on which `lance` is the table, and `native` the same in DuckDB's own storage."""
    con = connect(request.param)
    con.execute("SET TimeZone = 'UTC'")
    con.execute(f"CREATE VIEW lance AS FROM '{everything}'")
    con.execute("CREATE TABLE native AS FROM lance")
    yield con
    con.close()


def literal(value: Any, kind: pa.DataType) -> str:
    """Spell a value in SQL, with the type that DuckDB gives the column."""
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'::BLOB"
    if isinstance(value, float):
        return f"'{value}'::{'DOUBLE' if kind == pa.float64() else 'FLOAT'}"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, timedelta):
        return f"INTERVAL '{int(value / timedelta(microseconds=1))} microseconds'"
    if isinstance(value, datetime):
        name = "TIMESTAMPTZ" if value.tzinfo else _NAIVE[kind.unit]
        return f"'{value.isoformat(sep=' ')}'::{name}"
    if isinstance(value, date):
        return f"'{value}'::DATE"
    if isinstance(value, time):
        return f"'{value}'::TIME"
    if isinstance(value, dict):
        members = (f"'{key}': {literal(below, kind)}" for key, below in value.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return f"[{', '.join(literal(below, kind) for below in value)}]"
    return "NULL" if value is None else str(value)


def spelled(name: str) -> list[str]:
    """Two values of a column, in SQL."""
    kind, _ = COLUMNS[name]
    return [literal(value, kind) for value in CONSTANTS[name]]


def conditions(name: str) -> Iterator[str]:
    """Conditions with every operator, alone and combined."""
    constants = spelled(name)
    low, high = constants[0], constants[-1]
    for operator in ("=", "<>", "<", "<=", ">", ">="):
        yield f"{name} {operator} {low}"
    if name not in NESTED:
        yield f"{name} BETWEEN {low} AND {high}"
        yield f"{name} NOT BETWEEN {low} AND {high}"
        yield f"{name} > {low} AND {name} < {high}"
        yield f"{name} < {low} OR {name} > {high}"
    yield f"{name} IN ({', '.join(constants)})"
    yield f"{name} NOT IN ({', '.join(constants)})"
    yield f"{name} IN ({low}, NULL)"
    yield f"{name} NOT IN ({low}, NULL)"
    yield f"{name} = {low} OR {name} = {high}"
    yield f"{name} = NULL"
    yield f"{name} IS NULL"
    yield f"{name} IS NOT NULL"
    yield f"{name} IS DISTINCT FROM {low}"
    yield f"{name} IS NOT DISTINCT FROM {low}"
    yield f"NOT ({name} > {low})"
    yield f"NOT ({name} = {low} OR {name} IS NULL)"
    yield f"{name} > {low} OR {name} IS NULL"
    yield f"{name} >= {low} AND id % 2 = 0"
    yield f"{name} = {low} OR id < 7"


@pytest.mark.parametrize("name", COLUMNS)
def test_every_filter_is_exact(both: Any, name: str) -> None:
    chosen = list(conditions(name))
    lists = ", ".join(f"list(id ORDER BY id) FILTER ({condition})" for condition in chosen)
    expected = both.execute(f"SELECT {lists} FROM native").fetchone()
    for condition, ids in zip(chosen, expected, strict=True):
        found = both.execute(f"SELECT id FROM lance WHERE {condition} ORDER BY id").fetchall()
        assert [row[0] for row in found] == (ids or []), condition


def assert_alike(both: Any, query: str) -> None:
    """Both tables, for which `{}` stands in a query, must give the same rows in the same order."""
    found = both.execute(query.replace("{}", "lance")).fetchall()
    assert found == both.execute(query.replace("{}", "native")).fetchall(), query


@pytest.mark.parametrize("name", sorted(COLUMNS.keys() - NESTED))
def test_filters_that_come_from_joins_and_limits_are_exact(both: Any, name: str) -> None:
    """DuckDB makes them while a query runs: from the other side of a join, from the best so far."""
    values = " UNION ALL ".join(f"SELECT {one} AS k" for one in spelled(name))
    for query in (
        f"SELECT id FROM {{}} JOIN ({values}) ON {name} = k ORDER BY id",
        f"SELECT id FROM {{}} SEMI JOIN ({values}) ON {name} = k ORDER BY id",
        f"SELECT id FROM {{}} JOIN (SELECT min(k) AS k FROM ({values})) ON {name} >= k ORDER BY id",
        f"SELECT id FROM {{}} WHERE {name} IN (FROM ({values})) ORDER BY id",
        f"SELECT id FROM {{}} ORDER BY {name} NULLS LAST, id LIMIT 5",
        f"SELECT id FROM {{}} ORDER BY {name} DESC NULLS LAST, id LIMIT 5",
        f"SELECT id FROM {{}} ORDER BY {name} NULLS FIRST, id LIMIT 5 OFFSET 3",
        f"SELECT min({name}) IS NULL, count({name}), count(DISTINCT {name}) FROM {{}}",
        f"SELECT id FROM {{}} WHERE {name} = (SELECT max({name}) FROM {{}}) ORDER BY id",
    ):
        assert_alike(both, query)


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize("value", ["NaN", "Infinity", "0", "-0"])
def test_filters_order_nan_as_duckdb_does(both: Any, name: str, operator: str, value: str) -> None:
    query = f"SELECT id FROM {{}} WHERE {name} {operator} '{value}'::DOUBLE ORDER BY id"
    assert_alike(both, query)


@pytest.mark.parametrize(
    "condition",
    [
        "point.x = 1",
        "point.x > 1 OR point.x IS NULL",
        "point.y.z = 'a'",
        "point.y.z IS NULL",
        "point IS NULL",
        "shape.f > 1",
        "shape.f <= 1",
        "shape.f = 'NaN'",
        "shape.u > 1 AND shape.f IS NOT NULL",
        "shape.u NOT IN (1)",
        "text LIKE 'a%'",
        "text NOT LIKE 'a%'",
        "text LIKE '%b'",
        "text LIKE '_'",
        "text ILIKE 'A%'",
        "text LIKE 'a'",
        "contains(text, 'b')",
        "prefix(large_text, 'a') OR large_text = 'b'",
        "regexp_matches(text, '^[a-z]+$')",
        "i8 < 1000",
        "i8 = 300",
        "u8 > -1",
        "i32 > 0.5",
        "i64 = 1.0::DOUBLE",
        "u64 > 9223372036854775807",
        "f32 = 0.1",
        "f64 BETWEEN 0 AND 'NaN'::DOUBLE",
        "f64 IN (0, 'NaN'::DOUBLE, 'Infinity'::DOUBLE)",
        "f64 NOT IN ('NaN'::DOUBLE)",
        "isnan(f64) OR isinf(f32)",
        "NOT (f64 <= 1)",
        "money > 1",
        "money = 0.001",
        "ts_us > DATE '2026-01-02'",
        "ts_ms = ts_us",
        "ts_utc >= '2026-01-02 13:00:00+00'",
        "ts_zone = ts_utc",
        "day = TIMESTAMP '2026-01-01 00:00:00'",
        "data > 'a'::BLOB",
        "flag",
        "NOT flag",
        "flag IS NOT TRUE",
        "vector[1] = 0.5",
        "coalesce(i32, 7) = 7",
        "i8 + 1 > 0",
        "false",
        "id = 5 OR text = 'a' AND (i8 = 1 OR i8 IS NULL)",
        "text >= 'a' AND text < 'b'",
        "len(items) = 1",
        "i32 = i64",
        "id IN (SELECT id FROM native WHERE flag)",
        "word = 'red'",
        "word LIKE 'r%'",
        "starts_with(text, 'a') AND f64 > 0",
    ],
)
def test_other_conditions_are_exact(both: Any, condition: str) -> None:
    query = f"SELECT id FROM {{}} WHERE {condition} ORDER BY id"
    assert_alike(both, query)


def test_values_of_every_type_come_out_right(both: Any) -> None:
    """Also those that DuckDB knows by another type: half precision becomes single."""
    for name in COLUMNS:
        query = f"SELECT id, CAST({name} AS VARCHAR) FROM {{}} ORDER BY id"
        found = dict(both.execute(query.format("lance")).fetchall())
        assert found == dict(both.execute(query.format("native")).fetchall())
        assert sum(value is None for value in found.values()) >= 2
    halves = both.execute("SELECT DISTINCT f16 FROM lance WHERE f16 < 10 ORDER BY 1").fetchall()
    assert halves[0] == (-1.5,)
    assert halves[-1] == (2.0,)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str] | None, str | None, list[int]]]:
    """What was asked of datasets from now on: columns, filter, and rows of each batch."""
    asked: list[tuple[list[str] | None, str | None, list[int]]] = []
    scanner, to_batches = LanceDataset.scanner, LanceScanner.to_batches

    def note(self: LanceDataset, columns: Any = None, filter: Any = None, **rest: Any) -> Any:
        made = scanner(self, columns, filter, **rest)
        rows: list[int] = []
        made_of[id(made)] = made, rows
        asked.append((columns and list(columns), None if filter is None else str(filter), rows))
        return made

    def count(self: LanceScanner) -> Iterator[pa.RecordBatch]:
        _, rows = made_of[id(self)]
        for batch in to_batches(self):
            rows.append(batch.num_rows)
            yield batch

    made_of: dict[int, tuple[Any, list[int]]] = {}
    monkeypatch.setattr(LanceDataset, "scanner", note)
    monkeypatch.setattr(LanceScanner, "to_batches", count)
    return asked


def test_counting_rows_reads_no_column(con: Any, scans: list[Any]) -> None:
    assert con.execute(f"SELECT count(*) FROM '{ORDERS}'").fetchone() == (1191,)
    assert scans == []


def test_counting_some_rows_reads_what_the_filter_needs(con: Any, scans: list[Any]) -> None:
    con.execute(f"SELECT count(*) FROM '{ORDERS}' WHERE quantity > 5").fetchall()
    ((columns, filter, _),) = scans
    assert filter == "(quantity > 5)"
    assert set(columns or []) <= {"quantity"}


def test_only_the_columns_of_a_query_are_read(con: Any, scans: list[Any]) -> None:
    con.execute(f"SELECT city, sum(quantity) FROM '{ORDERS}' WHERE order_id < 100 GROUP BY 1")
    con.fetchall()
    ((columns, filter, _),) = scans
    assert set(columns or []) - {"order_id"} == {"city", "quantity"}
    assert filter == "(order_id < 100)"


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of many batches."""
    lance = pytest.importorskip("lance")
    url = str(tmp_path_factory.mktemp("tables") / "long.lance")
    lance.write_dataset(pa.table({"a": range(1_000_000)}), url, max_rows_per_file=400_000)
    return url


def test_ten_rows_cost_a_small_read(con: Any, scans: list[Any], long: str) -> None:
    found = con.execute(f"SELECT a FROM '{long}' LIMIT 10").fetchall()
    assert sorted(found) == [(number,) for number in range(10)]
    assert sum(sum(rows) for _, _, rows in scans) <= 2 * BATCH_ROWS


def test_a_table_of_many_batches_comes_whole_and_in_order(con: Any, long: str) -> None:
    query = f"SELECT count(*), sum(a), min(a), max(a) FROM '{long}'"
    assert con.execute(query).fetchone() == (1_000_000, 499_999_500_000, 0, 999_999)
    steps = f"SELECT a - lag(a) OVER () AS step FROM '{long}'"
    query = f"SELECT bool_and(step = 1) FROM ({steps})"
    assert con.execute(query).fetchone() == (True,)
    assert con.execute(f"SELECT a FROM '{long}' LIMIT 3 OFFSET 9000").fetchall()[0] == (9000,)


def test_a_long_table_comes_whole_in_longer_batches(
    con: Any, scans: list[Any], long: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanned_rows, "_MIN_SHARE", 0)
    query = f"SELECT count(*), sum(a), min(a), max(a) FROM '{long}'"
    assert con.execute(query).fetchone() == (1_000_000, 499_999_500_000, 0, 999_999)
    rows = [count for _, _, counts in scans for count in counts]
    assert max(rows) > BATCH_ROWS
    # The first values are looked at before, unless another test has done so.
    assert sum(rows) - 1_000_000 in (0, 8192)


def test_a_query_that_may_need_few_rows_gets_few_first(
    con: Any, scans: list[Any], long: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanned_rows, "_MIN_SHARE", 0)
    assert len(con.execute(f"SELECT a FROM '{long}'").fetchall()) == 1_000_000
    rows = [count for _, _, counts in scans for count in counts]
    assert rows[0] < BATCH_ROWS < max(rows)
    assert sum(rows) == 1_000_000


def test_ten_rows_of_a_long_table_cost_a_small_read(
    con: Any, scans: list[Any], long: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanned_rows, "_MIN_SHARE", 0)
    con.execute("SET threads = 1")  # each one asks for a batch, before it is told to stop
    found = con.execute(f"SELECT a FROM '{long}' LIMIT 10").fetchall()
    assert sorted(found) == [(number,) for number in range(10)]
    assert sum(sum(rows) for _, _, rows in scans) < BATCH_ROWS


@needs_install
def test_the_planner_knows_the_number_of_rows(long: str) -> None:
    con = connect("install")
    plan = con.execute(f"EXPLAIN SELECT a FROM '{long}'").fetchall()[0][1]
    assert "1,000,000 rows" in plan


@needs_install
@pytest.mark.parametrize("name", sorted(COLUMNS.keys() - NOT_PUSHED))
def test_filters_leave_the_plan_for_the_scan(everything: str, name: str) -> None:
    """DuckDB does not test again what the scan has tested."""
    con = connect("shared")
    kind, values = COLUMNS[name]
    query = f"SELECT id FROM '{everything}' WHERE {name} <= {literal(values[1], kind)}"
    plan = con.execute(f"EXPLAIN {query}").fetchall()[0][1]
    assert "Filters:" in plan


@pytest.mark.parametrize("of", ["{}", "'{}'"], ids=["numbers", "texts"])
def test_long_lists_of_values_are_exact(con: Any, tmp_path: Path, of: str) -> None:
    lance = pytest.importorskip("lance")
    table = str(tmp_path / "t.lance")
    numbers = [None if i % 17 == 0 else i * 3 for i in range(20_000)]
    texts = [None if i is None else str(i) for i in numbers]
    lance.write_dataset(pa.table({"number": pa.array(numbers, pa.int32()), "text": texts}), table)
    column = "number" if of == "{}" else "text"
    # DuckDB 1.4 crashes with lists of 10,000 over any Arrow dataset.
    end = 6000 if duckdb.__version__.startswith("1.4.") else 60_000
    values = ", ".join(of.format(i) for i in range(0, end, 6))
    expected = sum(1 for i in numbers if i is not None and i % 6 == 0 and i < end)
    missing = sum(1 for i in numbers if i is None)
    for _ in range(2):
        query = f"SELECT count(*) FROM '{table}' WHERE {column} IN ({values})"
        assert con.execute(query).fetchone() == (expected,)
        query = f"SELECT count(*) FROM '{table}' WHERE {column} NOT IN ({values})"
        assert con.execute(query).fetchone() == (20_000 - expected - missing,)
        query = f"SELECT count(*) FROM '{table}' WHERE ({column} IN ({values})) IS NULL"
        assert con.execute(query).fetchone() == (missing,)


def test_distinct_from_beside_or_has_a_form_for_each_duckdb(con: Any) -> None:
    """DuckDB 1.4 and 1.5 refuse the other form over any Arrow data, as docs/duckdb.md says."""
    rows = con.execute(f"SELECT quantity FROM '{ORDERS}'").fetchall()
    numbers = [quantity for (quantity,) in rows]
    either = {
        "IS DISTINCT FROM": sum(1 for one in numbers if one != 5 or (one or 0) > 9),
        "IS NOT DISTINCT FROM": sum(1 for one in numbers if one == 5 or (one or 0) > 9),
    }
    for operator, count in either.items():
        condition = f"quantity {operator} 5"
        query = f"SELECT count(*) FROM '{ORDERS}' WHERE quantity > 9 OR ({condition}) IS TRUE"
        assert con.execute(query).fetchone() == (count,)
        query = f"SELECT count(*) FROM '{ORDERS}' WHERE quantity > 9 OR {condition}"
        if HAS_EXTENSIONS:
            assert con.execute(query).fetchone() == (count,)
        else:
            with pytest.raises(duckdb.NotImplementedException, match="can't be an Arrow Scan"):
                con.execute(query).fetchone()
