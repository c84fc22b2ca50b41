"""Filters that Spark pushes: the same rows come with and without."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")

from pyspark.sql import datasource as pushed

from lancefs.spark import filters
from lancefs.spark.data_source import FilteringReader, LanceDataSource
from lancefs.spark.table_options import ReadOptions

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
NAN = float("nan")

VALUES: dict[str, pa.Array] = {
    "i": pa.array([1, -5, None, 7, 100, 1, 0, 3], pa.int32()),
    "u": pa.array([0, 255, None, 7, 100, 1, 0, 3], pa.uint8()),
    "big": pa.array([0, 2**64 - 1, None, 7, 100, 1, 0, 3], pa.uint64()),
    "f": pa.array([0.0, -0.0, None, NAN, 1.5, float("inf"), -2.5, 1.5], pa.float64()),
    "g": pa.array([0.0, -0.0, None, NAN, 1.5, float("inf"), 0.1, 1.5], pa.float32()),
    "h": pa.array([0.0, 1.0, None, NAN, 1.5, 2.0, -2.5, 1.5], pa.float16()),
    "s": pa.array(["a", "", None, "ab", "b", "é", "abc", "B"]),
    "d": pa.array(["a", "", None, "ab", "b", "é", "abc", "B"]).dictionary_encode(),
    "b": pa.array([True, False, None, True, True, False, False, True]),
    "x": pa.array([b"a", b"", None, b"ab", b"\xff", b"\x00", b"abc", b"B"]),
    "m": pa.array([Decimal("1.50"), Decimal("-2.00"), None, *[Decimal("7.25")] * 5]),
    "t": pa.array([datetime(2026, 1, 1) + timedelta(days=i) if i != 2 else None for i in range(8)]),
    "n": pa.array(
        [datetime(2026, 1, 1) + timedelta(days=i) if i != 2 else None for i in range(8)],
        pa.timestamp("ns"),
    ),
    "y": pa.array([date(2026, 1, 1) + timedelta(days=i) if i != 2 else None for i in range(8)]),
    "r": pa.array([{"p": i} if i != 2 else None for i in range(8)]),
}
# Members of structs, one of which is null, with values below it.
VALUES["q"] = pa.StructArray.from_arrays(
    [VALUES[name] for name in "iufsmt"], list("iufsmt"), mask=pa.array([n == 4 for n in range(8)])
)
INFINITY = float("inf")
# Values to compare with: of the type that the column has in Spark, as Spark hands them over.
LITERALS: dict[str, list[Any]] = {
    "i": [1, 7, -5],
    "u": [0, 255, 300, -1],
    "big": [Decimal(7), Decimal(2**64 - 1), Decimal(0)],
    "f": [0.0, -0.0, 1.5, NAN, INFINITY],
    "g": [float(np.float32(0.1)), 0.0, NAN, 1.5],
    "h": [1.5, NAN],
    "s": ["ab", "", "é"],
    "d": ["ab", ""],
    "b": [True, False],
    "x": [b"ab", b""],
    "m": [Decimal("1.50"), Decimal("7.25"), Decimal("-2.00")],
    "t": [datetime(2026, 1, 4)],
    "n": [datetime(2026, 1, 4)],
    "y": [date(2026, 1, 4)],
    "q.i": [1, 7, 100],
    "q.u": [0, 100, 300],
    "q.f": [0.0, 1.5, NAN],
    "q.s": ["ab", "", "b"],
    "q.m": [Decimal("1.50"), Decimal("7.25")],
    "q.t": [datetime(2026, 1, 4)],
}
OPERATORS: dict[type[pushed.Filter], Callable[[Any, Any], Any]] = {
    pushed.EqualTo: operator.eq,
    pushed.EqualNullSafe: lambda column, value: column.eqNullSafe(value),
    pushed.GreaterThan: operator.gt,
    pushed.GreaterThanOrEqual: operator.ge,
    pushed.LessThan: operator.lt,
    pushed.LessThanOrEqual: operator.le,
}
TEXTS = {
    pushed.StringStartsWith: "startswith",
    pushed.StringEndsWith: "endswith",
    pushed.StringContains: "contains",
}


def conditions(frame: Any) -> Iterator[tuple[pushed.Filter, Any]]:
    """Filters, and what they mean to Spark."""
    from pyspark.sql import functions as F

    for name, values in LITERALS.items():
        column, kind = F.col(name), frame.select(name).schema[0].dataType
        path, lits = tuple(name.split(".")), [F.lit(value).cast(kind) for value in values]
        yield pushed.IsNull(path), column.isNull()
        yield pushed.IsNotNull(path), column.isNotNull()
        yield pushed.EqualNullSafe(path, None), column.eqNullSafe(F.lit(None).cast(kind))
        yield pushed.In(path, tuple(values)), column.isin(lits)
        yield pushed.In(path, (values[0], None)), column.isin([lits[0], F.lit(None).cast(kind)])
        for value, lit in zip(values, lits, strict=True):
            for filter, said in OPERATORS.items():
                yield filter(path, value), said(column, lit)
            for filter, method in TEXTS.items() if name[-1] in "sd" else ():
                yield filter(path, value), getattr(column, method)(lit)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("filters") / "t.lance")
    rows = pa.table({"row": pa.array(range(8), pa.int64()), **VALUES})
    lance.write_dataset(rows, path, data_storage_version="2.1")
    return path


def test_each_filter_keeps_the_rows_that_spark_keeps(
    spark: Any, table: str, tmp_path: Path
) -> None:
    frame = spark.read.format("lancefs").load(table)
    pairs = [
        pair
        for filter, meaning in conditions(frame)
        for pair in ((filter, meaning), (pushed.Not(filter), ~meaning))
    ]
    frame.write.parquet(str(tmp_path / "own"))  # so that Spark tests the values without lancefs
    own = spark.read.parquet(str(tmp_path / "own"))
    rows = own.select("row", *(said.alias(f"c{n}") for n, (_, said) in enumerate(pairs))).collect()
    source = LanceDataSource({"path": table})
    schema, left, wrong = source.schema(), 0, []
    for n, (filter, _) in enumerate(pairs):
        reader = FilteringReader(source.pinned, ReadOptions(), schema)
        if list(reader.pushFilters([filter])):
            left += 1
            continue
        batches = [b for part in reader.partitions() for b in reader.read(part)]
        got = sorted(row for batch in batches for row in batch["row"].to_pylist())
        expected = sorted(row["row"] for row in rows if row[f"c{n}"])
        if got != expected:
            wrong.append((filter, got, expected))
    assert not wrong
    assert len(pairs) > 350
    assert left < len(pairs) / 3


END_TO_END = [
    "i > 0 AND s LIKE 'a%' AND u < 200",
    "f > 1",
    "f = double('NaN') OR i = 7",
    "s NOT IN ('ab', NULL)",
    "NOT (d <=> 'ab')",
    "m = 7.25 AND NOT b",
    "t >= timestamp_ntz'2026-01-04 00:00:00' AND r.p < 6",
    "q.u >= 7 AND NOT (q.s <=> 'ab')",
]


def taking(spark: Any) -> Any:
    """The format, taking what Spark pushes: for a DataFrame that is read once."""
    return spark.read.format("lancefs").option("pushFilters", "true")


@pytest.mark.parametrize("condition", END_TO_END)
def test_pushed_or_not_the_rows_are_the_same(spark: Any, table: str, condition: str) -> None:
    expected = spark.read.format("lancefs").load(table).where(condition).select("row").toArrow()
    frame = taking(spark).load(table)
    spark.conf.set(PUSHDOWN, "true")
    try:
        assert frame.where(condition).select("row").toArrow().equals(expected)
    finally:
        spark.conf.set(PUSHDOWN, "false")


def test_filters_reach_the_scan(spark: Any, table: str) -> None:
    spark.conf.set(PUSHDOWN, "true")
    try:
        for condition, rows in ((END_TO_END[0], [0, 3]), (END_TO_END[-1], [1])):
            frame = taking(spark).load(table).where(condition)
            plan = frame._jdf.queryExecution().executedPlan().toString()
            assert "Filter (" not in plan  # nothing is left for Spark to test
            assert sorted(row.row for row in frame.select("row").collect()) == rows
    finally:
        spark.conf.set(PUSHDOWN, "false")


def test_conditions_of_one_read_are_not_those_of_another(spark: Any, table: str) -> None:
    """Spark up to 4.3 goes on with those that it pushed, also in another part of a query."""
    spark.conf.set(PUSHDOWN, "true")
    try:
        frame = spark.read.format("lancefs").load(table)
        few = frame.where("row < 3")
        assert (few.count(), frame.count()) == (3, 8)
        assert few.union(frame).count() == 11
        assert few.union(frame.where("row >= 6")).count() == 5
    finally:
        spark.conf.set(PUSHDOWN, "false")


def test_row_metadata_is_filtered_by(spark: Any, table: str) -> None:
    """Spark pushes conditions on these columns, too; the position is left to it."""
    names = "row,_rowid,_rowaddr,_rowoffset,_row_created_at_version"
    reader = taking(spark).option("columns", names)
    condition = "_rowid IN (2, 3, 5) AND _rowaddr > 2 AND _row_created_at_version = 1"
    spark.conf.set(PUSHDOWN, "true")
    try:
        frame = reader.load(table).where(condition)
        assert "Filter (" not in frame._jdf.queryExecution().executedPlan().toString()
        assert sorted(row.row for row in frame.collect()) == [3, 5]
        assert [row.row for row in reader.load(table).where("_rowoffset = 6").collect()] == [6]
    finally:
        spark.conf.set(PUSHDOWN, "false")


def test_what_cannot_be_said_exactly_is_left_to_spark(table: str) -> None:
    source = LanceDataSource({"path": table})
    reader = FilteringReader(source.pinned, ReadOptions(), source.schema())
    inexact = [
        pushed.IsNull(("r",)),
        pushed.EqualTo(("r", "o"), 3),
        pushed.EqualTo(("r", "p"), 3.5),
        pushed.EqualTo(("f",), NAN),
        pushed.GreaterThan(("n",), datetime(2026, 1, 1)),
        pushed.StringContains(("i",), "1"),
        # Values of other types than the column, which Arrow would make some of: 1 of 1.5.
        pushed.EqualTo(("i",), 1.5),
        pushed.EqualTo(("i",), True),
        pushed.In(("y",), (20454,)),
        pushed.EqualTo(("s",), b"ab"),
        pushed.EqualTo(("m",), Decimal("1.505")),
        pushed.LessThan(("i",), 2**70),
        pushed.StringStartsWith(("s",), "\ud83d"),
        pushed.EqualTo(("row",), datetime(2026, 1, 4)),
    ]
    assert list(reader.pushFilters([*inexact, pushed.GreaterThan(("i",), 0)])) == inexact
    assert len(reader.pushed) == 1


def test_a_mistake_in_telling_filters_is_not_taken_for_one_that_cannot_be_told(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr(filters, "_is_doubtful", broken)
    source = LanceDataSource({"path": table})
    reader = FilteringReader(source.pinned, ReadOptions(), source.schema())
    with pytest.raises(ValueError, match="a mistake of ours"):
        list(reader.pushFilters([pushed.GreaterThan(("i",), 0)]))


DIGITS, BEFORE = (Decimal("123456789012345678901234567890123456" + end) for end in ("78", "77"))


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        (f"digits = {DIGITS:f}", [0]),
        (f"digits IN ({DIGITS:f}, 5)", [0, 2]),
        (f"digits > {BEFORE:f}", [0]),
        ("day >= date'1582-10-10'", [0, 2]),
        ("time >= timestamp'1582-10-10 00:00:00'", [0, 2]),
    ],
)
def test_values_that_spark_hands_over_changed_are_left_to_it(
    spark: Any, tmp_path: Path, condition: str, rows: list[int]
) -> None:
    """It rounds decimals of more than 28 digits, and shifts ten days of October 1582."""
    days = [date(1582, 10, 10), date(1500, 1, 1), date(2026, 1, 1)]
    times = [datetime(day.year, day.month, day.day, tzinfo=UTC) for day in days]
    columns = {
        "row": pa.array(range(3), pa.int64()),
        "digits": pa.array([DIGITS, BEFORE, Decimal(5)], pa.decimal128(38)),
        "day": pa.array(days),
        "time": pa.array(times, pa.timestamp("us", "UTC")),
    }
    lance.write_dataset(pa.table(columns), str(tmp_path / "t.lance"))
    spark.conf.set(PUSHDOWN, "true")
    try:
        found = taking(spark).load(str(tmp_path / "t.lance")).where(condition).collect()
        assert sorted(row.row for row in found) == rows
    finally:
        spark.conf.set(PUSHDOWN, "false")
