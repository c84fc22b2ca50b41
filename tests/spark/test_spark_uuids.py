"""UUIDs are texts in Spark, by every door; conditions on them keep the rows that Spark keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")

from pyspark.sql import datasource as pushed

import lancefs
import lancefs.spark
from lancefs.spark.data_source import FilteringReader, LanceDataSource
from lancefs.spark.spark_types import arrow_schema, spark_schema
from lancefs.spark.spark_values import convert
from lancefs.spark.table_options import ReadOptions

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
IDS = [UUID(int=n * 0x0F1E2D3C4B5A69788796A5B4C3D2E1F0 % 2**128) for n in range(8)]
TEXTS = [None if n == 2 else str(one) for n, one in enumerate(IDS)]


def uuids(values: list[UUID | None]) -> pa.Array:
    storage = pa.array([None if one is None else one.bytes for one in values], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), storage)


def table_of_all_places() -> pa.Table:
    """UUIDs as a column, and in lists, structs and maps, with nulls in all of them."""
    flat = uuids([None if n == 2 else one for n, one in enumerate(IDS)])
    offsets = pa.array([0, 2, 2, 3, None, 5, 6, 7, 8], pa.int32())
    keys = pa.array([str(n) for n in range(8)])
    starts = [0, 2, 2, 3, 4, 5, 6, 7, 8]
    return pa.table(
        {
            "row": pa.array(range(8), pa.int64()),
            "u": flat,
            "listed": pa.ListArray.from_arrays(offsets, flat),
            "inside": pa.StructArray.from_arrays(
                [flat], ["u"], mask=pa.array([False] * 7 + [True])
            ),
            "mapped": pa.MapArray.from_arrays(pa.array(starts, pa.int32()), keys, flat),
        }
    )


EXPECTED = [
    {
        "row": row,
        "u": TEXTS[row],
        "listed": [TEXTS[0:2], [], TEXTS[2:3], TEXTS[3:5], None, *([t] for t in TEXTS[5:])][row],
        "inside": None if row == 7 else {"u": TEXTS[row]},
        "mapped": {str(n): TEXTS[n] for n in [[0, 1], [], [2], [3], [4], [5], [6], [7]][row]},
    }
    for row in range(8)
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("uuids") / "t.lance")
    options = {"data_storage_version": "2.2", "enable_stable_row_ids": True}
    rows = table_of_all_places()
    lance.write_dataset(rows.slice(0, 5), path, **options)
    lance.write_dataset(rows.slice(5), path, mode="append")
    return path


def shown(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.orderBy("row").collect()]


def test_they_are_texts_by_every_door(spark: Any, table: str) -> None:
    by_format = spark.read.format("lancefs").load(table)
    assert dict(by_format.dtypes) == {
        "row": "bigint",
        "u": "string",
        "listed": "array<string>",
        "inside": "struct<u:string>",
        "mapped": "map<string,string>",
    }
    assert shown(by_format) == EXPECTED
    assert shown(lancefs.spark.read(spark, table)) == EXPECTED
    assert shown(lancefs.spark.table(spark, table)) == EXPECTED
    lancefs.spark.attach(spark, str(Path(table).parent))
    assert shown(spark.sql("SELECT * FROM t")) == EXPECTED
    found = spark.sql(f"SELECT row FROM t WHERE u = '{TEXTS[3]}' OR inside.u = '{TEXTS[4]}'")
    assert [row.row for row in found.orderBy("row").collect()] == [3, 4]


@pytest.mark.parametrize("feed", ["false", "true"])
def test_they_are_texts_in_streams(spark: Any, table: str, tmp_path: Path, feed: str) -> None:
    reader = spark.readStream.format("lancefs").option("startingVersion", "1")
    frame = reader.option("readChangeFeed", feed).load(table)
    out = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "cp"))
    out.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    names = ["row", "u", "listed", "inside", "mapped"]
    assert shown(spark.read.parquet(str(tmp_path / "out")).select(*names)) == EXPECTED


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_they_are_texts_in_files_of_sparks_types(
    spark: Any, table: str, tmp_path: Path, format: str
) -> None:
    out = str(tmp_path / "out")
    done = lancefs.spark.materialize(spark, table, out, types="spark", format=format)
    written = done.dataset().to_table()
    assert written["u"].to_pylist() == TEXTS
    assert written["listed"].to_pylist() == [row["listed"] for row in EXPECTED]
    assert shown(done.to_spark(spark) if format == "parquet" else spark.createDataFrame(written))
    again = lancefs.spark.materialize(spark, table, out, types="spark", format=format,
                                      incremental=True)  # fmt: skip
    assert again.paths == done.paths
    as_they_are = lancefs.spark.materialize(spark, table, str(tmp_path / "arrow"))
    (path,) = as_they_are.urls
    assert pq.read_table(path)["u"].to_pylist()[3] == IDS[3]


CONDITIONS = [
    f"u = '{TEXTS[3]}'",
    f"u = '{str(TEXTS[3]).upper()}'",
    f"u != '{TEXTS[3]}'",
    f"u <=> '{TEXTS[3]}'",
    f"NOT (u <=> '{TEXTS[3]}')",
    f"u IN ('{TEXTS[3]}', '{TEXTS[5]}', 'none')",
    f"u IN ('{TEXTS[3]}', '{TEXTS[5]}')",
    f"u NOT IN ('{TEXTS[3]}', '{TEXTS[5]}')",
    f"u > '{TEXTS[3]}'",
    f"u <= '{TEXTS[3]}'",
    "u > '8'",
    "u LIKE '0f%'",
    "u IS NULL",
    "u = 'no UUID'",
    "u IS NOT NULL AND row > 3",
    f"inside.u = '{TEXTS[3]}'",
]


@pytest.fixture
def pushing(spark: Any) -> Iterator[None]:
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


def test_conditions_keep_the_rows_that_spark_keeps(
    spark: Any, table: str, tmp_path: Path, pushing: None
) -> None:
    frame = spark.read.format("lancefs").load(table)
    frame.select("row", "u", "inside").write.parquet(str(tmp_path / "own"))
    own = spark.read.parquet(str(tmp_path / "own"))
    flags = [f"({condition}) AS c{n}" for n, condition in enumerate(CONDITIONS)]
    rows = own.selectExpr("row", *flags).orderBy("row").collect()
    reader = spark.read.format("lancefs").option("pushFilters", "true")
    for n, condition in enumerate(CONDITIONS):
        found = reader.load(table).where(condition).orderBy("row").select("row").collect()
        assert [row.row for row in found] == [row.row for row in rows if row[f"c{n}"]], condition


def test_only_what_can_be_said_of_bytes_is_taken(table: str) -> None:
    source = LanceDataSource({"path": table})
    reader = FilteringReader(source.pinned, ReadOptions(), source.schema())
    text, capitals = str(TEXTS[3]), str(TEXTS[3]).upper()
    left = [
        pushed.EqualTo(("u",), capitals),
        pushed.GreaterThan(("u",), text[:8]),
        pushed.In(("u",), (text, text.replace("-", ""))),
        pushed.StringStartsWith(("u",), "0f"),
    ]
    taken = [
        pushed.EqualTo(("u",), text),
        pushed.LessThan(("u",), text),
        pushed.Not(pushed.In(("u",), (text,))),
        pushed.IsNull(("u",)),
    ]
    assert list(reader.pushFilters([*left, *taken])) == left


@pytest.mark.parametrize("text", [str(TEXTS[3]), str(TEXTS[3]).upper()])
def test_filters_in_sql_take_texts(spark: Any, table: str, text: str) -> None:
    found = lancefs.spark.read(spark, table, filter=f"u = '{text}' or u in ('{TEXTS[4]}')")
    assert [row.row for row in found.orderBy("row").collect()] == [3, 4]
    lazy = lancefs.spark.table(spark, table, filter=f"u > '{text}'")
    expected = [n for n, one in enumerate(TEXTS) if one is not None and one > str(TEXTS[3])]
    assert [row.row for row in lazy.orderBy("row").collect()] == expected


@given(st.lists(st.none() | st.uuids(), max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_texts_are_those_of_python(values: list[UUID | None], start: int, count: int) -> None:
    batch = pa.record_batch([uuids(values)], names=["u"]).slice(start, count)
    schema = arrow_schema(spark_schema(batch.schema))
    texts = convert(batch, schema, "error").column(0)
    texts.validate(full=True)
    expected = [None if one is None else str(one) for one in values]
    assert texts.to_pylist() == expected[start : start + count]


def test_a_pyarrow_that_does_not_know_uuids_has_them_in_metadata() -> None:
    metadata = {"ARROW:extension:name": "arrow.uuid", "ARROW:extension:metadata": ""}
    field = pa.field("u", pa.binary(16), metadata=metadata)
    batch = pa.record_batch([pa.array([IDS[1].bytes, None], field.type)], pa.schema([field]))
    schema = arrow_schema(spark_schema(batch.schema))
    assert convert(batch, schema, "error").column(0).to_pylist() == [str(IDS[1]), None]
    plain = batch.schema.set(0, field.remove_metadata())
    assert spark_schema(plain).simpleString() == "struct<u:binary>"
