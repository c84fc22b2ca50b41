"""Measures row ids, history and changes: `python benchmarks/history.py --help`.

It writes its tables with pylance, once: lines with stable row ids, some deleted, updated and
compacted; and a small table with thousands of versions. Requests and bytes are counted on a store
that is local, but treated as a remote one.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from tables import lines

import lancefs
from lancefs.lance_dataset import LanceDataset
from lancefs.storage import Store
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import Ref, resolve

RUNS = 5
TAKEN = 1_000


class Counting(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The files of this machine, counting what is asked for."""

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._files = LocalFileSystem()
        self.requests: dict[str, int] = {}
        self.bytes = 0

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Read a file, or a range of it."""
        return self._count("reads", self._files.cat_file(path, *args, **kwargs))

    def ls(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """List a directory."""
        return self._count("listings", self._files.ls(path, *args, **kwargs))

    def info(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Look at a file."""
        return self._count("looks", self._files.info(path, *args, **kwargs))

    def _count(self, kind: str, found: Any) -> Any:
        self.requests[kind] = self.requests.get(kind, 0) + 1
        self.bytes += len(found) if isinstance(found, bytes) else 0
        return found

    def __str__(self) -> str:
        said = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.requests.items()))
        return f"{said}; {self.bytes / 1e6:,.2f} MB"


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="Measures row ids, history and changes.")
    parser.add_argument("--home", type=Path, default=Path("build/bench"), help="of the tables")
    parser.add_argument("--rows", type=int, default=6_000_000, help="of the table of lines")
    parser.add_argument("--versions", type=int, default=5_000, help="of the small table")
    options = parser.parse_args()
    options.home.mkdir(parents=True, exist_ok=True)
    stable = prepared(options.home / f"stable-{options.rows}.lance", options.rows, write_stable)
    many = prepared(options.home / f"versions-{options.versions}.lance", options.versions, write)
    take(stable)
    history(many)
    changes(stable)


def prepared(path: Path, size: int, make: Callable[[str, int], None]) -> str:
    """Return a table, written if it is not there."""
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        make(str(unfinished), size)
        unfinished.rename(path)
    return str(path)


def write_stable(path: str, rows: int) -> None:
    """Write lines with stable ids; the last two versions delete a few rows and update a few."""
    table = lines(rows).add_column(0, "id", pa.array(np.arange(rows)))
    options = {"enable_stable_row_ids": True, "data_storage_version": "2.1"}
    dataset = lance.write_dataset(table, path, max_rows_per_file=max(1, rows // 12), **options)
    dataset.delete("partkey % 100 = 7")
    dataset.update({"quantity": "quantity"}, where="partkey % 1000 = 11")
    dataset.optimize.compact_files(target_rows_per_fragment=max(1, rows // 6))
    dataset.delete("partkey = 12345")
    dataset.update({"tax": "tax + 1"}, where="partkey = 777")


def write(path: str, versions: int) -> None:
    """Write versions, every fourth of which appends a row."""
    dataset = lance.write_dataset(pa.table({"a": range(10)}), path)
    for number in range(1, versions):
        if number % 4:
            dataset.update_config({"number": str(number)})
        else:
            dataset.insert(pa.table({"a": [number]}))


def timed(read: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return the seconds of the first run, the median of the next ones, and what came out."""
    times = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        result = read()
        times.append(time.perf_counter() - start)
    return times[0], statistics.median(times[1:]), result


def counted(path: str) -> tuple[Counting, LanceDataset]:
    """Open a table on a store that counts."""
    fs = Counting()
    resolved = resolve(Store(fs, str(Path(path).resolve())), Ref())
    return fs, LanceDataset(OpenVersion(resolved))


def take(path: str) -> None:
    """Take rows by their ids, of all columns and of one, with a dataset that is open."""
    ours = lancefs.open(path)
    ids = ours.to_table(columns=["_rowid"])["_rowid"].to_numpy()
    wanted = np.random.default_rng(3).choice(ids, TAKEN, replace=False)
    print(f"take {TAKEN:,} of {len(ids):,} rows by row id, {len(ours.fragments)} fragments")
    for name, columns in (("all columns", None), ("one column", ["price"])):
        theirs = lance.dataset(path)  # which, as ours, remembers no ids yet
        first, median, expected = timed(lambda c=columns, t=theirs: t._take_rows(wanted, columns=c))
        print(f"  {name}: pylance {1e3 * first:.1f} ms first, {1e3 * median:.1f} ms then")
        ours = lancefs.open(path)
        first, median, found = timed(lambda c=columns, o=ours: o.take(row_ids=wanted, columns=c))
        print(f"  {name}: lancefs {1e3 * first:.1f} ms first, {1e3 * median:.1f} ms then")
        assert found.equals(expected)
    fs, dataset = counted(path)
    dataset.take(row_ids=wanted, columns=["price"])
    print(f"  one column, as if remote: {fs}")


def history(path: str) -> None:
    """Tell of all versions, and of the last ten."""
    print(f"history of {len(lancefs.open(path).versions()):,} versions")
    for name, newest in (("all", None), ("the last 10", 10)):
        first, median, _ = timed(lambda n=newest: lancefs.open(path).history(newest=n))
        fs, dataset = counted(path)
        dataset.history(newest=newest)
        print(f"  {name}: {first:.2f} s first, {median:.2f} s then; as if remote: {fs}")


def changes(path: str) -> None:
    """Compare neighbouring versions: a few rows deleted, a few updated."""
    last = lancefs.open(path).version
    size = sum(file.stat().st_size for file in Path(path).glob("data/*"))
    print(f"changes of neighbouring versions; {size / 1e6:,.0f} MB of data files in all")
    for since in (last - 2, last - 1):
        ours = lancefs.open(path)
        first, median, found = timed(lambda o=ours, s=since: o.changes(s, s + 1))
        fs, dataset = counted(path)
        assert dataset.changes(since, since + 1).equals(found)
        print(
            f"  {since}..{since + 1}: {found.num_rows:,} rows, {1e3 * first:.0f} ms first, "
            f"{1e3 * median:.0f} ms then; as if remote: {fs}"
        )


if __name__ == "__main__":
    main()
