"""A real stand-alone cluster: one master and two workers on loopback, each in a Java of its own."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pytest
import spark_support
from spark_support import make_table, without_lancefs, zipped_lancefs

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")

import lancefs
import lancefs.spark

WORKERS = 2


def start(log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start one of Spark's daemons."""
    import pyspark

    home = Path(pyspark.__file__).parent
    # The checkout is not on the workers' path: lancefs must be installed in their Python.
    own = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment = {**own, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1",
                   "SPARK_DAEMON_MEMORY": "256m"}  # fmt: skip
    with log.open("wb") as output:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), *arguments],
            env=environment, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent,
        )  # fmt: skip


def wait_for(log: Path, pattern: str) -> str:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text(errors="replace")) if log.exists() else None
        if found:
            return found[0]
        time.sleep(0.2)
    raise TimeoutError(f"{pattern} is not in {log}:\n{log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a master that has two workers."""
    directory = tmp_path_factory.mktemp("cluster")
    deploy = "org.apache.spark.deploy"
    local = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    processes = [start(directory / "master.log", f"{deploy}.master.Master", *local)]
    try:
        url = wait_for(directory / "master.log", r"spark://127\.0\.0\.1:\d+")
        for number in range(WORKERS):
            more = ("--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"w{number}"))
            log = directory / f"worker{number}.log"
            processes.append(start(log, f"{deploy}.worker.Worker", *local, *more, url))
        for number in range(WORKERS):
            wait_for(directory / f"worker{number}.log", "Successfully registered with master")
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(timeout=60)


EXECUTORS = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2"}


def test_tasks_run_on_both_workers(cluster: str, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 8000)
    lance.dataset(path).delete("id % 10 = 0")
    with spark_support.session(cluster, tmp_path, **EXECUTORS) as spark:
        lancefs.spark.register(spark)
        frame = spark.read.format("lancefs").option("rowsPerPartition", "500").load(path)
        got = sorted(row.id for row in frame.select("id").collect())
        assert got == [i for i in range(8000) if i % 10]
        by = spark.range(0, 8, 1, 8).mapInArrow(_where, "where string").collect()
        assert len({row[0] for row in by}) == WORKERS
        done = lancefs.spark.materialize(spark, path, str(tmp_path / "out"))
        assert done.dataset().to_table().equals(lancefs.open(path).to_table())
        assert lancefs.spark.verify(spark, path).is_good


def _where(batches: Any) -> Any:
    import os
    import time

    import pyarrow as pa

    time.sleep(0.5)
    for _ in batches:
        yield pa.record_batch([[os.getcwd()]], names=["where"])


_where.__module__ = "__main__"  # to travel by value


def test_a_worker_without_lancefs_is_named(cluster: str, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    python = without_lancefs(tmp_path)
    with spark_support.session(cluster, tmp_path, **EXECUTORS) as spark:
        lancefs.spark.register(spark)
        frame = spark.read.format("lancefs").load(path)
        frame.schema  # noqa: B018  # made here, where lancefs is
        spark.sparkContext.pythonExec = str(python)
        lancefs.spark.register(spark)
        says = rf"{python} on \S+, which Spark uses, has no module 'lancefs': install lancefs there"
        with pytest.raises(Exception, match=says):
            spark.read.format("lancefs").load(path).collect()
        with pytest.raises(ImportError, match=says):
            lancefs.spark.materialize(spark, path, str(tmp_path / "out"))
        # lancefs itself may be shipped where the libraries that it needs are.
        spark.sparkContext.addPyFile(zipped_lancefs(tmp_path))
        lancefs.spark.register(spark)
        assert spark.read.format("lancefs").load(path).count() == 100
        assert lancefs.spark.table(spark, path).agg({"id": "sum"}).collect()[0][0] == 4950
        assert lancefs.spark.materialize(spark, path, str(tmp_path / "out")).rows == 100
