"""Columns with one value, or none, in all pages are told by the descriptions of their pages."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancefs
from lancefs.datafile.v2_1.reader import StructuralReader

VERSIONS: Any = ("2.1", "2.2", "2.3")
ROWS = 900
TAKEN = [899, 0, 17, 17, 301, 650]
TYPES = {
    "flag": (pa.bool_(), True),
    "byte": (pa.uint8(), 7),
    "number": (pa.int64(), -5),
    "real": (pa.float64(), 0.25),
    "day": (pa.date32(), datetime.date(2024, 2, 29)),
    "price": (pa.decimal128(12, 2), Decimal("1.50")),
    "code": (pa.binary(3), b"abc"),
    "text": (pa.string(), "seven"),
    "large": (pa.large_binary(), b"x" * 40),
    "vector": (pa.list_(pa.float32(), 2), [1.0, 2.0]),
    "list": (pa.list_(pa.int32()), [1]),
    "struct": (pa.struct({"a": pa.int32(), "b": pa.string()}), {"a": 1, "b": None}),
}
_FIXED = ("flag", "byte", "number", "real", "day", "price", "code")
_NULLS = (*_FIXED, "text", "large")


def column(values: list[Any], name: str) -> pa.Array:
    return pa.array(values, TYPES[name][0])


@pytest.fixture(scope="module")
def table() -> pa.Table:
    columns = {"id": pa.array(range(ROWS))}
    for name, (_, value) in TYPES.items():
        columns[f"{name}_one"] = column([value] * ROWS, name)
        columns[f"{name}_none"] = column([None] * ROWS, name)
        # One value in each fragment, and not the same.
        columns[f"{name}_either"] = column([None] * 300 + [value] * 600, name)
        columns[f"{name}_some"] = column([value] * 500 + [None] * 400, name)
    columns["growing"] = pa.array([row // 300 for row in range(ROWS)])
    columns["nothing"] = pa.nulls(ROWS)
    return pa.table(columns)


@pytest.fixture(scope="module")
def written(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The table in three fragments, for each version of the format."""
    paths = {}
    for version in VERSIONS:
        path = paths[version] = tmp_path_factory.mktemp("constants") / "t.lance"
        lance.write_dataset(table, path, data_storage_version=version, max_rows_per_file=300)
    return paths


@pytest.mark.parametrize("version", VERSIONS)
def test_taken_rows_of_constant_columns_are_those_that_were_written(
    version: str, table: pa.Table, written: dict[str, Path]
) -> None:
    dataset, expected = lancefs.open(written[version]), table.take(TAKEN)
    taken = dataset.take(TAKEN)
    taken.validate(full=True)
    assert taken.equals(expected)
    for name in table.column_names:
        assert dataset.take(TAKEN, columns=[name]).equals(expected.select([name]))


@pytest.mark.parametrize("version", VERSIONS)
def test_no_page_of_a_constant_column_is_opened(
    version: str, table: pa.Table, written: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # 2.1 stores such values as runs, and 2.3 the places of nulls.
    ones = [f"{name}_one" for name in _FIXED if version > "2.1"]
    names = [*ones, *(f"{name}_none" for name in _NULLS if version < "2.3")]
    dataset = lancefs.open(written[version])
    monkeypatch.setattr(StructuralReader, "fetch", lambda *_, **__: pytest.fail("opened"))
    assert dataset.take(TAKEN, columns=names).equals(table.take(TAKEN).select(names))
