"""`lancefs.spark.table`: columns are read where a query uses them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fsspec
import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spark_support import append, make_table, session
from store_servers import s3_server
from support import modules_after

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")

from pyspark.sql.functions import arrow_udf, udf

import lancefs
import lancefs.spark
from lancefs.errors import (
    ColumnNotFound,
    InvalidFilter,
    MemoryLimitExceeded,
    NotALanceTable,
    RefNotFound,
)
from lancefs.scan.execution import Scan
from lancefs.spark import column_reader, lazy_table
from lancefs.spark.column_reader import TaskColumns
from lancefs.spark.spark_types import arrow_schema, spark_schema


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session whose Python processes have lancefs from the start."""
    daemon = {"spark.python.daemon.module": "lancefs.spark.daemon"}
    with session("local[2]", tmp_path_factory.mktemp("spark"), **daemon) as found:
        lancefs.spark.register(found)
        yield found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Fragments of 1,000 rows, of which every seventh is deleted."""
    found = make_table(tmp_path_factory.mktemp("table") / "t.lance", enable_stable_row_ids=True)
    lance.dataset(found).delete("id % 7 = 3")
    return found


@pytest.fixture(scope="module")
def unreadable(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table whose data files are gone: only what its manifest says can be known."""
    found = make_table(tmp_path_factory.mktemp("table") / "gone.lance")
    for file in Path(found, "data").iterdir():
        file.unlink()
    return found


def test_a_table_has_the_rows_of_the_format(spark: Any, path: str) -> None:
    expected = spark.read.format("lancefs").load(path).collect()
    assert lancefs.spark.table(spark, path).collect() == expected


def test_counting_rows_reads_no_data_file(spark: Any, unreadable: str) -> None:
    assert lancefs.spark.table(spark, unreadable).count() == 4000
    lancefs.spark.table(spark, unreadable).createOrReplaceTempView("gone")
    assert spark.sql("select count(*) from gone").collect()[0][0] == 4000


def test_columns_that_a_query_does_not_use_are_not_read(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    lance.dataset(path).add_columns({"more": "id * 2"})
    (added,) = {f.path for f in lance.dataset(path).get_fragments()[0].data_files()[1:]}
    Path(path, "data", added).unlink()
    frame = lancefs.spark.table(spark, path)
    assert frame.selectExpr("sum(id)").collect()[0][0] == 4950
    assert frame.where("city = 'Graz'").select("price").count() == 25
    assert frame.createOrReplaceTempView("t") is None
    assert spark.sql("select city, max(id) from t group by city").count() == 4
    with pytest.raises(Exception, match=r"MissingFile: .*" + added):
        frame.collect()


@pytest.mark.parametrize(
    "query",
    [
        "select id, price from t where city = 'Gent' and price > 100",
        "select city, count(*), sum(size) from t group by city order by city nulls first",
        "select a.id, b.city from t a join t b on a.id = b.size where a.price < 10 order by 1, 2",
        "select id from t where id % 3 = 0 order by price desc limit 5",
        "select distinct city from t where size in (1, 2, 3) order by 1",
        "select id + 1, id + 2, city from t where id in (select size from t) order by 1",
    ],
)
def test_queries_find_what_they_find_in_the_format(spark: Any, path: str, query: str) -> None:
    spark.read.format("lancefs").load(path).createOrReplaceTempView("t")
    expected = spark.sql(query).collect()
    lancefs.spark.table(spark, path).createOrReplaceTempView("t")
    assert spark.sql(query).collect() == expected
    assert expected


def test_columns_of_one_type_share_functions(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To make one takes dozens of calls into Java, which wide tables had for each column."""
    names = ["c d", "`", *map(str, range(50))]
    rows = pa.table({name: [number, None, -number] for number, name in enumerate(names)})
    rows = rows.add_column(30, "text", pa.array(["x", "y", None]))
    lance.write_dataset(rows, tmp_path / "t.lance")
    made: list[Any] = []

    def counted(run: Any, data_type: Any) -> Any:
        made.append(data_type.simpleString())
        return arrow_udf(run, data_type)

    monkeypatch.setattr(lazy_table, "arrow_udf", counted)
    frame = lancefs.spark.table(spark, tmp_path / "t.lance")
    assert made == ["bigint"] * 7 + ["string"]
    assert [row.asDict() for row in frame.collect()] == rows.to_pylist()
    some = ["49", "text", "0", "c d"]
    assert [row.asDict() for row in frame.select(some).collect()] == rows.select(some).to_pylist()


def test_the_columns_of_wide_tables_are_put_in_sql(spark: Any, tmp_path: Path) -> None:
    """A call into Java for each, in place of some twenty."""
    names = ["c d", "`", "ä;'", *map(str, range(100))]
    rows = pa.table({name: [number, None, -number] for number, name in enumerate(names)})
    rows = rows.add_column(50, "text", pa.array(["x", "y", None]))
    lance.write_dataset(rows, tmp_path / "t.lance")
    before = {one.name for one in spark.catalog.listFunctions()}
    frame = lancefs.spark.table(spark, tmp_path / "t.lance")
    other = lancefs.spark.table(spark, tmp_path / "t.lance", columns=names[3:80])
    assert {one.name for one in spark.catalog.listFunctions()} == before
    assert frame.columns == rows.schema.names
    assert [row.asDict() for row in frame.collect()] == rows.to_pylist()
    some = ["99", "text", "0", "c d"]
    quoted = [f"`{name}`" for name in some]
    assert [row.asDict() for row in frame.select(quoted).collect()] == rows.select(some).to_pylist()
    assert other.selectExpr("max(`0`)", "max(`70`)").collect()[0][:] == (3, 73)
    assert other.cache().count() == 3
    twice = arrow_udf(lambda array: pc.multiply(array, 2), "bigint")
    assert frame.select(twice("`7`")).collect()[0][0] == 20


def test_threads_make_wide_tables_at_a_time(spark: Any, tmp_path: Path) -> None:
    paths = []
    for place in range(3):
        rows = pa.table({f"c{number}": [place * 1000 + number] for number in range(70)})
        lance.write_dataset(rows, tmp_path / f"{place}.lance")
        paths.append((str(tmp_path / f"{place}.lance"), rows.to_pylist()))

    def found(path: str) -> list[dict[str, Any]]:
        return [row.asDict() for row in lancefs.spark.table(spark, path).collect()]

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(found, [path for path, _ in paths])) == [rows for _, rows in paths]


def test_functions_of_users_take_the_columns(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"a": [1, 2, 3], "b": [10, 20, 30], "t": ["x", "y", None]})
    lance.write_dataset(rows, tmp_path / "t.lance")
    frame = lancefs.spark.table(spark, tmp_path / "t.lance")
    twice = arrow_udf(lambda array: pc.multiply(array, 2), "bigint")
    plus = arrow_udf(lambda left, right: pc.add(left, right), "bigint")
    shout = udf(lambda text: None if text is None else text + "!", "string")
    found = frame.select(twice("b"), twice(twice("a")), plus("a", twice("b")), shout("t"))
    assert [tuple(row) for row in found.collect()] == [
        (20, 4, 21, "x!"),
        (40, 8, 42, "y!"),
        (60, 12, 63, None),
    ]


@pytest.mark.parametrize("filter", ["price > 480 and city = 'Graz'", pc.field("id") > 2995])
def test_a_filter_leaves_its_rows(spark: Any, path: str, filter: Any) -> None:
    expected = lancefs.spark.read(spark, path, filter=filter).collect()
    found = lancefs.spark.table(spark, path, filter=filter, rows_per_partition=500)
    assert found.collect() == expected
    assert found.count() == len(expected)


def test_a_version_is_named_as_everywhere(spark: Any, path: str) -> None:
    lance.dataset(path).tags.create("first", 1)
    assert lancefs.spark.table(spark, path, 1).count() == 4000
    assert lancefs.spark.table(spark, path, "first").count() == 4000
    now = datetime.now(UTC)
    for point in (now, now.date() + timedelta(days=1)):
        assert lancefs.spark.table(spark, path, point).count() == 3429


def test_columns_are_chosen_and_row_ids_added(spark: Any, path: str) -> None:
    frame = lancefs.spark.table(spark, path, columns=["price", "id"], with_row_id=True)
    expected = lancefs.spark.read(spark, path, columns=["price", "id"], with_row_id=True)
    assert frame.columns == ["price", "id", "_rowid"]
    assert frame.collect() == expected.collect()


def test_positions_are_those_of_the_version(spark: Any, path: str) -> None:
    frame = lancefs.spark.read(
        spark, path, columns=["_rowoffset", "id"], filter="id > 500", rows_per_partition=300
    )
    ids = lancefs.open(path).to_table()["id"].to_pylist()
    assert [ids[row._rowoffset] == row.id for row in frame.collect()] == [True] * sum(
        i > 500 for i in ids
    )


@pytest.mark.parametrize("form", ["table", "view", "format"])
def test_a_limit_reads_the_first_task_only(spark: Any, tmp_path: Path, form: str) -> None:
    path = make_table(tmp_path / "t.lance")
    later = lance.dataset(path).get_fragments()[1:]
    for fragment in later:  # whoever reads these fails
        Path(path, "data", fragment.data_files()[0].path).unlink()
    if form == "format":
        reader = spark.read.format("lancefs").option("rowsPerPartition", 1000)
        frame = reader.load(path).limit(3)
    else:
        frame = lancefs.spark.table(spark, path, rows_per_partition=1000)
        frame.createOrReplaceTempView("beginning")
        frame = spark.sql("select * from beginning limit 3") if form == "view" else frame.limit(3)
    assert [row.id for row in frame.collect()] == [0, 1, 2]


def test_a_session_may_have_processes_with_lancefs_in_them(spark: Any) -> None:
    """They are forked from a process that has imported it, before any of them has a task."""
    imported = modules_after("import lancefs.spark.daemon")
    assert {"pyspark.worker", "lancefs.spark.column_reader", "lancefs.spark.task_rows"} <= imported
    assert "pandas" not in imported
    found = spark.range(0, 2, 1, 2).mapInArrow(_ancestry, "daemon string, spared long").collect()
    assert {row.daemon for row in found} == {"lancefs.spark.daemon"}
    assert all(row.spared > 10_000 for row in found)  # objects of modules, left out of collections


def _ancestry(batches: Any) -> Any:
    import gc
    import sys

    import pyarrow as pa

    daemon, spared = sys.modules["__main__"].__spec__.name, gc.get_freeze_count()  # type: ignore[union-attr]
    for _ in batches:
        yield pa.record_batch({"daemon": [daemon], "spared": [spared]})


_ancestry.__module__ = "__main__"  # to travel by value


def test_an_empty_table_has_columns_and_no_rows(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 10)
    lance.dataset(path).delete("true")
    frame = lancefs.spark.table(spark, path)
    assert frame.columns == ["id", "city", "size", "price"]
    assert frame.collect() == []


def test_values_of_all_types_come_as_by_the_format(spark: Any, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "flag": [True, None, False],
            "day": [date(2024, 2, 29), None, date(1969, 12, 31)],
            "at": pa.array([datetime(2024, 1, 1, 12), None, datetime(1960, 1, 1)]),
            "zoned": pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
            "clock": pa.array([time(12, 30), None, time(0)], pa.time64("us")),
            "took": pa.array([timedelta(days=1), None, timedelta(seconds=-1)], pa.duration("us")),
            "sum": pa.array([Decimal("1.25"), None, Decimal("-3.00")], pa.decimal128(10, 2)),
            "large": pa.array([2**64 - 1, None, 0], pa.uint64()),
            "bytes": [b"\x00a", None, b""],
            "list": [[1, None], None, []],
            "struct": [{"x": 1, "y": "a"}, None, {"x": None, "y": None}],
            "vector": pa.array([[1.0, 2.0], [0.0, 0.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
            "void": pa.nulls(3),
        }
    )
    lance.write_dataset(rows, str(tmp_path / "t.lance"), data_storage_version="2.1")
    frame = lancefs.spark.table(spark, str(tmp_path / "t.lance"))
    assert frame.collect() == spark.read.format("lancefs").load(str(tmp_path / "t.lance")).collect()


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"ref": 99}, RefNotFound, "the table has 1, 2"),
        ({"columns": ["prise"]}, ColumnNotFound, "price"),
        ({"columns": ["id", "id"]}, ValueError, "each once"),
        ({"columns": "id"}, TypeError, r"a list of names was expected: \['id'\]"),
        ({"filter": "price >> 1"}, InvalidFilter, "'> 1'"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_at_once(
    spark: Any, path: str, arguments: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        lancefs.spark.table(spark, path, **arguments)


# The tables of a folder, in SQL


def test_the_tables_of_a_folder_are_views(spark: Any, tmp_path: Path) -> None:
    make_table(tmp_path / "orders.lance", 10)
    make_table(tmp_path / "odd-name.lance", 7)
    (tmp_path / "notes").mkdir()
    attached = lancefs.spark.attach(spark, str(tmp_path))
    assert attached.names == ["odd-name", "orders"]
    query = "select count(*) from orders a join `odd-name` b on a.id = b.id"
    assert spark.sql(query).collect()[0][0] == 7


def test_views_move_on_when_they_are_refreshed(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "moving.lance", 10)
    make_table(tmp_path / "going-1.lance", 10)
    attached = lancefs.spark.attach(spark, str(tmp_path))
    assert attached.refresh() == []
    assert spark.catalog.tableExists("`going-1`")
    append(path, 10, 5)
    make_table(tmp_path / "coming.lance", 3)
    shutil.rmtree(tmp_path / "going-1.lance")
    assert spark.sql("select count(*) from moving").collect()[0][0] == 10
    assert attached.refresh() == ["going-1", "coming", "moving"]
    assert spark.sql("select count(*) from moving").collect()[0][0] == 15
    assert spark.sql("select max(id) from coming").collect()[0][0] == 2
    assert not spark.catalog.tableExists("`going-1`")


def test_a_query_may_see_the_tables_as_they_are_now(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "live.lance", 10)
    attached = lancefs.spark.attach(spark, str(tmp_path))
    append(path, 10, 5)
    before = attached.sql("select count(*) from live")
    append(path, 15, 5)
    make_table(tmp_path / "brand_new.lance", 3)
    after = attached.sql("select count(*) from live, brand_new")
    assert [before.collect()[0][0], after.collect()[0][0]] == [15, 60]


def test_views_show_a_tag_and_follow_it(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "tagged.lance", 10)
    append(path, 10, 5)
    append(path, 15, 5)
    tags = lance.dataset(path).tags
    tags.create("prod", 1)
    attached = lancefs.spark.attach(spark, str(tmp_path), "prod")
    assert spark.table("tagged").count() == 10
    tags.update("prod", 2)
    assert attached.refresh() == ["tagged"]
    assert spark.table("tagged").count() == 15
    assert spark.table(f"`{attached.at('tagged', 3)}`").count() == 20


def test_a_tag_that_a_table_lacks_is_said_with_the_table(spark: Any, tmp_path: Path) -> None:
    make_table(tmp_path / "untagged.lance", 10)
    with pytest.raises(RefNotFound, match=r"untagged\.lance.*prod"):
        lancefs.spark.attach(spark, str(tmp_path), "prod")


def test_a_folder_on_a_store_needs_its_options(spark: Any, tmp_path: Path) -> None:
    pytest.importorskip("moto")
    with s3_server() as (endpoint, _):
        options = {"key": "me", "secret": "s", "client_kwargs": {"endpoint_url": endpoint}}
        fs = fsspec.filesystem("s3", **options)
        fs.mkdir("lake")
        fs.put(make_table(tmp_path / "far.lance", 10), "lake/far.lance", recursive=True)
        attached = lancefs.spark.attach(spark, "s3://lake", storage_options=options)
        assert attached.names == ["far"]
        assert spark.sql("select sum(id) from far").collect()[0][0] == 45
        fs.clear_instance_cache()


def test_another_version_is_a_view_too(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "dated.lance", 10)
    append(path, 10, 5)
    attached = lancefs.spark.attach(spark, str(tmp_path))
    assert attached.at("dated", 1) == "dated@1"
    new = "select id from dated minus select id from `dated@1` order by id"
    assert [row.id for row in spark.sql(new).collect()] == [10, 11, 12, 13, 14]
    attached.at("dated", 1, view="before")
    assert spark.table("before").count() == 10
    old = lancefs.spark.table(spark, path, 1)
    assert spark.sql("select count(*) from {old}", old=old).collect()[0][0] == 10
    with pytest.raises(ValueError, match="has no table 'date'"):
        attached.at("date", 1)


def test_a_folder_without_tables_is_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(NotALanceTable, match="no table is in it"):
        lancefs.spark.attach(spark, str(tmp_path))


# Without Spark: how one task reads


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_table(tmp_path_factory.mktemp("local") / "t.lance", 3000)


positions = st.lists(st.integers(0, 2999), min_size=1, max_size=30)
runs = st.tuples(st.integers(0, 2000), st.integers(1, 900)).map(lambda t: [*range(t[0], sum(t))])


@given(st.lists(st.one_of(positions, positions.map(sorted), runs), max_size=6), st.data())
def test_every_batch_gets_its_rows(local: str, batches: list[list[int]], data: Any) -> None:
    dataset = lancefs.open(local)
    expected = dataset.to_table(columns=["id", "price", "city"])
    fields = arrow_schema(spark_schema(expected.schema))
    task = TaskColumns(dataset, "error")
    for batch in batches:
        for field in data.draw(st.permutations(list(fields))):
            found = task.read(field, np.array(batch))
            wanted = expected[field.name].take(batch).combine_chunks()
            assert found.equals(pa.concat_arrays([wanted]) if wanted.offset else wanted)
            assert found.type == field.type


@pytest.mark.parametrize("step", [1, 100], ids=["dense", "sparse"])
def test_a_batch_of_too_many_bytes_is_refused_before_it_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    path, read = str(tmp_path / "t.lance"), 0
    texts = [np.random.default_rng(row).bytes(5000).hex() for row in range(3000)]
    lance.write_dataset(pa.table({"text": texts}), path)
    batches = Scan.batches

    def counted(self: Scan) -> Any:
        nonlocal read
        for batch in batches(self):
            read += batch.nbytes
            yield batch

    monkeypatch.setattr(Scan, "batches", counted)
    monkeypatch.setattr(column_reader, "_MOST_BYTES", 200_000)
    task = TaskColumns(lancefs.open(path), "error")
    with pytest.raises(MemoryLimitExceeded, match=r"rows of text has more .*maxRecordsPerBatch"):
        task.read(pa.field("text", pa.string()), np.arange(0, 3000, step))
    assert read < 20_000_000


def test_batches_one_after_the_other_are_one_scan(
    local: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[list[str]] = []
    batches = Scan.batches

    def spy(self: Scan) -> Any:
        scans.append([field.name for field in self._request.fields])
        return batches(self)

    monkeypatch.setattr(Scan, "batches", spy)
    dataset = lancefs.open(local)
    fields = arrow_schema(spark_schema(dataset.schema))
    task = TaskColumns(dataset, "error")
    for start in range(0, 3000, 100):
        for name in ("id", "city"):
            task.read(fields.field(name), np.arange(start, start + 100))
    assert scans.count(["id", "city"]) == 1
    assert len(scans) <= 3
