"""Indices over bytes of a fixed width."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancefs

KEYS = [None if number % 9 == 4 else bytes([number * 5, 0]) for number in range(50)]
FILTERS = [
    *("key = X'0F00'", "key in (X'0A00', X'0F00', X'6161')", "key > X'E100'", "key < X'0A00'"),
    *("key is null", "key <= X'0500' or key is null", "key <> X'0F00'", "key = X'0F'"),
]


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
def test_bytes_of_fixed_width_are_found(tmp_path: Path, kind: str) -> None:
    rows = pa.table({"key": pa.array(KEYS, pa.binary(2)), "row": range(50)})
    lance.write_dataset(rows, tmp_path / "t.lance", max_rows_per_file=20)
    lance.dataset(tmp_path / "t.lance").create_scalar_index("key", kind)
    dataset = lancefs.open(tmp_path / "t.lance")
    for filter in FILTERS:
        found = dataset.to_table(["row"], filter=filter)
        assert found == dataset.to_table(["row"], filter=filter, use_index=False), filter
        assert dataset.count_rows(filter=filter) == len(found), filter
    assert "key_idx" in dataset.scanner(filter=FILTERS[0]).explain()


def test_items_of_fixed_width_bytes_are_found(tmp_path: Path) -> None:
    lists = [[key, b"zz"] if number % 3 else None for number, key in enumerate(KEYS)]
    rows = pa.table({"keys": pa.array(lists, pa.list_(pa.binary(2))), "row": range(50)})
    lance.write_dataset(rows, tmp_path / "t.lance")
    lance.dataset(tmp_path / "t.lance").create_scalar_index("keys", "LABEL_LIST")
    dataset = lancefs.open(tmp_path / "t.lance")
    for filter, expected in (
        ("array_has(keys, X'0500')", [1]),
        ("array_has_all(keys, [X'0A00', 'zz'])", [2]),
        ("array_has(keys, X'0A')", []),
    ):
        assert dataset.to_table(["row"], filter=filter)["row"].to_pylist() == expected
    assert "keys_idx" in dataset.scanner(filter="array_has(keys, X'0500')").explain()
