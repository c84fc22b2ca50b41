"""Real clusters on loopback, of processes with Javas of their own, and what is shipped there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pytest
import spark_support
from spark_support import CONFIG, environment, make_table, without_lancefs, zipped_lancefs

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


def test_a_worker_with_another_release_is_named(cluster: str, tmp_path: Path) -> None:
    """It may understand something else by what the driver ships."""
    path = make_table(tmp_path / "t.lance", 100)
    python = without_lancefs(tmp_path)
    (site,) = python.parent.parent.glob("lib/python*/site-packages")
    shutil.copytree(Path(lancefs.__file__).parent, site / "lancefs")
    (site / "lancefs" / "version.py").write_text('__version__ = "0.0.9"\n')
    says = (
        rf"{python} on \S+, which Spark uses, has lancefs 0\.0\.9, and the driver has "
        rf"{re.escape(lancefs.__version__)}: install the same release"
    )
    with spark_support.session(cluster, tmp_path, **EXECUTORS) as spark:
        spark.sparkContext.pythonExec = str(python)
        lancefs.spark.register(spark)
        with pytest.raises(Exception, match=says):
            spark.read.format("lancefs").load(path).collect()
        with pytest.raises(Exception, match=says):
            lancefs.spark.read(spark, path).collect()
        with pytest.raises(Exception, match=says):
            lancefs.spark.table(spark, path).collect()
        with pytest.raises(ImportError, match=says):
            lancefs.spark.materialize(spark, path, str(tmp_path / "out"))


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


# A job over a table, with all that there is; it prints what it finds.
JOB = """
import json
import sys
from pathlib import Path
from pyspark.sql import SparkSession

import lancefs.spark

master, config, table, out, *packages = sys.argv[1:]
builder = SparkSession.builder.master(master)
for name, value in json.loads(config).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
if packages:
    try:
        lancefs.spark.materialize(spark, table, out)
    except ImportError as error:
        print(str(error).partition("which Spark uses, ")[2].partition(":")[0])
    spark.addArtifacts(*packages, pyfile=True)

def place(batches):
    import lancefs
    import pyarrow as pa
    for _ in batches:
        yield pa.record_batch([[lancefs.__file__.split("/")[-3]]], names=["place"])

print("from", *{row.place for row in spark.range(1).mapInArrow(place, "place string").collect()})
lancefs.spark.register(spark)
print("format", spark.read.format("lancefs").load(table).where("id < 10").count())
print("read", lancefs.spark.read(spark, table, columns=["id"], filter="id < 10").count())
print("table", lancefs.spark.table(spark, table).agg({"id": "sum"}).collect()[0][0])

def streamed(name, **options):
    stream = spark.readStream.format("lancefs").options(startingVersion="1", **options).load(table)
    sink = stream.writeStream.format("parquet").option("checkpointLocation", f"{out}-{name}-cp")
    sink.trigger(availableNow=True).start(f"{out}-{name}").awaitTermination()
    return spark.read.parquet(f"{out}-{name}")

print("stream", streamed("rows").count())
changes = streamed("changes", readChangeFeed="true").groupBy("_change_type").count()
print("changes", *(f"{row[0]}={row[1]}" for row in changes.orderBy("_change_type").collect()))
print("materialize", lancefs.spark.materialize(spark, table, out).rows)
print("verify", lancefs.spark.verify(spark, table).is_good)
print("output", lancefs.spark.verify_output(spark, out).is_good)
spark.stop()
"""
FOUND = [
    "format 9",
    "read 9",
    "table 79796",
    "stream 400",
    "changes delete=1 insert=400",
    "materialize 399",
    "verify True",
    "output True",
]


def run_job(
    master: str, directory: Path, config: dict[str, str], env: dict[str, str], *packages: str
) -> list[str]:
    """Run the job in a process of its own, in a directory, and return the lines that it prints."""
    path = make_table(directory / "t.lance", 400, per_file=100, enable_stable_row_ids=True)
    lance.dataset(path).delete("id = 4")
    given = {**CONFIG, **EXECUTORS, **config}
    arguments = [master, json.dumps(given), path, str(directory / "out"), *packages]
    done = subprocess.run(
        [sys.executable, "-c", JOB, *arguments], cwd=directory, env={**environment(), **env},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if line]


def test_lancefs_is_shipped_to_a_local_cluster(tmp_path: Path) -> None:
    import pyspark

    home = tmp_path / "spark"  # where the workers of such a cluster leave their files
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    env = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": str(without_lancefs(tmp_path))}
    package = zipped_lancefs(tmp_path)
    lines = run_job("local-cluster[2,1,1024]", tmp_path, {}, env, package)
    assert lines == ["has no module 'lancefs'", "from lancefs.zip", *FOUND]


def test_an_environment_is_shipped_as_an_archive(cluster: str, tmp_path: Path) -> None:
    bare = without_lancefs(tmp_path).parent.parent
    (site,) = bare.glob("lib/python*/site-packages")
    shutil.copytree(Path(lancefs.__file__).parent, site / "lancefs")
    archive = tmp_path / "env.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(bare, arcname=".")
    bare.rename(tmp_path / "environment")  # for the driver, which plans with the same path
    env = {"PYSPARK_PYTHON": "./environment/bin/python"}
    lines = run_job(cluster, tmp_path, {"spark.archives": f"{archive}#environment"}, env)
    assert lines == ["from site-packages", *FOUND]
