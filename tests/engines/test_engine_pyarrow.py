"""pyarrow reads versions as files, streams and datasets."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.feather
import pytest
from comparison import assert_same_table

import lancefs
from lancefs.filesystem import LanceFileSystem


@pytest.fixture
def fs(table: str) -> LanceFileSystem:
    return LanceFileSystem(fo=table)


def test_a_version_is_a_dataset(table: str, fs: LanceFileSystem) -> None:
    dataset = pads.dataset("versions/2.arrow", filesystem=fs, format="ipc")
    expected = lance.dataset(table, version=2)
    assert_same_table(dataset.to_table(), expected.to_table())
    filtered = dataset.to_table(columns=["city"], filter=pc.field("id") >= 2990)
    assert_same_table(filtered, expected.to_table(columns=["city"], filter="id >= 2990"))


def test_a_directory_of_fragments_is_a_dataset(table: str, fs: LanceFileSystem) -> None:
    dataset = pads.dataset("latest/fragments", filesystem=fs, format="ipc")
    assert len(dataset.files) == 2
    assert_same_table(dataset.to_table(), lance.dataset(table).to_table())


def test_versions_that_fit_together_are_a_dataset(fs: LanceFileSystem) -> None:
    dataset = pads.dataset(["versions/1.arrow", "versions/2.arrow"], filesystem=fs, format="ipc")
    assert dataset.count_rows() == 3000 + 2400


def test_a_direct_path_is_a_dataset(table: str) -> None:
    path = f"{table}/versions/2.arrow"
    dataset = pads.dataset(path, filesystem=LanceFileSystem(), format="ipc")
    assert dataset.count_rows() == 2400


def test_pyarrow_reads_files_and_streams(table: str, fs: LanceFileSystem) -> None:
    expected = lance.dataset(table).to_table()
    with fs.open("latest.arrow") as file:
        assert_same_table(pa.ipc.open_file(file).read_all(), expected)
    with fs.open("latest.arrows") as file:
        assert_same_table(pa.ipc.open_stream(file).read_all(), expected)
    with fs.open("latest.arrow") as file:
        table_read = pyarrow.feather.read_table(file, columns=["twice"])
        assert_same_table(table_read, expected.select(["twice"]))


def test_pyarrow_wraps_the_filesystem(fs: LanceFileSystem) -> None:
    wrapped = pa.fs.PyFileSystem(pa.fs.FSSpecHandler(fs))
    info = wrapped.get_file_info("latest.arrow")
    assert (info.size, info.type) == (fs.size("latest.arrow"), pa.fs.FileType.File)
    assert wrapped.get_file_info("versions/9.arrow").type == pa.fs.FileType.NotFound
    with wrapped.open_input_file("latest.arrow") as file:
        assert pa.ipc.open_file(file).num_record_batches == 2
    with wrapped.open_input_stream("latest.arrows") as file:
        assert pa.ipc.open_stream(file).read_next_batch().num_rows == 1600


def test_fragments_take_the_schema_that_engines_pass_to_those_of_pyarrow(table: str) -> None:
    """DataFusion calls it so."""
    dataset = lancefs.open(table)
    for fragment in dataset.get_fragments():
        options: Any = {"columns": ["id"], "filter": pc.field("id") > 1, "batch_size": 7}
        scanner = fragment.scanner(dataset.schema, **options)
        assert scanner.projected_schema.names == ["id"]
        assert pa.Table.from_batches(scanner.to_batches()) == fragment.to_table(**options)
        assert fragment.scanner(["id"], "id > 1").to_table() == fragment.to_table(["id"], "id > 1")
        with pytest.raises(ValueError, match="the schema of their dataset only"):
            fragment.scanner(pa.schema([("id", pa.string())]))
        with pytest.raises(TypeError, match="by position, and by name"):
            fragment.scanner(["id"], columns=["id"])
