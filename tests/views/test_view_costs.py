"""The cost of reading a view: columns decoded, bytes fetched, requests, memory."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from leaks import forget_views
from store_doubles import CountingFileSystem, SlowFileSystem

import lancefs
from lancefs.datafile.v2_1 import page_fetcher
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.filesystem import LanceFileSystem
from lancefs.views import view_batches
from lancefs.views.arrow import lazy_file, measures

PATH = "versions/2.arrow"
BATCHES = 3


def test_one_column_of_a_wide_table_is_decoded_alone(wide: str, decoded: list[str]) -> None:
    url = f"lance://{PATH}::file://{wide}"
    frame = pd.read_feather(url, columns=["n05"])
    assert decoded == ["n05"] * BATCHES
    pd.read_feather(url, columns=["n06"])
    assert decoded[BATCHES:] == ["n06"] * BATCHES
    expected = lancefs.open(wide).to_table(columns=["n05"]).to_pandas()
    pd.testing.assert_frame_equal(frame, expected)


def test_one_column_is_read_again_with_few_calls_for_each_other_column(tmp_path: Path) -> None:
    columns, calls = 400, Counter[str]()
    table = pa.table({f"n{number}": [number, None] for number in range(columns)})
    lance.write_dataset(table, tmp_path / "t.lance")
    fs = LanceFileSystem(fo=str(tmp_path / "t.lance"))

    def read() -> pa.Table:
        with fs.open("versions/1.arrow") as file:
            return pa.ipc.open_file(file, options=only).read_all()

    only = pa.ipc.IpcReadOptions(included_fields=[7])
    assert read() == table.select(["n7"])
    sys.setprofile(lambda _frame, event, _argument: calls.update([event]))
    try:
        read()
    finally:
        sys.setprofile(None)
    assert calls["call"] + calls["c_call"] < 4 * columns


def test_one_column_of_a_wide_table_is_fetched_alone(counting: CountingFileSystem) -> None:
    fs = LanceFileSystem(fo="/wide.lance", fs=counting)
    whole = sum(len(file.getvalue()) for path, file in counting.store.items() if "/data/" in path)
    size = fs.info(PATH)["size"]
    assert size > whole
    before = counting.bytes_read("/data/")
    with fs.open(PATH) as file:
        pd.read_feather(file, columns=["n05"])
    fetched = counting.bytes_read("/data/") - before
    assert whole / 40 < fetched < whole / 8  # it, and the column with nulls


def stored(dataset: lancefs.LanceDataset, names: set[str]) -> tuple[int, int]:
    """Return the number of pages of some columns, and their bytes."""
    pages = []
    for reader in dataset.opened.readers:
        _, opened = reader.open_file(reader.fragment.files[0])
        assert isinstance(opened, StructuralReader)
        for field in dataset.manifest.fields:
            if field.name in names:
                pages += opened.container.column(opened.columns[field.id]).pages
    return len(pages), sum(end - start for page in pages for start, end in page.buffers)


def collecting(found: list[object], real: Callable[..., object], *args: object) -> object:
    """Call a function, and append its result to a list unless it is None."""
    if (result := real(*args)) is not None:
        found.append(result)
    return result


def test_reading_one_column_fetches_its_pages_and_those_with_nulls(
    counting: CountingFileSystem, wide: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = LanceFileSystem(fo="/wide.lance", fs=counting)
    fs.info(PATH)
    pages, size = stored(lancefs.open(wide), {"n05", "holes"})
    opened: list[object] = []
    for name in ("open_page", "request_whole"):  # some rows of a page, or the whole
        watched = partial(collecting, opened, getattr(page_fetcher, name))
        monkeypatch.setattr(page_fetcher, name, watched)
    before = counting.bytes_read("/data/")
    with fs.open(PATH) as file:
        pd.read_feather(file, columns=["n05"])
    assert len(opened) == pages
    assert size <= counting.bytes_read("/data/") - before < 1.2 * size


def test_large_values_are_laid_out_without_being_read(tmp_path: Path, decoded: list[str]) -> None:
    rng = np.random.default_rng(5)
    images = [rng.bytes(3000 + i % 500) if i % 7 else None for i in range(2000)]
    images[5] = b""
    table = pa.table({"id": range(2000), "image": pa.array(images, pa.binary())})
    path = str(tmp_path / "images.lance")
    lance.write_dataset(table, path, data_storage_version="2.1").delete("id % 10 < 2")
    fs = LanceFileSystem(fo=path)
    size = fs.info("latest.arrow")["size"]
    assert decoded == []
    whole = fs.cat("latest.arrow")
    assert len(whole) == size
    assert pa.ipc.open_file(whole).read_all().equals(lancefs.open(path).to_table())


def test_a_remote_layout_takes_few_requests(wide: str) -> None:
    store = SlowFileSystem(0.0)
    fs = LanceFileSystem(fo=wide, fs=store)
    fs.info(PATH)
    assert len(store.requests) < 20
    before = len(store.requests)
    with fs.open(PATH) as file:
        pd.read_feather(file, columns=["n05", "holes"])
    assert len(store.requests) - before <= 3 * BATCHES


def test_the_file_of_one_column_reads_no_other_column(
    counting: CountingFileSystem, decoded: list[str]
) -> None:
    fs = LanceFileSystem(fo="/wide.lance", fs=counting)
    assert fs.info("versions/2/columns/n03.arrow")["size"] > 1_000_000
    with fs.open("versions/2/columns/n03.arrow") as file:
        assert file.read(6) == b"ARROW1"
        assert pa.ipc.open_file(file).schema.equals(pa.schema([("n03", pa.int64())]))
    assert decoded == []  # a column of fixed width is laid out by its description alone
    assert counting.bytes_read("/data/") < 300_000
    assert pa.ipc.open_file(fs.cat("versions/2/columns/text,n03.arrow")).read_all().num_columns == 2
    assert set(decoded) == {"text", "n03"}


def test_the_size_of_numbers_needs_no_values(wide: str, decoded: list[str]) -> None:
    fs = LanceFileSystem(fo=wide)
    size = fs.info("versions/2/columns/n00,n01,holes.arrow")["size"]
    assert decoded == []
    assert len(fs.cat("versions/2/columns/n00,n01,holes.arrow")) == size


def test_a_sequential_reader_decodes_nothing_twice(wide: str, decoded: list[str]) -> None:
    fs = LanceFileSystem(fo=wide)
    for block in (1 << 22, 100_000):
        forget_views()
        decoded.clear()
        with fs.open(PATH) as file:
            read = iter(lambda f=file, n=block: f.read(n), b"")
            assert sum(map(len, read)) == file.size
        counts = Counter(decoded)
        assert len(counts) == 23
        assert set(counts.values()) == {BATCHES}


def test_a_copy_holds_few_columns_at_a_time(
    wide: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lazy_file, "GROUP_BYTES", 1 << 20)
    monkeypatch.setattr(measures._ARRAYS, "budget", 0)
    held: list[int] = []
    load = lazy_file.LazyFile._load

    def noted(self: lazy_file.LazyFile, *arguments: Any) -> None:
        load(self, *arguments)
        waiting = sum(array.nbytes for array in self._arrays.values())
        held.append(waiting + sum(map(len, self._bodies.values())))

    monkeypatch.setattr(lazy_file.LazyFile, "_load", noted)
    fs = LanceFileSystem(fo=wide)
    fs.get_file(PATH, str(tmp_path / "copy.arrow"))
    assert (tmp_path / "copy.arrow").read_bytes() == fs.cat(PATH)
    assert max(held) <= 3 << 20  # a group, or a column that is larger
    assert len(held) > 10


def as_another_process(table: str, kept: Path, decoded: list[str]) -> LanceFileSystem:
    """Return a filesystem that shares only the layout cache with earlier ones."""
    forget_views()
    decoded.clear()
    return LanceFileSystem(fo=table, layout_cache=str(kept), skip_instance_cache=True)


def test_a_layout_is_cached_for_other_processes(
    wide: str, tmp_path: Path, outlined: list[str]
) -> None:
    kept = tmp_path / "layouts"

    def fresh() -> LanceFileSystem:
        return as_another_process(wide, kept, outlined)

    size = fresh().info(PATH)["size"]
    assert set(outlined) == {"text", "list"}  # what the size depends on
    assert fresh().info(PATH)["size"] == size
    assert outlined == []
    whole = fresh().cat(PATH)
    assert fresh().cat_file(PATH, size - 100_000) == whole[-100_000:]
    with fresh().open(PATH) as file:
        pa.ipc.open_file(file).get_batch(1)
    (path,) = kept.iterdir()
    assert path.stat().st_size < 10_000


@pytest.mark.parametrize("damage", ["cut", "flipped", "other"])
def test_a_damaged_cached_layout_is_computed_again(
    damage: str, wide: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fs = LanceFileSystem(fo=wide, layout_cache=str(tmp_path), skip_instance_cache=True)
    whole = fs.cat(PATH)
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    middle = len(data) // 2
    damaged = {
        "cut": data[:middle],
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "other": b"something else",
    }
    path.write_bytes(damaged[damage])
    forget_views()
    assert fs.cat(PATH) == whole
    assert path.name in caplog.text
    assert path.read_bytes() == data


def test_a_layout_cache_that_cannot_be_written_is_ignored(
    wide: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a directory")
    fs = LanceFileSystem(fo=wide, layout_cache=str(tmp_path / "file"), skip_instance_cache=True)
    assert fs.cat("versions/2/columns/text.arrow").startswith(b"ARROW1")
    assert "Not a directory" in caplog.text


def test_dictionaries_are_cached_for_other_processes(tmp_path: Path, decoded: list[str]) -> None:
    path, kept = str(tmp_path / "d.lance"), tmp_path / "layouts"
    values = [f"v{i % 900}" if i % 9 else None for i in range(3000)]
    column = pa.array(values).dictionary_encode()
    nested = pa.array([{"inner": one} for one in values]).field("inner").dictionary_encode()
    lance.write_dataset(pa.table({"d": column, "e": nested}), path, max_rows_per_file=1000)

    def fresh() -> LanceFileSystem:
        return as_another_process(path, kept, decoded)

    whole = fresh().cat("latest.arrow")
    assert fresh().info("latest.arrow")["size"] == len(whole)
    assert decoded == []
    assert fresh().cat_file("latest.arrow", 0, 20_000) == whole[:20_000]
    assert fresh().cat("latest.arrow") == whole


def test_a_remote_stream_reads_batches_together_after_the_first(
    wide: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_batches, "BATCH_ROWS", 10_000)
    store = SlowFileSystem(0.0)
    fs = LanceFileSystem(fo=wide, fs=store)
    with fs.open("latest/columns/n07.arrows") as file:
        batches = list(pa.ipc.open_stream(file))
    assert len(batches) == 15
    assert pa.Table.from_batches(batches).equals(lancefs.open(wide).to_table(columns=["n07"]))
    assert len(store.requests) < 15


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the wide table into fifteen batches instead of three."""
    monkeypatch.setattr(view_batches, "BATCH_ROWS", 10_000)


@pytest.mark.parametrize("block", [None, 300_000])
def test_a_sequential_remote_reader_gets_a_growing_number_of_batches_at_once(
    wide: str, small_batches: None, block: int | None
) -> None:
    expected = LanceFileSystem(fo=wide).cat(PATH)
    forget_views()
    store = SlowFileSystem(0.0)
    fs = LanceFileSystem(fo=wide, fs=store)
    fs.info(PATH)
    before = len(store.requests)
    with fs.open(PATH) as file:
        if block is None:
            assert pa.ipc.open_file(file).read_all().equals(pa.ipc.open_file(expected).read_all())
        else:
            assert b"".join(iter(lambda: file.read(block), b"")) == expected
    columns, batches = 23, 15
    assert len(store.requests) - before < columns * batches / 2


def test_remote_columns_that_are_read_in_turns_are_prefetched(
    wide: str, small_batches: None
) -> None:
    store = SlowFileSystem(0.0)
    fs = LanceFileSystem(fo=wide, fs=store)
    fs.info("versions/2/columns/n01,n05,n09.arrow")
    before = len(store.requests)
    with fs.open("versions/2/columns/n01,n05,n09.arrow") as file:
        frame = pd.read_feather(file, columns=["n01", "n09"])
    assert frame.equals(lancefs.open(wide).to_table(columns=["n01", "n09"]).to_pandas())
    assert len(store.requests) - before < 15


def test_prefetched_values_stay_within_the_budget(
    wide: str, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazy_file, "AHEAD_BYTES", 4 << 20)
    waiting: list[int] = []
    load = lazy_file.LazyFile._load

    def noted(self: lazy_file.LazyFile, *arguments: Any) -> None:
        load(self, *arguments)
        waiting.append(sum(array.nbytes for array in self._arrays.values()))

    monkeypatch.setattr(lazy_file.LazyFile, "_load", noted)
    fs = LanceFileSystem(fo=wide, fs=SlowFileSystem(0.0))
    with fs.open(PATH) as file:
        pa.ipc.open_file(file).read_all()
    assert 2 << 20 < max(waiting) < 5 << 20
