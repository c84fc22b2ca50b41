"""Thirty-two threads that share a dataset, a filesystem or a database: the rows of one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from leaks import forget_views, no_thread_is_left
from store_doubles import CountingFileSystem

import duckdb_adapter
import lancefs
from lancefs.lance_dataset import LanceDataset
from lancefs.storage import Store
from lancefs.storage.open_files import MAPPED_FILES
from lancefs.table.open_version import open_version

__all__ = ["no_thread_is_left"]  # pytest finds it here

THREADS, EACH = 32, 3
ROWS = 180_000
FEW = "4"  # files that may be open


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of ten fragments with deletions, each of which is mapped."""
    path = str(tmp_path_factory.mktemp("tables") / "t.lance")
    rng = np.random.default_rng(1)
    columns = {"n": range(ROWS), "value": rng.integers(0, 1 << 62, ROWS)}
    columns["text"] = [f"row {n}" if n % 7 else None for n in range(ROWS)]
    lance.write_dataset(pa.table(columns), path, max_rows_per_file=ROWS // 10)
    lance.dataset(path).delete("n % 11 = 0")
    return path


def at_once(works: list[Callable[[], Any]]) -> None:
    """Do different works in many threads, which start together; each gives what it gives alone."""
    expected = [work() for work in works]
    forget_views()
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> bool:
        barrier.wait()
        turns = [(number + turn) % len(works) for turn in range(EACH)]
        return all(works[turn]() == expected[turn] for turn in turns)

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(run, range(THREADS)))


def reads(dataset: LanceDataset) -> list[Callable[[], Any]]:
    return [
        dataset.to_table,
        lambda: dataset.to_table(columns=["text"], filter="n % 3 = 0"),
        lambda: dataset.take(range(0, ROWS // 2, 1000)),
        lambda: sum(batch.num_rows for batch in dataset.to_batches(batch_size=700)),
        lambda: dataset.head(10, columns=["value"]),
        lambda: next(dataset.to_batches(batch_size=10)).num_rows,  # and no more
        lambda: dataset.history(),
    ]


def files(fs: lancefs.LanceFileSystem) -> list[Callable[[], Any]]:
    def whole() -> pa.Table:
        with fs.open("latest.arrow") as file:
            return pa.ipc.open_file(file).read_all()

    return [
        whole,
        lambda: pa.ipc.open_stream(fs.open("latest.arrows")).read_all(),
        lambda: pa.ipc.open_stream(fs.open("versions/1.arrows")).read_next_batch().num_rows,
        lambda: fs.cat("versions/2/columns/text.arrow"),
        lambda: fs.cat("versions/1/fragments/3.arrow"),
        lambda: len(fs.find("versions")),
        lambda: fs.info("latest.arrow"),
    ]


def remote(path: str) -> CountingFileSystem:
    store = CountingFileSystem()
    store.put_tree(path, "/t.lance")
    return store


def test_threads_share_a_dataset(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEFS_OPEN_FILES", FEW)
    at_once(reads(lancefs.open(path)))
    assert len(MAPPED_FILES) <= int(FEW)


def test_threads_share_a_remote_dataset(path: str) -> None:
    at_once(reads(LanceDataset(open_version(Store(remote(path), "/t.lance")))))


def test_threads_share_a_filesystem(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEFS_OPEN_FILES", FEW)
    at_once(files(lancefs.LanceFileSystem(fo=path, skip_instance_cache=True)))
    assert len(MAPPED_FILES) <= int(FEW)


def test_threads_share_a_remote_filesystem(path: str) -> None:
    fs = lancefs.LanceFileSystem(fo="/t.lance", fs=remote(path), skip_instance_cache=True)
    at_once(files(fs))


def test_threads_share_a_database(path: str) -> None:
    with duckdb_adapter.connect() as connection:
        queries = [
            f"SELECT count(*), sum(n), count(text) FROM '{path}'",
            f"SELECT sum(hash(text)) FROM '{path}@v1' WHERE n % 3 = 0",
            f"SELECT n, value FROM '{path}' ORDER BY value LIMIT 5",
            f"SELECT version, rows FROM lance_versions('{path}')",
        ]

        def works(query: str) -> Callable[[], Any]:
            return lambda: connection.cursor().execute(query).fetchall()

        at_once([works(query) for query in queries])


def test_threads_open_and_forget_at_the_same_time(path: str) -> None:
    fs = lancefs.LanceFileSystem(fo=path, skip_instance_cache=True)
    dataset = lancefs.open(path)

    def forget() -> None:
        fs.invalidate_cache()
        dataset.close()

    at_once([*files(fs)[:5], *reads(dataset)[:5], forget, lambda: lancefs.open(path).to_table()])
