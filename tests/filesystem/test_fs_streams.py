"""Streams: they flow while the table is read, in bounded memory, and stop when they are closed."""

from __future__ import annotations

import gc
import io
import pickle
import threading
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from leaks import own_threads_since

from lancefs.errors import ReadFailed
from lancefs.filesystem import LanceFileSystem
from lancefs.table.fragment_reader import FragmentReader
from lancefs.views.file_objects import ForwardFile

BATCHES = 24


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of many batches."""
    path = str(tmp_path_factory.mktemp("large") / "t.lance")
    rng = np.random.default_rng(1)
    count = BATCHES * 65_536
    table = pa.table({"a": rng.integers(0, 2**60, count), "b": np.arange(count)})
    lance.write_dataset(table, path)
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each batch that is read."""
    seen: list[int] = []
    read = FragmentReader.read

    def noted(self: FragmentReader, *arguments: Any) -> list[pa.Array]:
        seen.append(1)
        return read(self, *arguments)

    monkeypatch.setattr(FragmentReader, "read", noted)
    return seen


def test_a_stream_flows_before_the_table_is_read(large: str, reads: list[int]) -> None:
    with LanceFileSystem(fo=large).open("latest.arrows") as file:
        assert not reads
        stream = pa.ipc.open_stream(file)
        assert stream.schema.names == ["a", "b"]
        assert stream.read_next_batch().num_rows == 65_536
        assert 1 <= len(reads) <= 8


def test_a_slow_reader_holds_few_batches(large: str) -> None:
    one = 2 * 8 * 65_536
    gc.collect()
    before = pa.total_allocated_bytes()
    most = 0
    with LanceFileSystem(fo=large).open("latest.arrows") as file:
        while file.read(256 * 1024):
            most = max(most, pa.total_allocated_bytes() - before)
        assert file.tell() > BATCHES * one
    assert most < 12 * one


def test_closing_early_stops_the_readers(large: str, reads: list[int]) -> None:
    before = threading.enumerate()
    file = LanceFileSystem(fo=large).open("latest.arrows")
    file.read(1_000_000)
    started = own_threads_since(before)
    file.close()
    gc.collect()
    assert not any(one.is_alive() for one in started)
    seen = len(reads)
    assert seen < BATCHES
    with pytest.raises(ValueError, match="closed"):
        file.read(1)
    assert len(reads) == seen


def test_a_stream_is_read_forward_only(fs: LanceFileSystem) -> None:
    with fs.open("latest.arrows") as file:
        assert isinstance(file, ForwardFile)
        assert (file.readable(), file.seekable(), file.writable()) == (True, False, False)
        assert file.size is None
        with pytest.raises(io.UnsupportedOperation, match=r"stream .* seek; latest\.arrow can"):
            file.seek(0)
        assert len(file.read(10)) == file.tell() == 10


def test_reads_of_any_size_give_the_same_bytes(fs: LanceFileSystem) -> None:
    whole = fs.cat("latest.arrows")
    for size in (1, 7, 4096, 10**9):
        with fs.open("latest.arrows") as file:
            assert b"".join(iter(partial(file.read, size), b"")) == whole
    with fs.open("latest.arrows") as file:
        buffer = bytearray(len(whole) + 5)
        assert file.readinto(buffer) == len(whole)
        assert bytes(buffer[:-5]) == whole
        assert file.read() == file.read(3) == b""


def test_a_stream_can_be_copied_to_a_file(fs: LanceFileSystem, tmp_path: Path) -> None:
    fs.get_file("latest.arrows", str(tmp_path / "copy.arrows"))
    with pa.memory_map(str(tmp_path / "copy.arrows")) as file:
        assert pa.ipc.open_stream(file).read_all().num_rows == 1000


@pytest.mark.parametrize("name", ["latest.arrows", "versions/1.arrows", "changes/1..2.arrows"])
@pytest.mark.parametrize("position", [0, 10, 5000])
def test_a_pickled_stream_goes_on_where_it_was(name: str, position: int, table: str) -> None:
    fs = LanceFileSystem(fo=table)
    with fs.open(name) as file:
        file.read(position)
        pickled = pickle.dumps(file)
        place, rest = file.tell(), file.read()
    with pytest.raises(ValueError, match="closed"):
        pickle.dumps(file)
    lance.dataset(table).delete("id > 5")
    with pickle.loads(pickled) as again:
        assert again.tell() == place
        assert again.read() == rest


def test_a_pickled_history_that_grew_is_not_mixed(table: str) -> None:
    fs = LanceFileSystem(fo=table)
    with fs.open("history.arrows") as file:
        unread = pickle.dumps(file)
        file.read(10)
        begun = pickle.dumps(file)
    assert pickle.loads(begun).tell() == 10
    lance.dataset(table).delete("id > 5")
    assert pickle.loads(unread).read() == fs.cat("history.arrows")
    with pytest.raises(ReadFailed, match=r"history\.arrows: has other bytes than before"):
        pickle.loads(begun)
