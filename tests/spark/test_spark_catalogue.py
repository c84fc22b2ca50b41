"""SQL over temporary views and over tables of Spark's catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from spark_support import append, expected_ids, ids, make_table

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")


import lancefs
import lancefs.spark


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


def test_credentials_do_not_get_into_the_catalogue(spark: Any, table: str) -> None:
    with pytest.raises(Exception, match="cannot have storage options"):
        spark.sql(
            f"CREATE TABLE secret USING lancefs OPTIONS (path '{table}', `storage.auto_mkdir` 'x')"
        )
