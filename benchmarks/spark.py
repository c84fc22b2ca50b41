"""Measures lancefs in Spark: `python benchmarks/spark.py`, with `lancefs[spark]` and pylance.

    scan         a query over 7 of 16 columns (that of TPC-H's Q1), a sum over one, and the greatest
                 values of all: by Spark from Parquet, and by lancefs in Spark
                 (`lancefs.spark.read`, the format, and `lancefs.spark.table`), in turns in one
                 session; by lancefs and pyarrow in one process; the sum from rows that are in
                 memory, too
    materialize  the table as Parquet, all columns; again with nothing new; again with one fragment
                 more; then `verify`

Each method runs in a process of its own: once to warm up, then some times, of which the median
counts. What runs in turns has its processor time told too, that of Java and Python together, of
which the least counts. The Java and the Python workers of Spark are up before the first run.
`materialize` is run once each, since its first run is not like the second.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tables import lines, prepare

CHECKOUT = Path(__file__).resolve().parent.parent
COLUMNS = ["quantity", "price", "discount", "tax", "flag", "status", "shipdate"]
LAST_DAY = 10_471  # days since 1970: 2 September 1998, which keeps nearly all rows
QUERY = f"""
SELECT flag, status, sum(quantity), sum(price), sum(price * (1 - discount)), avg(tax), count(*)
FROM lines WHERE shipdate <= date_from_unix_date({LAST_DAY}) GROUP BY flag, status
"""
SUM = "SELECT sum(suppkey) FROM lines"
# Of a process, behind its name: its parent, and its ticks in user and in system mode.
_PICK = itemgetter(1, 11, 12)


def main() -> None:
    """Run what the command line asks for."""
    options = _options()
    if options.one:
        print(json.dumps(METHODS[options.one](Path(options.home), options.master, options.runs)))
        return
    home = prepare(Path(options.home), options.rows)
    for method, master in (
        ("one process", "-"),
        *((name, f"local[{cores}]") for cores in (1, 2) for name in ("turns", "memory")),
        *(("pipeline", f"local[{cores}]") for cores in (1, 2)),
    ):
        for what, value in _in_a_process(method, master, home, options.runs).items():
            print(f"{method:12} {master:9} {what:50} {value:8.2f}", flush=True)


def scan_in_one_process(home: Path, _: str, runs: int) -> dict[str, float]:
    """The queries by lancefs and pyarrow, without Spark."""
    import lancefs

    dataset = lancefs.open(home / "lines-2.1.lance")
    last = pa.scalar(LAST_DAY, pa.int32()).cast(pa.date32())

    def query() -> None:
        rows = dataset.to_table(columns=COLUMNS, filter=pc.field("shipdate") <= last)
        net = pc.multiply(rows["price"], pc.subtract(pa.scalar(1), rows["discount"]))
        sums = [(name, "sum") for name in ("quantity", "price", "net")]
        rows.append_column("net", net).group_by(["flag", "status"]).aggregate(
            [*sums, ("tax", "mean"), ([], "count_all")]
        )

    def total() -> None:
        sum(pc.sum(batch["suppkey"]).as_py() for batch in dataset.to_batches(columns=["suppkey"]))

    return {"query, s": _timed(query, runs), "sum of one column, s": _timed(total, runs)}


def scan_in_turns(home: Path, master: str, runs: int) -> dict[str, float]:
    """The queries by Spark, from Parquet and through lancefs."""
    import lancefs.spark

    spark = _session(master)
    url, parquet = str(home / "lines-2.1.lance"), str(home / "lines.parquet")
    lancefs.spark.register(spark)
    lazy = lancefs.spark.table(spark, url)
    ways: dict[str, Callable[[list[str]], Any]] = {
        "Parquet": lambda _: spark.read.parquet(parquet),
        "read": lambda columns: lancefs.spark.read(spark, url, columns=columns),
        "format": lambda columns: (
            spark.read.format("lancefs").option("columns", ",".join(columns)).load(url)
        ),
        "table": lambda _: lazy,
    }
    found = {}
    for what, sql, columns in (
        ("query", QUERY, COLUMNS),
        ("sum of one column", SUM, ["suppkey"]),
        ("greatest of all columns", _greatest(lazy.columns), lazy.columns),
    ):
        works = {
            way: partial(_ask, spark, sql, partial(frame, columns)) for way, frame in ways.items()
        }
        for way, (wall, processor) in _timed_in_turns(works, runs).items():
            found[f"{what}, {way}, s"] = wall
            found[f"{what}, {way}, s of processors"] = processor
    return found


def scan_memory(_: Path, master: str, runs: int) -> dict[str, float]:
    """The sum by Spark from a Python data source that has the rows in memory: Spark's own share."""
    spark = _session(master)
    spark.dataSource.register(_memory_source())
    return {
        "sum of one column, s": _timed(
            lambda: _ask(spark, SUM, spark.read.format("memory_rows").load), runs
        )
    }


def _memory_source() -> type:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):  # type: ignore[misc]
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(6)]

        def read(self, partition: InputPartition) -> Any:
            import pyarrow as pa

            values = pa.array(range(1 << 16), pa.int64())
            for _ in range(15):
                yield pa.record_batch([values], names=["suppkey"])

    class Source(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "memory_rows"

        def schema(self) -> str:
            return "suppkey bigint"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    Reader.__module__ = Source.__module__ = "__main__"  # to travel by value
    return Source


def _greatest(columns: list[str]) -> str:
    return f"SELECT {', '.join(f'max({name})' for name in columns)} FROM lines"


def _ask(spark: Any, sql: str, frame: Callable[[], Any]) -> Any:
    frame().createOrReplaceTempView("lines")
    return spark.sql(sql).collect()


def pipeline(home: Path, master: str, _: int) -> dict[str, float]:
    """The table as files, brought up to date, and verified."""
    import lance

    import lancefs
    import lancefs.spark

    spark = _session(master)
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        table, out = f"{directory}/t.lance", f"{directory}/out"
        shutil.copytree(home / "lines-2.1.lance", table)

        def took(what: str, incremental: bool) -> float:
            began = time.perf_counter()
            lancefs.spark.materialize(spark, table, out, incremental=incremental)
            found[f"{what}, s"] = time.perf_counter() - began
            return found[f"{what}, s"]

        size = sum(file.stat().st_size for file in Path(table, "data").iterdir())
        rows = lancefs.open(table).count_rows()
        seconds = took("materialize", incremental=False)
        found["materialize, M rows/s"] = rows / seconds / 1e6
        found["materialize, MB/s of data files"] = size / seconds / 1e6
        took("nothing new", incremental=True)
        lance.write_dataset(lines(1024 * 1024), table, mode="append", data_storage_version="2.1")
        took("one fragment of 1,048,576 more", incremental=True)
        report = lancefs.spark.verify(spark, table)
        found["verify, s"] = report.seconds
        found["verify, MB/s of data files"] = report.file_bytes / report.seconds / 1e6
    return found


METHODS = {
    "one process": scan_in_one_process,
    "turns": scan_in_turns,
    "memory": scan_memory,
    "pipeline": pipeline,
}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=6_000_000, help="of the table")
    parser.add_argument("--runs", type=int, default=5, help="of each query, after one to warm up")
    parser.add_argument("--home", default=str(CHECKOUT / "build" / "bench"))
    parser.add_argument("--one", choices=METHODS, help=argparse.SUPPRESS)
    parser.add_argument("--master", help=argparse.SUPPRESS)
    return parser.parse_args()


def _in_a_process(method: str, master: str, home: Path, runs: int) -> dict[str, float]:
    given = {"--one": method, "--master": master, "--home": str(home), "--runs": str(runs)}
    command = [sys.executable, __file__, *(word for pair in given.items() for word in pair)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _session(master: str) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.files.maxPartitionBytes": "36m",  # a task for each of the six row groups
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _timed(work: Callable[[], object], runs: int) -> float:
    """Do it once to warm up, then so many times; the median."""
    work()
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _timed_in_turns(
    works: Mapping[str, Callable[[], object]], runs: int
) -> dict[str, tuple[float, float]]:
    """Do each once to warm up, then so many times; the median of wall, the least processor time."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for run in range(1 + runs):
        for name, work in works.items():
            before, began = _processor_seconds(), time.perf_counter()
            work()
            wall, after = time.perf_counter() - began, _processor_seconds()
            used = sum(seconds - before.get(process, 0) for process, seconds in after.items())
            if run:
                times[name].append((wall, used))
    return {
        name: (statistics.median(wall for wall, _ in pairs), min(used for _, used in pairs))
        for name, pairs in times.items()
    }


def _processor_seconds() -> dict[int, float]:
    """Return what this process and those below it have used, by process (Linux: proc(5))."""
    used: dict[int, float] = {}
    below: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            values = file.read_text().rpartition(")")[2].split()  # what follows the name
            process, (parent, user, system) = int(file.parent.name), map(int, _PICK(values))
            below.setdefault(parent, []).append(process)
            used[process] = (user + system) / os.sysconf("SC_CLK_TCK")
    found, left = {}, [os.getpid()]
    while left:
        process = left.pop()
        found[process] = used[process]
        left += below.get(process, [])
    return found


if __name__ == "__main__":
    main()
