"""Measures `describe` of 4,000,000 rows of 11 columns against SUMMARIZE of DuckDB.

`python benchmarks/describe.py` runs each method in processes of its own, in turns, and prints the
medians of time, processor time and the largest memory. DuckDB reads the same rows as Parquet, and
the Lance table by lancefs.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def rows_of(count: int) -> pa.Table:
    """Return numbers, dates, times, and texts of few and of many values, some of them null."""
    source = np.random.default_rng(5)
    cents = source.integers(100, 100_000, count)
    words = pa.array([f"city {number}" for number in range(100)])
    notes = pa.array([f"note {number} on a row" for number in source.integers(0, 2**40, 200_000)])
    seconds = 1_700_000_000 + np.sort(source.integers(0, 10**8, count))
    missing = source.random(count) < 0.1
    return pa.table(
        {
            "id": pa.array(np.arange(count)),
            "customer": pa.array(source.integers(0, 50_000, count), pa.int32()),
            "price": pa.array(cents / 100),
            "total": pa.array(cents).cast(pa.decimal128(21, 2)),
            "score": pa.array(source.normal(size=count).astype(np.float32), mask=missing),
            "quantity": pa.array(source.integers(1, 12, count), pa.int16()),
            "is_paid": pa.array(source.random(count) < 0.7),
            "day": pa.array(seconds // 86_400, pa.int32()).cast(pa.date32()),
            "at": pa.array(seconds * 10**6, pa.timestamp("us")),
            "city": words.take(pa.array(source.integers(0, 100, count))),
            "note": notes.take(pa.array(source.integers(0, 200_000, count), mask=missing)),
        }
    )


def prepare(directory: Path, count: int) -> Path:
    """Write the rows as Lance and as Parquet, unless they are there."""
    import lance

    home = directory / f"describe-{count}"
    if not (home / "done").exists():
        home.mkdir(parents=True, exist_ok=True)
        rows = rows_of(count)
        lance.write_dataset(rows, str(home / "t.lance"), mode="overwrite")
        pq.write_table(rows, home / "t.parquet")
        (home / "done").touch()
    return home


def by_describe(home: Path) -> None:
    """Describe the Lance table."""
    import lancefs

    assert len(lancefs.open(home / "t.lance").describe().columns) >= 11


def by_summarize(home: Path) -> None:
    """Summarize the Lance table in DuckDB, which reads it by lancefs."""
    import lancefs

    assert len(lancefs.sql(f"SUMMARIZE FROM '{home / 't.lance'}'").fetchall()) == 11


def by_summarize_parquet(home: Path) -> None:
    """Summarize the Parquet file in DuckDB."""
    import duckdb

    assert len(duckdb.sql(f"SUMMARIZE FROM '{home / 't.parquet'}'").fetchall()) == 11


METHODS = {
    "describe": by_describe,
    "SUMMARIZE of Lance": by_summarize,
    "SUMMARIZE of Parquet": by_summarize_parquet,
}


def once(method: str, home: Path) -> None:
    """Run a method, and print what it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    METHODS[method](home)
    took = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps([*took, peak_memory()]))


def peak_memory() -> float:
    """Return the largest memory of this program in MB; `ru_maxrss` counts its parent's, too."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) / 1024


def main() -> None:
    """Run all methods in turns, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, default=Path("build/bench"))
    parser.add_argument("--once", choices=METHODS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    home = prepare(arguments.directory, arguments.rows)
    if arguments.once:
        once(arguments.once, home)
        return
    spent: dict[str, list[list[float]]] = {name: [] for name in METHODS}
    same = ["--rows", str(arguments.rows), "--directory", str(arguments.directory)]
    for _ in range(arguments.rounds):
        for name in METHODS:
            command = [sys.executable, __file__, *same, "--once", name]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            spent[name].append(json.loads(done.stdout.splitlines()[-1]))
    for name, runs in spent.items():
        wall, cpu, peak = (statistics.median(part) for part in zip(*runs, strict=True))
        print(f"{name:21} {wall:6.2f} s, {cpu:6.2f} s of CPU, {peak:6.0f} MB")


if __name__ == "__main__":
    main()
