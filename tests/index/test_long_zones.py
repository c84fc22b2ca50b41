"""Zones are read as they lie in the table, also where they are a large part of it."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import lancefs

ROWS = 200_000


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable ids"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two fragments, some rows of which are deleted; values in order, and scattered ones."""
    path = tmp_path_factory.mktemp("zones") / "t.lance"
    draw = np.random.default_rng(4)
    numbers = np.arange(ROWS)
    table = pa.table(
        {
            "id": numbers,
            "n": pa.array(numbers // 2, mask=numbers % 1000 == 7),
            "s": [f"{number // 3:06}" for number in range(ROWS)],
            "code": draw.permutation(ROWS),
        }
    )
    lance.write_dataset(table, path, max_rows_per_file=120_000, enable_stable_row_ids=request.param)
    few = IndexConfig(index_type="bloomfilter", parameters={"number_of_items": 512})
    for column, kind in (("n", "ZONEMAP"), ("s", "ZONEMAP"), ("code", few)):
        lance.dataset(path).create_scalar_index(column, kind)
    lance.dataset(path).delete("id % 101 = 5 OR id BETWEEN 30000 AND 30100")
    return path


_CODES = ", ".join(str(number) for number in range(0, ROWS, ROWS // 100))
_WORDS = ", ".join(f"'{number:06}'" for number in range(0, ROWS // 3, 6000))


@pytest.mark.parametrize(
    ("filter", "index"),
    [
        ("n BETWEEN 20000 AND 60000", "n_idx (ZoneMap)"),
        ("n IN (1, 15010, 40000, 59999, 60001, 99999)", "n_idx (ZoneMap)"),
        ("n IN (14999, 15000, 15050, 15051)", "n_idx (ZoneMap)"),
        ("n IN (5, 70000) AND id % 2 = 0", "n_idx (ZoneMap)"),
        ("n = 80000 OR s = '000017'", "n_idx (ZoneMap)"),
        (f"s IN ({_WORDS})", "s_idx (ZoneMap)"),
        ("s LIKE '0300%'", "s_idx (ZoneMap)"),
        (f"code IN ({_CODES})", "code_idx (BloomFilter)"),
    ],
)
def test_rows_in_zones_are_those_of_a_scan(path: Path, filter: str, index: str) -> None:
    dataset = lancefs.open(path)
    for columns in (["id"], ["s", "code"], ["id", "_rowid"]):
        expected = dataset.to_table(columns=columns, filter=filter, use_index=False)
        scanner = dataset.scanner(columns=columns, filter=filter)
        assert scanner.to_table().equals(expected)
        assert f"index {index}" in scanner.explain()
    ids = dataset.to_table(columns=["id"], filter=filter)["id"].to_pylist()
    assert dataset.count_rows(filter) == len(ids)
    assert dataset.to_table(columns=["id"], filter=filter, limit=3)["id"].to_pylist() == ids[:3]
    batches = dataset.to_batches(columns=["id"], filter=filter, batch_size=100)
    assert [row for batch in batches for row in batch["id"].to_pylist()] == ids
    theirs = lance.dataset(path).to_table(columns=["id"], filter=filter)
    assert theirs["id"].to_pylist() == ids


def test_most_of_a_table_is_scanned_without_its_zones(path: Path) -> None:
    assert "scanned quicker" in lancefs.open(path).scanner(filter="n > 20000").explain()


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_missing_values_are_counted_by_zones(tmp_path: Path, stable: bool) -> None:
    """Rows are read only of the fragment that lost some."""
    path = tmp_path / "t.lance"
    table = pa.table({"id": np.arange(60_000), "n": pa.array([None, 1, 2] * 20_000, pa.int64())})
    lance.write_dataset(
        table, path, max_rows_per_file=20_000, enable_stable_row_ids=stable
    ).create_scalar_index("n", "ZONEMAP")
    lance.write_dataset(table.slice(0, 9000), path, mode="append")
    lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    lance.dataset(path).delete("id BETWEEN 25000 AND 25500")
    dataset = lancefs.open(path)
    for filter in ("n IS NULL", "n IS NULL AND id > 3", "n IS NULL OR n = 2", "NOT n IS NOT NULL"):
        expected = dataset.count_rows(filter, use_index=False)
        assert dataset.count_rows(filter) == expected
        assert lance.dataset(path).count_rows(filter) == expected
    scanner = dataset.scanner(filter="n IS NULL")
    assert scanner.count_rows() == 23_000 - 167
    assert scanner.stats.rows_decoded == 20_000


def test_members_of_missing_structs_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    members = pa.array([None, {"a": None}, {"a": 1}, {"a": 2}] * 5000)
    lance.write_dataset(pa.table({"st": members}), path)
    lance.dataset(path).create_scalar_index("st.a", "ZONEMAP")
    scanner = lancefs.open(path).scanner(filter="st.a IS NULL")
    assert scanner.count_rows() == 10_000
    assert scanner.stats.rows_decoded == 0
