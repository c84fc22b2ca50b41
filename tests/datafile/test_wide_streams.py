"""Streams of wide tables, whose morsels are read by kernels, have the rows that pylance reads."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs

ROWS = 40_000
COLUMNS = 36


def _column(number: int, source: np.random.Generator) -> pa.Array:
    values = [
        source.normal(size=ROWS).astype("f4"),
        source.integers(0, 1000, ROWS).astype("i4"),
        source.integers(-(2**50), 2**50, ROWS),
        source.integers(0, 2, ROWS).astype("?"),
        source.integers(0, 9, ROWS).astype("u1"),
        np.array(["red", "green", "a longer name of a colour"])[source.integers(0, 3, ROWS)],
    ][number % 6]
    nulls = [
        np.zeros(ROWS, "?"),
        source.random(ROWS) < 0.3,
        np.arange(ROWS) < ROWS // 2,
        np.arange(ROWS) // 700 % 2 == 0,
        np.arange(ROWS) == ROWS - 1,
        np.ones(ROWS, "?"),
    ][number // 6]
    return pa.array(values, mask=nulls)


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with each kind of value under each kind of nulls."""
    source = np.random.default_rng(5)
    home = tmp_path_factory.mktemp("wide") / "t.lance"
    data = pa.table({f"c{number}": _column(number, source) for number in range(COLUMNS)})
    lance.write_dataset(data, home, data_storage_version=request.param)
    return home


@pytest.mark.parametrize("rows", [777, 1024, 9216, 16384])
def test_a_stream_of_a_wide_table_has_all_rows(table: Path, rows: int) -> None:
    batches = list(lancefs.open(table).to_batches(batch_size=rows))
    assert pa.Table.from_batches(batches).equals(lance.dataset(table).to_table())


@pytest.mark.parametrize("first", [0, 1, 1021, 1024, 20_005])
@pytest.mark.parametrize("count", [15, 17, 1024, 5000])
def test_rows_in_a_row_of_a_wide_table_are_those_of_pylance(
    table: Path, first: int, count: int
) -> None:
    expected = lance.dataset(table).to_table(offset=first, limit=count)
    scanner = lancefs.open(table).scanner(offset=first, limit=count)
    assert scanner.to_table().equals(expected)


def test_rows_taken_beside_rows_in_a_row_are_those_of_pylance(table: Path) -> None:
    rows = [3, *range(1000, 1100), 2047, 2049, *range(30_000, 33_000, 7)]
    names = [f"c{number}" for number in range(1, COLUMNS, 2)]
    taken = lancefs.open(table).take(rows, columns=names)
    assert taken.equals(lance.dataset(table).take(rows, columns=names))
