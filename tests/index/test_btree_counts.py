"""Rows that pass a condition are counted from the pages of a BTREE index, most of them unread."""

from __future__ import annotations

import dataclasses
import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancefs
from lancefs.index import btree
from lancefs.index.btree import BTree
from lancefs.storage.budget_cache import BudgetCache

ROWS = 40_000


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the pages that are read, of which none are kept from other tests."""
    pages: list[int] = []
    original = BTree._read

    def spy(self: BTree, spans: list[np.ndarray]) -> Any:
        pages.extend(int(page) for span in spans for page in span)
        return original(self, spans)

    monkeypatch.setattr(BTree, "_read", spy)
    monkeypatch.setattr(btree, "_RECENT", BudgetCache(btree._RECENT_BYTES))
    return pages


def _columns() -> dict[str, pa.Array]:
    numbers = np.random.default_rng(0).permutation(ROWS)
    floats = np.where(numbers % 11 == 0, np.nan, numbers / 7 - 900)
    floats[numbers % 13 == 0] = -np.nan
    floats[numbers % 17 == 0] = -0.0
    day = datetime.date(1969, 1, 1)
    return {
        "n": pa.array([None if one % 9 == 0 else int(one) for one in numbers]),
        "x": pa.array(floats),
        "s": pa.array([None if one % 5 == 0 else f"é{one:06}\0" for one in numbers]),
        "d": pa.array([day + datetime.timedelta(int(one) // 30) for one in numbers]),
        "m": pa.array([Decimal(int(one)) / 100 for one in numbers], pa.decimal128(12, 2)),
        "few": pa.array((numbers % 3).astype("i2")),
    }


@pytest.fixture(scope="module", params=["stable", "addresses"])
def path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    path = str(tmp_path_factory.mktemp("counts") / "t.lance")
    table = pa.table({**_columns(), "id": range(ROWS)})
    stable = request.param == "stable"
    lance.write_dataset(table, path, max_rows_per_file=9000, enable_stable_row_ids=stable)
    lance.dataset(path).delete("id % 101 = 7")
    for name in table.column_names[:-1]:
        lance.dataset(path).create_scalar_index(name, "BTREE")
    return path


_TESTS: list[str | pc.Expression] = [
    "n > 100",
    "n >= 100 and n < 39000",
    "not n < 39990",
    "n between 5 and 4 or n = 77",
    "n is null",
    "n is not null",
    "n != 5",
    "n in (1, 2, 3, 40000)",
    "n > 30000 or n < 2000 or n is null",
    "n > 10000 and n != 20000 and (n < 15000 or n > 35000)",
    "x > -100.5",
    "x <= 0",
    "x >= 0.0 and x < 1000",
    "not x > 100",
    "isnan(x)",
    pc.field("x") > float("-inf"),
    (pc.field("x") > 100) | pc.is_nan(pc.field("x")),
    (pc.field("x") > 100) & pc.is_nan(pc.field("x")),
    pc.is_nan(pc.field("x")) & (pc.field("x") > 100),
    pc.field("x") <= float("inf"),
    "s >= 'é01'",
    "s < 'é039999'",
    "s like 'é01%'",
    "s like 'é0%9_'",
    "s > 'é020000' and s <= 'é020000'",
    "d >= date '1970-01-01'",
    "d < timestamp '1971-01-01 12:00:00'",
    "m > 12.345 and m < 399",
    "few > 0",
    "few >= 1 and few <= 1",
    "few in (0, 2)",
]


@pytest.mark.parametrize("test", _TESTS, ids=str)
def test_the_count_is_that_of_a_scan(test: str | pc.Expression, path: str) -> None:
    dataset = lancefs.open(path)
    expected = dataset.to_table(["id"], filter=test, use_index=False).num_rows
    assert dataset.count_rows(test) == expected
    # pylance puts NaN behind all numbers, and compares no column with literals of other types.
    if isinstance(test, str) and test.split()[0] in ("n", "s", "few"):
        assert lance.dataset(path).count_rows(test) == expected


def test_only_pages_at_the_ends_are_read(path: str, read: list[int]) -> None:
    dataset = lancefs.open(path)
    assert dataset.count_rows("n >= 9000 and n < 33000") > 20_000
    assert len(read) == 2
    read.clear()
    assert dataset.count_rows("few = 1") > 13_000  # pages of one value, and those at its ends
    assert len(read) <= 5


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("n in (5, 9000, 9001, 33000)", "n in (9002, 20000, 33001)"),
        (
            pc.field("s").isin([f"é{one:06}\0" for one in (4, 9001, 33001)]),
            pc.field("s").isin([f"é{one:06}\0" for one in (9002, 20001, 33002)]),
        ),
        ("x in (-896, 100, 3100)", "x in (-895, 102, 3101)"),
    ],
)
def test_pages_are_read_once_for_several_lists_of_values(
    first: str | pc.Expression, second: str | pc.Expression, path: str, read: list[int]
) -> None:
    dataset = lancefs.open(path)
    for filter in (first, second, first, second):
        expected = dataset.to_table(["id"], filter=filter, use_index=False)
        assert expected.num_rows > 1
        assert dataset.to_table(["id"], filter=filter).equals(expected)
    assert read
    assert len(read) == len(set(read))


def test_rows_that_changed_since_are_not_counted_by_whole_pages(path: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "t.lance")
    source = lance.dataset(path)
    stable = source.has_stable_row_ids
    table = source.to_table()
    lance.write_dataset(table, copy, max_rows_per_file=9000, enable_stable_row_ids=stable)
    lance.dataset(copy).create_scalar_index("n", "BTREE")
    changes = [
        lambda: lance.dataset(copy).delete("n > 20000 and n < 20500"),
        lambda: lance.dataset(copy).update({"n": "n + 15000"}, where="n < 300"),
        lambda: lance.write_dataset(table.slice(0, 500), copy, mode="append"),
        lambda: lance.dataset(copy).delete("id < 9000"),
        lambda: lance.dataset(copy).optimize.optimize_indices(),
        lambda: lance.dataset(copy).optimize.compact_files(),
    ]
    for change in changes:
        change()
        dataset = lancefs.open(copy)
        for test in ("n >= 1000 and n < 30000", "n < 15100", "n is null", "n is not null"):
            expected = dataset.count_rows(test, use_index=False)
            assert dataset.count_rows(test) == expected, test


def test_rows_that_two_segments_hold_count_once(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    table = pa.table({"n": np.arange(2000) % 50, "k": np.arange(2000) % 4})
    lance.write_dataset(table, path, enable_stable_row_ids=True, max_rows_per_file=1000)
    lance.dataset(path).create_scalar_index("k", "BITMAP")
    for name in ("first", "second"):
        lance.dataset(path).create_scalar_index("n", "BTREE", name=name)
    written = lance.dataset(path)
    transaction = written.read_transaction(written.version)
    assert transaction is not None
    assert isinstance(transaction.operation, lance.LanceOperation.CreateIndex)
    (index,) = transaction.operation.new_indices
    again = lance.LanceOperation.CreateIndex([dataclasses.replace(index, name="first")], [index])
    lance.LanceDataset.commit(path, again, read_version=written.version)
    dataset = lancefs.open(path)
    counts = {"n >= 0": 2000, "n < 25": 1000, "n = 3": 40, "n = 3 and k = 1": 20, "k <> 1": 1500}
    for test, rows in counts.items():
        assert dataset.count_rows(test) == dataset.to_table(filter=test).num_rows == rows


def test_scattered_rows_are_known_from_one_page(path: str, read: list[int]) -> None:
    dataset = lancefs.open(path)
    test = "n > 10000 and n < 18000"
    assert "scattered rows are scanned quicker" in dataset.scanner(filter=test).explain()
    assert len(read) == 1
    found = dataset.to_table(["id"], filter=test)
    assert found == dataset.to_table(["id"], filter=test, use_index=False)


def test_scattered_rows_that_are_a_fiftieth_of_all_are_looked_up(path: str) -> None:
    dataset, test = lancefs.open(path), "n > 10000 and n < 10900"
    assert "n_idx (BTree)" in dataset.scanner(filter=test).explain()
    found = dataset.to_table(["id"], filter=test)
    assert found == dataset.to_table(["id"], filter=test, use_index=False)


def test_the_first_rows_are_scanned_for_where_they_come_soon(
    tmp_path: Path, read: list[int]
) -> None:
    rows = 200_000
    table = str(tmp_path / "t.lance")
    shuffled = np.random.default_rng(1).permutation(rows)
    columns = {"shuffled": shuffled, "ordered": np.arange(rows), "id": np.arange(rows)}
    lance.write_dataset(pa.table(columns), table, max_rows_per_file=60_000)
    for name in ("shuffled", "ordered"):
        lance.dataset(table).create_scalar_index(name, "BTREE")
    dataset = lancefs.open(table)
    for test, is_scanned in {
        "shuffled < 19000": True,
        "ordered >= 20000 and ordered < 39000": True,
        "ordered >= 181000": False,  # which a scan would come to last
    }.items():
        read.clear()
        found = dataset.head(7, ["id"], filter=test)
        assert (len(read) == 1) == is_scanned, test
        assert found == dataset.head(7, ["id"], filter=test, use_index=False)
        told = dataset.scanner(filter=test, limit=7, offset=3).explain()
        assert ("no index limits the rows" in told) == is_scanned
        soon = "a scan comes to 10 rows of about"
        assert (soon in told) == (is_scanned and test.startswith("ordered"))
        assert dataset.to_table(["id"], filter=test, limit=7, offset=3) == dataset.to_table(
            ["id"], filter=test, limit=7, offset=3, use_index=False
        )
