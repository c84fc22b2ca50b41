"""A few rows of columns of each kind, by lancefs and by pylance: the ratio of their times.

    python benchmarks/few_rows.py DIRECTORY [VERSION …]

It writes a table of ten fragments for each column and version into the directory, once. Both
read in turns, in one process; the medians of wall time and of processor time are compared, above
1 lancefs is quicker.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lancefs

ROWS, FRAGMENTS, RUNS = 100_000, 10, 15
WORDS = np.array(["alpha", "beta", "gamma", "delta", "epsilon"])


def columns(rows: int) -> dict[str, pa.Array]:
    """Return a column of each kind."""
    source = np.random.default_rng(24)
    numbers, lengths = source.integers(0, 10**6, rows), source.integers(0, 5, rows)
    is_null = source.random(rows) < 0.1
    texts = np.array([f"text {k} of {k % 977}" for k in numbers.tolist()])
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
    items = source.integers(0, 1000, int(lengths.sum()))
    words = pa.array(np.array([f"item {k}" for k in range(1000)])[items])
    members = pa.StructArray.from_arrays([pa.array(items), words], ["a", "b"])
    some = pa.array(is_null)
    pair = [pa.array(numbers), pa.array(texts)]
    return {
        "int64": pa.array(numbers),
        "int64, nulls": pa.array(numbers, mask=is_null),
        "string": pa.array(texts),
        "string, nulls": pa.array(texts, mask=is_null),
        "category": pa.array(WORDS[numbers % 5]),
        "long text": pa.array([text * 20 for text in texts.tolist()]),
        "decimal": pa.array(numbers).cast(pa.decimal128(30, 2)),
        "date": pa.array((numbers % 20000).astype("i4")).cast(pa.date32()),
        "bool": pa.array(numbers % 2 == 0),
        "list<int64>": pa.ListArray.from_arrays(offsets, pa.array(items)),
        "list<int64>, nulls": pa.ListArray.from_arrays(offsets, pa.array(items), mask=some),
        "list<string>": pa.ListArray.from_arrays(offsets, words),
        "list<struct>": pa.ListArray.from_arrays(offsets, members),
        "struct": pa.StructArray.from_arrays(pair, ["a", "b"]),
        "struct, nulls": pa.StructArray.from_arrays(pair, ["a", "b"], mask=some),
        "vector of 64": pa.FixedSizeListArray.from_arrays(source.random(rows * 64, np.float32), 64),
    }


def write(path: Path, values: pa.Array, version: Any) -> None:
    """Write a column and row numbers, unless they are there."""
    if path.exists():
        return
    table, size = pa.table({"id": np.arange(len(values)), "v": values}), len(values) // FRAGMENTS
    for start in range(0, len(values), size):
        part = table.slice(start, size)
        lance.write_dataset(part, path, mode="append", data_storage_version=version)


def cases(path: str) -> dict[str, Sequence[Callable[[int], object]]]:
    """Return what is measured, for lancefs and for pylance; each takes the number of the run."""
    ours, theirs = lancefs.open(path), lance.dataset(path)
    source = np.random.default_rng(1)
    drawn = [np.sort(source.choice(ROWS, 1000, replace=False)) for _ in range(RUNS)]
    few, kept = [source.permutation(rows)[:10] for rows in drawn], "id % 1000 = 7"
    return {
        "open + head": (
            lambda _: lancefs.open(path).head(10),
            lambda _: lance.dataset(path).head(10),
        ),
        "take 10": (lambda run: ours.take(few[run]), lambda run: theirs.take(few[run])),
        "take 1,000": (lambda run: ours.take(drawn[run]), lambda run: theirs.take(drawn[run])),
        "filter": (lambda _: ours.to_table(filter=kept), lambda _: theirs.to_table(filter=kept)),
    }


def ratios(ours: Callable[[int], object], theirs: Callable[[int], object]) -> tuple[float, ...]:
    """Return the median wall time of both, and pylance's over ours, by wall and by processor."""
    times: list[list[tuple[float, float]]] = [[], []]
    for run in range(RUNS):
        for number, read in enumerate((ours, theirs)):
            start, busy = time.perf_counter(), time.process_time()
            read(run)
            times[number].append((time.perf_counter() - start, time.process_time() - busy))
    (wall, busy), (their_wall, their_busy) = (
        [statistics.median(some) for some in zip(*of_one[2:], strict=True)] for of_one in times
    )
    return wall * 1e3, their_wall * 1e3, their_wall / wall, their_busy / busy


def main() -> None:
    """Print a line for each version, column and case."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    home, versions = Path(sys.argv[1]), sys.argv[2:] or ["2.0", "2.1", "2.2", "2.3"]
    known = columns(ROWS)
    print(f"{'':40} lancefs  pylance  wall   cpu")
    for version in versions:
        for number, (name, values) in enumerate(known.items()):
            if version == "2.0" and name == "struct, nulls":
                continue  # which that format cannot store
            path = home / f"few-{version}-{number}"
            write(path, values, version)
            for case, (ours, theirs) in cases(str(path)).items():
                own, peer, wall, busy = ratios(ours, theirs)
                title = f"{version} {name}, {case}"
                print(f"{title:40} {own:7.2f}  {peer:7.2f}  {wall:.2f}  {busy:.2f}", flush=True)


if __name__ == "__main__":
    main()
