"""Streams of wide tables, whose morsels are read by kernels, have the rows that pylance reads."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem
from leaks import open_files

import lancefs
from lancefs.errors import CorruptFile
from lancefs.storage import Store

ROWS = 40_000
COLUMNS = 36


def _column(number: int, source: np.random.Generator) -> pa.Array:
    values = [
        source.normal(size=ROWS).astype("f4"),
        source.integers(0, 1000, ROWS).astype("i4"),
        source.integers(-(2**50), 2**50, ROWS),
        source.integers(0, 2, ROWS).astype("?"),
        source.integers(0, 9, ROWS).astype("u1"),
        np.array(["red", "green", "a longer name of a colour"])[source.integers(0, 3, ROWS)],
    ][number % 6]
    nulls = [
        np.zeros(ROWS, "?"),
        source.random(ROWS) < 0.3,
        np.arange(ROWS) < ROWS // 2,
        np.arange(ROWS) // 700 % 2 == 0,
        np.arange(ROWS) == ROWS - 1,
        np.ones(ROWS, "?"),
    ][number // 6]
    return pa.array(values, mask=nulls)


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with each kind of value under each kind of nulls."""
    source = np.random.default_rng(5)
    home = tmp_path_factory.mktemp("wide") / "t.lance"
    data = pa.table({f"c{number}": _column(number, source) for number in range(COLUMNS)})
    lance.write_dataset(data, home, data_storage_version=request.param)
    return home


@pytest.mark.parametrize("rows", [777, 1024, 9216, 16384])
def test_a_stream_of_a_wide_table_has_all_rows(table: Path, rows: int) -> None:
    batches = list(lancefs.open(table).to_batches(batch_size=rows))
    assert pa.Table.from_batches(batches).equals(lance.dataset(table).to_table())


@pytest.mark.parametrize("first", [0, 1, 1021, 1024, 20_005])
@pytest.mark.parametrize("count", [15, 17, 1024, 5000])
def test_contiguous_rows_of_a_wide_table_are_those_of_pylance(
    table: Path, first: int, count: int
) -> None:
    expected = lance.dataset(table).to_table(offset=first, limit=count)
    scanner = lancefs.open(table).scanner(offset=first, limit=count)
    assert scanner.to_table().equals(expected)


def test_rows_taken_beside_contiguous_rows_are_those_of_pylance(table: Path) -> None:
    rows = [3, *range(1000, 1100), 2047, 2049, *range(30_000, 33_000, 7)]
    names = [f"c{number}" for number in range(1, COLUMNS, 2)]
    taken = lancefs.open(table).take(rows, columns=names)
    assert taken.equals(lance.dataset(table).take(rows, columns=names))


def _mixed_column(number: int, source: np.random.Generator) -> pa.Array:
    numbers = source.integers(0, 1000, ROWS)
    lists = pa.ListArray.from_arrays(np.arange(0, ROWS + 1, dtype="i4"), pa.array(numbers))
    kinds = [
        lambda: pa.array(numbers),
        lambda: pa.array([f"text {k}" for k in numbers.tolist()]),
        lambda: pa.StructArray.from_arrays([pa.array(numbers), lists], ["a", "b"]),
        lambda: lists,
        lambda: pa.array(numbers).cast(pa.decimal128(30, 2)),
        lambda: pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(numbers, 3)), 3),
    ]
    return kinds[number % 6]()


def test_a_stream_of_a_wide_table_of_all_kinds_has_all_rows(tmp_path: Path) -> None:
    source = np.random.default_rng(6)
    data = pa.table({f"c{number}": _mixed_column(number, source) for number in range(72)})
    lance.write_dataset(data, tmp_path / "t.lance", data_storage_version="2.2")
    dataset = lancefs.open(tmp_path / "t.lance")
    assert pa.Table.from_batches(list(dataset.to_batches(batch_size=9000))).equals(data)
    names = data.schema.names[::-1]
    batches = list(dataset.to_batches(columns=names, batch_size=16_000))
    assert pa.Table.from_batches(batches).equals(data.select(names))


def _data_file(table: Path) -> Path:
    (only,) = (table / "data").iterdir()
    return only


@pytest.mark.parametrize("is_replaced", [False, True], ids=["gone", "replaced"])
def test_a_file_that_is_there_no_longer_is_read_to_its_end(
    table: Path, tmp_path: Path, is_replaced: bool
) -> None:
    shutil.copytree(table, tmp_path / "t.lance")
    batches = lancefs.open(tmp_path / "t.lance").to_batches(batch_size=4096)
    parts, data = [next(batches)], _data_file(tmp_path / "t.lance")
    if is_replaced:
        (tmp_path / "other").write_bytes(bytes(data.stat().st_size))
        (tmp_path / "other").replace(data)
    else:
        data.unlink()
    assert pa.Table.from_batches([*parts, *batches]).equals(lance.dataset(table).to_table())


def test_damage_in_a_wide_table_is_located(table: Path, tmp_path: Path) -> None:
    shutil.copytree(table, tmp_path / "t.lance")
    data = _data_file(tmp_path / "t.lance")
    damaged = bytearray(data.read_bytes())
    damaged[: len(damaged) // 4] = b"\xff" * (len(damaged) // 4)
    data.write_bytes(damaged)
    with pytest.raises(CorruptFile, match=r"c\d+, column \d+ \(c\d+\), page \d"):
        list(lancefs.open(tmp_path / "t.lance").to_batches(batch_size=4096))


def test_rows_without_mapped_files_are_the_same(table: Path) -> None:
    expected = lance.dataset(table).to_table()
    batches = list(lancefs.open(table, mmap=False).to_batches(batch_size=4096))
    assert pa.Table.from_batches(batches).equals(expected)


def test_streams_leave_no_descriptor_open(table: Path) -> None:
    for _ in lancefs.open(table).to_batches(batch_size=4096):
        assert open_files(str(table)) == []


def test_a_mapped_file_is_opened_for_a_while(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(os.urandom(300_000))
    (tmp_path / "small").write_bytes(os.urandom(3000))
    store = Store(LocalFileSystem(), str(tmp_path))
    large, small = store.file("large"), store.file("small")
    with large.opened() as descriptor:
        assert descriptor == -1  # nothing is mapped yet
    for file in (large, small):
        file.read([(0, 100)])
    with large.opened() as descriptor:
        assert os.pread(descriptor, 100, 0) == (tmp_path / "large").read_bytes()[:100]
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)
    with small.opened() as descriptor:
        assert descriptor == -1  # it is held as a whole
    (tmp_path / "small").replace(tmp_path / "large")
    with large.opened() as descriptor:
        assert descriptor == -1
