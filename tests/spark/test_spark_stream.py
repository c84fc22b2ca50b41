"""Streams: `spark.readStream.format("lancefs")` over the versions of a table."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from spark_support import CONFIG, append, make_table, rows

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")

from pyspark.serializers import CPickleSerializer

import lancefs
from lancefs.errors import MissingFile, RefNotFound, UnsupportedFeature
from lancefs.spark.data_source import LanceDataSource
from lancefs.spark.filters import serialize
from lancefs.spark.spark_types import arrow_schema
from lancefs.spark.stream import ReadMaxFiles

# PySpark 4.1 runs an available-now query over a Python source as a single micro-batch.
IS_ONE_BATCH = ReadMaxFiles is None


def stream(spark: Any, path: str, **options: object) -> Any:
    given = {name: str(value) for name, value in options.items()}
    return spark.readStream.format("lancefs").options(**given).load(path)


def run(frame: Any, directory: Path) -> Any:
    """Write what is available now to Parquet; it can be done again and goes on then."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(directory / "cp"))
    query = writer.trigger(availableNow=True).start(str(directory / "out"))
    query.awaitTermination()
    return query


def micro_batches(frame: Any, directory: Path) -> list[Any]:
    """Write what is there to Parquet; return what Spark reports of each micro-batch with rows."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(directory / "cp"))
    query = writer.trigger(processingTime="0 seconds").start(str(directory / "out"))
    query.processAllAvailable()
    query.stop()
    return [progress for progress in query.recentProgress if progress.numInputRows]


def counts(progress: list[Any]) -> list[int]:
    """The rows of each micro-batch."""
    return [one.numInputRows for one in progress]


def version(offset: object) -> int:
    """The version that an offset of a report names."""
    return int(re.findall(r"version\W+(\d+)", str(offset))[0])


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


def test_a_micro_batch_has_as_many_versions_as_asked_for(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    for number in range(1, 5):
        append(path, number * 100, 100)
    frame = stream(spark, path, startingVersion=1, maxVersionsPerTrigger=2)
    progress = micro_batches(frame, tmp_path)
    assert counts(progress) == [200, 200, 100]
    sources = [one.sources[0] for one in progress]
    assert [version(one.endOffset) for one in sources] == [2, 4, 5]
    if not IS_ONE_BATCH:  # how far the stream is behind
        assert [version(one.latestOffset) for one in sources] == [5, 5, 5]
    append(path, 500, 10)  # a restart goes on at the checkpoint
    append(path, 510, 20)
    append(path, 530, 30)
    assert counts(micro_batches(frame, tmp_path)) == [30, 30]
    assert ids(spark, tmp_path) == list(range(560))


def test_a_micro_batch_has_as_many_rows_as_asked_for(spark: Any, tmp_path: Path) -> None:
    """Versions are not cut: one with more rows is a micro-batch of its own."""
    path = make_table(tmp_path / "t.lance", 100)
    append(path, 100, 50)
    append(path, 150, 50)
    lance.dataset(path).delete("id = 3")
    append(path, 200, 300)
    frame = stream(spark, path, startingVersion=1, maxRowsPerTrigger=200)
    assert counts(micro_batches(frame, tmp_path)) == [200, 300]


def test_what_is_available_now_is_read_in_limited_micro_batches(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    for number in range(1, 5):
        append(path, number * 100, 100)
    frame = stream(spark, path, startingVersion=1, maxVersionsPerTrigger=2)
    found = []
    for _ in range(4 if IS_ONE_BATCH else 2):  # the last run finds nothing
        progress = run(frame, tmp_path).recentProgress
        found.append([one.numInputRows for one in progress if one.numInputRows])
    assert found == ([[200], [200], [100], []] if IS_ONE_BATCH else [[200, 200, 100], []])
    assert ids(spark, tmp_path) == list(range(500))


def test_a_query_that_keeps_no_row_goes_on(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    for number in range(1, 4):
        append(path, number * 100, 100)
    frame = stream(spark, path, startingVersion=1, maxVersionsPerTrigger=1).where("1 = 0")
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "cp"))
    query = writer.trigger(processingTime="0 seconds").start()
    query.processAllAvailable()
    query.stop()
    assert version(query.lastProgress.sources[0].endOffset) == 4


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
        "the first of all times": datetime.min.replace(tzinfo=UTC),
    }.items():
        source = LanceDataSource({"path": path, "startingTimestamp": when.isoformat()})
        started[name] = source.streamReader(source.schema()).initialOffset()["version"]
    assert started == {"at": 1, "after": 2, "before all": 0, "the first of all times": 0}
    run(stream(spark, path, startingTimestamp=committed.isoformat()), tmp_path)
    assert ids(spark, tmp_path) == list(range(100, 200))


def test_a_time_that_is_to_come_is_refused(tmp_path: Path) -> None:
    """The stream would read versions that are committed before it."""
    path = make_table(tmp_path / "t.lance", 10)
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    source = LanceDataSource({"path": path, "startingTimestamp": tomorrow})
    with pytest.raises(ValueError, match=r"startingTimestamp is .*name a time that has come"):
        source.streamReader(source.schema()).initialOffset()


@pytest.mark.parametrize("feed", ["false", "true"], ids=["appends", "change feed"])
@pytest.mark.parametrize("kind", ["branch", "clone"])
def test_a_branch_or_clone_begins_with_the_rows_that_it_had(
    tmp_path: Path, kind: str, feed: str
) -> None:
    path = make_table(tmp_path / "t.lance", 10, enable_stable_row_ids=True)
    append(path, 10, 10)
    if kind == "branch":
        options = {"path": path, "branch": "exp", "readChangeFeed": feed}
        lance.dataset(path).create_branch("exp").insert(rows(20, 5))
    else:
        options = {"path": str(tmp_path / "c.lance"), "readChangeFeed": feed}
        lance.dataset(path).shallow_clone(options["path"], 2).insert(rows(20, 5))
    source = LanceDataSource({**options, "startingTimestamp": "2020-01-01"})
    reader = source.streamReader(source.schema())
    parts = reader.partitions(reader.initialOffset(), {"version": 3})
    batches = [batch for part in parts for batch in reader.read(part)]
    assert sorted(i for batch in batches for i in batch["id"].to_pylist()) == [*range(25)]
    source = LanceDataSource({**options, "startingVersion": "1"})
    with pytest.raises(RefNotFound, match=r"never was a version 1; .* begins with version 2"):
        source.streamReader(source.schema()).initialOffset()


def test_columns_and_branch_are_options_of_a_stream(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    branch = lance.dataset(path).create_branch("exp")
    lance.write_dataset(rows(100, 50), branch.uri, mode="append")
    frame = stream(spark, path, branch="exp", columns="id", startingVersion=2)
    assert frame.columns == ["id"]
    run(frame, tmp_path)
    assert ids(spark, tmp_path) == list(range(100, 150))


def test_a_cleaned_up_start_is_said_to_be_one(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    for number in range(1, 4):
        append(path, number * 100, 100)
    lance.dataset(path).cleanup_old_versions(older_than=timedelta(0))
    with pytest.raises(Exception, match=r"MissingFile: .*version 2, .* was cleaned up"):
        run(stream(spark, path, startingVersion=2), tmp_path)


@pytest.mark.parametrize("appends", [0, 3], ids=["fewer versions", "more versions"])
def test_a_table_that_was_written_anew_is_said_to_be_so(
    spark: Any, tmp_path: Path, appends: int
) -> None:
    """Its rows up to the version of the checkpoint would be lost."""
    path = make_table(tmp_path / "t.lance", 10)
    append(path, 10, 10)
    frame = stream(spark, path, startingVersion=1, columns="id")
    run(frame, tmp_path)
    run(frame, tmp_path)  # nothing new
    assert ids(spark, tmp_path) == [*range(20)]
    shutil.rmtree(path)
    make_table(tmp_path / "t.lance", 10)
    for number in range(1, 1 + appends):
        append(path, 10 * number, 10)
    anew = stream(spark, path, startingVersion=1, columns="id")
    with pytest.raises(Exception, match=r"MissingFile: .*up to version 2.* was written anew"):
        run(anew, tmp_path)


def test_a_checkpoint_without_the_time_of_its_version_goes_on(tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 10)
    append(path, 10, 10)
    source = LanceDataSource({"path": path, "startingVersion": "1"})
    reader = source.streamReader(source.schema())
    assert len(reader.partitions({"version": 1}, {"version": 2})) == 1


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


def test_a_column_that_is_never_null_is_where_older_versions_lack_it(
    spark: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "t.lance")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    lance.write_dataset(pa.table({"id": [1, 2]}, schema), path)
    lance.dataset(path).add_columns({"twice": "id * 2"})
    assert not lance.dataset(path).schema.field("twice").nullable
    run(stream(spark, path, startingVersion=1), tmp_path)
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("id").collect()
    assert [(row.id, row.twice) for row in found] == [(1, None), (2, None)]
    reader = spark.readStream.format("lancefs").option("startingVersion", 1)
    stated = reader.schema("id bigint NOT NULL, twice bigint NOT NULL").load(path)
    with pytest.raises(Exception, match=r"column twice .*is null, and the schema says NOT NULL"):
        run(stated, tmp_path / "stated")


@pytest.mark.parametrize("feed", ["false", "true"])
@pytest.mark.parametrize("is_cast", [True, False])
def test_a_column_in_place_of_another_one_is_an_error(
    tmp_path: Path, feed: str, is_cast: bool
) -> None:
    """Its values in the versions before would all be null."""
    path = make_table(tmp_path / "t.lance", 8, enable_stable_row_ids=True)
    if is_cast:
        lance.dataset(path).alter_columns({"path": "price", "data_type": pa.float32()})
    else:
        lance.dataset(path).drop_columns(["price"])
        lance.dataset(path).add_columns({"price": "cast(id as double)"})
    options = {"path": path, "startingVersion": "1", "readChangeFeed": feed}
    source = LanceDataSource(options)
    reader = source.streamReader(source.schema())
    with pytest.raises(UnsupportedFeature, match=r"column 'price' of version 1 is not the one"):
        reader.partitions({"version": 0}, {"version": 1})
    others = LanceDataSource({**options, "columns": "id,city"})
    assert others.streamReader(others.schema()).partitions({"version": 0}, {"version": 1})


def test_a_restored_version_is_an_error_where_it_brings_rows_back(tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 8)
    append(path, 8, 4)
    lance.dataset(path, version=1).restore()  # takes rows away
    lance.dataset(path).delete("id = 1")
    lance.dataset(path, version=1).restore()
    source = LanceDataSource({"path": path, "startingVersion": "1"})
    reader = source.streamReader(source.schema())
    assert len(reader.partitions({"version": 0}, {"version": 4})) == 2
    with pytest.raises(Exception, match=r"version 5 \(Restore\) changes or replaces rows"):
        reader.partitions({"version": 4}, {"version": 5})


def test_new_columns_are_unclear_only_where_the_version_before_is_gone(tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 8)
    source = LanceDataSource({"path": path, "startingVersion": "1"})
    reader = source.streamReader(source.schema())
    lance.dataset(path).add_columns({"more": "id * 2"})
    assert reader.partitions({"version": 1}, {"version": 2}) == []
    lance.dataset(path).cleanup_old_versions(older_than=timedelta(0))
    says = r"whether version 2 \(Merge\) added rows cannot be told, as version 1 was cleaned up"
    with pytest.raises(MissingFile, match=says):
        reader.partitions({"version": 1}, {"version": 2})


def test_dropped_columns_add_no_rows_where_the_version_before_is_gone(tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 8)
    lance.dataset(path).drop_columns(["price"])
    lance.dataset(path).cleanup_old_versions(older_than=timedelta(0))
    source = LanceDataSource({"path": path, "startingVersion": "2"})
    reader = source.streamReader(source.schema())
    assert reader.partitions({"version": 1}, {"version": 2}) == []


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


def changes_of(reader: Any, start: int, end: int) -> tuple[int, pa.Table]:
    """Read a micro-batch as Spark does: how many tasks it has, and their rows."""
    tasks = reader.partitions({"version": start}, {"version": end})
    travelled = CPickleSerializer().loads(CPickleSerializer().dumps(reader))
    batches = [batch for task in tasks for batch in travelled.read(task)]
    return len(tasks), pa.Table.from_batches(batches, arrow_schema(reader.columns))


def changing_table(path: str) -> None:
    """Write versions that append, update, delete, merge, compact, add a column and overwrite."""
    make_table(Path(path), 400, per_file=100, enable_stable_row_ids=True)
    table = lance.dataset(path)
    append(path, 400, 200)
    table = lance.dataset(path)
    table.update({"price": "-price"}, where="id % 3 = 1")
    table.delete("id % 5 = 0")
    merged = rows(0, 700).set_column(3, "price", pa.array([0.5] * 700))
    merge = lance.dataset(path).merge_insert("id")
    merge.when_matched_update_all("target.id > 550").when_not_matched_insert_all().execute(merged)
    lance.dataset(path).optimize.compact_files()
    lance.write_dataset(rows(50, 300), path, mode="overwrite", enable_stable_row_ids=True)


def test_the_change_feed_is_divided_among_tasks(tmp_path: Path) -> None:
    """Each task reads its share; together they are what `changes` finds."""
    path = str(tmp_path / "t.lance")
    changing_table(path)
    dataset = lancefs.open(path)
    options = {"path": path, "readChangeFeed": "true", "rowsPerPartition": "64"}
    source = LanceDataSource({**options, "startingVersion": "1"})
    reader = source.streamReader(source.schema())
    order = [("id", "ascending"), ("_change_type", "ascending")]
    counts = {
        2: {"insert": 200},
        3: {"update_preimage": 200, "update_postimage": 200},
        4: {"delete": 120},
        5: {"update_preimage": 40, "update_postimage": 40, "insert": 220},
        7: {},  # compaction changes no row, and reserves ids for its fragments before
        8: {"delete": 700, "insert": 300},
    }
    for version, count in counts.items():
        tasks, found = changes_of(reader, version - 1, version)
        assert tasks > 1, version
        assert Counter(found["_change_type"].to_pylist()) == count, version
        expected = dataset.changes(version - 1, version).select(found.column_names)
        assert found.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist(), version
    assert changes_of(reader, 5, 6)[0] == 0


def test_the_change_feed_reads_no_more_rows_than_are_in_a_task(tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 4000, enable_stable_row_ids=True)
    lance.dataset(path).delete("id >= 0 and id < 640")
    lance.dataset(path).create_scalar_index("id", "BTREE")
    options = {"path": path, "readChangeFeed": "true", "rowsPerPartition": "160"}
    source = LanceDataSource({**options, "startingVersion": "1", "columns": "id"})
    reader = source.streamReader(source.schema())
    tasks = reader.partitions({"version": 1}, {"version": 2})
    sizes = [sum(batch.num_rows for batch in reader.read(task)) for task in tasks]
    assert sizes == [160, 160, 160, 160]
    first = reader.partitions({"version": 0}, {"version": 1})
    assert sum(batch.num_rows for task in first for batch in reader.read(task)) == 4000
    assert len(first) == 28  # each fragment of 1,000 rows in seven
    assert reader.partitions({"version": 2}, {"version": 3}) == []  # an index changes no row


def test_a_version_without_a_column_of_the_change_feed_is_named(tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 10, enable_stable_row_ids=True)
    lance.dataset(path).add_columns({"twice": "price * 2"})
    source = LanceDataSource({"path": path, "readChangeFeed": "true", "startingVersion": "1"})
    reader = source.streamReader(source.schema())
    with pytest.raises(UnsupportedFeature, match=r"t\.lance: version 1 has no column 'twice'"):
        reader.partitions({"version": 0}, {"version": 1})


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


def start_stream(
    path: str, directory: Path, options: dict[str, str], *more: str
) -> subprocess.Popen[str]:
    given = [path, str(directory), repr(CONFIG), repr(options), *more]
    arguments = [sys.executable, "-c", _STREAM, *given]
    with open(directory / "stderr.txt", "a") as errors:
        return subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )


def wait_for_file(path: Path) -> None:
    """Wait until Spark has begun the first batch: killed just before, it refuses to go on."""
    end = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < end, f"{path} is not written"
        time.sleep(0.05)


def test_rows_come_exactly_once_across_kills(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    written, kills = 100, 3
    for number in range(kills):
        process = start_stream(path, tmp_path, {"maxVersionsPerTrigger": "1"})
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
        wait_for_file(tmp_path / "cp" / "offsets" / "0")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    for _ in range(2 if IS_ONE_BATCH else 1):  # where one run only ends what was cut short
        last = start_stream(path, tmp_path, {}, "once")
        assert last.wait(timeout=300) == 0, (tmp_path / "stderr.txt").read_text()[-4000:]
        last.communicate()
    assert ids(spark, tmp_path) == list(range(written))
    assert lancefs.open(path).version > 3 * 8
