"""A table of few rows is read whole by the kernels of few rows, and page by page alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

import lancefs
from lancefs.datafile.v2_1 import kernel_choice, point_reader
from lancefs.datafile.v2_1.nested_points import FoundLeaves, read_leaves

VERSIONS = ("2.1", "2.2", "2.3")
FEW = 256


def table(rows: int, nulls: bool = True) -> pa.Table:
    """Return values of many kinds."""

    def some(value: Any, number: int, each: int) -> Any:
        return None if nulls and number % each == 0 else value

    numbers = range(rows)
    vectors = pa.array(np.arange(rows * 16, dtype="f4"))
    columns = {
        "number": pa.array([some(one, one, 7) for one in numbers], pa.int64()),
        "constant": pa.array([5] * rows, pa.int16()),
        "flag": [some(one % 3 == 0, one, 5) for one in numbers],
        "text": [some(f"text {one}" * (one % 4), one, 9) for one in numbers],
        "long": [f"{one}" * 500 for one in numbers],
        "word": [("red", "green", "")[one % 3] for one in numbers],
        "missing": pa.nulls(rows, pa.string()),
        "decimal": pa.array(numbers, pa.int64()).cast(pa.decimal128(21, 2)),
        "struct": [some({"a": one, "b": some(f"b{one}", one, 3)}, one, 4) for one in numbers],
        "list": [some([f"i{one}"] * (one % 5), one, 6) for one in numbers],
        "vector": pa.FixedSizeListArray.from_arrays(vectors, 16),
    }
    return pa.table(columns)


@pytest.fixture
def by_kernels(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of leaves that were read at once by the kernels of few rows."""
    found: list[int] = []

    def noting(plans: Any, *others: Any) -> FoundLeaves:
        found.append(len(plans[0].leaves))
        return read_leaves(plans, *others)

    monkeypatch.setattr(point_reader, "read_leaves", noting)
    return found


def read_both_ways(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[pa.Table]:
    found = []
    for few in (FEW, 0):
        monkeypatch.setattr(kernel_choice, "_FEW_OF_ALL", few)
        found.append(lancefs.open(str(path)).to_table())
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rows", [1, 2, 100, FEW, FEW + 1])
@pytest.mark.parametrize("fragments", [1, 3])
def test_a_small_table_is_the_same_read_in_either_way(
    version: str, rows: int, fragments: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, written = tmp_path / "t.lance", table(rows)
    of_each = -(-rows // fragments)
    lance.write_dataset(written, path, data_storage_version=version, max_rows_per_file=of_each)
    few, general = read_both_ways(path, monkeypatch)
    assert few.equals(general)
    assert few.to_pylist() == written.to_pylist()


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_a_small_table_is_read_by_one_call_of_kernels(
    version: str, tmp_path: Path, by_kernels: list[int]
) -> None:
    columns = ["number", "text", "word"]
    for rows, calls in ((FEW, [len(columns)]), (FEW + 1, [])):
        path = tmp_path / f"{rows}.lance"
        lance.write_dataset(table(rows).select(columns), path, data_storage_version=version)
        by_kernels.clear()
        assert lancefs.open(str(path)).to_table().num_rows == rows
        assert by_kernels == calls


@pytest.mark.parametrize("version", VERSIONS)
def test_deleted_and_filtered_rows_of_a_small_table_are_left_out(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(table(100, nulls=False), path, data_storage_version=version)
    lance.dataset(path).delete("number % 3 = 0")
    few, general = read_both_ways(path, monkeypatch)
    assert few.equals(general)
    assert few["number"].to_pylist() == [one for one in range(100) if one % 3]
    monkeypatch.setattr(kernel_choice, "_FEW_OF_ALL", FEW)
    kept = lancefs.open(str(path)).to_table(filter="number >= 50 AND word = 'green'")
    assert kept["number"].to_pylist() == list(range(52, 100, 3))


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40),
    st.lists(st.none() | st.text(max_size=20), min_size=1, max_size=40),
    st.lists(
        st.none() | st.lists(st.none() | st.integers(0, 9), max_size=4), min_size=1, max_size=40
    ),
    st.sampled_from(VERSIONS),
)
def test_drawn_small_tables_are_those_that_were_written(
    tmp_path_factory: pytest.TempPathFactory,
    numbers: list[Any],
    texts: list[Any],
    lists: list[Any],
    version: str,
) -> None:
    rows = min(len(numbers), len(texts), len(lists))
    drawn = pa.table(
        {
            "number": pa.array(numbers[:rows], pa.int64()),
            "text": pa.array(texts[:rows], pa.string()),
            "list": pa.array(lists[:rows], pa.list_(pa.int32())),
        }
    )
    path = tmp_path_factory.mktemp("drawn") / "t.lance"
    lance.write_dataset(drawn, path, data_storage_version=version)
    assert lancefs.open(str(path)).to_table().to_pylist() == drawn.to_pylist()
