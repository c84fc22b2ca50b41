"""Columns of runs of equal values are read by kernels, a few rows and all of them."""

from __future__ import annotations

from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs
from lancefs.datafile.v2_1 import point_reader
from lancefs.datafile.v2_1.nested_points import FilePlan, FoundLeaves, read_leaves
from lancefs.lance_dataset import LanceDataset

ROWS, FRAGMENTS = 40_000, 4
_WORDS = np.array(["alpha", "beta", "gamma delta", "", "épsilon"])


def _table() -> pa.Table:
    source = np.random.default_rng(7)
    numbers = np.repeat(source.integers(0, 900, ROWS), source.integers(1, 700, ROWS))[:ROWS]
    some = np.repeat(source.random(ROWS // 50) < 0.2, 50)
    wide = numbers * (1 << 40)
    columns = {
        "numbers": pa.array(numbers),
        "with nulls": pa.array(numbers, mask=some),
        "distinct": pa.array(np.repeat(source.integers(-(1 << 62), 1 << 62, ROWS // 40), 40)),
        "short": pa.array(numbers.astype("i2")),
        "byte": pa.array(numbers.astype("u1")),
        "float": pa.array(numbers / 8),
        "day": pa.array(numbers.astype("i4")).cast(pa.date32()),
        "time": pa.array(wide).cast(pa.timestamp("us")),
        "word": pa.array(_WORDS[numbers % 5]),
        "word with nulls": pa.array(_WORDS[numbers % 5], mask=some),
        "coded": pa.array(_WORDS[numbers % 5]).dictionary_encode(),
        "struct": pa.StructArray.from_arrays([numbers, wide], ["a", "b"]),
    }
    runs = {"lance-encoding:rle-threshold": "0.9"}
    fields = [pa.field(name, array.type, metadata=runs) for name, array in columns.items()]
    return pa.table(list(columns.values()), pa.schema(fields))


TABLE = _table()


@pytest.fixture(scope="module", params=["2.1", "2.2", "2.3"])
def dataset(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> LanceDataset:
    path = str(tmp_path_factory.mktemp("runs") / "t.lance")
    length = ROWS // FRAGMENTS
    for start in range(0, ROWS, length):
        part = TABLE.slice(start, length)
        lance.write_dataset(part, path, mode="append", data_storage_version=request.param)
    return lancefs.open(path)


def test_a_few_rows_of_runs_are_read_by_one_call_for_all_files(
    dataset: LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    joint, names = list[int](), set[str]()

    def noting(plans: list[FilePlan], *others: Any) -> FoundLeaves:
        joint.append(len(plans))
        names.update(leaf.top.name for leaf in plans[0].leaves)
        return read_leaves(plans, *others)

    monkeypatch.setattr(point_reader, "read_leaves", noting)
    rows = np.unique(np.random.default_rng(3).integers(0, ROWS, 300))
    found = dataset.take(rows)
    assert found.equals(TABLE.take(rows).cast(found.schema))
    assert joint == [FRAGMENTS]
    assert names == set(TABLE.column_names)


@pytest.mark.parametrize("rows", [1, 30, 3000])
def test_rows_that_follow_each_other_are_those_of_the_table(
    dataset: LanceDataset, rows: int
) -> None:
    for start in (0, 9_990, 25_001, ROWS - rows):
        found = dataset.to_table(limit=rows, offset=start)
        assert found.equals(TABLE.slice(start, rows).cast(found.schema))
        found = dataset.take(np.arange(start, min(start + rows, ROWS)))
        assert found.equals(TABLE.slice(start, rows).cast(found.schema))


def test_all_rows_are_those_of_the_table(dataset: LanceDataset) -> None:
    found = dataset.to_table()
    assert found.equals(TABLE.cast(found.schema))
    for name in TABLE.column_names:
        column = dataset.to_table(columns=[name])
        assert column.equals(found.select([name]))
