"""Conditions become the expressions that DuckDB's own package makes of them, without pandas."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from roads import connect, needs_install, not_in_2_0_0
from support import run_python

pytestmark = needs_install

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "TINYINT": (pa.int8(), [-128, 0, 127]),
    "INTEGER": (pa.int32(), [-(2**31), 7]),
    "BIGINT": (pa.int64(), [-(2**63), 2**63 - 1]),
    "UBIGINT": (pa.uint64(), [0, 2**64 - 1]),
    "FLOAT": (pa.float32(), [0.5, -0.0]),
    "DOUBLE": (pa.float64(), [0.1, 1e300]),
    "BOOLEAN": (pa.bool_(), [True, False]),
    "VARCHAR": (pa.string(), ["", "日本 'x'"]),
    "DATE": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    "TIMESTAMP_S": (pa.timestamp("s"), [datetime(1969, 12, 31, 23, 59, 59)]),
    "TIMESTAMP_MS": (pa.timestamp("ms"), [datetime(2026, 1, 1, 0, 0, 0, 1000)]),
    "TIMESTAMP": (pa.timestamp("us"), [datetime(1900, 1, 1, 0, 0, 0, 1), datetime(9999, 12, 31)]),
    "DECIMAL(15,2)": (pa.decimal128(15, 2), [Decimal("-0.01"), Decimal("9999999999999.99")]),
    "BLOB": (pa.binary(), [b"", b"\x00\xff"]),
    "TIME": (pa.time64("us"), [time(0), time(23, 59, 59, 999_999)]),
    "TIMESTAMP WITH TIME ZONE": (pa.timestamp("us", "Asia/Tokyo"), [-1, 0, 2**62]),
    "DECIMAL(38,10)": (pa.decimal128(38, 10), [Decimal(10**27) + Decimal("0.0000000001")]),
}


def _conditions(name: str, values: list[Any], parts: tuple[str, ...]) -> list[Any]:
    from duckdb._sources.nodes import Binary, Col, Lit, Postfix, Unary

    column = Col(parts)
    compared = [
        Binary(operator, column, Lit(value, name))
        for operator in ("=", "!=", "<", "<=", ">", ">=")
        for value in values
    ]
    between = Binary("AND", compared[-1], compared[2])
    nulls = [Postfix("IS NULL", column), Postfix("IS NOT NULL", column)]
    return [*compared, *nulls, between, Unary("NOT", between), Binary("OR", between, nulls[0])]


# Types of which DuckDB has one, and Arrow several.
OTHERS: list[tuple[str, pa.DataType, list[Any]]] = [
    ("VARCHAR", pa.large_string(), ["", "日本"]),
    ("BLOB", pa.large_binary(), [b"", b"a"]),
    ("TIME", pa.time32("s"), [time(1, 2, 3)]),
    ("TIME", pa.time32("ms"), [time(1, 2, 3, 4000)]),
    ("TIMESTAMP WITH TIME ZONE", pa.timestamp("s", "UTC"), [-(10**6), 10**6]),
    ("TIMESTAMP WITH TIME ZONE", pa.timestamp("ms", "UTC"), [10**3]),
]
ALL_TYPES = [(name, *of_name) for name, of_name in TYPES.items()] + OTHERS


@not_in_2_0_0("compares times of other units in microseconds")
@pytest.mark.parametrize(("name", "kind", "values"), ALL_TYPES, ids=str)
@pytest.mark.parametrize("parts", [("c",), ("s", "t", "c")])
def test_conditions_are_translated_as_by_duckdb(
    name: str, kind: pa.DataType, values: list[Any], parts: tuple[str, ...]
) -> None:
    from duckdb._sources.to_arrow import to_arrow

    from duckdb_adapter.sources import predicates

    field = pa.field("c", kind)
    for part in reversed(parts[:-1]):
        field = pa.field(part, pa.struct([field]))
    schema = pa.schema([field])
    for condition in _conditions(name, values, parts):
        expected = to_arrow(condition, schema)
        assert predicates.to_arrow_expression(condition, schema).equals(expected), (
            condition.fragment()
        )
        known = predicates._translate(condition, schema)
        assert known is not None
        assert known.equals(expected)


@pytest.mark.parametrize(
    ("name", "kind", "values"),
    [each for each in ALL_TYPES if each[0] not in ("BOOLEAN", "FLOAT", "DOUBLE")],
    ids=str,
)
def test_members_are_translated_to_the_same_rows(
    name: str, kind: pa.DataType, values: list[Any]
) -> None:
    from duckdb._sources.nodes import Col, In, Lit
    from duckdb._sources.to_arrow import to_arrow

    from duckdb_adapter.sources.predicates import to_arrow_expression

    condition = In(Col(("c",)), [Lit(value, name) for value in values])
    is_zoned = pa.types.is_timestamp(kind) and kind.tz is not None  # DuckDB tells microseconds
    told = pa.timestamp("us", kind.tz) if is_zoned else kind
    rows = pa.table({"c": pa.array([*values, None, *values[:1]], told).cast(kind)})
    schema = rows.schema
    found = [
        rows.append_column("row", pa.array(range(len(rows)))).filter(expression)
        for expression in (
            to_arrow_expression(condition, schema),
            to_arrow(condition, schema),
            pc.invert(to_arrow_expression(condition, schema)),
            pc.invert(to_arrow(condition, schema)),
        )
    ]
    assert found[0].equals(found[1])
    assert found[2].equals(found[3])
    assert len(found[0]) == len(values) + 1


@not_in_2_0_0("compares times of other units in microseconds")
@pytest.mark.parametrize(
    ("name", "kind", "between"),
    [
        ("TIME", pa.time32("s"), time(0, 0, 1, 500_000)),
        ("TIMESTAMP WITH TIME ZONE", pa.timestamp("s", "UTC"), -1_500_000),
        ("TIMESTAMP WITH TIME ZONE", pa.timestamp("ms", "UTC"), 1_500),
    ],
)
def test_times_between_two_units_are_compared_as_by_duckdb(
    name: str, kind: pa.DataType, between: Any
) -> None:
    from duckdb._sources.nodes import Binary, Col, In, Lit
    from duckdb._sources.to_arrow import to_arrow

    from duckdb_adapter.sources.predicates import to_arrow_expression

    schema = pa.schema([pa.field("c", kind)])
    column, constant = Col(("c",)), Lit(between, name)
    for operator in ("=", "!=", "<", "<=", ">", ">="):
        condition = Binary(operator, column, constant)
        assert to_arrow_expression(condition, schema).equals(to_arrow(condition, schema))
    rows = pa.table({"c": pa.array([0, 1, None, 2], kind)})
    member = In(column, [constant])
    assert rows.filter(to_arrow_expression(member, schema)).equals(
        rows.filter(to_arrow(member, schema))
    )


@pytest.mark.parametrize(
    ("name", "value"), [("INTEGER", 7), ("BIGINT", 7.0), ("BIGINT", True), ("VARCHAR", "7")]
)
def test_constants_of_other_types_are_refused_as_by_duckdb(name: str, value: Any) -> None:
    from duckdb._sources.nodes import Binary, Col, Lit, Untranslatable

    from duckdb_adapter.sources.predicates import to_arrow_expression

    schema = pa.schema([pa.field("c", pa.int64())])
    with pytest.raises(Untranslatable):
        to_arrow_expression(Binary("=", Col(("c",)), Lit(value, name)), schema)


def test_conditions_that_are_nested_too_deeply_are_left_to_duckdb() -> None:
    from duckdb._sources.nodes import Binary, Col, Lit, Untranslatable

    from duckdb_adapter.sources.predicates import to_arrow_expression

    deep = one = Binary("=", Col(("c",)), Lit(1, "BIGINT"))
    for _ in range(10_000):
        deep = Binary("OR", deep, one)
    with pytest.raises(Untranslatable):
        to_arrow_expression(deep, pa.schema([pa.field("c", pa.int64())]))


def test_many_terms_of_several_columns_are_answered(table: Path) -> None:
    terms = " OR ".join(f"(id = {n} AND size >= 0 AND level IS NULL)" for n in range(0, 3000, 3))
    query = f"SELECT count(*) FROM '{table}' WHERE {terms}"
    numbers = f"SELECT count(*) FROM '{table}' WHERE id % 3 = 0 AND id < 3000 AND level IS NULL"
    con = connect("install")
    assert con.execute(query).fetchall() == con.execute(numbers).fetchall()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    count = 600_000
    random = np.random.default_rng(5)
    rows = pa.table(
        {
            "id": range(count),
            "host": [f"host-{n:02d}" for n in random.integers(0, 30, count)],
            "level": [("info", "warn", None)[n] for n in random.integers(0, 3, count)],
            "text": [f"text {n}" for n in range(count)],
            "size": random.random(count),
            "price": pa.array([Decimal(n) for n in range(count)], pa.decimal128(15, 2)),
            "ts": pa.array(np.arange(count) * 1000, pa.timestamp("ms")),
            "req": [{"status": n % 7} for n in range(count)],
            "zoned": pa.array(np.arange(count) * 1000, pa.timestamp("us", "UTC")),
            "day": pa.array((np.arange(count) // 1000).astype(np.int32), pa.date32()),
            "large": pa.array([f"text {n}" for n in range(count)], pa.large_string()),
        }
    )
    path = tmp_path_factory.mktemp("fresh") / "t.lance"
    lance.write_dataset(rows, str(path))
    return path


FIRST_QUERIES = [
    "FROM {t} WHERE id = 12345",
    "SELECT count(*) FROM {t} WHERE id IN (1, 2, 3) OR id IS NULL",
    "SELECT count(*) FROM {t} WHERE size > 0.5 AND level = 'warn' AND price <= 10.5",
    "SELECT count(*) FROM {t} WHERE ts BETWEEN TIMESTAMP '1970-01-01 00:01:00' AND '1970-01-02'",
    "SELECT count(*) FROM {t} WHERE zoned < TIMESTAMPTZ '1970-01-01 00:01:00+00'",
    "SELECT count(*) FROM {t} WHERE day IN (DATE '1970-02-01', DATE '1970-03-01')",
    "SELECT count(*) FROM {t} WHERE price IN (1, 2.5) AND req.status = 1",
    "SELECT count(*) FROM {t} WHERE large = 'text 7' OR large IN ('text 8', 'text 9')",
    "SELECT count(*) FROM {t} WHERE text LIKE '%99'",
    "SELECT level, host, avg(size), count(*) FROM {t} GROUP BY ALL ORDER BY ALL LIMIT 3",
    "SELECT host, count(*) FROM {t} GROUP BY 1 ORDER BY 1 LIMIT 3",
    "SELECT count(DISTINCT level) FROM {t}",
    "SELECT req.status, count(*) FROM {t} GROUP BY 1 ORDER BY 1",
    "SELECT min(ts), max(ts), count(level) FROM {t}",
    "SELECT * EXCLUDE (level) FROM {t} ORDER BY size DESC LIMIT 3",
    "FROM {t} ORDER BY text LIMIT 3",
    "SELECT id, ts FROM {t} QUALIFY row_number() OVER (PARTITION BY host ORDER BY ts DESC) = 1",
]


def test_a_new_process_answers_without_pandas_and_fsspec(table: Path) -> None:
    """To import them takes longer than the queries."""
    queries = [query.format(t=f"'{table}'") for query in FIRST_QUERIES]
    program = (
        "import json, sys, duckdb, duckdb_adapter\n"
        "duckdb_adapter.install()\n"
        "con, found = duckdb.connect(), []\n"
        f"for query in {queries!r}:\n"
        "    rows = con.execute(query).fetchall()\n"
        "    imported = {'pandas', 'fsspec', 'asyncio'} & sys.modules.keys()\n"
        "    found.append((query, len(rows), list(imported)))\n"
        "print(json.dumps(found))\n"
    )
    expected = [(query, len(connect("install").execute(query).fetchall())) for query in queries]
    assert json.loads(run_python(program)) == [[*each, []] for each in expected]
