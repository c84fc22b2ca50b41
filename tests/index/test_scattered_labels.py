"""Rows with labels lie scattered, and lists take long to decode: an index finds many such rows."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs

ROWS = 60_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    draw = np.random.default_rng(5)
    names = np.array([f"label {number}" for number in range(120)])
    items = pa.array(names[draw.integers(0, len(names), 2 * ROWS)])
    labels = pa.ListArray.from_arrays(pa.array(range(0, 2 * ROWS + 1, 2), pa.int32()), items)
    is_missing = draw.random(ROWS) < 0.1
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "labels": pa.array(labels.to_pylist(), mask=is_missing),
            "text": [f"text {number % 977}" for number in range(ROWS)],
        }
    )
    path = str(tmp_path_factory.mktemp("labels") / "t.lance")
    lance.write_dataset(table, path, max_rows_per_file=40_000)
    lance.dataset(path).create_scalar_index("labels", "LABEL_LIST")
    lance.dataset(path).delete("id % 13 = 4")
    return path


@pytest.mark.parametrize("labels", [2, 4, 6])
def test_many_scattered_rows_with_labels_are_found_by_an_index(path: str, labels: int) -> None:
    wanted = ", ".join(f"'label {number}'" for number in range(labels))
    filter = f"array_has_any(labels, [{wanted}, 'no label', NULL])"
    dataset, columns = lancefs.open(path), ["id", "text"]
    found = dataset.to_table(columns=columns, filter=filter)
    assert found.num_rows > ROWS // 40
    assert "scanned quicker" not in dataset.scanner(filter=filter).explain()
    assert found.equals(dataset.to_table(columns=columns, filter=filter, use_index=False))
    assert found.equals(lance.dataset(path).to_table(columns=columns, filter=filter))
    assert dataset.count_rows(filter) == found.num_rows
    lists = dataset.to_table(columns=["labels"], filter=f"{filter} AND text < 'text 5'")
    assert lists.equals(lance.dataset(path).to_table(["labels"], f"{filter} AND text < 'text 5'"))


def test_any_of_many_labels_is_one_test(path: str) -> None:
    filter = "array_has_any(labels, ['label 1', 'label 2'])"
    explained = lancefs.open(path).scanner(filter=filter).explain()
    assert explained.startswith("filter array_has_any(labels, [label 1, label 2])\n")
