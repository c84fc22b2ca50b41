"""A Lance table in Spark: `spark.read.format("lancefs")`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from spark_support import append, expected_ids, ids, load, make_table

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")


import lancefs
import lancefs.spark
from lancefs.spark.data_source import LanceDataSource


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


def test_a_folder_with_signs_of_a_pattern_is_a_table(tmp_path: Path) -> None:
    path = make_table(tmp_path / "t[1].lance", 100)
    assert LanceDataSource({"path": path}).schema().fieldNames()


def test_a_table_is_named_by_a_path_of_python_as_well(spark: Any, table: str) -> None:
    for read in (lancefs.spark.read, lancefs.spark.table):
        assert read(spark, Path(table)).columns == read(spark, table).columns
        with pytest.raises(TypeError, match="not list"):
            read(spark, [table])


def test_a_member_of_a_struct_is_a_column(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    trips = pa.array([{"via": "Gent", "km": 7}, None, {"via": None, "km": 9}])
    lance.write_dataset(pa.table({"id": [1, 2, 3], "trip": trips}), path)
    names = ["id", "trip.via"]
    for frame in (
        load(spark, path, columns=",".join(names)),
        lancefs.spark.read(spark, path, columns=names),
        lancefs.spark.table(spark, path, columns=names),
    ):
        assert frame.columns == names
        found = frame.where("id > 1 OR `trip.via` = 'Gent'").collect()
        assert sorted(map(tuple, found)) == [(1, "Gent"), (2, None), (3, None)]
        assert [row.id for row in frame.where("`trip.via` = 'Gent'").collect()] == [1]
