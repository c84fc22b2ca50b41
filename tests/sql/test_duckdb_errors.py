"""What a user of DuckDB reads when a table is damaged, and what a table without columns gives."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import EACH_INTERFACE, needs_install
from support import rewrite_manifest

import duckdb_adapter
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
    assert con.execute(f"SELECT 1 FROM '{table}'").fetchall() == [(1,)] * 7
    assert len(con.execute(f"FROM '{table}'").fetchall()) == 7
    assert len(con.execute(f"FROM lance_scan('{table}')").fetchall()) == 7
    pairs = f"SELECT count(*) FROM '{table}' a, '{table}' b"
    assert con.execute(pairs).fetchall() == [(49,)]
    ids = f"SELECT _rowid FROM lance_scan('{table}', with_row_id := true)"
    assert con.execute(ids).fetchall() == [(number,) for number in range(7)]
    duckdb_adapter.attach(con, tmp_path)
    assert con.execute("SELECT count(*) FROM lake.t").fetchall() == [(7,)]


_US = 2**63 - 2  # microseconds from 1970 to the end of DuckDB's time
# A type, the largest value that DuckDB holds of it, and the least one.
RANGES = {
    "duration": (pa.duration("s"), _US // 10**6, -_US // 10**6 + 1),
    "duration in ms": (pa.duration("ms"), _US // 1000, -_US // 1000 + 1),
    "zoned": (pa.timestamp("s", "UTC"), _US // 10**6, -_US // 10**6 + 1),
    "zoned in ms": (pa.timestamp("ms", "Europe/Rome"), _US // 1000, -_US // 1000 + 1),
    "date": (pa.date64(), (2**31 - 2) * 86_400_000, -(2**31 - 2) * 86_400_000),
    "time in s": (pa.time32("s"), 86_400, 0),
    "time in ms": (pa.time32("ms"), 86_400_000, 0),
    "time in us": (pa.time64("us"), 86_400_000_000, 0),
    "time in ns": (pa.time64("ns"), 86_400_000_000_000, 0),
}


@EACH_INTERFACE
@pytest.mark.parametrize("nesting", ["", "list", "struct", "map"])
@pytest.mark.parametrize("name", RANGES)
def test_a_value_out_of_the_range_of_duckdb_names_its_column(
    con: Any, tmp_path: Path, name: str, nesting: str
) -> None:
    kind, most, least = RANGES[name]
    step = 86_400_000 if kind == pa.date64() else 1
    table = str(tmp_path / "t.lance")

    def nested(numbers: list[int | None]) -> pa.Array:
        values = pa.array(numbers, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
        offsets = pa.array(range(len(values) + 1), pa.int32())
        if nesting == "list":
            return pa.ListArray.from_arrays(offsets, values)
        if nesting == "map":
            return pa.MapArray.from_arrays(offsets, pa.array(["x"] * len(values)), values)
        return pa.StructArray.from_arrays([values], ["x"]) if nesting == "struct" else values

    for beyond in (most + step, least - step):
        held, other = nested([most, least, None]), nested([most, None, beyond])
        rows = pa.table({"k": range(3), "a": held, "b": other})
        lance.write_dataset(rows, table, data_storage_version="2.2")  # 2.1 has no maps
        assert len(con.execute(f"SELECT a::VARCHAR FROM '{table}'").fetchall()) == 3
        for read in ("b", "b::VARCHAR", "max(k), count(DISTINCT b)", "*"):
            with pytest.raises(duckdb.Error, match=r"column 'b': the value .* is out of the range"):
                con.execute(f"SELECT {read} FROM '{table}'").fetchall()
        # The database and the other columns can still be used.
        assert con.execute(f"SELECT sum(k) FROM '{table}'").fetchall() == [(3,)]
        shutil.rmtree(table)


@pytest.mark.parametrize("place", ["FROM '{}'", "FROM lance_scan('{}')"])
def test_a_column_of_a_damaged_type_is_named(con: Any, tmp_path: Path, place: str) -> None:
    table = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(7), "b": range(7)}), str(table))

    def forge(manifest: table_pb2.Manifest) -> None:
        manifest.fields[1].logical_type = "decimal:128:99:-9"

    rewrite_manifest(table, forge)
    with pytest.raises(duckdb.Error, match=r"field 1 \(b\): the type 'decimal:128:99:-9'"):
        con.execute(place.format(table))


def test_half_floats_in_dictionaries_are_floats(con: Any, tmp_path: Path) -> None:
    table = str(tmp_path / "t.lance")
    items = pa.array(np.array([0.5, -2], np.float16))
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 0, 1], pa.int8()), items)
    lance.write_dataset(pa.table({"d": column}), table, max_rows_per_file=2)
    query = f"SELECT d, typeof(d) FROM '{table}' WHERE d IS NOT NULL ORDER BY d"
    assert con.execute(query).fetchall() == [(-2, "FLOAT"), (-2, "FLOAT"), (0.5, "FLOAT")]
    assert con.execute(f"SELECT count(*) FROM '{table}' WHERE d > 0").fetchall() == [(1,)]


def test_forged_numbers_name_their_place_in_functions(con: Any, tmp_path: Path) -> None:
    table = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(7)}), str(table))

    def forge(manifest: table_pb2.Manifest) -> None:
        manifest.fragments[0].files[0].file_size_bytes = 2**64 - 1

    rewrite_manifest(table, forge)
    (table / "_refs" / "tags").mkdir(parents=True)
    content = json.dumps({"version": 2**64 - 1, "manifestSize": 1})
    (table / "_refs" / "tags" / "far.json").write_text(content)
    with pytest.raises(duckdb.Error, match=rf"the size of data file '.*' is {2**64 - 1}"):
        con.execute(f"FROM lance_fragments('{table}')")
    with pytest.raises(duckdb.Error, match=f"the version of tag 'far' is {2**64 - 1}"):
        con.execute(f"FROM lance_refs('{table}')")
    noted = con.execute(f"SELECT bytes, note FROM lance_versions('{table}')").fetchall()
    assert noted == [(None, f"bytes is {2**64 - 1}, beyond 63 bits: not sound")]


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


def test_rules_that_make_no_sense_are_refused_where_they_are_given() -> None:
    with duckdb_adapter.connect(base_rules={"follow": "table"}) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
    with pytest.raises(ValueError, match="follow is 'nothing'"):
        duckdb_adapter.connect(base_rules={"follow": "nothing"})
    with pytest.raises(TypeError, match=r"base_rules is a str; lancefs\.BaseRules"):
        duckdb_adapter.wrap(duckdb.connect(), base_rules="any")  # type: ignore[arg-type]


@needs_install
def test_a_connection_that_install_is_given_is_told_of_wrap() -> None:
    expected = r"storage_options is a DuckDBPyConnection; .* takes no connection .*wrap\("
    with duckdb.connect() as connection, pytest.raises(TypeError, match=expected):
        duckdb_adapter.install(connection)  # type: ignore[arg-type]


def test_storage_options_that_are_no_mapping_are_refused(con: Any, tmp_path: Path) -> None:
    secret: Any = "key=s3cr3t"
    refusal = r"^storage_options is a str; a mapping was expected$"
    lance.write_dataset(pa.table({"a": [1]}), str(tmp_path / "t.lance"))
    with pytest.raises(TypeError, match=refusal):
        duckdb_adapter.connect(storage_options=secret)
    with duckdb.connect() as connection, pytest.raises(TypeError, match=refusal):
        duckdb_adapter.wrap(connection, secret)
    with pytest.raises(TypeError, match=refusal):
        duckdb_adapter.attach(con, tmp_path, as_="lake", storage_options=secret)
