"""Ctrl-C in every phase of a read: it comes out, and what is open still gives the right rows.

The interrupt is raised in the n-th read of a file, for every n that there is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import lance
import pyarrow as pa
import pytest
from interrupting import (
    MOST,
    InterruptedStore,
    Interrupts,
    each_step,
    interrupts_of_local_files,
)
from leaks import forget_views, no_thread_is_left

import lancefs
from lancefs import forks
from lancefs.datafile import buffers
from lancefs.datafile.kernels import calls
from lancefs.errors import ReadFailed
from lancefs.lance_dataset import LanceDataset
from lancefs.storage import Store
from lancefs.table.open_version import open_version
from lancefs.views import file_objects

__all__ = ["no_thread_is_left"]  # pytest finds it here

ROWS = 4_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of three fragments, one with deletions."""
    path = str(tmp_path_factory.mktemp("tables") / "t.lance")
    rows = pa.table({"n": range(ROWS), "text": [f"row {n}" for n in range(ROWS)]})
    lance.write_dataset(rows, path, max_rows_per_file=ROWS // 3 + 1)
    lance.dataset(path).delete("n % 7 = 0")
    return path


@pytest.fixture
def interrupts(monkeypatch: pytest.MonkeyPatch) -> Interrupts:
    """Interrupts of reads of local files."""
    return interrupts_of_local_files(monkeypatch)


def view(fs: lancefs.LanceFileSystem) -> pa.Table:
    with fs.open("latest.arrow") as file:
        return pa.ipc.open_file(file).read_all()


Read = Callable[[], Any]
# What a user does with a dataset, or with a filesystem of the same table.
DATASET: dict[str, Callable[[LanceDataset], Any]] = {
    "table": lambda dataset: dataset.to_table(),
    "batches": lambda dataset: pa.Table.from_batches(dataset.to_batches(batch_size=100)),
    "rows": lambda dataset: dataset.take([1, ROWS // 2, ROWS // 2 + 1]),
    "filter": lambda dataset: dataset.to_table(filter="n > 100 and text like '%7'"),
    "history": lambda dataset: dataset.history(),
}
FILES: dict[str, Callable[[lancefs.LanceFileSystem], Any]] = {
    "file": view,
    "stream": lambda fs: pa.ipc.open_stream(fs.open("latest.arrows")).read_all(),
    "column": lambda fs: fs.cat("latest/columns/n.arrow"),
    "listing": lambda fs: fs.find("versions"),
    "document": lambda fs: fs.cat("latest/transaction.json"),
}


def each_read(interrupts: Interrupts, make: Callable[[], Read], expected: Any) -> int:
    """Interrupt each read of a door, and use the same object again; return how many there are.

    Args:
        interrupts: What interrupts.
        make: Makes an object, and returns what reads with it.
        expected: What is read.
    """
    for number in range(MOST):
        forget_views()
        read = make()
        interrupts.left = number
        try:
            read()
        except KeyboardInterrupt:
            assert read() == expected
        else:
            interrupts.left = None
            return number
    raise AssertionError("the reads do not end")


@pytest.mark.parametrize("door", DATASET)
@pytest.mark.parametrize("is_local", [True, False])
def test_a_dataset_that_was_interrupted_gives_the_same_rows(
    door: str, is_local: bool, table: str, interrupts: Interrupts
) -> None:
    expected = DATASET[door](lancefs.open(table))

    def make() -> Read:
        if is_local:
            dataset = lancefs.open(table)
        else:
            fs = InterruptedStore(interrupts, table)
            dataset = LanceDataset(open_version(Store(fs, "/t.lance")))
        return lambda: DATASET[door](dataset)

    assert each_read(interrupts, make, expected) > 0


@pytest.mark.parametrize("door", FILES)
@pytest.mark.parametrize("is_local", [True, False])
def test_a_filesystem_that_was_interrupted_shows_the_same_files(
    door: str, is_local: bool, table: str, interrupts: Interrupts
) -> None:
    expected = FILES[door](lancefs.LanceFileSystem(fo=table, skip_instance_cache=True))

    def make() -> Read:
        options: dict[str, Any] = {"fo": table, "skip_instance_cache": True}
        if not is_local:
            options |= {"fo": "/t.lance", "fs": InterruptedStore(interrupts, table)}
        fs = lancefs.LanceFileSystem(**options)
        return lambda: FILES[door](fs)

    reads = each_read(interrupts, make, expected)
    assert reads > 0 or (is_local and door == "listing")


def test_opening_can_be_interrupted(table: str, interrupts: Interrupts) -> None:
    def make() -> Read:
        return lambda: lancefs.open(table, as_of="2100-01-01").version

    assert each_read(interrupts, make, 2) > 0


def test_a_stream_that_was_interrupted_does_not_look_complete(
    table: str, interrupts: Interrupts
) -> None:
    with lancefs.LanceFileSystem(fo=table).open("latest.arrows") as file:
        interrupts.left = 0
        with pytest.raises(KeyboardInterrupt):
            file.read()
        with pytest.raises(ReadFailed, match=r"interrupted.*open it again"):
            file.read()


def test_a_stream_that_was_interrupted_at_any_step_has_no_gap(table: str) -> None:
    fs = lancefs.LanceFileSystem(fo=table)
    whole = fs.cat("latest.arrows")
    files = [fs.open("latest.arrows")]

    def read() -> None:
        files[-1].read(5000)

    def is_told() -> None:
        with files.pop() as file:
            position, said = file.tell(), ""
            try:
                rest = file.read()
            except ReadFailed as error:
                said = str(error)
            assert "interrupted" in said or rest == whole[position:]
        files.append(fs.open("latest.arrows"))

    assert each_step(read, file_objects.__file__, is_told) > 0
    files[-1].close()


def test_batches_that_were_interrupted_are_right_up_to_there(
    table: str, interrupts: Interrupts
) -> None:
    expected = lancefs.open(table).to_table()
    dataset = lancefs.open(table)

    def batches() -> Iterator[pa.RecordBatch]:
        return dataset.to_batches(batch_size=500)

    rows, reading = [], batches()
    interrupts.left = 3
    with pytest.raises(KeyboardInterrupt):
        rows.extend(reading)
    read = pa.Table.from_batches(rows, expected.schema)
    assert read.equals(expected.slice(0, read.num_rows))
    assert pa.Table.from_batches(batches()).equals(expected)


def test_a_lock_is_free_after_an_interrupt_at_any_step() -> None:
    lock = forks.Lock()

    def enter() -> None:
        with lock:
            pass

    def is_free() -> None:
        other = threading.Thread(target=enter, daemon=True)
        other.start()
        other.join(10)
        assert not other.is_alive()

    assert each_step(enter, forks.__file__, is_free) > 0


@pytest.mark.skipif(
    lancefs.kernels_in_use().name != "compiled", reason="needs the compiled kernels"
)
def test_an_interrupt_comes_out_of_a_kernel_as_what_it_is(table: str) -> None:
    dataset, rows = lancefs.open(table), [1, ROWS // 2]
    expected = dataset.take(rows)

    def is_right() -> None:
        assert dataset.take(rows) == expected

    assert each_step(lambda: dataset.take(rows), calls.__file__, is_right) > 0


def test_a_limit_of_memory_ends_with_the_read_that_was_interrupted(table: str) -> None:
    trusted = lancefs.open(table, max_memory=100_000_000)
    small = lancefs.open(table, max_memory=200_000)

    def read_another() -> None:
        with buffers.expanding(None, 1):
            buffers.reserve(10_000_000)

    steps = each_step(lambda: small.head(5), buffers.__file__, read_another)
    assert steps > 20
    assert trusted.to_table().num_rows == small.count_rows()
