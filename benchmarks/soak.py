"""Readers beside busy writers, for as long as you like: `make soak SECONDS=600`.

Processes write with pylance (see `soak_writer`): one table on this machine and one in an S3 server
(moto, a process too), each as quick as may be, and 20 tables of a dashboard. Threads of this
process read the newest version over and over: a dataset, a view through fsspec, DuckDB, a dataset
and a view on S3; and the dashboard, which reads all of its tables every second.

The report counts wrong reads (rows or checksum are not those of the version), stale reads (of a
version that was no longer the newest when the read began, and since how many seconds) and errors.
It shows descriptors, mapped data files, threads and memory over time, and how much memory grew in
an hour, by the second half of the run: that of Python and its libraries, how much of it the C
library keeps for what will be allocated next, that of mapped files, and what Arrow and DuckDB say
they hold. The caches of lancefs grow to their budgets at first; what they hold is a column of its
own. At the end, Arrow's allocator and the C library give back what they keep for later (`trimmed`),
then the caches are emptied (`let go`): what is left in memory then is what was not given back.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import logging
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from soak_writer import Written, write

# What a version holds: number of rows, sum of the column `value`.
Content = tuple[int, int]
# A read: the table, the version, or None if it is not known, and its content.
Read = tuple[str, int | None, Content]

DASHBOARD = 20  # tables
_BUCKET = "soak"
_COLUMNS = (
    "descriptors",
    "mapped",
    "threads",
    "own MB",
    "free MB",
    "file MB",
    "cached MB",
    "Arrow MB",
    "DuckDB MB",
)


class Reader(threading.Thread):
    """Reads the newest version over and over.

    Args:
        name: What is read.
        read: Reads; yields what came.
        pause: Seconds from the start of one round to the next.
    """

    def __init__(self, name: str, read: Callable[[], Iterator[Read]], pause: float) -> None:
        super().__init__(name=name, daemon=True)
        self.read, self.pause = read, pause
        self.reads: list[tuple[float, Read]] = []  # when it began, what came
        self.errors: Counter[str] = Counter()
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.is_set():
            started = began = time.time()
            try:
                for read in self.read():
                    self.reads.append((began, read))
                    began = time.time()
            except Exception as error:
                self.errors[f"{type(error).__name__}: {str(error)[-90:]}"] += 1
            self.is_over.wait(max(0.0, started + self.pause - time.time()))


def content_of(table: pa.Table) -> Content:
    """Return what a version holds."""
    return table.num_rows, pc.sum(table["value"]).as_py() or 0


def by_dataset(paths: Sequence[str], **options: Any) -> Iterator[Read]:
    """Read the newest version of tables as datasets."""
    import lancefs

    for path in paths:
        opened = lancefs.open(path, **options)
        yield path, opened.version, content_of(opened.to_table(columns=["value"]))


def by_view(path: str, filesystem: Any) -> Iterator[Read]:
    """Read the newest version of a table as a file."""
    with filesystem.open("latest.arrow") as file:
        version = file.details["version"]
        yield path, version, content_of(pa.ipc.open_file(file).read_all())


def by_sql(path: str, connection: Any) -> Iterator[Read]:
    """Read the newest version of a table with DuckDB."""
    query = f"SELECT count(*), coalesce(sum(value), 0)::BIGINT FROM '{path}'"
    rows, total = connection.execute(query).fetchone()
    yield path, None, (rows, total)


def readers(
    local: str, remote: str, board: Sequence[str], options: dict[str, Any], connection: Any
) -> list[Reader]:
    """Return the readers.

    Args:
        local: The table on this machine.
        remote: The table on S3.
        board: The tables of the dashboard.
        options: Storage options for S3.
        connection: A connection to DuckDB.
    """
    import lancefs

    on_disk = lancefs.LanceFileSystem(fo=local, skip_instance_cache=True)
    on_s3 = lancefs.LanceFileSystem(fo=remote, target_options=options, skip_instance_cache=True)
    return [
        Reader("dataset", lambda: by_dataset([local]), 0.05),
        Reader("view", lambda: by_view(local, on_disk), 0.05),
        Reader("DuckDB", lambda: by_sql(local, connection), 0.05),
        Reader("dataset, S3", lambda: by_dataset([remote], storage_options=options), 0.5),
        Reader("view, S3", lambda: by_view(remote, on_s3), 0.5),
        Reader("dashboard", lambda: by_dataset(board), 1.0),
    ]


def judge(reader: Reader, notes: Sequence[Sequence[Any]]) -> list[Any]:
    """Count the wrong and the stale reads of a reader."""
    known = {(path, version): (rows, total) for path, version, rows, total, _ in notes}
    committed: dict[str, list[tuple[int, float]]] = {}
    versions_of: dict[tuple[str, Content], list[int]] = {}
    for path, version, rows, total, at in notes:
        committed.setdefault(path, []).append((version, at))
        versions_of.setdefault((path, (rows, total)), []).append(version)
    wrong = stale = 0
    oldest = 0.0
    for began, (path, version, content) in reader.reads:
        seen = max(versions_of.get((path, content), [0])) if version is None else version
        # A version that nobody noted is one that a compaction committed on its way.
        if known.get((path, seen)) != content:
            wrong += version is None or (path, seen) in known
            continue
        newer = [at for other, at in committed[path] if other > seen and at < began]
        if newer:
            stale += 1
            oldest = max(oldest, began - min(newer))
    return [len(reader.reads), wrong, stale, round(oldest, 2), sum(reader.errors.values())]


def state(connection: Any) -> list[int]:
    """Return what this process holds, as `_COLUMNS` names it."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    resident = {line.split(":")[0]: line.split()[1] for line in status if line.startswith("Rss")}
    query = "SELECT coalesce(sum(memory_usage_bytes), 0)::BIGINT FROM duckdb_memory()"
    return [
        len(os.listdir("/proc/self/fd")),
        maps.count(".lance\n"),
        threading.active_count(),
        int(resident["RssAnon"]) >> 10,
        free() >> 20,
        int(resident["RssFile"]) + int(resident["RssShmem"]) >> 10,
        cached() >> 20,
        pa.total_allocated_bytes() >> 20,
        connection.execute(query).fetchone()[0] >> 20,
    ]


class _Malloc(ctypes.Structure):
    """What glibc tells of its heap: `struct mallinfo2`."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    )


def free() -> int:
    """Return the bytes that glibc keeps for what will be allocated next; 0 without glibc."""
    tell = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if tell is None:
        return 0
    tell.restype = _Malloc
    return int(tell().fordblks)


def cached() -> int:
    """Return the bytes that the caches of lancefs count, each within a budget."""
    from lancefs.storage import budget_cache
    from lancefs.storage.open_files import READ_FILES
    from lancefs.table.fragment_reader import READERS

    counted = [cache._total for cache in list(budget_cache._instances)]
    held = [one() for budget in (READ_FILES, READERS) for one in list(budget._held.values())]
    return sum(counted) + sum(one.cost for one in held if one is not None)


def trim() -> None:
    """Give free memory back to the system."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def let_go() -> None:
    """Empty the caches of lancefs, and give free memory back to the system."""
    from lancefs.storage import budget_cache
    from lancefs.storage.open_files import READ_FILES
    from lancefs.table.fragment_reader import READERS

    for cache in list(budget_cache._instances):
        cache.clear()
    READ_FILES.let_go_all()
    READERS.let_go_all()
    trim()


def growth(rows: Sequence[Sequence[float]], column: int) -> float:
    """Return by how much a number grew in an hour, as a line through the second half says."""
    half = np.array(rows[len(rows) // 2 :], np.float64)
    return float(np.polyfit(half[:, 0], half[:, 1 + column], 1)[0]) * 3600 if len(half) > 2 else 0.0


def serve_s3(port: Any) -> None:
    """Serve S3 until the process is ended; say the port."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    port.send(server.get_host_and_port()[1])
    threading.Event().wait()


@contextmanager
def s3(context: Any) -> Iterator[str]:
    """Run a server of S3 with a bucket; yield its address."""
    ours, theirs = context.Pipe()
    server = context.Process(target=serve_s3, args=(theirs,), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        server.terminate()
        server.join()


def watch(
    running: Sequence[Reader], writers: Sequence[Any], connection: Any, seconds: float
) -> list[list[float]]:
    """Run the readers as long as the writers write; print what this process holds meanwhile."""
    print(f"{'second':>8}" + "".join(f"{name:>12}" for name in _COLUMNS))
    for reader in running:
        reader.start()
    rows: list[list[float]] = []
    began, shown = time.monotonic(), 0.0
    while any(writer.is_alive() for writer in writers):
        rows.append([time.monotonic() - began, *state(connection)])
        if rows[-1][0] >= shown:
            show(f"{rows[-1][0]:.0f}", rows[-1][1:])
            shown += seconds / 20
        time.sleep(max(0.5, seconds / 400))
    for reader in running:
        reader.is_over.set()
    for reader in running:
        reader.join()
    for what, give_back in (("trimmed", trim), ("let go", let_go)):
        give_back()
        show(what, state(connection))
    return rows


def show(what: str, numbers: Sequence[float]) -> None:
    """Print what this process holds at a time."""
    print(f"{what:>8}" + "".join(f"{int(number):>12}" for number in numbers), flush=True)


def report(running: Sequence[Reader], notes: Sequence[Sequence[Any]], rows: Sequence[Any]) -> int:
    """Print what came of the readers; return the number of wrong reads."""
    for number, name in enumerate(_COLUMNS):
        values = [row[1 + number] for row in rows[len(rows) // 2 :]]
        level = f"{min(values):,.0f} to {max(values):,.0f}"
        print(f"{name:>12}: {level:>16} in the second half, {growth(rows, number):+,.1f} an hour")
    print(f"{len(notes)} versions")
    print(f"{'reader':>12} {'reads':>8} {'wrong':>6} {'stale':>6} {'oldest s':>9} {'errors':>7}")
    wrong = 0
    for reader in running:
        row = judge(reader, notes)
        wrong += row[1]
        print("{:>12} {:>8} {:>6} {:>6} {:>9} {:>7}".format(reader.name, *row))
        for message, count in reader.errors.most_common(5):
            print(f"    {count} × {message}")
    return wrong


def main() -> None:
    """Run the soak and print its report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--pause", type=float, default=0.05, help="seconds between two commits")
    given = options.parse_args()
    import duckdb
    import fsspec

    import duckdb_adapter

    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    duckdb_adapter.install()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, s3(context) as address:
        local, remote = f"{folder}/t.lance", f"s3://{_BUCKET}/t.lance"
        board = [f"{folder}/board/{number}.lance" for number in range(DASHBOARD)]
        storage = {"client_kwargs": {"endpoint_url": address, "region_name": "us-east-1"}}
        fsspec.filesystem("s3", **storage).call_s3("create_bucket", Bucket=_BUCKET)
        lance = {"endpoint": address, "region": "us-east-1", "allow_http": "true"}
        notes = f"{folder}/notes"
        written = [
            Written([local], f"{notes}-local", given.seconds, given.pause),
            Written([remote], f"{notes}-s3", given.seconds, 4 * given.pause, lance),
            Written(board, f"{notes}-board", given.seconds, given.pause),
        ]
        writers = [context.Process(target=write, args=(one,)) for one in written]
        for writer in writers:
            writer.start()
        wait_for(written)
        connection = duckdb_adapter.connect()
        running = readers(local, remote, board, storage, connection.cursor())
        print(f"lancefs beside writers, duckdb {duckdb.__version__}")
        rows = watch(running, writers, connection, given.seconds)
        lines = [line for one in written for line in Path(one.notes).read_text("utf-8").split("\n")]
        wrong = report(running, [json.loads(line) for line in lines if line], rows)
        failed = [writer.name for writer in writers if writer.exitcode]
    sys.exit(f"writers failed: {failed}" if failed else int(wrong > 0))


def wait_for(written: Sequence[Written]) -> None:
    """Wait until each table has its first version."""
    for one in written:
        path = Path(one.notes)
        while not path.exists() or path.read_text("utf-8").count("\n") < len(one.paths):
            time.sleep(0.1)


if __name__ == "__main__":
    main()
