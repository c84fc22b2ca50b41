"""Flat columns of format 2.0 are the mapped file, and have the rows of the table."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancefs
from lancefs.datafile.v2_0.flat_columns import FlatColumns
from lancefs.errors import LanceError
from lancefs.lance_dataset import LanceDataset

SOURCE = np.random.default_rng(3)
ROWS = 20_000


@pytest.fixture(scope="module")
def columns() -> pa.Table:
    numbers = SOURCE.integers(-(2**40), 2**40, ROWS)
    is_null = pa.array(SOURCE.random(ROWS) < 0.2)
    found = {
        "int": pa.array(numbers),
        "byte": pa.array((numbers % 100).astype("i1")),
        "flag": pa.array(numbers % 3 == 0),
        "decimal": pa.array([Decimal(int(k)) / 100 for k in numbers], pa.decimal128(38, 2)),
        "time": pa.array(numbers, pa.timestamp("us", "UTC")),
        "text": pa.array([f"text {k}" for k in numbers.tolist()]),
    }
    for name in ("int", "flag", "decimal"):
        found[f"{name} or null"] = pa.array(found[name].to_pylist(), found[name].type)
        found[f"{name} or null"] = pa.compute.if_else(is_null, None, found[name])
    found["nothing"] = pa.nulls(ROWS, pa.int64())
    return pa.table(found)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, columns: pa.Table) -> LanceDataset:
    path = str(tmp_path_factory.mktemp("flat") / "t.lance")
    lance.write_dataset(columns, path, data_storage_version="2.0")
    return lancefs.open(path)


@settings(max_examples=40, deadline=None)
@given(start=st.integers(0, ROWS), count=st.integers(257, 6000))
def test_any_rows_are_those_of_the_table(
    table: LanceDataset, columns: pa.Table, start: int, count: int
) -> None:
    found = table.to_table(offset=start, limit=count)
    found.validate(full=True)
    assert found.equals(columns.slice(start, count))


def test_streams_and_filters_have_these_rows(table: LanceDataset, columns: pa.Table) -> None:
    for size in (1000, 1001):
        assert pa.Table.from_batches(table.to_batches(batch_size=size)).equals(columns)
    assert table.to_table(filter='byte < 50 AND "flag or null"').equals(
        columns.filter((pa.compute.field("byte") < 50) & pa.compute.field("flag or null"))
    )


def test_values_are_not_copied(table: LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[list[str], int]] = []
    read = FlatColumns.read

    def noted(self: FlatColumns, data: np.ndarray, rows: tuple[int, int]) -> object:  # type: ignore[type-arg]
        found = read(self, data, rows)
        start = pa.py_buffer(data).address
        inside = range(start, start + len(data))
        for array in found.arrays.values():
            assert all(one.address in inside for one in array.buffers() if one is not None)
        told.append(([str(one.type) for one in found.arrays.values()], found.size))
        return found

    monkeypatch.setattr(FlatColumns, "read", noted)
    kept = table.to_table(columns=["int", "int or null"])
    assert told == [(["int64", "int64"], ROWS * 16 + ROWS // 8)]
    assert kept.num_rows == ROWS


def test_damage_is_found_page_by_page(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": np.arange(5000)}), path, data_storage_version="2.0")
    (file,) = path.glob("data/*.lance")
    whole = file.read_bytes()
    file.write_bytes(whole[:20_000] + whole[30_000:])
    with pytest.raises(LanceError):
        lancefs.open(str(path)).to_table()
