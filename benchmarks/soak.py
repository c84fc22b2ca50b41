"""Readers beside a busy writer, for as long as you like: `make soak SECONDS=600`.

A process writes with pylance: appends, deletions, updates, merges, compactions, clean-ups. After
each commit it notes the version with its number of rows and a checksum. Three threads of this
process read the newest version over and over: a dataset, a view through fsspec, DuckDB. The report
counts wrong reads (rows or checksum are not those of the version), stale reads (of a version that
was no longer the newest when the read began, and since how many seconds) and errors, and shows
descriptors, mapped data files, threads and memory over time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# What a version holds: number of rows, sum of the column `value`.
Content = tuple[int, int]
KEPT = timedelta(seconds=20)  # versions that are older are cleaned up


def _rows(first: int, count: int) -> pa.Table:
    ids = list(range(first, first + count))
    values = [random.randrange(1 << 30) for _ in ids]
    return pa.table({"id": ids, "value": values, "text": [f"row {i}" * (i % 5) for i in ids]})


def write(path: str, notes: str, seconds: float) -> None:
    """Change a table at random until the time is up; note what each version holds."""
    import lance

    dataset = lance.write_dataset(_rows(0, 5000), path)
    first, ends = 5000, time.monotonic() + seconds
    with Path(notes).open("a", encoding="utf-8", buffering=1) as log:
        while True:
            table = dataset.to_table(columns=["value"])
            content = [dataset.version, table.num_rows, pc.sum(table["value"]).as_py() or 0]
            log.write(json.dumps([*content, time.time()]) + "\n")
            if time.monotonic() > ends:
                return
            time.sleep(0.05)
            first = _change(dataset, path, first)
            dataset = lance.dataset(path)


def _change(dataset: Any, path: str, first: int) -> int:
    import lance

    action = random.choice(
        ["append"] * 5 + ["delete", "delete", "update", "merge", "compact", "clean"]
    )
    at = random.randrange(max(1, first))
    if action == "append":
        lance.write_dataset(_rows(first, 500), path, mode="append")
        return first + 500
    if action == "delete":
        dataset.delete(f"id >= {at} AND id < {at + 400}")
    elif action == "update":
        dataset.update({"value": "value + 1"}, where=f"id >= {at} AND id < {at + 200}")
    elif action == "merge":
        merge = dataset.merge_insert("id").when_matched_update_all()
        merge.when_not_matched_insert_all().execute(_rows(at, 300))
    elif action == "compact":
        dataset.optimize.compact_files(target_rows_per_fragment=100_000)
    else:
        dataset.cleanup_old_versions(older_than=KEPT)
    return first


class Reader(threading.Thread):
    """Reads the newest version over and over.

    Args:
        name: What is read.
        read: Reads once; returns the version, or None if it is not known, and its content.
    """

    def __init__(self, name: str, read: Callable[[], tuple[int | None, Content]]) -> None:
        super().__init__(name=name, daemon=True)
        self.read = read
        self.reads: list[tuple[float, int | None, Content]] = []  # when it began, what came
        self.errors: Counter[str] = Counter()
        self.is_over = False

    def run(self) -> None:
        while not self.is_over:
            began = time.time()
            try:
                version, content = self.read()
            except Exception as error:
                self.errors[f"{type(error).__name__}: {str(error)[-90:]}"] += 1
            else:
                self.reads.append((began, version, content))
            time.sleep(0.02)


def readers(path: str, connect: Callable[[], Any]) -> list[Reader]:
    """Return the three readers of a table."""
    import lancefs

    filesystem = lancefs.LanceFileSystem(fo=path, skip_instance_cache=True)

    def content(table: pa.Table) -> Content:
        return table.num_rows, pc.sum(table["value"]).as_py() or 0

    def dataset() -> tuple[int | None, Content]:
        opened = lancefs.open(path)
        return opened.version, content(opened.to_table(columns=["value"]))

    def view() -> tuple[int | None, Content]:
        with filesystem.open("latest.arrow") as file:
            return file.details["version"], content(pa.ipc.open_file(file).read_all())

    connection = connect()

    def sql() -> tuple[int | None, Content]:
        query = f"SELECT count(*), coalesce(sum(value), 0)::BIGINT FROM '{path}'"
        rows, total = connection.execute(query).fetchone()
        return None, (rows, total)

    return [Reader("dataset", dataset), Reader("view", view), Reader("DuckDB", sql)]


def judge(reader: Reader, notes: list[tuple[int, Content, float]]) -> list[Any]:
    """Count the wrong and the stale reads of a reader."""
    known = {version: content for version, content, _ in notes}
    committed = {version: at for version, _, at in notes}
    versions_of: dict[Content, list[int]] = {}
    for version, content, _ in notes:
        versions_of.setdefault(content, []).append(version)
    wrong = stale = 0
    oldest = 0.0
    for began, version, content in reader.reads:
        seen = max(versions_of.get(content, [0])) if version is None else version
        # A version that was committed and not noted yet when the soak ended is not judged.
        if seen not in known or known[seen] != content:
            wrong += version is None or seen in known
            continue
        newer = [at for other, at in committed.items() if other > seen and at < began]
        if newer:
            stale += 1
            oldest = max(oldest, began - min(newer))
    return [len(reader.reads), wrong, stale, round(oldest, 2), sum(reader.errors.values())]


def state() -> list[int]:
    """Return the descriptors, mapped data files, threads and megabytes of this process."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    megabytes = pages * os.sysconf("SC_PAGE_SIZE") >> 20
    descriptors = len(os.listdir("/proc/self/fd"))
    return [descriptors, maps.count(".lance\n"), threading.active_count(), megabytes]


def main() -> None:
    """Run the soak and print its report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=600)
    seconds = options.parse_args().seconds
    import duckdb

    import duckdb_adapter

    duckdb_adapter.install()
    with tempfile.TemporaryDirectory() as folder:
        path, notes = f"{folder}/t.lance", f"{folder}/notes"
        context = multiprocessing.get_context("spawn")
        writer = context.Process(target=write, args=(path, notes, seconds))
        writer.start()
        while not (Path(notes).exists() and Path(notes).stat().st_size):
            time.sleep(0.1)
        running = readers(path, duckdb_adapter.connect)
        print(f"lancefs beside a writer, duckdb {duckdb.__version__}")
        print(f"{'second':>8} {'descriptors':>12} {'mapped':>8} {'threads':>8} {'MB':>6}")
        for reader in running:
            reader.start()
        began = time.monotonic()
        while writer.is_alive():
            row = [int(time.monotonic() - began), *state()]
            print("{:>8} {:>12} {:>8} {:>8} {:>6}".format(*row), flush=True)
            writer.join(max(1.0, seconds / 20))
        for reader in running:
            reader.is_over = True
        for reader in running:
            reader.join()
        lines = [json.loads(line) for line in Path(notes).read_text("utf-8").splitlines()]
        noted = [(version, (rows, total), at) for version, rows, total, at in lines]
        print(f"{len({version for version, *_ in noted})} versions")
        print(f"{'reader':>8} {'reads':>8} {'wrong':>6} {'stale':>6} {'oldest s':>9} {'errors':>7}")
        wrong = 0
        for reader in running:
            row = judge(reader, noted)
            wrong += row[1]
            print("{:>8} {:>8} {:>6} {:>6} {:>9} {:>7}".format(reader.name, *row))
            for message, count in reader.errors.most_common(5):
                print(f"    {count} × {message}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
