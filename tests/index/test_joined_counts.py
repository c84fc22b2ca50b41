"""Rows that pass several conditions are counted from the indices of their columns alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs
from lancefs.index import address_maps
from lancefs.table.row_index import RowIndex

ROWS = 30_000
KINDS = {"n": "BTREE", "cat": "BITMAP", "flag": "BITMAP", "tags": "LABEL_LIST"}


@pytest.fixture(scope="module", params=["stable", "addresses"])
def path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    """Four fragments with deleted rows, and indices over all columns but one."""
    draw = np.random.default_rng(0)
    numbers = draw.permutation(ROWS)
    table = pa.table(
        {
            "id": range(ROWS),
            "n": pa.array([None if one % 9 == 0 else int(one) for one in numbers]),
            "cat": pa.array([None if one % 50 == 0 else f"c{one % 8}" for one in numbers]),
            "flag": pa.array(numbers % 3 == 0),
            "tags": [[f"t{one % 7}", f"t{one % 4}"] if one % 10 else None for one in numbers],
            "plain": draw.integers(0, 100, ROWS),
        }
    )
    path = str(tmp_path_factory.mktemp("joined") / "t.lance")
    stable = request.param == "stable"
    lance.write_dataset(table, path, max_rows_per_file=8000, enable_stable_row_ids=stable)
    lance.dataset(path).delete("id % 101 = 7")
    for name, kind in KINDS.items():
        lance.dataset(path).create_scalar_index(name, kind)
    lance.dataset(path).delete("id % 103 = 7")
    return path


_COUNTED = [
    "cat = 'c3' and n < 9000",
    "cat = 'c3' or n < 9000",
    "not (cat = 'c3' or n > 8000)",
    "not (cat = 'c3' and n > 8000)",
    "cat = 'c3' and flag",
    "cat in ('c1', 'c2') or not flag",
    "cat <> 'c1' and flag",
    "cat <> 'c1' and n > 100 and n < 5000",
    "cat is null or n is null",
    "array_has(tags, 't3')",
    "array_has_any(tags, ['t3', 't5']) and cat = 'c3'",
    "array_has_all(tags, ['t3', 't1']) or n between 70 and 90",
    "(cat = 'c1' and flag) or (cat = 'c2' and n < 12000) or array_has(tags, 't0')",
    "not array_has(tags, 't3')",
    "not array_has(tags, 'nothing')",
    "not array_has_any(tags, ['t3', 't5'])",
    "cat = 'nothing' or n = -1",
    "cat = 'nothing' and n < 9000",
]
# What no index knows, or what is tested sooner for the few rows that another condition leaves.
_SCANNED = [
    "cat = 'c3' and plain < 50",
    "cat = 'c3' or plain < 50",
    "flag and (cat = 'c3' and plain < 50 or n < 4000)",
    "not array_has(tags, 't3') and flag",
    "n > 2 and array_has_all(tags, ['t3', 't9'])",
]


@pytest.mark.parametrize("filter", _COUNTED)
def test_the_count_is_that_of_a_scan(filter: str, path: str) -> None:
    dataset = lancefs.open(path)
    expected = dataset.count_rows(filter, use_index=False)
    assert dataset.scanner(filter=filter).indexed_row_count() == expected
    assert dataset.count_rows(filter) == expected
    assert lance.dataset(path).count_rows(filter) == expected


@pytest.mark.parametrize("filter", _SCANNED)
def test_other_filters_are_scanned(filter: str, path: str) -> None:
    dataset = lancefs.open(path)
    assert dataset.scanner(filter=filter).indexed_row_count() is None
    assert dataset.count_rows(filter) == dataset.count_rows(filter, use_index=False)


def test_rows_that_changed_since_are_counted(path: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "t.lance")
    source = lance.dataset(path)
    table = source.to_table()
    stable = source.has_stable_row_ids
    lance.write_dataset(table, copy, max_rows_per_file=8000, enable_stable_row_ids=stable)
    for name, kind in KINDS.items():
        lance.dataset(copy).create_scalar_index(name, kind)
    changes: list[Callable[[], object]] = [
        lambda: lance.dataset(copy).delete("n > 2000 and n < 2500"),
        lambda: lance.dataset(copy).update({"n": "n + 15000"}, where="n < 300"),
        lambda: lance.dataset(copy).update({"cat": "'c3'"}, where="plain = 7"),
        lambda: lance.write_dataset(table.slice(0, 500), copy, mode="append"),
        lambda: lance.dataset(copy).optimize.optimize_indices(num_indices_to_merge=0),
        lambda: lance.dataset(copy).delete("id < 9000"),
        lambda: lance.dataset(copy).optimize.compact_files(),
    ]
    for change in changes:
        change()
        dataset = lancefs.open(copy)
        for filter in _COUNTED:
            assert dataset.count_rows(filter) == dataset.count_rows(filter, use_index=False), filter


def test_bitmaps_of_fragments_without_a_row_of_another_condition_are_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t.lance")
    numbers = np.arange(3000)
    table = pa.table({"n": numbers, "cat": pa.array([f"c{one % 3}" for one in numbers])})
    lance.write_dataset(table, path, max_rows_per_file=1000)
    for name in ("n", "cat"):
        lance.dataset(path).create_scalar_index(name, KINDS[name])
    filter = "n > 2990 and cat in ('c1', 'c2')"
    for value in ("c1", "c2"):  # parses their bitmaps
        assert lancefs.open(path).count_rows(f"cat = '{value}'") == 1000
    parsed: list[int] = []
    original = address_maps._bitmap

    def spy(fragment_id: int, data: bytes) -> object:
        parsed.append(fragment_id)
        return original(fragment_id, data)

    monkeypatch.setattr(address_maps, "_bitmap", spy)
    assert lancefs.open(path).count_rows(filter) == 6
    assert parsed == [2]  # that of c0: all rows less these


@pytest.mark.parametrize("path", ["stable"], indirect=True)
@pytest.mark.parametrize("filter", ["cat = 'c3' and flag", "cat <> 'c3'", "array_has(tags, 't3')"])
def test_rows_with_stable_ids_are_counted_without_looking_for_them(
    filter: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look for a tenth of a million rows takes ten times as long as to count them."""
    expected = lancefs.open(path).to_table(filter=filter, use_index=False).num_rows

    def refuse(*arguments: object) -> None:
        raise AssertionError("rows were looked for")

    monkeypatch.setattr(RowIndex, "find_ids", refuse)
    assert lancefs.open(path).count_rows(filter) == expected > 0


def test_moved_and_merged_rows_with_stable_ids_are_counted(tmp_path: Path) -> None:
    """Each history leaves ids in segments that do not cover the rows any more."""
    path = str(tmp_path / "t.lance")
    rows = pa.table(
        {"id": range(900), "a": [n % 5 for n in range(900)], "b": [n % 3 for n in range(900)]}
    )
    lance.write_dataset(rows, path, max_rows_per_file=300, enable_stable_row_ids=True)
    for name in ("a", "b"):
        lance.dataset(path).create_scalar_index(name, "BITMAP")

    def check() -> None:
        dataset = lancefs.open(path)
        for filter in ("a = 1", "a <> 1", "a = 1 and b = 2", "a = 1 or not b = 2", "a is null"):
            expected = dataset.to_table(filter=filter, use_index=False).num_rows
            assert dataset.count_rows(filter) == expected, filter

    check()
    lance.dataset(path).update({"a": "1"}, where="id % 7 = 0")
    check()
    lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    check()
    newer = pa.table({"id": range(850, 950), "a": [None] * 50 + [1] * 50, "b": [2] * 100})
    newer = newer.cast(rows.schema)
    merge = lance.dataset(path).merge_insert("id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute(newer)
    check()
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=1_000)
    check()
    lance.dataset(path).optimize.optimize_indices()
    check()
    lance.dataset(path).delete("id % 11 = 3")
    check()
