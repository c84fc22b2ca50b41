"""What analysts do first, on tables of three shapes, by lancefs and by pylance.

    python benchmarks/shapes.py DIRECTORY [SHAPE …]

It writes the tables into the directory, once: many small fragments, many columns, and an ordinary
table. Both read in turns, in one process, warm; the medians of the wall times are compared: above
1, lancefs is quicker. A version of 100,000 fragments comes last, if `benchmarks/run.py` has written
it into DIRECTORY.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
from fsspec.core import url_to_fs
from tables import lines

import lancefs

Read = Callable[[], object]
# Short reads are measured for this long, and at least `RUNS` times.
SECONDS, RUNS = 1.5, 5
MANY_FRAGMENTS = "many-fragments"


def small_fragments() -> tuple[pa.Table, dict[str, Any]]:
    """Return what a writer leaves that appends every few seconds."""
    return lines(1_500 * 500), {"max_rows_per_file": 500}


def many_columns() -> tuple[pa.Table, dict[str, Any]]:
    """Return 500 features of 100,000 rows: numbers, with and without nulls, and texts."""
    source, rows = np.random.default_rng(24), 100_000
    columns: dict[str, pa.Array] = {"id": pa.array(np.arange(rows))}
    words = pa.array([f"category {number}" for number in range(200)])
    for number in range(499):
        kind = number % 10
        if kind < 5:
            values = pa.array(source.random(rows, np.float32))
        elif kind < 7:
            values = pa.array(source.integers(0, 1_000_000, rows))
        elif kind < 9:
            values = pa.array(source.random(rows), mask=source.random(rows) < 0.1)
        else:
            values = words.take(pa.array(source.integers(0, len(words), rows)))
        columns[f"feature_{number}"] = values
    return pa.table(columns), {}


def ordinary() -> tuple[pa.Table, dict[str, Any]]:
    """Return ten columns of ten fragments, half of them texts."""
    source, rows = np.random.default_rng(25), 1_000_000
    numbers = source.integers(0, 10**6, rows)
    levels, hosts = pa.array(["debug", "info", "warning"]), pa.array([f"h{i}" for i in range(200)])
    messages = pa.array([f"request {number} was answered" for number in numbers.tolist()])
    table = {
        "id": pa.array(np.arange(rows)),
        "time": pa.array(np.arange(rows) * 10**6, pa.timestamp("us")),
        "level": levels.take(pa.array(source.integers(0, 3, rows))),
        "host": hosts.take(pa.array(source.integers(0, 200, rows))),
        "message": messages,
        "path": pa.array([f"/a/{number % 977}/b" for number in numbers.tolist()]),
        "session": pa.array([f"{number:012x}" for number in (numbers * 7919).tolist()]),
        "latency": pa.array(source.random(rows)),
        "status": pa.array(source.integers(200, 600, rows).astype(np.int32)),
        "share": pa.array(source.random(rows), mask=source.random(rows) < 0.1),
    }
    return pa.table(table), {"max_rows_per_file": 100_000}


# Of a shape: how it is made, the versions of its files, a column that is read alone, and a filter
# that keeps few rows.
SHAPES = {
    "small-fragments": (small_fragments, ("2.1", "2.2"), "partkey", "partkey < 20"),
    "many-columns": (many_columns, ("2.1", "2.2"), "feature_3", "id % 10000 = 7"),
    "ordinary": (ordinary, ("2.0", "2.1", "2.2"), "latency", "latency < 0.0005"),
}


def cases(path: str, column: str, kept: str) -> Iterator[tuple[str, Read, Read]]:
    """Yield what is measured: its name, and how lancefs and pylance do it."""
    ours, theirs = lancefs.open(path), lance.dataset(path)
    rows = ours.count_rows()
    source = np.random.default_rng(1)
    ten, thousand = (np.sort(source.choice(rows, count, replace=False)) for count in (10, 1_000))
    yield (
        "open + count",
        lambda: lancefs.open(path).count_rows(),
        lambda: lance.dataset(path).count_rows(),
    )
    yield (
        "open + head(10)",
        lambda: lancefs.open(path).head(10),
        lambda: lance.dataset(path).head(10),
    )
    yield "take 1", lambda: ours.take(ten[5:6]), lambda: theirs.take(ten[5:6])
    yield "take 10", lambda: ours.take(ten), lambda: theirs.take(ten)
    yield "take 1,000", lambda: ours.take(thousand), lambda: theirs.take(thousand)
    yield (
        "one column",
        lambda: ours.to_table(columns=[column]),
        lambda: theirs.to_table(columns=[column]),
    )
    yield "filter", lambda: ours.to_table(filter=kept), lambda: theirs.to_table(filter=kept)
    yield "whole", ours.to_table, theirs.to_table
    yield "stream", lambda: _drain(ours.to_batches()), lambda: _drain(theirs.to_batches())
    view = f"lance://latest.arrow::file://{path}"
    yield "pandas by a view", lambda: pd.read_feather(view), lambda: theirs.to_table().to_pandas()


def many_fragments(path: str) -> Iterator[tuple[str, Read, Read]]:
    """Yield what is measured on a version of 100,000 fragments."""
    ours, theirs = lancefs.open(path), lance.dataset(path)
    ten = np.arange(10) * (ours.count_rows() // 10)
    yield "take 10", lambda: ours.take(ten), lambda: theirs.take(ten)
    yield (
        "stream of a column",
        lambda: _drain(ours.to_batches(columns=["partkey"])),
        lambda: _drain(theirs.to_batches(columns=["partkey"])),
    )


def view_sizes(path: str) -> None:
    """Print how long a view takes to tell its size: the first time, and in a new filesystem."""
    for title in ("the first time", "again"):
        fs, _ = url_to_fs(f"lance://latest.arrow::file://{path}", skip_instance_cache=True)
        start = time.perf_counter()
        fs.info("latest.arrow")
        taken = (time.perf_counter() - start) * 1e3
        print(f"{f'100,000 fragments, size of a view {title}':50} {taken:9.2f}", flush=True)


def compare(title: str, ours: Read, theirs: Read) -> None:
    """Print the median wall times of both, read in turns, and their ratio."""
    times: tuple[list[float], list[float]] = ([], [])
    ours(), theirs()
    end = time.perf_counter() + 2 * SECONDS
    while len(times[0]) < RUNS or time.perf_counter() < end:
        for taken, read in zip(times, (ours, theirs), strict=True):
            start = time.perf_counter()
            read()
            taken.append((time.perf_counter() - start) * 1e3)
    own, peer = map(statistics.median, times)
    print(f"{title:50} {own:9.2f} {peer:9.2f} {peer / own:6.2f}", flush=True)


def _drain(batches: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def main() -> None:
    """Print a line for each shape, version and case."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    home, chosen = Path(sys.argv[1]).resolve(), sys.argv[2:] or [*SHAPES, MANY_FRAGMENTS]
    print(f"{'milliseconds':50} {'lancefs':>9} {'pylance':>9}  ratio")
    for shape in (shape for shape in SHAPES if shape in chosen):
        make, versions, column, kept = SHAPES[shape]
        for version in versions:
            path = home / f"shape-{shape}-{version}.lance"
            if not path.exists():
                table, options = make()
                lance.write_dataset(table, path, data_storage_version=version, **options)
            for case, ours, theirs in cases(str(path), column, kept):
                compare(f"{shape} {version}, {case}", ours, theirs)
    listed = home / f"{MANY_FRAGMENTS}.lance"
    if MANY_FRAGMENTS in chosen and listed.exists():
        for case, ours, theirs in many_fragments(str(listed)):
            compare(f"100,000 fragments, {case}", ours, theirs)
        view_sizes(str(listed))


if __name__ == "__main__":
    main()
