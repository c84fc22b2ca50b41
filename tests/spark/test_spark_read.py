"""`lancefs.spark.read`: a DataFrame without Spark's data source."""

from __future__ import annotations

import gc
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from spark_support import expected_ids, ids, load, make_table

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")


import lancefs
import lancefs.spark
from lancefs.spark.data_source import LanceDataSource
from lancefs.spark.reading_frame import make_reading, pack
from lancefs.spark.shipping import batches_of


def test_the_helper_reads_only_what_is_asked_for(spark: Any, table: str) -> None:
    keep = (pc.field("city") == "Graz") & (pc.field("price") < 10)
    frame = lancefs.spark.read(spark, table, columns=["id"], filter=keep, version=2)
    assert frame.columns == ["id"]
    expected = lancefs.open(table, version=2).to_table(columns=["id"], filter=keep)
    assert ids(frame) == expected["id"].to_pylist()
    by_sql = lancefs.spark.read(
        spark, table, columns=["id"], filter="city = 'Graz' AND price < 10", version=2
    )
    assert ids(by_sql) == expected["id"].to_pylist()


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ({}, {}),
        ({"rows_per_partition": 300, "with_row_id": True}, {"withRowId": "true"}),
        ({"columns": ["_rowoffset", "id"]}, {"columns": "_rowoffset,id"}),
        ({"version": 2, "filter": "id % 3 = 1"}, {"version": "2", "filter": "id % 3 = 1"}),
        ({"filter": "id < 0"}, {"filter": "id < 0"}),
        ({"columns": ["id"], "branch": "exp"}, {"columns": "id", "branch": "exp"}),
    ],
    ids=str,
)
def test_the_helper_reads_what_the_format_reads(
    spark: Any, table: str, arguments: dict[str, Any], options: dict[str, str]
) -> None:
    got, expected = lancefs.spark.read(spark, table, **arguments), load(spark, table, **options)
    assert got.schema == expected.schema
    assert got.toArrow().equals(expected.toArrow())


def test_the_helper_makes_no_task_for_what_an_index_rules_out(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 2000)
    lance.dataset(path).create_scalar_index("id", "BTREE")
    kept = lancefs.spark.read(spark, path, filter="id = 1234", rows_per_partition=1000)
    assert kept.rdd.getNumPartitions() == 1
    assert ids(kept) == [1234]
    assert lancefs.spark.read(spark, path, filter="id = -1").collect() == []


def test_the_helper_takes_no_conditions_that_spark_would_go_on_using(
    spark: Any, table: str
) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = lancefs.spark.read(spark, table, columns=["id"])
        assert "MapInArrow" in plan_of(frame)
        assert ids(frame.where("id = 12")) == [i for i in expected_ids(table) if i == 12]
        assert ids(frame) == expected_ids(table)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().toString())


def test_modules_are_not_collected_after_each_task(spark: Any, table: str) -> None:
    before = gc.get_freeze_count()  # of pytest
    for _ in range(3):
        lancefs.spark.read(spark, table, columns=["id"], rows_per_partition=500).count()
    found = spark.range(0, 8, 1, 8).mapInArrow(frozen, "spared long, is_collected boolean")
    rows = found.collect()
    assert max(row.spared for row in rows) > 10_000  # objects of imported modules
    assert all(row.is_collected for row in rows)
    assert gc.get_freeze_count() <= before  # here, which is no process of Spark's


def frozen(batches: Any) -> Any:
    """How many objects collections leave out, and whether one does away with new garbage."""
    import gc
    import weakref

    import pyarrow as pa

    class Node:
        me: Any

    for _ in batches:
        node = Node()
        node.me, seen = node, weakref.ref(node)
        del node
        gc.collect()
        yield pa.record_batch({"spared": [gc.get_freeze_count()], "is_collected": [seen() is None]})


frozen.__module__ = "__main__"  # to travel by value


def test_a_large_table_is_not_broadcast_in_a_join(spark: Any, table: str) -> None:
    """Spark took any table for a few bytes, and collected it in the driver."""
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    left = lancefs.spark.read(spark, table, columns=["id"], version=1, rows_per_partition=300)
    right = lancefs.spark.read(spark, table, columns=["id", "price"], version=1)
    try:
        for limit, is_broadcast in (("8000", False), ("10m", True)):
            spark.conf.set("spark.sql.autoBroadcastJoinThreshold", limit)
            joined = left.join(right, "id")
            plan = joined._jdf.queryExecution().executedPlan().toString()
            assert ("BroadcastHashJoin" in plan) == is_broadcast
            assert joined.count() == left.count() == 4000
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)


def test_a_point_in_time_may_be_a_datetime(spark: Any, table: str) -> None:
    now = datetime.now(UTC)
    assert lancefs.spark.read(spark, table, as_of=now).count() == lancefs.open(table).count_rows()


def test_ten_thousand_tasks_travel_in_few_bytes(tmp_path: Path) -> None:
    """Of `lancefs.spark.read`, where all tasks have one function."""
    from pyspark.serializers import CPickleSerializer

    path = make_table(tmp_path / "t.lance", 10_000, per_file=10_000)
    options = {"path": path, "rowsPerPartition": "1", "columns": "id"}
    reader = LanceDataSource(options).reader(LanceDataSource(options).schema())
    spans = pack(reader)
    assert len(CPickleSerializer().dumps(batches_of(make_reading, reader, spans))) < 340_000
    read = make_reading(reader, spans)
    for number in (0, 17, 9_999):
        assert [batch["id"].to_pylist() for batch in read(number)] == [[number]]


def test_a_filter_finds_its_rows_with_and_without_an_index(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 2000)
    lance.dataset(path).create_scalar_index("id", "BTREE")
    for use_index in (True, False):
        found = lancefs.spark.read(spark, path, filter="id = 1234", use_index=use_index)
        assert found.count() == 1


def test_a_clone_whose_parent_has_moved(spark: Any, tmp_path: Path) -> None:
    parent, clone, moved = (str(tmp_path / name) for name in ("p.lance", "c.lance", "m.lance"))
    lance.write_dataset(pa.table({"id": range(100)}), parent).shallow_clone(clone, 1)
    shutil.move(parent, moved)
    base_paths = {parent: moved}
    read = spark.read.format("lancefs").option("basePaths", json.dumps(base_paths))
    assert ids(read.load(clone)) == list(range(100))
    assert ids(lancefs.spark.read(spark, clone, base_paths=base_paths)) == list(range(100))
    lazy = lancefs.spark.table(spark, clone, filter="id < 7", base_paths=base_paths)
    assert ids(lazy) == list(range(7))
    out = tmp_path / "out"
    written = lancefs.spark.materialize(spark, clone, str(out), base_paths=base_paths)
    assert written.rows == 100
    assert lancefs.spark.verify(spark, clone, base_paths=base_paths).is_good
    with pytest.raises(Exception, match="ValueError: basePaths must be an object"):
        spark.read.format("lancefs").option("basePaths", "[1]").load(clone)
