"""Rows by their positions among those that a filter finds: pages of results, samples, `take`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancefs
from lancefs.scan.scanner import LanceScanner

ROWS = 6000
FILTER = "key % 3 = 1 AND city != 'city 2'"
# Pages of few rows behind many others; in one fragment, across fragments, and at the end.
PAGES = [(1, 1), (5, 300), (400, 401), (7, 1140), (10, 5000)]


@pytest.fixture(scope="module", params=[("2.0", 5000), ("2.1", 700), ("2.2", 120), ("legacy", 900)])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    version, per_file = request.param
    where = str(tmp_path_factory.mktemp("positions") / "t.lance")
    numbers = np.arange(ROWS)
    texts = [f"text {n} " * 20 for n in numbers]
    cities = [f"city {n % 7}" for n in numbers]
    table = pa.table({"key": numbers, "city": cities, "text": texts})
    lance.write_dataset(table, where, max_rows_per_file=per_file, data_storage_version=version)
    lance.dataset(where).delete("key % 10 = 4")
    return where


@pytest.fixture
def dataset(path: str) -> lancefs.LanceDataset:
    return lancefs.open(path)


@pytest.mark.parametrize(("limit", "offset"), PAGES)
@pytest.mark.parametrize("columns", [["text", "key"], ["key"], ["_rowid", "text"]])
def test_a_page_has_the_rows_of_the_whole(
    dataset: lancefs.LanceDataset, columns: list[str], limit: int, offset: int
) -> None:
    whole = dataset.to_table(columns=columns, filter=FILTER)
    options: dict[str, Any] = {
        "columns": columns,
        "filter": FILTER,
        "limit": limit,
        "offset": offset,
    }
    page = dataset.to_table(**options)
    assert page.equals(whole.slice(offset, limit))
    assert pa.Table.from_batches(dataset.to_batches(**options), page.schema).equals(page)


def test_a_page_of_fragments_in_another_order_has_the_rows_of_the_whole(
    dataset: lancefs.LanceDataset,
) -> None:
    options: dict[str, Any] = {"filter": FILTER, "fragments": [1, 0, 1], "columns": ["text"]}
    whole = dataset.to_table(**options)
    offset = len(whole) - 9
    assert dataset.to_table(limit=7, offset=offset, **options).equals(whole.slice(offset, 7))
    taken = dataset.scanner(**options).take([offset, 0, offset])
    assert taken.equals(whole.take([offset, 0, offset]))


def test_a_page_by_an_index_has_the_rows_of_the_whole(path: str) -> None:
    lance.dataset(path).create_scalar_index("city", "BITMAP")
    dataset = lancefs.open(path)
    whole = dataset.without_indices().to_table(filter="city = 'city 3' OR city = 'city 5'")
    for limit, offset in PAGES:
        page = dataset.to_table(
            filter="city = 'city 3' OR city = 'city 5'", limit=limit, offset=offset
        )
        assert page.equals(whole.slice(offset, limit))


def test_rows_are_taken_of_those_that_pass(dataset: lancefs.LanceDataset) -> None:
    whole = dataset.to_table(filter=FILTER)
    scanner = dataset.scanner(filter=FILTER, offset=3, limit=900)
    positions = [899, 0, 5, 5, 350, 6]
    assert scanner.take(positions).equals(whole.slice(3, 900).take(positions))
    assert not len(scanner.take([]))
    with pytest.raises(IndexError, match="there is no row 900"):
        scanner.take([900])
    unfiltered = dataset.scanner(offset=100, limit=50)
    assert unfiltered.take([49, 0]).equals(dataset.to_table().take([149, 100]))
    with pytest.raises(IndexError, match="there is no row 50"):
        unfiltered.take([50])


def test_a_sample_has_rows_that_pass(dataset: lancefs.LanceDataset) -> None:
    whole = dataset.to_table(filter=FILTER)
    drawn = dataset.sample(20, seed=1, filter=FILTER)
    keys = drawn["key"].to_pylist()
    assert keys == sorted(set(keys))
    assert len(keys) == 20
    assert drawn.equals(whole.filter(pc.is_in(whole["key"], drawn["key"])))
    assert dataset.sample(10_000, filter=FILTER).equals(whole)


def test_the_last_rows_of_those_that_pass(dataset: lancefs.LanceDataset) -> None:
    whole = dataset.to_table(filter=FILTER)
    assert dataset.tail(5, filter=FILTER).equals(whole.slice(len(whole) - 5))


def test_what_is_passed_over_is_not_read(tmp_path: Path) -> None:
    where = str(tmp_path / "t.lance")
    long = [np.random.default_rng(n).bytes(20_000) for n in range(500)]
    lance.write_dataset(pa.table({"key": np.arange(500), "long": long}), where)
    dataset = lancefs.open(where)
    reads: list[Callable[[LanceScanner], pa.Table]] = [
        lambda scanner: scanner.take([290, 3]),
        lambda scanner: scanner.sample(2),
        lambda scanner: scanner.tail(2),
    ]
    for read in reads:
        scanner = dataset.scanner(filter="key % 2 = 0 OR key > 400")
        assert read(scanner).num_rows == 2
        assert scanner.stats.bytes < 200_000
    page = dataset.scanner(filter="key % 2 = 0", limit=2, offset=200)
    assert page.to_table()["key"].to_pylist() == [400, 402]
    assert page.stats.bytes < 200_000
