"""Many single values are looked up in the pages of a BTREE, also where these are most of it."""

from __future__ import annotations

from collections.abc import Callable

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs

ROWS = 60_000  # in 15 pages


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    draw = np.random.default_rng(2)
    numbers = draw.permutation(ROWS)
    floats = np.where(numbers % 5000 == 0, np.nan, numbers / 4)
    floats[numbers == 4] = -0.0
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "n": pa.array(numbers, mask=numbers % 11 == 0),
            "f": floats,
            "s": [f"key {number // 2}" for number in numbers],
        }
    )
    path = str(tmp_path_factory.mktemp("values") / "t.lance")
    lance.write_dataset(table, path, max_rows_per_file=25_000)
    for column in ("n", "f", "s"):
        lance.dataset(path).create_scalar_index(column, "BTREE")
    lance.dataset(path).delete("id % 13 = 4")
    return path


def _list(column: str, text: Callable[[int], str], step: int) -> str:
    return f"{column} IN ({', '.join(text(number) for number in range(0, ROWS, step))})"


@pytest.mark.parametrize(
    "filter",
    [
        _list("n", str, 700),
        _list("n", str, 3000) + " OR n IS NULL AND id < 50",
        _list("f", lambda number: str(number / 4), 900) + " OR f IN (0.0, 17.0)",
        _list("s", lambda number: f"'key {number}'", 800),
        _list("n", str, 900) + " OR n = 5 OR n BETWEEN 3 AND 9",
        "n IN (-5, 70000)",
        _list("n", str, 700) + " AND n < 9000",
    ],
)
def test_rows_with_any_of_many_values_are_those_of_a_scan(path: str, filter: str) -> None:
    dataset = lancefs.open(path)
    expected = dataset.to_table(columns=["id"], filter=filter, use_index=False)
    for _ in range(2):  # the second time, pages are kept
        assert dataset.to_table(columns=["id"], filter=filter).equals(expected)
        assert dataset.count_rows(filter) == expected.num_rows
    assert lance.dataset(path).count_rows(filter) == expected.num_rows


def test_most_pages_are_read_for_many_values_and_not_for_a_range(path: str) -> None:
    values, dataset = _list("n", str, 3000), lancefs.open(path)
    assert "pages read" in dataset.scanner(filter=values).explain()
    assert "scanned quicker" in dataset.scanner(filter="n > 20000").explain()
