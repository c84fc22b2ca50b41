"""What Spark shows where a table cannot be read: which options and arguments are wrong."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from spark_support import append, load, make_table

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")

from pyspark.sql.types import ArrayType, StringType, StructField, StructType

import lancefs
import lancefs.spark
from lancefs.errors import ColumnNotFound, InvalidFilter, NotALanceTable, ReadFailed, RefNotFound
from lancefs.spark.data_source import LanceDataSource


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
def test_an_error_of_lancefs_is_one_line(spark: Any, tmp_path: Path, query: Any, says: str) -> None:
    """Spark has no traceback to show: no line of it would tell the user anything."""
    path = make_table(tmp_path / "t.lance", 1000)
    next(Path(path, "data").iterdir()).unlink()
    with pytest.raises(Exception, match=says) as caught:
        query(spark, path)
    text = str(caught.value)
    assert len(re.findall(r"lancefs\.errors\.|ValueError:", text)) == 1
    assert not re.search(r"(?m)^  File |^Traceback", text)


def fail(batches: Any) -> Any:
    for _ in batches:
        raise ValueError("of the user")
    yield


fail.__module__ = "__main__"  # to travel by value


def test_errors_of_users_keep_their_tracebacks(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="RefNotFound"):
        load(spark, make_table(tmp_path / "t.lance", 10), version=9)
    with pytest.raises(Exception, match=r"(?s)Traceback .*in fail.*ValueError: of the user"):
        spark.range(3).mapInArrow(fail, "id long").collect()


def test_a_store_without_its_package_names_the_python_and_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    says = f"^{sys.executable} on .*, which Spark uses, has no library for gs://b/t.lance: .*gcsfs"
    for read in (lancefs.spark.read, lancefs.spark.table, lancefs.spark.attach):
        with pytest.raises(ImportError, match=says):
            read(None, "gs://b/t.lance")
    with pytest.raises(ImportError, match=says):
        LanceDataSource({"path": "gs://b/t.lance"})
