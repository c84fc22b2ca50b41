"""What the Spark tests share: whether Spark is there, sessions, and tables to read.

The tests need PySpark and a Java, which are large, so they are marked `slow` and skipped where
either is missing. With LANCEFS_SPARK=required, as `make test-spark` says in CI, that is an error.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancefs

# Tests that start Java, many Python workers and clusters, where Spark's own sockets are closed by
# the garbage collector and PySpark 4.3 warns of pandas 3.
MARKS = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:lance is not fork-safe:UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def missing() -> str | None:
    """Say what these tests lack; None where all is there."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed: pip install 'lancefs[spark]'"
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        return "there is no Java: install a JDK 17"
    return None


@contextmanager
def session(master: str, directory: Path, **config: str) -> Iterator[Any]:
    """A Spark session, of which there can be one at a time in a process."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    own = {"spark.sql.warehouse.dir": str(directory / "warehouse")}
    for name, value in {**CONFIG, **own, **config}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def rows(start: int, count: int) -> pa.Table:
    """Rows of a table: ids that tell them apart, and values that follow from them."""
    ids = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "city": pa.array([["Graz", "Porto", None, "Gent"][i % 4] for i in ids]),
            "size": pa.array([i % 251 for i in ids], pa.uint8()),
            "price": pa.array([i / 8 for i in ids], pa.float64()),
        }
    )


def make_table(path: Path, count: int = 4000, per_file: int = 1000, **options: Any) -> str:
    """Write a table of several fragments."""
    options = {"data_storage_version": "2.1", "max_rows_per_file": per_file, **options}
    lance.write_dataset(rows(0, count), str(path), **options)
    return str(path)


def append(path: str, start: int, count: int, **options: Any) -> None:
    """Append rows to a table."""
    lance.write_dataset(rows(start, count), path, mode="append", **options)


def make_versions(path: Path) -> str:
    """Version 1: 4,000 rows; 2: some deleted; 3: a column more, tagged; 4: 500 rows more."""
    table = make_table(path)
    dataset = lance.dataset(table)
    dataset.delete("id % 7 = 3")
    dataset.add_columns({"double": "price * 2"})
    dataset.tags.create("prod", 3)
    more = lancefs.open(table).to_table().slice(0, 500)
    lance.write_dataset(more, table, mode="append")
    dataset.create_branch("exp", 2)
    return table


def load(spark: Any, path: str, **options: object) -> Any:
    """Load a table with options."""
    given = {name: str(value) for name, value in options.items()}
    return spark.read.format("lancefs").options(**given).load(path)


def ids(frame: Any) -> list[int]:
    return sorted(frame.select("id").toArrow().column(0).to_pylist())


def expected_ids(path: str, **ref: Any) -> list[int]:
    return sorted(lancefs.open(path, **ref).to_table(columns=["id"]).column(0).to_pylist())


def environment() -> dict[str, str]:
    """Return the environment of a process that starts Spark on this machine."""
    here = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return {**os.environ, **here, "PYTHONWARNINGS": "ignore"}


def zipped_lancefs(directory: Path) -> str:
    """Make a zip with the package in it, for `addPyFile` and `addArtifacts`."""
    import lancefs

    package = Path(lancefs.__file__).parent
    return shutil.make_archive(str(directory / "lancefs"), "zip", package.parent, package.name)


def without_lancefs(directory: Path) -> Path:
    """Make a Python that has all that this one has, but not what is installed as a link."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(directory / "bare")], check=True
    )
    (site,) = (directory / "bare").glob("lib/python*/site-packages")
    import pyspark

    # Two places where an older PySpark has an environment of its own, and borrows the rest.
    places = dict.fromkeys(Path(module.__file__).parent.parent for module in (pyspark, pa))
    (site / "shared.pth").write_text("\n".join(map(str, places)))
    return directory / "bare" / "bin" / "python"
