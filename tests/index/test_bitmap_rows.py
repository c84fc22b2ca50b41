"""How many rows the values of an index of bitmaps have: of few that is counted, not estimated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs
from lancefs.index import bitmap
from lancefs.index.bitmap import Bitmap
from lancefs.index.files import IndexReader
from lancefs.table.fragment_table import Fragments


@pytest.mark.parametrize("is_stable", [False, True])
def test_rows_of_a_rare_value_are_looked_up(tmp_path: Path, is_stable: bool) -> None:
    path = tmp_path / "t.lance"
    flag = np.arange(120_000) % 11_003 == 0
    rows = pa.table({"flag": flag, "other": np.arange(120_000) % 2, "id": np.arange(120_000)})
    lance.write_dataset(rows, path, max_rows_per_file=50_000, enable_stable_row_ids=is_stable)
    for column in ("flag", "other"):
        lance.dataset(path).create_scalar_index(column, "BITMAP")
    dataset = lancefs.open(path)
    for filter in ("flag", "flag and other = 1", "not flag", "flag or flag is null"):
        found = dataset.to_table(["id"], filter=filter)
        assert found == dataset.to_table(["id"], filter=filter, use_index=False), filter
    for _ in range(2):
        told = dataset.scanner(filter="flag and other = 1").explain()
        assert "flag_idx (Bitmap): 11 rows, 1 page read" in told
    told = dataset.scanner(filter="not flag").explain()
    assert "flag_idx: not read, about 119,989 rows" in told


@pytest.mark.parametrize("is_stable", [False, True])
def test_common_rows_of_frequent_values_are_looked_up(tmp_path: Path, is_stable: bool) -> None:
    """Each of the values is in more rows than are named one by one."""
    path = tmp_path / "t.lance"
    numbers = np.random.default_rng(0).permutation(240_000)
    rows = pa.table({"a": numbers % 4, "b": numbers // 4 % 5, "c": numbers % 3, "id": numbers})
    lance.write_dataset(rows, path, max_rows_per_file=100_000, enable_stable_row_ids=is_stable)
    for column in ("a", "b"):
        lance.dataset(path).create_scalar_index(column, "BITMAP")
    lance.dataset(path).delete("id % 100 = 9")
    lance.write_dataset(rows.slice(0, 1000), path, mode="append")
    dataset = lancefs.open(path)
    for filter in ("a = 1 and b = 2", "a = 1 and b = 2 and c = 0", "b in (0, 7) and a = 3"):
        found = dataset.to_table(["id"], filter=filter)
        assert found == dataset.to_table(["id"], filter=filter, use_index=False), filter
        assert dataset.count_rows(filter) == found.num_rows
        told = dataset.scanner(filter=filter).explain()
        assert ("a_idx (Bitmap): 60,000 rows, 1 page read" in told) == (not is_stable)
    found = dataset.to_table(["id"], filter="a = 1 and b = 9")
    assert found.num_rows == 0


def test_rows_of_a_rare_label_are_looked_up(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    labels = [["all", "rare"] if row % 11_003 == 0 else ["all"] for row in range(60_000)]
    lance.write_dataset(pa.table({"labels": labels, "id": range(60_000)}), path)
    lance.dataset(path).create_scalar_index("labels", "LABEL_LIST")
    dataset = lancefs.open(path)
    for filter, told in {
        "array_has(labels, 'rare')": "labels_idx (LabelList): 6 rows, 1 page read",
        "array_has_all(labels, ['rare', 'all'])": "labels_idx (LabelList): 6 rows, 2 pages read",
        "array_has(labels, 'all')": "labels_idx: not read, about 60,000 rows",
        "array_has_any(labels, ['rare', 'all'])": "labels_idx: more than",
        "array_has(labels, 'none')": "labels_idx (LabelList): 0 rows",
    }.items():
        assert told in dataset.scanner(filter=filter).explain(), filter
        found = dataset.to_table(["id"], filter=filter)
        assert found == dataset.to_table(["id"], filter=filter, use_index=False), filter


@pytest.mark.parametrize(
    ("kind", "filter"), [("BITMAP", "value = 3"), ("LABEL_LIST", "array_has(labels, 3)")]
)
def test_the_bitmap_of_a_value_is_read_once(
    kind: str, filter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t.lance")
    values = np.arange(60_000) % 9000
    table = pa.table({"value": values, "labels": pa.array([[one] for one in values.tolist()])})
    lance.write_dataset(table, path)
    lance.dataset(path).create_scalar_index("value" if kind == "BITMAP" else "labels", kind)
    expected = lancefs.open(path).to_table(filter=filter, use_index=False)
    read: list[str] = []
    of_file = IndexReader.read

    def spy(self: IndexReader, names: Sequence[str], *ranges: Any) -> object:
        read.extend(names)
        return of_file(self, names, *ranges)

    monkeypatch.setattr(IndexReader, "read", spy)
    for _ in range(2):  # each counts the rows, and names them
        assert lancefs.open(path).to_table(filter=filter) == expected
    assert read == ["keys", "bitmaps"]


def test_rows_of_many_values_are_not_counted_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    maps_of = Bitmap.maps_of

    def spy(self: Bitmap, pages: np.ndarray, *others: Any) -> object:
        counted.append(len(pages))
        return maps_of(self, pages, *others)

    monkeypatch.setattr(Bitmap, "maps_of", spy)
    lance.write_dataset(pa.table({"value": np.arange(60_000) % 999}), tmp_path / "t.lance")
    lance.dataset(tmp_path / "t.lance").create_scalar_index("value", "BITMAP")
    dataset = lancefs.open(tmp_path / "t.lance")
    assert dataset.count_rows(filter="value != 5") == 60_000 - 61
    assert not counted
    assert dataset.count_rows(filter="value = 5") == 61
    assert counted


@pytest.mark.parametrize("deleted", [None, "id % 7 = 3", "id >= 1000 and id < 2000"])
def test_rows_of_many_values_are_counted_from_what_is_kept_of_their_bitmaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: str | None
) -> None:
    rows = 60_000
    values = np.random.default_rng(3).integers(0, 3000, rows)
    table = pa.table({"id": np.arange(rows), "n": values})
    path = str(tmp_path / "t.lance")
    lance.write_dataset(table, path, max_rows_per_file=15_000)
    lance.dataset(path).create_scalar_index("n", "BITMAP")
    if deleted is not None:
        lance.dataset(path).delete(deleted)
    filters = [f"n IN ({','.join(map(str, range(0, 600, 3)))})", "n > 20", "n = 7", "n = 3000"]
    expected = [lancefs.open(path).count_rows(one, use_index=False) for one in filters]
    dataset = lancefs.open(path)
    assert [dataset.count_rows(one) for one in filters] == expected
    if deleted is None:
        monkeypatch.setattr(bitmap, "AddressMap", None)  # no bitmap is looked at again
    assert [dataset.count_rows(one) for one in filters] == expected


@pytest.mark.parametrize(("kind", "filter"), [("BITMAP", "value = 3"), ("BTREE", "value < 4")])
def test_counting_by_an_index_takes_no_time_for_each_fragment(
    kind: str, filter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"value": np.arange(90) % 9}), path, max_rows_per_file=10)
    lance.dataset(path).create_scalar_index("value", kind)
    expected = lance.dataset(path).count_rows(filter)
    dataset = lancefs.open(path)
    looked_at: list[int] = []
    monkeypatch.setattr(Fragments, "_build", lambda _, position: looked_at.append(position))
    assert dataset.count_rows(filter) == expected
    assert not looked_at
