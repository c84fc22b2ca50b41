"""What expands honestly is read as ever; `max_memory` says how much of it a caller wants."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs
from damage.bombs import BOMBS
from damage.forged_pages import constant_page, write_table
from duckdb_adapter.sources.rows import COUNT_COLUMN, Rows
from lancefs.datafile.buffers import (
    TooLarge,
    check_size,
    expanding,
    limited,
    reserve,
    room,
)
from lancefs.errors import LanceError, MemoryLimitExceeded

ROWS = 10_000_000
MB = 1_000_000


def written(path: Path, table: pa.Table, version: str, **metadata: str) -> Path:
    """Write a table, with metadata of its columns."""
    fields = [field.with_metadata(metadata) for field in table.schema]
    lance.write_dataset(table.cast(pa.schema(fields)), str(path), data_storage_version=version)
    return path


def zstd(version: str) -> dict[str, str]:
    return {"lance-encoding:compression": "zstd"} if version != "2.3" else {}


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_ten_million_rows_that_compress_well_read_as_pylance_reads_them(
    tmp_path: Path, version: str
) -> None:
    values = pa.table(
        {
            "constant": pa.array(np.full(ROWS, 7, np.int64)),
            "runs": pa.array(np.arange(ROWS) // 100_000),
            "zeros": pa.array(np.zeros(ROWS, np.float64)),
        }
    )
    path = written(tmp_path / "t.lance", values, version, **zstd(version))
    dataset = lancefs.open(path)
    assert dataset.to_table().equals(lance.dataset(str(path)).to_table())
    assert sum(batch.num_rows for batch in dataset.to_batches()) == ROWS
    assert dataset.take([0, ROWS - 1])["runs"].to_pylist() == [0, 99]
    assert dataset.head(1).num_rows == 1


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_strings_and_lists_that_compress_well_read_as_pylance_reads_them(
    tmp_path: Path, version: str
) -> None:
    values = pa.table(
        {
            "text": pa.array(["a" * 2000] * 100_000),
            "lists": pa.array([[0] * 100] * 100_000),
            "nulls": pa.nulls(100_000, pa.int32()),
            "vectors": pa.FixedSizeListArray.from_arrays(np.zeros(1_600_000, np.float32), 16),
        }
    )
    path = written(tmp_path / "t.lance", values, version, **zstd(version))
    dataset = lancefs.open(path)
    expected = lance.dataset(str(path)).to_table()
    assert dataset.to_table().equals(expected)
    assert dataset.take(np.arange(0, 100_000, 7)).equals(expected.take(np.arange(0, 100_000, 7)))
    with lancefs.LanceFileSystem().open(f"{path}/latest.arrow") as file:
        assert pa.ipc.open_file(file).read_all().equals(expected.cast(dataset.schema))


def test_rows_that_are_taken_come_in_parts_where_they_are_large(tmp_path: Path, tuned: Any) -> None:
    values = pa.table({"text": pa.array([f"{i % 4}" * 1000 for i in range(20_000)])})
    path = written(tmp_path / "t.lance", values, "2.1")
    tuned(table_bytes=MB)
    rows = np.arange(0, 20_000, 3)
    assert lancefs.open(path).take(rows).equals(values.take(rows))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.lance"
    write_table(path, pa.array([1]), [constant_page(20 * MB)], 20 * MB)
    return path


def test_a_stream_of_many_rows_fits_into_little_memory(table: Path) -> None:
    dataset = lancefs.open(table, max_memory=10 * MB)
    assert sum(batch.num_rows for batch in dataset.to_batches()) == 20 * MB
    assert dataset.count_rows("a = 0") == 20 * MB
    assert dataset.head(3)["a"].to_pylist() == [0, 0, 0]


def test_a_table_that_does_not_fit_says_what_to_do(table: Path) -> None:
    assert lancefs.open(table).to_table().num_rows == 20 * MB
    dataset = lancefs.open(table, max_memory=100 * MB)
    with pytest.raises(MemoryLimitExceeded, match=r"100,000,000 bytes; read batch by batch") as got:
        dataset.to_table()
    assert isinstance(got.value, LanceError)
    assert isinstance(got.value, MemoryError)
    assert dataset.to_table(max_memory=200 * MB).num_rows == 20 * MB
    assert dataset.scanner(max_memory=200 * MB).to_table().num_rows == 20 * MB
    with pytest.raises(MemoryLimitExceeded, match="max_memory"):
        dataset.take(np.arange(19 * MB))


def test_a_limit_is_a_positive_number_and_travels(table: Path) -> None:
    with pytest.raises(ValueError, match="max_memory is 0"):
        lancefs.open(table, max_memory=0).to_table()
    dataset = lancefs.open(table, max_memory=100 * MB)
    for same in (pickle.loads(pickle.dumps(dataset)), dataset.with_row_metadata()):
        assert same.opened.max_memory == 100 * MB
    assert dataset.opened.at(1).max_memory == dataset.opened.part(0, 0).max_memory == 100 * MB


def test_the_error_names_the_column_the_page_and_what_to_pass(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    BOMBS["zstd_strings_of_one_chunk"](path)
    with pytest.raises(
        MemoryLimitExceeded, match=r"\.lance: a, column 0 \(a\), page 0: .*; .*pass max_memory="
    ):
        lancefs.open(path).head(1)
    with pytest.raises(MemoryLimitExceeded, match="max_memory is 1,000,000,000; pass a larger"):
        lancefs.open(path, max_memory=1000 * MB).head(1)
    with (
        pytest.raises(MemoryLimitExceeded, match="max_memory is 1,000"),
        lancefs.LanceFileSystem(max_memory=1000).open(f"{path}/latest.arrow") as file,
    ):
        file.read()


def test_duckdb_counts_billions_of_rows_by_batches_of_few(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    BOMBS["a_constant_page_of_all_rows"](path)
    dataset = lancefs.open(path)
    sizes = [batch.num_rows for batch in Rows(dataset).batches([COUNT_COLUMN], ())]
    assert sum(sizes) == dataset.count_rows() > 1 << 31
    assert max(sizes) <= 1 << 26


def test_a_view_that_could_not_be_read_is_refused_before_a_reader_allocates_for_it(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(pa.table({"a": range(500)}), path)
    dataset.add_columns(pa.field("v", pa.list_(pa.int64(), 1 << 20)))  # which no data file holds
    filesystem = lancefs.LanceFileSystem()
    with pytest.raises(MemoryLimitExceeded, match=r"^v: .* would expand to .*pass max_memory="):
        filesystem.info(f"{path}/latest.arrow")
    with filesystem.open(f"{path}/versions/1.arrow") as file:
        assert pa.ipc.open_file(file).read_all().num_rows == 500
    allowed = lancefs.LanceFileSystem(max_memory=5000 * MB)
    assert allowed.info(f"{path}/latest.arrow")["size"] > 500 * 8 << 20


def test_what_a_read_may_take_is_counted_over_all_of_its_pages() -> None:
    with expanding(1000, 1):
        reserve(600)
        with pytest.raises(MemoryLimitExceeded, match="max_memory is 1,000"):
            reserve(600, stored=600)
        with expanding(None, 1):  # a read within the read
            assert room(0, is_whole=True) == 400
    with expanding(1000, 1), limited(5000):
        check_size(3000)  # counts for the limit alone
        with pytest.raises(TooLarge):
            check_size(3000)
        with pytest.raises(TooLarge):  # fewer rows may fit
            reserve(1001)
    with expanding(None, 0):
        reserve(1 << 40, stored=1 << 36)  # no bomb: it is 16 times as large
        with pytest.raises(MemoryLimitExceeded, match="1,024 bytes would expand to"):
            reserve(1 << 40, stored=1024)
