"""Streams of columns of strings, which a kernel reads, have the rows that pylance reads."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs
from lancefs.datafile.v2_1 import cached_pages, text_columns
from lancefs.datafile.v2_1.plain_columns import PlainColumns
from lancefs.errors import CorruptFile, MemoryLimitExceeded
from lancefs.table.reader_cache import forget_cached

ROWS = 30_000


def _joined(source: np.random.Generator, least: int, most: int, bytes_from: bytes) -> pa.Array:
    lengths = source.integers(least, most + 1, ROWS)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    letters = np.frombuffer(bytes_from, np.uint8)
    text = letters[source.integers(0, len(letters), offsets[-1])]
    return pa.Array.from_buffers(
        pa.binary(), ROWS, [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    )


def _chosen(source: np.random.Generator, *items: str) -> pa.Array:
    return pa.array(np.array(items, object)[source.integers(0, len(items), ROWS)])


LETTERS = b"abcdefghijklmnopqrstuvwxyz "
SORTS = {
    "few values": lambda source: _chosen(source, "red", "green", "", "a longer name of a colour"),
    "few long values": lambda source: _chosen(source, "x" * 33, "y" * 500, "z"),
    "single letters": lambda source: _chosen(source, "N", "R"),
    "other letters": lambda source: _chosen(source, "rouge", "grün", "blå", "緑", "🙂"),
    "short": lambda source: _joined(source, 4, 12, LETTERS).view(pa.string()),
    "compressed": lambda source: _joined(source, 20, 60, b"aaaaab ").view(pa.string()),
    "long": lambda source: _joined(source, 0, 800, LETTERS).view(pa.string()),
    "bytes": lambda source: _joined(source, 0, 20, bytes(range(256))),
    "large": lambda source: _joined(source, 4, 12, LETTERS).view(pa.string()).cast("large_string"),
    "large bytes": lambda source: _joined(source, 0, 9, bytes(256)).cast("large_binary"),
    "unlike letters": lambda source: pa.array([f"{row} ä{row % 7}é" for row in range(ROWS)]),
    "hardly any": lambda source: pa.array(["" if row % 4000 else "one" for row in range(ROWS)]),
}
NULLS = {
    "none": lambda source: np.zeros(ROWS, "?"),
    "some": lambda source: source.random(ROWS) < 0.3,
    "half": lambda source: np.arange(ROWS) < ROWS // 2,
    "the last": lambda source: np.arange(ROWS) == ROWS - 1,
}


def _without(values: pa.Array, is_null: np.ndarray) -> pa.Array:
    places = np.arange(ROWS)
    return values.take(pa.array(places, mask=is_null)) if is_null.any() else values


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with each sort of strings under each kind of nulls."""
    source, home = np.random.default_rng(7), tmp_path_factory.mktemp("texts") / "t.lance"
    columns = {
        f"{sort}, {nulls}": _without(values(source), is_null(source))
        for sort, values in SORTS.items()
        for nulls, is_null in NULLS.items()
    }
    lance.write_dataset(pa.table(columns), home, data_storage_version=request.param)
    return home


@pytest.mark.parametrize("rows", [300, 1024, 4096, 10_001])
def test_a_stream_of_columns_of_strings_has_all_rows(table: Path, rows: int) -> None:
    batches = list(lancefs.open(table).to_batches(batch_size=rows))
    for batch in batches:
        batch.validate(full=True)
    assert pa.Table.from_batches(batches).equals(lance.dataset(table).to_table())


@pytest.mark.parametrize("sort", SORTS)
def test_a_stream_of_one_sort_of_strings_has_all_rows(table: Path, sort: str) -> None:
    names = [f"{sort}, {nulls}" for nulls in NULLS]
    batches = list(lancefs.open(table).to_batches(columns=names, batch_size=4000))
    assert pa.Table.from_batches(batches).equals(lance.dataset(table).to_table(columns=names))


@pytest.mark.parametrize("first", [0, 1, 1023, 14_999, 29_000])
@pytest.mark.parametrize("count", [257, 1000, 5000])
def test_contiguous_rows_of_strings_are_those_of_pylance(
    table: Path, first: int, count: int
) -> None:
    expected = lance.dataset(table).to_table(offset=first, limit=count)
    found = lancefs.open(table).scanner(offset=first, limit=count).to_table()
    found.validate(full=True)
    assert found.equals(expected)


def test_all_columns_of_strings_are_read_by_the_kernel(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[list[str]] = []
    make = PlainColumns.__init__

    def noted(self: PlainColumns, *args: object) -> None:
        make(self, *args)  # type: ignore[arg-type]
        others.append([field.name for field in self.others])

    monkeypatch.setattr(PlainColumns, "__init__", noted)
    forget_cached(str(table))  # other tests may have read it
    lancefs.open(table).scanner(limit=2000).to_table()
    assert others == [[]]


def test_strings_that_become_longer_have_room(tmp_path: Path) -> None:
    texts = ["short"] * 5000 + ["x" * 999] * 3000 + [None] * 2000 + ["y" * 40_000] * 20
    data = pa.table(
        {f"c{number}": pa.array(texts[number:]).slice(0, 10_000) for number in range(20)}
    )
    lance.write_dataset(data, tmp_path / "t.lance", data_storage_version="2.1")
    batches = list(lancefs.open(tmp_path / "t.lance").to_batches(batch_size=1000))
    assert pa.Table.from_batches(batches).equals(data)


def test_long_strings_make_no_room_for_more_rows_that_may_be_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = np.random.default_rng(3)
    texts = [source.bytes(10_000).hex() for _ in range(300)] + [str(row) for row in range(60_000)]
    data, path = pa.table({"text": texts, "other": texts}), tmp_path / "t.lance"
    lance.write_dataset(data, path, data_storage_version="2.1")
    rooms: list[int] = []
    read = text_columns.read_texts

    def noted(*args: Any) -> Any:
        rooms.append(sum(size for _, size in args[-1]))
        return read(*args)

    monkeypatch.setattr(text_columns, "read_texts", noted)
    dataset = lancefs.open(path)
    for first, count in ((0, 300), (0, 60_000)):
        found = dataset.scanner(offset=first, limit=count).to_table()
        assert found.equals(data.slice(first, count))
    assert rooms
    assert max(rooms) < 100_000_000  # the second read would have room for 1.2 GB


def test_dictionaries_of_pages_that_were_read_are_forgotten(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_pages, "_MAX_BYTES", 0)
    dataset = lancefs.open(table)
    for _ in range(2):
        batches = list(dataset.to_batches(batch_size=4096))
        assert pa.Table.from_batches(batches).equals(lance.dataset(table).to_table())


def test_a_column_has_compressed_texts_and_then_few_values(tmp_path: Path) -> None:
    many = pa.array([f"the text of row {row}, and so on" for row in range(300_000)])
    few = pa.array([f"name {row % 50}" for row in range(20_000)])
    batches = [pa.record_batch([texts], ["s"]) for texts in (many, few)]
    home, stream = (
        tmp_path / "t.lance",
        pa.RecordBatchReader.from_batches(batches[0].schema, batches),
    )
    lance.write_dataset(stream, home, data_storage_version="2.1")
    dataset = lancefs.open(home)
    assert pa.Table.from_batches(dataset.to_batches()) == pa.Table.from_batches(batches)
    assert dataset.take([0, 319_999]).column("s").to_pylist() == [many[0].as_py(), "name 49"]


def test_rows_are_the_same_without_mapped_files(table: Path) -> None:
    batches = list(lancefs.open(table, mmap=False).to_batches(batch_size=4096))
    assert pa.Table.from_batches(batches).equals(lance.dataset(table).to_table())


def test_strings_that_expand_too_much_are_refused(tmp_path: Path) -> None:
    texts = pa.array(["x" * 1_000_000, "y"]).take(pa.array(np.arange(20_000) % 64 // 63 ^ 1))
    lance.write_dataset(pa.table({"text": texts.slice(0, 3000)}), tmp_path / "t.lance")
    dataset = lancefs.open(tmp_path / "t.lance")
    with pytest.raises(MemoryLimitExceeded):
        dataset.scanner(offset=1, limit=2000, max_memory=10_000_000).to_table()
    assert sum(batch.num_rows for batch in dataset.to_batches()) == 3000


def test_damage_in_columns_of_strings_is_located(table: Path, tmp_path: Path) -> None:
    shutil.copytree(table, tmp_path / "t.lance")
    (data,) = (tmp_path / "t.lance" / "data").iterdir()
    damaged = bytearray(data.read_bytes())
    damaged[: len(damaged) // 4] = b"\xff" * (len(damaged) // 4)
    data.write_bytes(damaged)
    with pytest.raises(CorruptFile, match=r", column \d+ \(.*\), page \d"):
        list(lancefs.open(tmp_path / "t.lance").to_batches(batch_size=4096))
