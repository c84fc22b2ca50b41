"""Streams: `spark.readStream.format("lancefs")` over the versions of a table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from spark_support import CONFIG, append, make_table, rows

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")

import lancefs
from lancefs.spark.data_source import LanceDataSource
from lancefs.spark.filters import serialize
from lancefs.spark.stream import ReadMaxFiles

HAS_LIMITS = ReadMaxFiles is not None


def stream(spark: Any, path: str, **options: object) -> Any:
    given = {name: str(value) for name, value in options.items()}
    return spark.readStream.format("lancefs").options(**given).load(path)


def run(frame: Any, directory: Path) -> Any:
    """Write what is available now to Parquet; it can be done again and goes on then."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(directory / "cp"))
    query = writer.trigger(availableNow=True).start(str(directory / "out"))
    query.awaitTermination()
    return query


def ids(spark: Any, directory: Path) -> list[int]:
    """What the sink holds, by its own record of what is complete."""
    found = spark.read.schema("id bigint").parquet(str(directory / "out"))
    return sorted(row.id for row in found.select("id").collect())


def versions_of_all_kinds(path: str) -> list[int]:
    """Append, delete, compact, add a column; return the ids that a stream of appends has."""
    append(path, 1000, 300)
    lance.dataset(path).delete("id % 5 = 0")
    append(path, 1300, 200)
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=10_000)
    lance.dataset(path).create_scalar_index("id", "BTREE")
    append(path, 1500, 100)
    return list(range(1000, 1600))


def test_appended_rows_come_once_whatever_else_happens(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 1000)
    expected = versions_of_all_kinds(path)
    frame = stream(spark, path, startingVersion=1)
    run(frame, tmp_path)
    assert ids(spark, tmp_path) == [*range(1000), *expected]


def test_a_stream_starts_with_what_comes_next(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 1000)
    run(stream(spark, path), tmp_path)
    assert not (tmp_path / "out").exists() or ids(spark, tmp_path) == []
    append(path, 1000, 10)
    run(stream(spark, path), tmp_path)
    lance.dataset(path).optimize.compact_files()
    run(stream(spark, path), tmp_path)
    assert ids(spark, tmp_path) == list(range(1000, 1010))


@pytest.mark.skipif(not HAS_LIMITS, reason="PySpark 4.1 has no limits of micro-batches")
def test_a_micro_batch_has_as_many_versions_as_asked_for(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    for number in range(1, 5):
        append(path, number * 100, 100)
    query = run(stream(spark, path, startingVersion=1, maxVersionsPerTrigger=2), tmp_path)
    counts = [progress.numInputRows for progress in query.recentProgress]
    assert [count for count in counts if count] == [200, 200, 100]
    assert ids(spark, tmp_path) == list(range(500))


@pytest.mark.skipif(not HAS_LIMITS, reason="PySpark 4.1 has no limits")
def test_a_micro_batch_has_as_many_rows_as_asked_for(spark: Any, tmp_path: Path) -> None:
    """Versions are not cut: one with more rows is a micro-batch of its own."""
    path = make_table(tmp_path / "t.lance", 100)
    append(path, 100, 50)
    append(path, 150, 50)
    lance.dataset(path).delete("id = 3")
    append(path, 200, 300)
    query = run(stream(spark, path, startingVersion=1, maxRowsPerTrigger=200), tmp_path)
    counts = [progress.numInputRows for progress in query.recentProgress]
    assert [count for count in counts if count] == [200, 300]


def test_a_stream_starts_at_a_time(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    append(path, 100, 50)
    committed = lancefs.open(path).manifest.timestamp  # pylance's is rounded, also up
    append(path, 150, 50)
    started = {}
    for name, when in {
        "at": committed,
        "after": committed + timedelta(microseconds=1),
        "before all": committed - timedelta(days=1),
        "in future": committed + timedelta(days=1),
    }.items():
        source = LanceDataSource({"path": path, "startingTimestamp": when.isoformat()})
        started[name] = source.streamReader(source.schema()).initialOffset()["version"]
    assert started == {"at": 1, "after": 2, "before all": 0, "in future": 3}
    run(stream(spark, path, startingTimestamp=committed.isoformat()), tmp_path)
    assert ids(spark, tmp_path) == list(range(100, 200))


def test_columns_and_branch_are_options_of_a_stream(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    branch = lance.dataset(path).create_branch("exp")
    lance.write_dataset(rows(100, 50), branch.uri, mode="append")
    frame = stream(spark, path, branch="exp", columns="id", startingVersion=2)
    assert frame.columns == ["id"]
    run(frame, tmp_path)
    assert ids(spark, tmp_path) == list(range(100, 150))


def test_a_cleaned_up_start_is_said_to_be_one(spark: Any, tmp_path: Path) -> None:
    from datetime import timedelta

    path = make_table(tmp_path / "t.lance", 100)
    for number in range(1, 4):
        append(path, number * 100, 100)
    lance.dataset(path).cleanup_old_versions(older_than=timedelta(0))
    with pytest.raises(Exception, match=r"MissingFile: .*version 2, .* was cleaned up"):
        run(stream(spark, path, startingVersion=2), tmp_path)


def test_a_stream_has_todays_columns_and_may_filter_by_others(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 8)
    lance.dataset(path).add_columns({"twice": "price * 2"})
    more = rows(8, 4).append_column("twice", pa.array([1.0, 2.0, 3.0, 4.0]))
    lance.write_dataset(more, path, mode="append")
    expression = serialize(pc.field("city") == "Graz")
    for number, filter in enumerate((expression, "city = 'Graz'")):
        where = tmp_path / str(number)
        run(stream(spark, path, startingVersion=1, columns="twice,id", filter=filter), where)
        found = spark.read.parquet(str(where / "out")).orderBy("id").collect()
        assert [(row.id, row.twice) for row in found] == [(0, None), (4, None), (8, 1.0)]


def test_an_update_is_an_error_unless_passed_over(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    lance.dataset(path).update({"price": "0.0"}, where="id = 3")
    append(path, 100, 10)
    with pytest.raises(Exception, match=r"version 2 \(Update\) changes or replaces rows"):
        run(stream(spark, path, startingVersion=2), tmp_path / "one")
    run(stream(spark, path, startingVersion=2, skipChanges="true"), tmp_path / "two")
    assert ids(spark, tmp_path / "two") == list(range(100, 110))


def test_the_change_feed_tells_what_versions_did(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100, enable_stable_row_ids=True)
    lance.dataset(path).update({"price": "-1.0"}, where="id = 3")
    lance.dataset(path).delete("id = 4")
    append(path, 100, 2)
    lance.dataset(path).optimize.compact_files()
    frame = stream(spark, path, startingVersion=1, readChangeFeed="true")
    run(frame, tmp_path)
    found = spark.read.parquet(str(tmp_path / "out"))
    later = found.where("_commit_version > 1").orderBy("_commit_version", "_change_type", "id")
    assert [(r._commit_version, r._change_type, r.id, r.price) for r in later.collect()] == [
        (2, "update_postimage", 3, -1.0),
        (2, "update_preimage", 3, 3 / 8),
        (3, "delete", 4, 0.5),
        (4, "insert", 100, 12.5),
        (4, "insert", 101, 101 / 8),
    ]
    assert found.where("_commit_version = 1 AND _change_type = 'insert'").count() == 100
    assert dict(found.dtypes)["_commit_timestamp"] == "timestamp"


def test_the_change_feed_needs_stable_row_ids(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    with pytest.raises(Exception, match="readChangeFeed needs stable row ids"):
        run(stream(spark, path, readChangeFeed="true"), tmp_path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"version": 1}, "startingVersion"),
        ({"startingVersion": 9}, "startingVersion is 9, the newest version is 1"),
        (
            {"startingVersion": 1, "startingTimestamp": "2024-01-01"},
            "each name a version; name one",
        ),
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(
    spark: Any, tmp_path: Path, options: dict[str, object], says: str
) -> None:
    path = make_table(tmp_path / "t.lance", 10)
    with pytest.raises(Exception, match=says):
        run(stream(spark, path, **options), tmp_path)


_STREAM = """
import sys
from pyspark.sql import SparkSession
import lancefs.spark

table, directory, config = sys.argv[1], sys.argv[2], eval(sys.argv[3])
builder = SparkSession.builder.master("local[2]")
for name, value in config.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
lancefs.spark.register(spark)
frame = spark.readStream.format("lancefs").option("startingVersion", "1")
frame = frame.options(**eval(sys.argv[4])).load(table)
writer = frame.writeStream.format("parquet").option("checkpointLocation", directory + "/cp")
print("started", flush=True)
once = sys.argv[5:] == ["once"]
trigger = {"availableNow": True} if once else {"processingTime": "0 seconds"}
writer.trigger(**trigger).start(directory + "/out").awaitTermination()
"""


def start_stream(path: str, directory: Path, *more: str) -> subprocess.Popen[str]:
    limit = {"maxVersionsPerTrigger": "1"} if HAS_LIMITS else {}
    given = [path, str(directory), repr(CONFIG), repr(limit), *more]
    arguments = [sys.executable, "-c", _STREAM, *given]
    with open(directory / "stderr.txt", "a") as errors:
        return subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )


def test_rows_come_exactly_once_across_kills(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    written, kills = 100, 3
    for number in range(kills):
        process = start_stream(path, tmp_path)
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        for step in range(6):
            append(path, written, 100)
            written += 100
            if step == 2:
                lance.dataset(path).delete(f"id = {written - 1}")
            if step == 4:
                lance.dataset(path).optimize.compact_files(target_rows_per_fragment=10_000)
            time.sleep(0.3 + 0.4 * number)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    for _ in range(1 if HAS_LIMITS else 2):  # with 4.1, one run only ends what was cut short
        last = start_stream(path, tmp_path, "once")
        assert last.wait(timeout=300) == 0, (tmp_path / "stderr.txt").read_text()[-4000:]
        last.communicate()
    assert ids(spark, tmp_path) == list(range(written))
    assert lancefs.open(path).version > 3 * 8
