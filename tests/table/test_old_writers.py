"""What releases of Lance got wrong in tables that must be read all the same."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from comparison import assert_same_table
from store_doubles import CountingFileSystem
from support import copy_table, corpus_case, rewrite_manifest

import lancefs
from lancefs.cli.main import main
from lancefs.errors import CorruptFile
from lancefs.filesystem import LanceFileSystem
from lancefs.proto import schema_pb2, table_pb2

ROWS = pa.table({"a": range(100), "s": [f"text {row}" for row in range(100)]})


@pytest.fixture
def too_short(tmp_path: Path) -> Path:
    """A table of data files 0.1 as releases from 0.27 to 7 left it.

    The sizes in its manifest leave out what came last into the files: their schemas and metadata.
    """
    path = tmp_path / "t.lance"
    lance.write_dataset(ROWS, path, data_storage_version="legacy", max_rows_per_file=50)

    def shorten(message: table_pb2.Manifest) -> None:
        for fragment in message.fragments:
            fragment.files[0].file_size_bytes -= 300

    rewrite_manifest(path, shorten)
    return path


def test_legacy_files_are_read_whatever_size_the_manifest_says(too_short: Path) -> None:
    dataset = lancefs.open(too_short)
    assert_same_table(dataset.to_table(), ROWS)
    assert_same_table(dataset.take([3, 70], columns=["s"]), ROWS.select(["s"]).take([3, 70]))


def test_the_size_of_legacy_files_is_asked_of_the_store(too_short: Path) -> None:
    store = CountingFileSystem()
    store.put_tree(too_short, "/t.lance")
    with LanceFileSystem(fo="/t.lance", fs=store).open("latest.arrow") as file:
        assert_same_table(pa.ipc.open_file(file).read_all(), ROWS)


def test_verify_finds_nothing_wrong_with_legacy_files(
    too_short: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(too_short)]) == 0
    assert "manifest says" not in capsys.readouterr().out


@pytest.mark.parametrize("offsets", [[], [0], [0, 3], [0, 7, 12]])
@pytest.mark.parametrize("case", ["prims_nonull-f0.1-w0.4.21", "nested_mix-f0.1-w0.4.21"])
def test_rows_that_only_batch_offsets_count_are_not_lost(
    tmp_path: Path, case: str, offsets: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The first writers recorded the number of rows nowhere else."""
    path = copy_table(corpus_case(case), tmp_path)
    assert lancefs.open(path).count_rows() >= 20
    for file in (path / "data").iterdir():
        _replace_metadata(file, offsets)
    for read in (lancefs.open(path).count_rows, lancefs.open(path).to_table):
        with pytest.raises(CorruptFile, match="batch"):
            read()
    assert main(["verify", str(path)]) == 1
    assert "batch" in capsys.readouterr().out


def _replace_metadata(file: Path, offsets: list[int]) -> None:
    """Replace the batch offsets of a data file 0.1, whose metadata come last."""
    data = file.read_bytes()
    position = int.from_bytes(data[-16:-8], "little")
    metadata = schema_pb2.Metadata.FromString(data[position + 4 : -16])
    del metadata.batch_offsets[:]
    metadata.batch_offsets.extend(offsets)
    message = metadata.SerializeToString()
    file.write_bytes(data[:position] + len(message).to_bytes(4, "little") + message + data[-16:])
