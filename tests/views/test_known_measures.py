"""The measures that the views and versions of a table share, and how they are taken of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from leaks import forget_views

from lancefs.filesystem import LanceFileSystem
from lancefs.views.arrow import measures
from lancefs.views.arrow.known_measures import SharedMeasures
from lancefs.views.arrow.shapes import measure, measure_flat, shape_of, walk
from lancefs.views.view_batches import BATCH_ROWS, Batch, rows_together

FRAGMENTS = 12


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t.lance")
    for number in range(FRAGMENTS):
        append(path, number)
    return path


def append(path: str, number: int) -> None:
    rows = pa.table({"id": [number, number + 1], "word": ["x" * number, None]})
    lance.write_dataset(rows, path, mode="append" if number else "create")


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of the fragments whose values or outlines were read, as they are read."""
    forget_views()
    read, ids = measures.read_joined, list[int]()

    def noted(batches: Sequence[Batch], *arguments: Any) -> list[pa.Array]:
        ids.extend(batch.fragment.fragment.id for batch in batches)
        return read(batches, *arguments)

    monkeypatch.setattr(measures, "read_joined", noted)
    return ids


def size_of(path: str, view: str) -> int:
    size: int = LanceFileSystem(fo=path, skip_instance_cache=True).info(view)["size"]
    return size


def test_each_fragment_is_measured_once_for_all_versions(table: str, looked_at: list[int]) -> None:
    size_of(table, "latest.arrow")
    assert sorted(looked_at) == list(range(FRAGMENTS))
    append(table, FRAGMENTS)
    later = size_of(table, "latest.arrow")
    assert looked_at[FRAGMENTS:] == [FRAGMENTS]
    forget_views()
    assert size_of(table, "latest.arrow") == later


def test_the_view_of_a_column_knows_what_the_whole_view_found(
    table: str, looked_at: list[int]
) -> None:
    size_of(table, "latest.arrow")
    looked_at.clear()
    size = size_of(table, f"versions/{FRAGMENTS}/columns/word.arrow")
    assert looked_at == []
    forget_views()
    assert size_of(table, f"versions/{FRAGMENTS}/columns/word.arrow") == size


def test_a_fragment_that_lost_rows_is_measured_anew(table: str, looked_at: list[int]) -> None:
    size_of(table, "latest.arrow")
    looked_at.clear()
    lance.dataset(table).delete("id = 7 and word is not null")
    size = size_of(table, "latest.arrow")
    assert looked_at == [7]
    with LanceFileSystem(fo=table).open("latest.arrow") as file:
        assert len(file.read()) == size


def test_the_size_of_numbers_reads_no_fragment(table: str, looked_at: list[int]) -> None:
    size_of(table, f"versions/{FRAGMENTS}/columns/id.arrow")
    assert looked_at == []


def test_what_is_recorded_is_known() -> None:
    shared = SharedMeasures()
    first = shared.places([b"a", b"b"])
    assert shared.known("x", first, 2).tolist() == [[-1, -1], [-1, -1]]
    shared.record("x", first, np.array([[0, 5], [1, -1]]))
    later = shared.places([b"c", b"b", b"a"])
    assert shared.known("x", later, 2).tolist() == [[-1, -1], [1, -1], [0, 5]]
    assert shared.known("y", later, 1).tolist() == [[-1]] * 3
    shared.record("x", later, np.array([[2, 2], [-1, 3], [-1, -1]]))
    assert shared.known("x", later, 2).tolist() == [[2, 2], [1, 3], [0, 5]]
    assert shared.cost > 6 * 8


@given(st.lists(st.integers(0, BATCH_ROWS), max_size=40))
def test_batches_are_taken_together_up_to_the_rows_of_one(rows: list[int]) -> None:
    counts = rows_together(np.array(rows, np.int64))
    assert sum(counts) == len(rows)
    start = 0
    for count in counts:
        group = rows[start : start + count]
        assert sum(group) <= BATCH_ROWS
        if start + count < len(rows):
            assert sum(group) + rows[start + count] > BATCH_ROWS
        start += count


def test_at_most_512_batches_are_taken_together() -> None:
    assert rows_together(np.ones(1100, np.int64)) == [512, 512, 76]


TEXTS = st.lists(st.none() | st.text(max_size=4), max_size=12)


@given(st.lists(TEXTS, min_size=1, max_size=5), st.sampled_from(["string", "large_binary"]))
def test_parts_have_the_measures_that_each_has_alone(
    parts: list[list[str | None]], name: str
) -> None:
    data_type = {"string": pa.string(), "large_binary": pa.large_binary()}[name]
    arrays = [pa.array(part, pa.string()).cast(data_type) for part in parts]
    shape = shape_of(data_type)
    assert shape is not None
    expected = [measure(list(walk(array, hidden=True)), shape) for array in arrays]
    joined = pa.concat_arrays([pa.array(["before"]).cast(data_type), *arrays]).slice(1)
    got = measure_flat(joined, np.array([len(part) for part in parts]), shape)
    assert got.tolist() == [row.tolist() for row in expected]


def test_parts_of_numbers_have_their_nulls() -> None:
    shape = shape_of(pa.int64())
    assert shape is not None
    got = measure_flat(pa.array([None, 1, None, None, 2]), np.array([2, 0, 2, 1]), shape)
    assert got.tolist() == [[1], [0], [2], [0]]
