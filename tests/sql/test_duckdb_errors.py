"""What a user of DuckDB reads when a table is damaged, and what a table without columns gives."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest

from lancefs.proto import table_pb2

_FOOTER = struct.Struct("<QHH4s")


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A table whose last rows do not decode."""
    rows = pa.table({"a": range(400_000), "s": [f"name {i % 977} {i}" for i in range(400_000)]})
    table = tmp_path / "t.lance"
    lance.write_dataset(rows, str(table), data_storage_version="2.1")
    (data,) = (table / "data").iterdir()
    content = bytearray(data.read_bytes())
    start, end = len(content) * 6 // 10, len(content) * 9 // 10
    content[start:end] = b"\xff" * (end - start)
    data.write_bytes(content)
    return table


def test_damage_in_the_middle_of_a_query_is_one_message(con: Any, damaged: Path) -> None:
    with pytest.raises(duckdb.Error, match=r"column 1 \(s\), page 0: ") as error:
        con.execute(f"SELECT sum(length(s)), sum(a) FROM '{damaged}'").fetchall()
    assert "Traceback" not in str(error.value)
    assert "Python exception" not in str(error.value)
    # The connection and the other columns can still be used.
    assert con.execute(f"SELECT count(*) FROM '{damaged}'").fetchall() == [(400_000,)]
    total = 400_000 * 399_999 // 2
    assert con.execute(f"SELECT sum(a) FROM '{damaged}'").fetchall() == [(total,)]


def test_rows_of_a_table_without_columns_are_counted(con: Any, tmp_path: Path) -> None:
    table = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(7)}), str(table))
    _drop_all_columns(table)
    assert con.execute(f"SELECT count(*) FROM '{table}'").fetchall() == [(7,)]


def _drop_all_columns(table: Path) -> None:
    """Rewrite the manifest, since pylance drops no last column."""
    (path,) = (table / "_versions").glob("*.manifest")
    content = path.read_bytes()
    position, *_ = _FOOTER.unpack(content[-_FOOTER.size :])
    (length,) = struct.unpack_from("<I", content, position)
    manifest = table_pb2.Manifest.FromString(content[position + 4 : position + 4 + length])
    del manifest.fields[:]
    message = manifest.SerializeToString()
    footer = content[position + 4 + length :]
    path.write_bytes(content[:position] + struct.pack("<I", len(message)) + message + footer)
