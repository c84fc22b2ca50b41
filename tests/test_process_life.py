"""A process that lives long: files, forks, files that change under it, interrupts."""

from __future__ import annotations

import errno
import gc
import os
import resource
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from support import NOT_INTERACTIVE, ORDERS, rewrite_manifest

import lancefs
from lancefs.errors import LanceError, ReadFailed
from lancefs.proto import table_pb2
from lancefs.storage import Store, open_files
from lancefs.storage.budget_cache import BudgetCache
from lancefs.storage.open_files import MAPPED_FILES, READ_FILES, SMALL_FILE
from lancefs.storage.retries import ATTEMPTS
from lancefs.table.fragment_reader import READERS

FEW_DESCRIPTORS = """
import resource, sys
import pyarrow as pa, duckdb, duckdb_adapter, lancefs
duckdb_adapter.install()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
path = sys.argv[1]
print(lancefs.open(path).to_table()["n"].to_pylist() == list(range(1000)))
with lancefs.LanceFileSystem(fo=path).open("latest.arrow") as file:
    print(pa.ipc.open_file(file).read_all()["n"].to_pylist() == list(range(1000)))
connection = duckdb_adapter.connect()
print(connection.execute(f"SELECT sum(n) FROM '{path}'").fetchone()[0] == 499500)
"""

MANY_VERSIONS = """
import resource, sys
import pyarrow as pa, lancefs
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
path, versions = sys.argv[1], int(sys.argv[2])
fs, kept, wrong = lancefs.LanceFileSystem(fo=path), [], []
for version in range(1, versions + 1):
    dataset = lancefs.open(path, version=version)
    kept.append((dataset, fs.open(f"versions/{version}.arrow")))
    rows = pa.ipc.open_file(kept[-1][1]).read_all()
    taken = dataset.take([0, 999])
    if (rows["n"][0].as_py(), taken["n"].to_pylist()) != (version, [version] * 2):
        wrong.append(version)
again = [dataset.take([5])["n"].to_pylist() for dataset, _ in kept]
print(wrong, again == [[version] for version in range(1, versions + 1)])
"""


def numbers(path: Path, files: int, rows: int) -> str:
    values = np.random.default_rng(1).integers(0, 1 << 62, files * rows)
    lance.write_dataset(pa.table({"n": values}), str(path), max_rows_per_file=rows)
    return str(path)


def test_a_thousand_fragments_are_read_with_few_descriptors(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"n": range(1000)}), path, max_rows_per_file=1)
    command = [sys.executable, "-c", NOT_INTERACTIVE + FEW_DESCRIPTORS, path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 3


@pytest.mark.slow
def test_every_version_of_a_living_table_is_kept_open_with_few_descriptors(tmp_path: Path) -> None:
    path, versions = str(tmp_path / "t.lance"), 2000
    for version in range(1, versions + 1):
        large = np.random.default_rng(version).random(40_000 if version % 10 == 0 else 1000)
        rows = pa.table({"n": np.full(len(large), version), "large": large})
        lance.write_dataset(rows, path, mode="overwrite")
    command = [sys.executable, "-c", MANY_VERSIONS, path, str(versions)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "True"]


def test_no_more_files_are_mapped_than_the_budget_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = numbers(tmp_path / "t.lance", files=12, rows=50_000)
    monkeypatch.setenv("LANCEFS_OPEN_FILES", "4")
    dataset = lancefs.open(path)
    rows = dataset.to_table()
    assert 0 < len(MAPPED_FILES) <= 4
    assert rows.equals(lance.dataset(path).to_table())


def test_the_budget_is_a_quarter_of_the_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, hard))
    try:
        assert open_files.most_files() == 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_dataset_that_nobody_needs_lets_its_files_go_at_once(tmp_path: Path) -> None:
    path = numbers(tmp_path / "t.lance", files=3, rows=50_000)
    MAPPED_FILES.let_go_all()
    gc.disable()  # the files must not wait for the garbage collector
    try:
        dataset = lancefs.open(path)
        dataset.to_table()
        assert len(MAPPED_FILES) == 3
        del dataset
        assert len(MAPPED_FILES) == 0
    finally:
        gc.enable()


def test_closing_and_clearing_let_files_go(tmp_path: Path) -> None:
    path = numbers(tmp_path / "t.lance", files=3, rows=50_000)
    MAPPED_FILES.let_go_all()
    READ_FILES.let_go_all()
    READERS.let_go_all()
    dataset = lancefs.open(path)
    dataset.to_table()
    assert len(MAPPED_FILES) == 3
    dataset.close()
    assert len(MAPPED_FILES) == 0
    assert dataset.to_table().num_rows == 150_000
    dataset.close()
    fs = lancefs.LanceFileSystem(fo=path, skip_instance_cache=True)
    with fs.open("latest.arrow") as file:
        assert pa.ipc.open_file(file).read_all().num_rows == 150_000
    assert len(MAPPED_FILES) == 3
    fs.invalidate_cache()
    assert len(MAPPED_FILES) == 0


def test_too_many_open_files_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"bytes")
    opened, failures = open_files.open_regular, [errno.EMFILE, errno.EIO]

    def open_regular(path: str, **options: Any) -> tuple[int, os.stat_result]:
        if failures:
            number = failures.pop()
            raise OSError(number, os.strerror(number))
        return opened(path, **options)

    monkeypatch.setattr(open_files, "open_regular", open_regular)
    assert Store(None, str(tmp_path)).file("a").read_whole().tobytes() == b"bytes"
    assert not failures


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = os.urandom(10_000)
    (tmp_path / "a").write_bytes(data)
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, to, at: whole(fd, [to[0][:999]], at))
    assert Store(None, str(tmp_path)).file("a").read_whole().tobytes() == data


@pytest.mark.parametrize("times", [4, 5])
@pytest.mark.parametrize("door", ["table", "take", "view"])
def test_a_disk_that_fails_is_no_damage(
    door: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = numbers(tmp_path / "t.lance", files=6, rows=200)
    dataset, whole = lancefs.open(path), os.preadv
    fs = lancefs.LanceFileSystem(fo=path, skip_instance_cache=True)
    failures: Counter[int] = Counter()  # by file

    def failing(descriptor: int, buffers: Any, offset: int) -> int:
        file = os.fstat(descriptor).st_ino
        failures[file] += 1
        if failures[file] <= times:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return whole(descriptor, [buffers[0][:777]], offset)  # short, too

    def read() -> pa.Table:
        if door == "view":
            return pa.ipc.open_file(fs.open("latest.arrow")).read_all()
        return dataset.to_table() if door == "table" else dataset.take(range(1200))

    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", failing)
        if times < ATTEMPTS:
            assert read().num_rows == 1200
        else:
            with pytest.raises(ReadFailed, match=os.strerror(errno.EIO)):
                read()
    assert read().equals(lance.dataset(path).to_table())


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("rest", [0, 1000, 500_000])
@pytest.mark.parametrize("records_size", [True, False])
def test_a_file_that_was_cut_short_is_an_error_until_it_is_whole(
    mmap: bool, is_open: bool, rest: int, records_size: bool, tmp_path: Path
) -> None:
    path = numbers(tmp_path / "t.lance", files=1, rows=200_000)
    if not records_size:
        rewrite_manifest(tmp_path / "t.lance", forget_sizes)
    filesystem = lancefs.LanceFileSystem(path, mmap=mmap, skip_instance_cache=True)
    dataset = lancefs.open(path, mmap=mmap)
    expected = lancefs.open(path, mmap=mmap).to_table()

    def view() -> pa.Table:
        with filesystem.open("latest.arrow") as file:
            return pa.ipc.open_file(file).read_all()

    if is_open:
        assert dataset.to_table().equals(expected)
        assert view().equals(expected)
    (file,) = (tmp_path / "t.lance" / "data").iterdir()
    whole = file.read_bytes()
    assert rest < len(whole)
    os.truncate(file, rest)
    ways = [dataset.to_table, lambda: dataset.take([199_999]), view]
    for read in ways[: 3 - is_open]:  # the values of a view may be held
        with pytest.raises(LanceError):
            read()
    file.write_bytes(whole)
    assert dataset.to_table().equals(expected)
    assert dataset.take([199_999]).equals(expected.slice(199_999))
    assert view().equals(expected)


def forget_sizes(manifest: table_pb2.Manifest) -> None:
    """Leave the sizes of data files out of a manifest, as releases before 0.13 do."""
    for fragment in manifest.fragments:
        for file in fragment.files:
            file.ClearField("file_size_bytes")


def test_what_was_decoded_of_a_rewritten_file_is_not_handed_out(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(2 * SMALL_FILE))
    file = Store(None, str(tmp_path)).file("a")
    file.read([(0, 10)])
    file.verify()
    (tmp_path / "a").write_bytes(bytes(3 * SMALL_FILE))
    with pytest.raises(ReadFailed, match="rewritten"):
        file.verify()


def run_forking(code: str, *arguments: str) -> None:
    """Run code in a process that may fork; pylance, which this process has, warns of forks."""
    prelude = """
import os, signal, sys, threading
def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a child that hangs
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitpid(child, 0)[1]
"""
    command = [sys.executable, "-c", prelude + code, *arguments]
    subprocess.run(command, capture_output=True, text=True, check=True)


def test_a_forked_child_finds_locks_free() -> None:
    run_forking("""
from lancefs.forks import Lock
lock, is_held, is_done = Lock(), threading.Event(), threading.Event()
def hold():
    with lock:
        is_held.set()
        is_done.wait()
def enter():
    with lock:
        return True
thread = threading.Thread(target=hold)
thread.start()
is_held.wait()
assert in_child(enter) == 0
is_done.set()
thread.join()
""")


def test_a_forked_child_does_what_threads_of_its_parent_had_to_do() -> None:
    run_forking("""
from lancefs.threads import Threads, submit
go_on, parent = threading.Event(), os.getpid()
def work(number):
    if os.getpid() == parent:
        go_on.wait()
    return number + 1
with Threads(1, "test") as pool:
    result = submit(pool, work, 1)
    assert in_child(lambda: result() == 2 and submit(pool, work, 2)() == 3) == 0
    go_on.set()
    assert result() == 2
""")


def test_children_that_are_forked_while_threads_scan_read_the_same_dataset() -> None:
    code = """
import lancefs
dataset = lancefs.open(sys.argv[1])
rows, is_over = dataset.to_table().num_rows, threading.Event()
def scan():
    while not is_over.is_set():
        dataset.to_table()
threads = [threading.Thread(target=scan) for _ in range(4)]
for thread in threads:
    thread.start()
codes = [in_child(lambda: dataset.to_table().num_rows == rows) for _ in range(40)]
is_over.set()
for thread in threads:
    thread.join()
assert codes == [0] * 40, codes
"""
    run_forking(code, ORDERS)


def test_an_interrupted_thread_does_not_interrupt_those_that_wait() -> None:
    cache: BudgetCache[str, int] = BudgetCache(10)
    is_making, may_end = threading.Event(), threading.Event()
    found: list[int] = []

    def interrupted() -> int:
        is_making.set()
        may_end.wait()
        raise KeyboardInterrupt

    def first() -> None:
        with pytest.raises(KeyboardInterrupt):
            cache.get("a", interrupted, lambda _: 1)

    threads = [threading.Thread(target=first)]
    threads[0].start()
    is_making.wait()
    second = threading.Thread(target=lambda: found.append(cache.get("a", lambda: 7, lambda _: 1)))
    second.start()
    may_end.set()
    for thread in (*threads, second):
        thread.join()
    assert found == [7]


@pytest.mark.parametrize("way", ["renamed over it", "written over it"])
@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_rows_of_a_file_and_of_what_replaced_it_are_not_mixed(
    version: str, way: str, tmp_path: Path
) -> None:
    """Numbers of the same layout: what is understood of one file fits the other, too."""
    first, other = (
        pa.table({"n": np.random.default_rng(seed).integers(-(1 << 63), (1 << 63) - 1, 200_000)})
        for seed in (1, 2)
    )
    for name, rows in (("t", first), ("other", other)):
        lance.write_dataset(rows, tmp_path / name, data_storage_version=version)
    dataset = lancefs.open(str(tmp_path / "t"), mmap=False)
    batches = iter(dataset.to_batches(batch_size=1000))
    read = [next(batches)]
    (mine,), (theirs,) = ([*(tmp_path / name / "data").iterdir()] for name in ("t", "other"))
    if way == "renamed over it":
        os.replace(theirs, mine)
    else:
        mine.write_bytes(theirs.read_bytes())
    with pytest.raises(ReadFailed, match="rewritten"):
        read.extend(batches)
    got = pa.Table.from_batches(read)
    assert got.equals(first.slice(0, got.num_rows))
    assert dataset.to_table().equals(other)  # what was understood of the first one is forgotten
