"""Spark Connect: a session without a SparkContext, whose server runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lance
import pytest
from spark_support import environment, make_table, without_lancefs, zipped_lancefs

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")
pytest.importorskip("grpc_status", reason="pip install 'pyspark[connect]'")

# One process may not have both kinds of session.
PROGRAM = """
import sys
from pyspark.sql import SparkSession

import lancefs.spark
from lancefs.errors import ColumnNotFound, MissingFile

table, damaged, out, other = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__
expected = lancefs.open(table).to_table()

# Batches
frame = lancefs.spark.read(spark, table, columns=["id"], filter="id < 100")
assert sorted(row.id for row in frame.collect()) == [i for i in range(100) if i % 10]
assert spark.read.format("lancefs").load(table).where("id >= 3990").count() == 9
lazy = lancefs.spark.table(spark, table)
assert (lazy.count(), lazy.where("id < 100").count()) == (len(expected), 90)
try:
    lancefs.spark.read(spark, table, columns=["pryce"])
except ColumnNotFound:
    print("no such column")

# A stream
stream = spark.readStream.format("lancefs").option("startingVersion", 1).load(table)
sink = stream.writeStream.format("memory").queryName("seen").trigger(availableNow=True)
query = sink.option("checkpointLocation", out + "-checkpoint").start()
query.awaitTermination(120)
print("streamed", spark.table("seen").count())

# The pipeline
done = lancefs.spark.materialize(spark, table, out)
assert done.dataset().to_table().equals(expected)
again = lancefs.spark.materialize(spark, table, out, incremental=True, check=True)
assert again.paths == done.paths
assert lancefs.spark.verify(spark, table).is_good
assert lancefs.spark.verify_output(spark, out).is_good
assert not lancefs.spark.verify(spark, damaged).is_good
try:
    lancefs.spark.materialize(spark, damaged, other)
except MissingFile:
    print("a file is missing")
spark.stop()
"""


def test_all_works_over_connect(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t.lance")
    lance.dataset(table).delete("id % 10 = 0")
    damaged = make_table(tmp_path / "damaged.lance")
    next(Path(damaged, "data").iterdir()).unlink()
    arguments = [table, damaged, str(tmp_path / "out"), str(tmp_path / "other")]
    said = run(PROGRAM, environment(), arguments)
    assert said == ["no such column", "streamed 4000", "a file is missing"]


SHIPPED = """
import sys
from pyspark.sql import SparkSession

import lancefs.spark

table, package, out = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
try:
    lancefs.spark.materialize(spark, table, out)
except ImportError as error:
    print(str(error).partition("which Spark uses, ")[2].partition(":")[0])
spark.addArtifacts(package, pyfile=True)
lancefs.spark.register(spark)
assert spark.read.format("lancefs").load(table).count() == 100
assert lancefs.spark.read(spark, table, columns=["id"]).count() == 100
assert lancefs.spark.table(spark, table).agg({"id": "sum"}).collect()[0][0] == 4950
stream = spark.readStream.format("lancefs").option("startingVersion", 1).load(table)
sink = stream.writeStream.format("memory").queryName("seen").trigger(availableNow=True)
sink.option("checkpointLocation", out + "-checkpoint").start().awaitTermination(120)
assert spark.table("seen").count() == 100
assert lancefs.spark.materialize(spark, table, out).rows == 100
assert lancefs.spark.verify(spark, table).is_good
print("shipped")
spark.stop()
"""


def test_lancefs_is_shipped_as_an_artifact(tmp_path: Path) -> None:
    table, python = make_table(tmp_path / "t.lance", 100), without_lancefs(tmp_path)
    servers = {**environment(), "PYSPARK_PYTHON": str(python)}
    arguments = [table, zipped_lancefs(tmp_path), str(tmp_path / "out")]
    assert run(SHIPPED, servers, arguments) == ["has no module 'lancefs'", "shipped"]


def run(program: str, environment: dict[str, str], arguments: list[str]) -> list[str]:
    """Run a program with a session of its own, and return the lines that it prints."""
    any_port = {**environment, "SPARK_TESTING": "1"}  # PySpark's own way to another than 15002
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=any_port, capture_output=True,
        text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if line]
