"""Columns of extension types that the application registered, wherever tables are read.

pyarrow's types have a hash, but for extension types that are made in Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from comparison import assert_same_table

import duckdb_adapter
import lancefs
from lancefs.filesystem import LanceFileSystem


class Metres(pa.ExtensionType):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(pa.int32(), "test.metres")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Metres:
        return cls()


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    pa.register_extension_type(Metres())
    try:
        yield
    finally:
        pa.unregister_extension_type("test.metres")


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Two fragments with a deleted row each: lengths in a column, and below one."""
    url = str(tmp_path / "t.lance")
    lengths = pa.ExtensionArray.from_storage(Metres(), pa.array([1, None, 3, 4], pa.int32()))
    struct = pa.StructArray.from_arrays([lengths], ["length"])
    rows = pa.table({"id": range(4), "length": lengths, "struct": struct})
    for _ in range(2):
        lance.write_dataset(rows, url, mode="append")
    lance.dataset(url).delete("id = 2")
    return url


def test_rows_are_read_and_filtered(table: str) -> None:
    ours, theirs = lancefs.open(table), lance.dataset(table)
    assert ours.schema.field("length").type == Metres()
    assert_same_table(ours.to_table(), theirs.to_table())
    wanted = "length is null or id = 3"
    assert_same_table(ours.to_table(filter=wanted), theirs.to_table(filter=wanted))
    valid = ours.to_table(filter=pc.field("length").is_valid())
    assert_same_table(valid, theirs.to_table(filter="length is not null"))
    assert ours.count_rows("length = 4") == 2


@pytest.mark.parametrize("columns", ["", "/columns/length", "/columns/struct,length"])
def test_views_have_the_rows(table: str, columns: str) -> None:
    fs = LanceFileSystem(fo=table)
    names = columns.rpartition("/")[2].split(",") if columns else None
    expected = lance.dataset(table).to_table(columns=names)
    with fs.open(f"latest{columns}.arrow") as file:
        assert_same_table(pa.ipc.open_file(file).read_all(), expected)
    with fs.open(f"latest{columns}.arrows") as file:
        assert_same_table(pa.ipc.open_stream(file).read_all(), expected)


def test_duckdb_reads_and_tests_them(table: str) -> None:
    duckdb_adapter.install()
    with duckdb.connect() as con:
        found = con.sql(f"SELECT id, length FROM '{table}' WHERE length IS NOT NULL").fetchall()
        assert found == [(0, 1), (3, 4)] * 2
        joined = f"SELECT count(*) FROM '{table}' AS a JOIN '{table}' AS b USING (length)"
        assert [con.sql(joined).fetchall() for _ in range(3)] == [[(8,)]] * 3
