"""A few rows of a remote page come with its index, in one round of requests, if values are even."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from comparison import assert_same_table
from store_doubles import ChainFileSystem

import lancefs
from lancefs.datafile.v2_1.layouts.prefetch_ranges import Unplaced, prefetch_ranges, spare_bytes
from lancefs.lance_dataset import LanceDataset

ROWS = 60_000
# Rows at the ends of the table, in its middle, neighbours, and far from others.
PICKED = [0, 1, 17_000, 17_001, 17_002, 29_999, 41_234, ROWS - 1]


def even_columns() -> dict[str, pa.Array]:
    """Columns of each kind of page whose values vary in size by chance."""
    rng = np.random.default_rng(7)
    numbers = rng.integers(0, 1 << 40, ROWS)
    words = [f"{number:x} " * (number % 5 + 1) for number in numbers.tolist()]
    mask = rng.random(ROWS) < 0.1
    lists = rng.integers(0, 1000, (ROWS, 6)).tolist()
    return {
        "number": pa.array(numbers),
        "nullable": pa.array(rng.random(ROWS), mask=mask),
        "word": pa.array(words, mask=mask),
        "list": pa.array([row[: row[0] % 7] for row in lists], pa.list_(pa.int32())),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(ROWS * 8)), 8),
        "flag": pa.array(rng.random(ROWS) < 0.5),
        "struct": pa.StructArray.from_arrays(
            [pa.array(numbers * 3), pa.array(words)], ["x", "y"], mask=pa.array(mask)
        ),
    }


def remote(path: Path) -> tuple[ChainFileSystem, LanceDataset]:
    fs = ChainFileSystem()
    return fs, lancefs.open(str(path), filesystem=fs)


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
def test_a_few_rows_of_large_pages_take_two_rounds(tmp_path: Path, version: str) -> None:
    """The end of the file; then the index of each page, and what it leads to."""
    rows = pa.table(even_columns())
    lance.write_dataset(rows, str(tmp_path / "t.lance"), data_storage_version=version)
    fs, dataset = remote(tmp_path / "t.lance")
    for picked in ([23_456], [0], [ROWS - 1], PICKED):
        dataset = lancefs.open(str(tmp_path / "t.lance"), filesystem=(fs := ChainFileSystem()))
        with fs.counting() as counted:
            found = dataset.take(picked)
        assert_same_table(found, rows.take(picked))
        # Where no levels are, sets of slots are read first.
        assert counted["rounds"] <= (3 if version == "2.3" else 2)
    assert counted["bytes"] < 2_000_000


def test_rows_that_lie_elsewhere_are_read_in_one_more_round(tmp_path: Path) -> None:
    """As where strings become longer and longer."""
    words = ["x" * (number // 400) for number in range(ROWS)]
    codes = np.random.default_rng(0).integers(0, 256, ROWS * 150).astype(np.uint8).tobytes()
    texts = [word + codes[at * 3 : at * 3 + len(word)].hex() for at, word in enumerate(words)]
    rows = pa.table({"text": texts})
    lance.write_dataset(rows, str(tmp_path / "t.lance"), data_storage_version="2.1")
    for picked in ([10_000], PICKED):
        fs, dataset = remote(tmp_path / "t.lance")
        with fs.counting() as counted:
            assert_same_table(dataset.take(picked), rows.take(picked))
        assert counted["rounds"] <= 3


def test_long_texts_mostly_come_with_the_places_of_their_rows(tmp_path: Path) -> None:
    """Sums of their sizes vary more than those of small values, so that some are missed."""
    words = even_columns()["word"].fill_null("none").to_pylist()
    rows = pa.table({"text": [word * 10 for word in words]})
    lance.write_dataset(rows, str(tmp_path / "t.lance"), data_storage_version="2.1")
    rounds = []
    for row in range(1000, ROWS, 5000):
        fs, dataset = remote(tmp_path / "t.lance")
        with fs.counting() as counted:
            assert_same_table(dataset.take([row]), rows.take([row]))
        rounds.append(counted["rounds"])
    assert set(rounds) <= {2, 3}
    assert rounds.count(2) > len(rounds) / 2


def test_rows_of_many_columns_are_not_guessed() -> None:
    """Around each of a thousand columns, more would be read than a round is worth."""
    page = Unplaced((0, 1_000_000), 250, 0.25)
    assert prefetch_ranges(page, 10_000, [(5000, 5001)], spare_bytes(10))
    assert not prefetch_ranges(page, 10_000, [(5000, 5001)], spare_bytes(1000))


def test_the_first_rows_of_many_columns_come_with_their_chunk_tables(tmp_path: Path) -> None:
    numbers = np.random.default_rng(3).random(20_000)
    rows = pa.table({f"x{number}": numbers * number for number in range(300)})
    lance.write_dataset(rows, str(tmp_path / "t.lance"), data_storage_version="2.1")
    fs, dataset = remote(tmp_path / "t.lance")
    with fs.counting() as counted:
        assert_same_table(dataset.head(10), rows.slice(0, 10))
    assert counted["rounds"] <= 2
    assert counted["bytes"] < 300 * 16 * 1024


@pytest.mark.parametrize("ranges", [1, 10, 100, 10_000])
@pytest.mark.parametrize("pages", [1, 20, 40, 100])
def test_what_is_guessed_is_bounded(pages: int, ranges: int) -> None:
    """It is a megabyte for all pages, beside the rows and what lies between near ones."""
    page = Unplaced((1000, 50_001_000), 25_000, 0.5)
    wanted = [(row, row + 10) for row in range(500, 1_000_000, 1_000_000 // ranges)]
    places = prefetch_ranges(page, 1_000_000, wanted, spare_bytes(pages))
    if ranges == 10_000:
        assert len(places) == 1
    else:
        assert pages * sum(end - start for start, end in places) <= 1.1 * 1024 * 1024
    assert all(1000 <= start < end <= 50_001_000 for start, end in places)
    assert all(before[1] < after[0] for before, after in pairwise(places))


def test_local_rows_are_not_guessed(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table(even_columns()), path, data_storage_version="2.1")
    scanner = lancefs.open(path).scanner(columns=["number"], limit=1)
    assert scanner.to_table().num_rows == 1
    # The end of the file, a chunk table and a chunk.
    assert scanner.stats.bytes < 74 * 1024
