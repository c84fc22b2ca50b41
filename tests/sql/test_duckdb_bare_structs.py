"""Structs without members, which DuckDB's Arrow interface does not read, at every depth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from roads import INTERFACES, connect

BARE = pa.struct([])
BESIDE = pa.struct([("e", BARE), ("a", pa.int32())])
# Columns, the versions of data files that store them, and what DuckDB reads.
COLUMNS: dict[str, tuple[pa.Array, str, list[Any]]] = {
    "itself": (pa.array([{}, {}, {}], BARE), "2.0", [True, True, True]),
    "in a struct with a null": (
        pa.array([{"e": {}, "a": 1}, None, {"e": {}, "a": 2}], BESIDE),
        "2.3",
        [{"e": True, "a": 1}, None, {"e": True, "a": 2}],
    ),
    "in lists": (
        pa.array([[{}], None, [{}, {}]], pa.list_(BARE)),
        "2.0",
        [[True], None, [True] * 2],
    ),
    "deep in large lists": (
        pa.array([[{"e": {}, "a": 1}], None, []], pa.large_list(BESIDE)),
        "2.0",
        [[{"e": True, "a": 1}], None, []],
    ),
    "in fixed-size lists": (
        pa.array([[{}, {}], [{}, {}], [{}, {}]], pa.list_(BARE, 2)),
        "2.3",
        [(True, True)] * 3,
    ),
    "in a map": (
        pa.array([[("k", {})], None, []], pa.map_(pa.string(), BARE)),
        "2.3",
        [{"k": True}, None, {}],
    ),
    "no structs, a dictionary of nulls": (
        pa.DictionaryArray.from_arrays(pa.array([0, None, 0], pa.int8()), pa.nulls(1)),
        "2.0",
        [None, None, None],
    ),
}


@pytest.mark.parametrize("road", INTERFACES)
@pytest.mark.parametrize("where", COLUMNS)
def test_structs_without_members_are_read_as_whether_they_are_there(
    where: str, road: str, tmp_path: Path
) -> None:
    column, version, expected = COLUMNS[where]
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"x": column}), path, data_storage_version=version)
    with connect(road) as con:
        assert con.sql(f"SELECT x FROM '{path}'").fetchall() == [(value,) for value in expected]
        assert con.sql(f"SELECT x FROM '{path}' LIMIT 1 OFFSET 2").fetchall() == [(expected[2],)]


class _Marker(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """An extension type over structs without members."""

    def __init__(self) -> None:
        super().__init__(BARE, "lancefs.tests.marker")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> _Marker:
        return cls()


@pytest.mark.parametrize("road", INTERFACES)
def test_an_extension_type_over_such_structs_is_read_in_a_struct(road: str, tmp_path: Path) -> None:
    marker = _Marker()
    pa.register_extension_type(marker)
    try:
        marks = pa.ExtensionArray.from_storage(marker, pa.array([{}, {}], BARE))
        column = pa.StructArray.from_arrays([marks, pa.array([1, 2])], ["e", "a"])
        path = str(tmp_path / "t.lance")
        lance.write_dataset(pa.table({"x": column}), path, data_storage_version="2.3")
        with connect(road) as con:
            found = con.sql(f"SELECT x FROM '{path}'").fetchall()
    finally:
        pa.unregister_extension_type(marker.extension_name)
    assert found == [({"e": True, "a": 1},), ({"e": True, "a": 2},)]
