"""A Lance table in Spark: `spark.read.format("lancefs")`, SQL, and `lancefs.spark.read`."""

from __future__ import annotations

import gc
import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from spark_support import append, make_table

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")

from pyspark.sql.types import ArrayType, StringType, StructField, StructType

import lancefs
import lancefs.spark
from lancefs.errors import ColumnNotFound, InvalidFilter, NotALanceTable, ReadFailed, RefNotFound
from lancefs.spark.data_source import LanceDataSource
from lancefs.spark.reading_frame import make_reading, pack
from lancefs.spark.shipping import batches_of


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Version 1: 4,000 rows; 2: some deleted; 3: a column more, tagged; 4: 500 rows more."""
    path = make_table(tmp_path_factory.mktemp("batch") / "t.lance")
    dataset = lance.dataset(path)
    dataset.delete("id % 7 = 3")
    dataset.add_columns({"double": "price * 2"})
    dataset.tags.create("prod", 3)
    more = lancefs.open(path).to_table().slice(0, 500)
    lance.write_dataset(more, path, mode="append")
    dataset.create_branch("exp", 2)
    return path


def load(spark: Any, path: str, **options: object) -> Any:
    """Load a table with options."""
    given = {name: str(value) for name, value in options.items()}
    return spark.read.format("lancefs").options(**given).load(path)


def ids(frame: Any) -> list[int]:
    return sorted(frame.select("id").toArrow().column(0).to_pylist())


def expected_ids(path: str, **ref: Any) -> list[int]:
    return sorted(lancefs.open(path, **ref).to_table(columns=["id"]).column(0).to_pylist())


def test_the_newest_version_is_read_as_lancefs_reads_it(spark: Any, table: str) -> None:
    got = load(spark, table).toArrow().sort_by("id")
    expected = lancefs.open(table).to_table().sort_by("id")
    assert got.column("size").type == pa.int16()
    assert got.cast(expected.schema).equals(expected)


@pytest.mark.parametrize(
    ("options", "ref"),
    [
        ({"version": 1}, {"version": 1}),
        ({"version": 2}, {"version": 2}),
        ({"tag": "prod"}, {"tag": "prod"}),
        ({"branch": "exp"}, {"branch": "exp"}),
        ({"asOf": "2999-01-01T00:00:00Z"}, {}),
    ],
    ids=str,
)
def test_any_version_can_be_read(
    spark: Any, table: str, options: dict[str, object], ref: dict[str, Any]
) -> None:
    assert ids(load(spark, table, **options)) == expected_ids(table, **ref)


def test_columns_are_chosen_by_an_option_or_a_schema(spark: Any, table: str) -> None:
    assert load(spark, table, columns="price,id").columns == ["price", "id"]
    assert load(spark, table, columns='["id"]').columns == ["id"]
    chosen = spark.read.format("lancefs").schema("size smallint, id bigint").load(table)
    assert chosen.columns == ["size", "id"]
    assert ids(chosen) == expected_ids(table)


def test_row_ids_come_when_asked_for(spark: Any, table: str) -> None:
    got = load(spark, table, withRowId="true", rowsPerPartition=300).toArrow()
    expected = lancefs.open(table).to_table(columns=["id", "_rowid"], filter=pc.field("id") > 100)
    pairs = set(zip(got["id"].to_pylist(), got["_rowid"].to_pylist(), strict=True))
    wanted = zip(expected["id"].to_pylist(), expected["_rowid"].to_pylist(), strict=True)
    assert set(wanted) <= pairs
    assert len(pairs) == lancefs.open(table).count_rows()


def test_partitions_are_as_large_as_asked_for_and_rows_come_once(spark: Any, table: str) -> None:
    frame = load(spark, table, rowsPerPartition=300, batchSize=70)
    assert frame.rdd.getNumPartitions() == 4 * 4 + 2
    assert ids(frame) == expected_ids(table)


def test_a_frame_stays_with_its_version(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 1000)
    frame = load(spark, path)
    append(path, 1000, 10)
    assert frame.count() == 1000
    assert load(spark, path).count() == 1010
    assert frame.count() == 1000


def test_sql_over_a_table_of_the_catalogue(spark: Any, table: str) -> None:
    spark.sql(f"CREATE TABLE orders USING lancefs OPTIONS (path '{table}', version '2')")
    try:
        (row,) = spark.sql("SELECT count(*), min(id), sum(size) FROM orders").collect()
        expected = lancefs.open(table, version=2).to_table()
        assert tuple(row) == (expected.num_rows, 0, pc.sum(expected["size"]).as_py())
        old = spark.sql("SELECT count(*) FROM orders WHERE city = 'Graz' AND id < 100").collect()
        assert old[0][0] == sum(1 for i in expected_ids(table, version=2) if i < 100 and i % 4 == 0)
    finally:
        spark.sql("DROP TABLE orders")


def test_a_table_of_the_catalogue_takes_options_with_long_names(spark: Any, tmp_path: Path) -> None:
    """Spark hands each option over twice, as `nanoseconds` and `option.nanoseconds`."""
    path = str(tmp_path / "t.lance")
    moments = pa.array([1_000, 2_001, None], pa.timestamp("ns"))
    lance.write_dataset(pa.table({"id": [1, 2, 3], "at": moments}), path)
    options = f"path '{path}', nanoseconds 'long', rowsPerPartition '2', filter 'id < 3'"
    spark.sql(f"CREATE TABLE exact USING lancefs OPTIONS ({options})")
    try:
        rows = spark.sql("SELECT id, at FROM exact ORDER BY id").collect()
        assert [tuple(row) for row in rows] == [(1, 1_000), (2, 2_001)]
    finally:
        spark.sql("DROP TABLE exact")


def test_a_table_of_the_catalogue_follows_the_newest_version(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 1000)
    spark.sql(f"CREATE TABLE news USING lancefs LOCATION '{path}'")
    try:
        append(path, 1000, 10)
        assert spark.sql("SELECT count(*) FROM news").collect()[0][0] == 1010
    finally:
        spark.sql("DROP TABLE news")


def test_a_query_may_choose_a_version_of_a_table_of_the_catalogue(
    spark: Any, tmp_path: Path
) -> None:
    path = make_table(tmp_path / "t.lance", 1000)
    append(path, 1000, 10)
    spark.sql(f"CREATE TABLE chosen USING lancefs OPTIONS (PATH '{path}')")
    try:
        (row,) = spark.sql("SELECT count(*) FROM chosen WITH (version = 1)").collect()
        assert row[0] == 1000
    finally:
        spark.sql("DROP TABLE chosen")


def test_a_table_of_the_catalogue_with_a_list_of_columns_is_said_to_be_one(
    spark: Any, table: str
) -> None:
    """Spark drops the options, and what lancefs would keep among the columns is not there."""
    spark.sql(f"CREATE TABLE listed (id bigint) USING lancefs OPTIONS (path '{table}')")
    try:
        with pytest.raises(Exception, match="created without a list of columns: CREATE TABLE"):
            spark.sql("SELECT count(*) FROM listed").collect()
    finally:
        spark.sql("DROP TABLE listed")


def test_a_table_of_the_catalogue_with_other_columns_than_the_version_says_what_to_do(
    spark: Any, tmp_path: Path
) -> None:
    path = make_table(tmp_path / "t.lance", 10)
    lance.dataset(path).add_columns({"twice": "price * 2"})
    create = f"TABLE evolving USING lancefs OPTIONS (path '{path}')"
    spark.sql(f"CREATE {create}")
    try:
        says = r"no column 'twice'.* has the columns of when .* CREATE TEMPORARY VIEW"
        with pytest.raises(Exception, match=says):
            spark.sql("SELECT id FROM evolving WITH (version = 1)").collect()
        lance.dataset(path).alter_columns({"path": "price", "data_type": pa.float32()})
        with pytest.raises(Exception, match=r"price is float, .* CREATE OR REPLACE TABLE"):
            spark.sql("SELECT id FROM evolving").collect()
        spark.sql(f"CREATE OR REPLACE {create}")
        assert spark.sql("SELECT id, price FROM evolving").count() == 10
    finally:
        spark.sql("DROP TABLE evolving")


def test_sql_over_a_temporary_view_joins_two_versions(spark: Any, table: str) -> None:
    for version in (1, 2):
        spark.sql(
            f"CREATE OR REPLACE TEMPORARY VIEW v{version} USING lancefs "
            f"OPTIONS (path '{table}', version '{version}', columns 'id')"
        )
    gone = spark.sql("SELECT v1.id FROM v1 LEFT ANTI JOIN v2 ON v1.id = v2.id")
    assert ids(gone) == [i for i in range(4000) if i % 7 == 3]


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


def test_a_filter_in_sql_is_an_option(spark: Any, table: str) -> None:
    frame = load(spark, table, version=2, columns="id", filter="City in ('Graz') and _rowid < 1500")
    keep = (pc.field("city") == "Graz") & (pc.field("_rowid") < 1500)
    expected = lancefs.open(table, version=2).to_table(columns=["id"], filter=keep)
    assert ids(frame) == expected["id"].to_pylist()
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW cheap USING lancefs "
        f"OPTIONS (path '{table}', filter 'price % 1 = 0.5')"
    )
    cheap = spark.sql("SELECT DISTINCT price % 1 FROM cheap").collect()
    assert [row[0] for row in cheap] == [0.5]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingVersion", "2"),
        ("startingTimestamp", "2026-01-01"),
        ("readChangeFeed", "true"),
    ],
)
def test_options_that_tell_the_rows_of_a_stream_are_refused_in_a_batch(
    tmp_path: Path, name: str, value: str
) -> None:
    """It has all rows of one version: those before the version that is named, too."""
    options = {"path": make_table(tmp_path / "t.lance", 10, enable_stable_row_ids=True)}
    source = LanceDataSource({**options, name: value})
    with pytest.raises(ValueError, match=rf"^{name} is for streams: spark\.readStream"):
        source.reader(source.schema())
    harmless = LanceDataSource({**options, "maxVersionsPerTrigger": "1", "skipChanges": "true"})
    assert harmless.reader(harmless.schema()).partitions()


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


def test_a_table_without_rows_is_empty(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 10)
    lance.dataset(path).delete("true")
    assert load(spark, path).collect() == []


def test_what_travels_with_a_task_is_small(table: str) -> None:
    from pyspark.serializers import CPickleSerializer
    from pyspark.sql.datasource import InputPartition

    source = LanceDataSource({"path": table, "rowsPerPartition": "100"})
    reader = source.reader(source.schema())
    partitions = reader.partitions()
    assert all(isinstance(one, InputPartition) for one in partitions)
    assert max(len(CPickleSerializer().dumps(one)) for one in partitions) < 1024


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


# Errors


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"version": 99}, RefNotFound, "the table has 1, 2, 3, 4"),
        ({"tag": "prd"}, RefNotFound, "prod"),
        ({"columns": ["prise"]}, ColumnNotFound, "price"),
        ({"columns": "price"}, TypeError, r"a list of names was expected: \['price'\]"),
        ({"version": 1, "tag": "prod"}, ValueError, "each name a version"),
        ({"filter": pc.field("prize") > 1}, ValueError, r"prize.* does not fit .*id, city"),
        ({"filter": "prize > 1"}, ColumnNotFound, "did you mean 'price'"),
        ({"filter": "price >> 1"}, InvalidFilter, "at character 8 of the filter: '> 1'"),
        ({"filter": "_rowoffset > 1"}, InvalidFilter, "_rowoffset cannot be filtered by in Spark"),
    ],
    ids=str,
)
def test_the_helper_raises_errors_of_lancefs(
    spark: Any, table: str, arguments: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        lancefs.spark.read(spark, table, **arguments)


def test_a_path_without_a_table_is_said_to_be_none(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(NotALanceTable, match="no such directory"):
        lancefs.spark.read(spark, str(tmp_path / "none.lance"))
    with pytest.raises(
        Exception, match=r"NotALanceTable: .*none\.lance: there is no such directory"
    ):
        spark.read.format("lancefs").load(str(tmp_path / "none.lance"))


def test_a_path_that_others_take_is_said_how_to_put(tmp_path: Path) -> None:
    for path, says in (
        (f"{tmp_path}/*.lance", r"reads no pattern: lancefs\.spark\.attach\(spark, pattern\)"),
        (f"{tmp_path}/t.lance@2", r"version of .*/t\.lance is named by an option \(version, tag"),
    ):
        for read in (lancefs.spark.read, lancefs.spark.table):
            with pytest.raises(NotALanceTable, match=says):
                read(None, path)
        with pytest.raises(NotALanceTable, match=says):
            LanceDataSource({"path": path}).schema()


def test_a_folder_with_signs_of_a_pattern_is_a_table(tmp_path: Path) -> None:
    path = make_table(tmp_path / "t[1].lance", 100)
    assert LanceDataSource({"path": path}).schema().fieldNames()


def test_a_table_is_named_by_a_path_of_python_as_well(spark: Any, table: str) -> None:
    for read in (lancefs.spark.read, lancefs.spark.table):
        assert read(spark, Path(table)).columns == read(spark, table).columns
        with pytest.raises(TypeError, match="not list"):
            read(spark, [table])


def test_several_paths_are_refused(spark: Any, table: str) -> None:
    with pytest.raises(Exception, match="lancefs reads one at a time"):
        spark.read.format("lancefs").load([table, table])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"version": "99"}, "RefNotFound: .* the table has 1, 2, 3, 4"),
        ({"verison": "1"}, "did you mean 'version'"),
        ({"snapshot-id": "1"}, "did you mean 'version'"),
        ({"as-of-timestamp": "1767225600000"}, "did you mean 'asOf'"),
        ({"versionAsOf": "1", "version": "2"}, "version and versionAsOf are the same option"),
        ({"versionAsOf": "prod"}, "'prod' is not a version: .* the argument for tags is tag"),
        ({"timestampAsOf": "1999-01-01"}, "RefNotFound: .* there is no version from 1999-01-01"),
        ({"columns": "prise"}, "has no column 'prise'; did you mean price"),
        ({"filter": "price >> 1"}, "InvalidFilter: a column or a literal was expected"),
        ({"filter": "prize > 1"}, "ColumnNotFound: .* did you mean 'price'"),
        ({"batchSize": "0"}, "batchSize is '0'; a positive number"),
        ({"nanoseconds": "maybe"}, "one of error, long, truncate"),
        ({"useIndex": "maybe"}, "one of true, false"),
        ({"storage": "{"}, "the option storage is not JSON"),
    ],
    ids=str,
)
def test_the_format_says_what_is_wrong(
    spark: Any, table: str, options: dict[str, str], says: str
) -> None:
    with pytest.raises(Exception, match=says):
        spark.read.format("lancefs").options(**options).load(table)


def test_a_filter_finds_its_rows_with_and_without_an_index(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 2000)
    lance.dataset(path).create_scalar_index("id", "BTREE")
    for use_index in (True, False):
        found = lancefs.spark.read(spark, path, filter="id = 1234", use_index=use_index)
        assert found.count() == 1


def test_a_schema_of_other_types_is_refused(spark: Any, table: str) -> None:
    frame = spark.read.format("lancefs").schema("id int").load(table)
    with pytest.raises(Exception, match="column id is bigint, the schema that was given says int"):
        frame.collect()


def test_a_schema_without_nulls_is_refused_where_there_may_be_some(spark: Any, table: str) -> None:
    """Spark believes it, and would find no null."""
    with pytest.raises(Exception, match=r"column city may be null, .* says NOT NULL"):
        spark.read.format("lancefs").schema("city string NOT NULL").load(table).count()


def test_the_same_below_a_column(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    trips = pa.array([[{"via": "Gent"}, None], [{"via": None}]])
    lance.write_dataset(pa.table({"id": [1, 2], "trips": trips}), path)
    texts = ArrayType(StructType([StructField("via", StringType())]), containsNull=False)
    for schema, place in (
        ("trips array<struct<via: string NOT NULL>>", "trips.element.via"),
        (StructType([StructField("trips", texts)]), "trips.element"),
    ):
        with pytest.raises(Exception, match=f"column {place} may be null, .* says NOT NULL"):
            spark.read.format("lancefs").schema(schema).load(path).collect()
    same = spark.read.format("lancefs").schema("trips array<struct<via: string>>").load(path)
    assert same.where("exists(trips, trip -> trip.via is null)").count() == 2


def test_nothing_is_written(spark: Any, table: str, tmp_path: Path) -> None:
    for place in (table, str(tmp_path / "new.lance")):
        with pytest.raises(Exception, match=r"LanceError: .*only reads Lance tables"):
            spark.range(3).write.format("lancefs").mode("append").save(place)
    stream = spark.readStream.format("rate").load()
    sink = stream.writeStream.format("lancefs").option("path", str(tmp_path / "new.lance"))
    with pytest.raises(Exception, match=r"LanceError: .*only reads Lance tables"):
        sink.option("checkpointLocation", str(tmp_path / "cp")).start().awaitTermination()


def test_a_file_that_vanishes_is_named(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 2000)
    frame = load(spark, path)
    victim = sorted(Path(path, "data").iterdir())[0]
    victim.unlink()
    with pytest.raises(Exception, match=r"MissingFile: .*" + victim.name):
        frame.collect()


def test_a_version_that_vanishes_is_named(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 1000)
    frame = load(spark, path)
    frame.schema  # noqa: B018  # pins the version
    append(path, 1000, 10)
    for manifest in Path(path, "_versions").iterdir():
        if lance.dataset(path).version != 1 and manifest.name.startswith("18446744073709551614"):
            manifest.unlink()
    with pytest.raises(Exception, match="which this query reads, is gone"):
        frame.collect()


def test_an_unreachable_store_is_said_to_be_so(spark: Any) -> None:
    address = "127.0.0.1:9"  # where nobody listens
    says = rf"ftp://{address}/t.lance: cannot be opened: .*Connection refused; check the address"
    with pytest.raises(ReadFailed, match=says):
        lancefs.spark.read(spark, f"ftp://{address}/t.lance", version=1)
    with pytest.raises(Exception, match=f"ReadFailed: {says}"):
        load(spark, f"ftp://{address}/t.lance")


def test_credentials_do_not_get_into_the_catalogue(spark: Any, table: str) -> None:
    with pytest.raises(Exception, match="cannot have storage options"):
        spark.sql(
            f"CREATE TABLE secret USING lancefs OPTIONS (path '{table}', `storage.auto_mkdir` 'x')"
        )


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


HIDE_TRACEBACK = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"


def read_all(spark: Any, path: str) -> None:
    load(spark, path).collect()


def read_by_helper(spark: Any, path: str) -> None:
    lancefs.spark.read(spark, path).collect()


def read_lazily(spark: Any, path: str) -> None:
    lancefs.spark.table(spark, path).collect()


def read_stream(spark: Any, path: str) -> None:
    stream = spark.readStream.format("lancefs").option("startingVersion", 1).load(path)
    stream.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()


def misspell(spark: Any, path: str) -> None:
    load(spark, path, verison=1)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (read_all, r"lancefs\.errors\.MissingFile: .*the file is gone"),
        (read_by_helper, r"lancefs\.errors\.MissingFile: .*the file is gone"),
        (read_lazily, r"lancefs\.errors\.MissingFile: .*the file is gone"),
        (read_stream, r"lancefs\.errors\.MissingFile: .*the file is gone"),
        (misspell, "ValueError: lancefs has no option 'verison'"),
    ],
)
def test_an_error_is_a_line_among_few(spark: Any, tmp_path: Path, query: Any, says: str) -> None:
    """Spark says by which lines an error came: only our last one, and one by which it left."""
    path = make_table(tmp_path / "t.lance", 1000)
    next(Path(path, "data").iterdir()).unlink()
    with pytest.raises(Exception, match=says) as caught:
        query(spark, path)
    text = str(caught.value)
    assert len(re.findall(r"(?m)^lancefs\.errors\.|ValueError:", text)) == 1
    assert len(re.findall(r"(?m)^  File ", text)) <= 3
    assert "direct cause" not in text


def test_an_error_is_one_line_where_spark_hides_tracebacks(spark: Any, tmp_path: Path) -> None:
    spark.conf.set(HIDE_TRACEBACK, "true")
    try:
        with pytest.raises(Exception, match=r"RefNotFound: .*there is no version 9") as caught:
            load(spark, make_table(tmp_path / "t.lance", 10), version=9)
    finally:
        spark.conf.unset(HIDE_TRACEBACK)
    assert not re.search(r"(?m)^  File |^Traceback", str(caught.value))
