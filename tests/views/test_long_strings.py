"""Rows whose strings do not fit into an array of Arrow, whose 2 GiB are made less here."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from comparison import assert_same_table

import lancefs
from lancefs.datafile import arrays
from lancefs.datafile.v2_1 import text_columns
from lancefs.errors import ArrayTooLarge, MemoryLimitExceeded
from lancefs.filesystem import LanceFileSystem
from lancefs.scan.row_numbers import take_rows, take_strings

MOST = 100_000


@pytest.fixture(params=["2.0", "2.1", "2.2"])
def long(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of 270 kB of text in one fragment of 1,000 rows, some of them deleted."""
    path = str(tmp_path / "t.lance")
    texts = [f"{i % 89:03}" * 100 if i % 10 else None for i in range(1000)]
    rows = pa.table({"i": range(1000), "s": texts, "b": [b"short"] * 1000})
    lance.write_dataset(rows, path, data_storage_version=request.param)
    lance.dataset(path).delete("i % 7 = 3")
    monkeypatch.setattr(arrays, "LARGEST", MOST)
    monkeypatch.setattr(text_columns, "LARGEST", MOST)
    return path


def test_a_stream_has_smaller_batches(long: str) -> None:
    with LanceFileSystem(fo=long).open("latest.arrows") as file:
        batches = list(pa.ipc.open_stream(file))
    quarters = [range(first, first + 250) for first in (0, 250, 500, 750)]
    live = [sum(i % 7 != 3 for i in quarter) for quarter in quarters]
    assert [batch.num_rows for batch in batches] == live
    assert_same_table(pa.Table.from_batches(batches), lance.dataset(long).to_table())


def test_a_file_says_that_streams_can_be_read_and_has_all_other_columns(long: str) -> None:
    fs = LanceFileSystem(fo=long)
    with fs.open("latest.arrow") as file:
        with pytest.raises(ArrayTooLarge, match=r"s, .*more than 2 GiB of string.*arrows streams"):
            feather.read_table(file)
        assert issubclass(ArrayTooLarge, MemoryLimitExceeded)
        assert feather.read_table(file, columns=["i", "b"]).num_rows == 857


def test_a_single_row_that_does_not_fit_is_an_error(tmp_path: Path, long: str) -> None:
    path = str(tmp_path / "row.lance")
    lance.write_dataset(pa.table({"s": ["x", "y" * (MOST + 1)]}), path)
    with LanceFileSystem(fo=path).open("latest.arrows") as file, pytest.raises(ArrayTooLarge):
        pa.ipc.open_stream(file).read_all()


@pytest.mark.parametrize("data_type", [pa.string(), pa.binary(), pa.large_string()])
def test_strings_are_taken_in_chunks_of_a_limited_size(data_type: pa.DataType) -> None:
    texts = [None if i % 5 == 0 else "x" * (i % 40) for i in range(300)]
    column = pa.chunked_array([pa.array(texts[:100]), pa.array(texts[100:])]).cast(data_type)
    positions = np.random.default_rng(3).integers(0, 300, 500)
    found = take_strings(column, positions, 200)
    assert found.type == data_type
    assert found.to_pylist() == column.take(pa.array(positions)).to_pylist()
    assert found.num_chunks > 10
    assert max(sum(map(len, chunk.drop_null().to_pylist())) for chunk in found.chunks) <= 200


@pytest.mark.slow
def test_more_than_2_gib_of_strings_are_taken() -> None:
    item = "x" * (1 << 20)
    chunk = pa.array([item[:-1] + str(i % 10) for i in range(64)])  # all chunks are this one
    table = pa.table({"s": pa.chunked_array([chunk] * 33), "i": range(64 * 33)})
    positions = np.arange(64 * 33)[::-1]
    found = take_rows(table, positions)
    assert found["i"].to_pylist() == positions.tolist()
    assert [found["s"][row].as_py()[-1] for row in (0, 1, 2000)] == ["3", "2", "7"]
    assert lancefs.LanceError in ArrayTooLarge.__mro__
