"""Manifests that name other columns of data files than those that hold the fields."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from support import rewrite_manifest

import duckdb_adapter
import lancefs
from lancefs.errors import CorruptFile, LanceError
from lancefs.proto import table_pb2

ROWS = 3000
READS: dict[str, Callable[[lancefs.LanceDataset], object]] = {
    "all": lambda dataset: dataset.to_table(),
    "one row": lambda dataset: dataset.take([5]),
    "batches": lambda dataset: list(dataset.to_batches(batch_size=64)),
    "a filter": lambda dataset: dataset.count_rows(filter="n > 5 AND x IS NULL"),
    "nulls": lambda dataset: dataset.count_rows(filter="n IS NULL OR x IS NULL"),
    "a view": lambda dataset: lancefs.LanceFileSystem(fo=dataset.uri).cat("latest.arrow"),
}
READERS = pytest.mark.parametrize("read", READS.values(), ids=READS)
VALUES = [name for name in READS if name != "nulls"]  # which page metadata tell
FORMATS = pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "2.3"])


def write(path: Path, version: str, fragments: int = 1) -> None:
    """Write a table of numbers, and of vectors of as many bits."""
    numbers = pa.array(np.arange(ROWS) * 2**33 + 7)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2.0 * ROWS), pa.float32()), 2)
    table = pa.table({"n": numbers, "v": vectors, "x": numbers})
    most = ROWS // fragments
    lance.write_dataset(table, path, data_storage_version=version, max_rows_per_file=most)


def refuse(path: Path, read: Callable[[lancefs.LanceDataset], object], message: str) -> None:
    with pytest.raises(LanceError, match=message) as raised:
        read(lancefs.open(str(path)))
    assert not (isinstance(raised.value, CorruptFile) and raised.value.is_caught_by_net)


@FORMATS
@READERS
def test_a_field_is_in_one_column(
    tmp_path: Path, version: str, read: Callable[[lancefs.LanceDataset], object]
) -> None:
    def change(manifest: table_pb2.Manifest) -> None:
        fields = manifest.fragments[0].files[0].fields
        fields[2] = fields[0]

    write(tmp_path / "t", version)
    rewrite_manifest(tmp_path / "t", change)
    for _ in range(2):  # nothing is remembered that the first read found out
        refuse(tmp_path / "t", read, "lists the field 0 twice; one column for each field")


@pytest.mark.parametrize("fragments", [1, 30])
@FORMATS
@READERS
def test_values_without_a_column_are_no_nulls(
    tmp_path: Path,
    version: str,
    read: Callable[[lancefs.LanceDataset], object],
    fragments: int,
) -> None:
    def change(manifest: table_pb2.Manifest) -> None:
        for fragment in manifest.fragments:
            fragment.files[0].column_indices[-1] = -1

    write(tmp_path / "t", version, fragments)
    rewrite_manifest(tmp_path / "t", change)
    refuse(tmp_path / "t", read, r"lists field 2 \(x\), and names no column of it")


def test_structs_without_a_column_are_read(tmp_path: Path) -> None:
    """A file of 2.1 has columns for the members alone; it may list the struct all the same."""

    def change(manifest: table_pb2.Manifest) -> None:
        file = manifest.fragments[0].files[0]
        file.fields.insert(0, 0)
        file.column_indices.insert(0, -1)

    rows = pa.table({"s": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": "y"}])})
    lance.write_dataset(rows, tmp_path / "t", data_storage_version="2.1")
    rewrite_manifest(tmp_path / "t", change)
    assert lancefs.open(str(tmp_path / "t")).to_table().equals(rows)


@pytest.mark.parametrize("fragments", [1, 30])
@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
@pytest.mark.parametrize("read", [READS[name] for name in VALUES], ids=VALUES)
def test_vectors_are_no_numbers_of_as_many_bits(
    tmp_path: Path,
    version: str,
    read: Callable[[lancefs.LanceDataset], object],
    fragments: int,
) -> None:
    def change(manifest: table_pb2.Manifest) -> None:
        for fragment in manifest.fragments:
            columns = fragment.files[0].column_indices
            columns[0], columns[1] = columns[1], columns[0]

    write(tmp_path / "t", version, fragments)
    rewrite_manifest(tmp_path / "t", change)
    refuse(tmp_path / "t", read, "lists of 2 items where int64 was|values of 64 bits where fixed")


@FORMATS
def test_numbers_are_not_nulls_because_their_type_is(tmp_path: Path, version: str) -> None:
    def change(manifest: table_pb2.Manifest) -> None:
        manifest.fields[0].logical_type = "null"

    write(tmp_path / "t", version)
    rewrite_manifest(tmp_path / "t", change)
    dataset = lancefs.open(str(tmp_path / "t"))
    for read in (dataset.to_table, lambda: dataset.take([5]), lambda: list(dataset.to_batches())):
        with pytest.raises(CorruptFile, match="values of 64 bits where null was expected"):
            read()


def test_sql_refuses_vectors_in_place_of_numbers(tmp_path: Path) -> None:
    def change(manifest: table_pb2.Manifest) -> None:
        columns = manifest.fragments[0].files[0].column_indices
        columns[0], columns[1] = columns[1], columns[0]

    write(tmp_path / "t", "2.1")
    rewrite_manifest(tmp_path / "t", change)
    refused = pytest.raises(duckdb.Error, match="lists of 2 items where int64 was expected")
    with duckdb_adapter.connect() as connection, refused:
        connection.execute(f"SELECT sum(n) FROM '{tmp_path / 't'}'").fetchall()
