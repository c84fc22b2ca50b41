"""A few rows of columns whose chunks are compressed as a whole, by lz4 or zstd."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs
from lancefs.datafile.v2_1.layouts.miniblock_page import MiniBlockPage

ROWS = 20_000
RNG = np.random.default_rng(7)
WORDS = pa.array([f"word {number}" for number in range(40)])


def _numbers() -> pa.Array:
    return pa.array(RNG.integers(0, 10**6, ROWS))


def _texts(rows: int = ROWS) -> pa.Array:
    return pa.array([f"row {number} of {number % 97}" for number in range(rows)])


def _some_null(values: pa.Array) -> pa.Array:
    return pa.array(values.to_pylist(), values.type, mask=RNG.random(len(values)) < 0.1)


def _lists(items: pa.Array) -> pa.Array:
    lengths = RNG.integers(0, 4, ROWS)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, items, mask=pa.array(RNG.random(ROWS) < 0.1))


COLUMNS: dict[str, Callable[[], pa.Array]] = {
    "int64": _numbers,
    "int64 with nulls": lambda: _some_null(_numbers()),
    "int32 in runs": lambda: pa.array(np.repeat(RNG.integers(0, 9, ROWS // 50), 50).astype("i4")),
    "double": lambda: pa.array(RNG.random(ROWS)),
    "float": lambda: pa.array(RNG.random(ROWS, np.float32)),
    "decimal": lambda: _numbers().cast(pa.decimal128(30, 2)),
    "bool": lambda: pa.array(RNG.random(ROWS) < 0.5),
    "string": _texts,
    "string with nulls": lambda: _some_null(_texts()),
    "category": lambda: WORDS.take(pa.array(RNG.integers(0, 40, ROWS))),
    "dictionary": lambda: WORDS.take(pa.array(RNG.integers(0, 40, ROWS))).dictionary_encode(),
    "list of int64": lambda: _lists(pa.array(RNG.integers(0, 9**9, 4 * ROWS))),
    "list of string": lambda: _lists(_texts(4 * ROWS)),
}


def _compressed(kind: pa.DataType, metadata: dict[str, str]) -> pa.DataType:
    if not pa.types.is_list(kind):
        return kind
    return pa.list_(pa.field("item", kind.value_type, metadata=metadata))


def _table(values: pa.Array, scheme: str) -> pa.Table:
    metadata = {"lance-encoding:compression": scheme, "lance-encoding:bss": "auto"}
    kind = _compressed(values.type, metadata)
    inner = pa.struct([pa.field("x", kind, metadata=metadata)])
    member = pa.StructArray.from_arrays(
        [values.cast(kind)], fields=[inner.field(0)], mask=pa.array(RNG.random(ROWS) < 0.1)
    )
    schema = pa.schema([pa.field("v", kind, metadata=metadata), pa.field("s", inner)])
    return pa.table([values.cast(kind), member], schema=schema)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("scheme", ["lz4", "zstd"])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_few_rows_of_a_compressed_column_are_those_that_were_written(
    tmp_path: Path, name: str, scheme: str, version: Any
) -> None:
    table, path = _table(COLUMNS[name](), scheme), tmp_path / "t.lance"
    lance.write_dataset(table, path, data_storage_version=version, max_rows_per_file=7_000)
    ours = lancefs.open(path)
    scattered = np.sort(RNG.choice(ROWS, 300, replace=False)).tolist()
    for rows in ([5], [0, 19_999], [9_000, 3, 12_345], list(range(8_000, 8_030)), scattered):
        assert ours.take(rows).to_pydict() == table.take(rows).to_pydict()
        for column in table.column_names:
            found = ours.take(rows, columns=[column])
            assert found.to_pydict() == table.select([column]).take(rows).to_pydict()


@pytest.mark.parametrize("name", ["int64", "string with nulls", "category", "list of int64"])
def test_a_few_rows_of_a_compressed_column_are_not_read_page_by_page(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, path = _table(COLUMNS[name](), "lz4"), tmp_path / "t.lance"
    lance.write_dataset(table, path, data_storage_version="2.1", max_rows_per_file=7_000)

    def refuse(self: MiniBlockPage, *_: object) -> None:
        raise AssertionError("a page is read by itself")

    monkeypatch.setattr(MiniBlockPage, "fetch", refuse)
    rows = [3, 9_000, 12_345]
    assert lancefs.open(path).take(rows).to_pydict() == table.take(rows).to_pydict()


def test_a_byte_stream_split_column_gives_the_rows_that_were_written(tmp_path: Path) -> None:
    metadata = {"lance-encoding:bss": "on"}
    values = RNG.random(ROWS, np.float32)
    schema = pa.schema([pa.field("v", pa.float32(), metadata=metadata)])
    table = pa.table([pa.array(values, mask=RNG.random(ROWS) < 0.1)], schema=schema)
    lance.write_dataset(table, tmp_path / "t.lance", data_storage_version="2.2")
    ours, rows = lancefs.open(tmp_path / "t.lance"), [3, 9_000, *range(12_000, 12_040)]
    assert ours.take(rows).to_pydict() == table.take(rows).to_pydict()
    assert ours.to_table().to_pydict() == table.to_pydict()
    assert ours.to_table(offset=17, limit=5_000).to_pydict() == table.slice(17, 5_000).to_pydict()
