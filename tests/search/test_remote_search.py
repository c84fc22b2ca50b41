"""Vector searches in a remote table: rounds of requests, and what is asked for."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow.compute as pc
import pytest
from comparison import assert_same_table
from store_doubles import ChainFileSystem
from vector_tables import rows, write

import lancefs
from lancefs.lance_dataset import LanceDataset
from lancefs.storage import Store
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import resolve

KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_SQ": {},
    "IVF_PQ": {"num_sub_vectors": 16},
    "IVF_RQ": {},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_SQ": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 16},
}
SEARCHES: dict[str, dict[str, Any]] = {
    "plain": {},
    "refined": {"refine_factor": 5},
    "filtered": {"filter": "small < 5"},
    "filtered and refined": {"filter": "small < 5", "refine_factor": 5},
    "filtered after": {"filter": "small < 5", "prefilter": False, "refine_factor": 5},
    "an expression": {"columns": {"twice": pc.field("id") * 2}, "refine_factor": 5},
}
QUERY = np.random.default_rng(0).normal(0, 3, 32).astype(np.float32)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose index files are larger than the end of a file that is read at once."""
    path = tmp_path_factory.mktemp("remote") / "t.lance"
    write(path, rows(20_000, 32))
    lance.dataset(path).create_index("v", "IVF_PQ", num_partitions=20, num_sub_vectors=8)
    return path


@pytest.fixture(scope="module", params=KINDS)
def by_kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kinds") / "t.lance"
    write(path, rows(9_000, 32), max_rows_per_file=3_000, data_storage_version="2.1")
    more = KINDS[request.param]
    lance.dataset(path).create_index("v", request.param, num_partitions=8, **more)
    return path


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file of an index is so small that it is read whole."""
    monkeypatch.setattr("lancefs.index.vectors.vector_indices.SMALL", 64 * 1024)


def opened(table: Path) -> tuple[ChainFileSystem, LanceDataset]:
    fs = ChainFileSystem()
    return fs, LanceDataset(OpenVersion(resolve(Store(fs, str(table)))))


def rounds_of_search(fs: ChainFileSystem, dataset: LanceDataset, nprobes: int) -> int:
    with fs.counting() as counted:
        told = dataset.vector_search("v", QUERY, nprobes=nprobes).explain()
    assert f"{nprobes} of 20 partitions" in told
    return counted["rounds"]


def test_the_first_search_takes_three_rounds_of_requests_and_the_next_one_less(
    table: Path, large: None
) -> None:
    fs, dataset = opened(table)
    assert rounds_of_search(fs, dataset, 3) <= 3
    assert rounds_of_search(fs, dataset, 3) == 0
    assert rounds_of_search(fs, dataset, 8) == 1


def test_a_small_index_is_read_in_one_round_of_requests(table: Path) -> None:
    fs, dataset = opened(table)
    assert rounds_of_search(fs, dataset, 3) == 1
    assert rounds_of_search(fs, dataset, 8) == 0


def test_the_first_search_reads_its_index_at_most_twice_the_next_once(table: Path) -> None:
    # Chance decides how far apart the partitions of a query lie, and what lies between is read.
    fs, dataset = opened(table)
    index = sum(file.stat().st_size for file in table.glob("_indices/*/*"))
    rounds_of_search(fs, dataset, 3)
    first = fs.bytes
    rounds_of_search(fs, dataset, 8)
    assert first <= 2 * index
    assert fs.bytes <= index


def test_a_search_opens_the_files_of_a_small_table(tmp_path: Path) -> None:
    """They are open when it is known which of them has the rows: rounds less."""
    path = tmp_path / "t.lance"
    write(path, rows(20_000, 32))
    native = lance.dataset(path)
    native.create_index("v", "IVF_PQ", num_partitions=20, num_sub_vectors=8)
    native.delete("id % 1000 = 0")
    fs, dataset = opened(path)
    rounds_of_search(fs, dataset, 3)
    asked = {request.removeprefix("GET ") for request in fs.requests}
    assert {str(each) for each in path.glob("data/*")} < asked
    assert {str(each) for each in path.glob("_deletions/*")} < asked
    with fs.counting() as counted:
        assert dataset.nearest("v", QUERY, 5, columns=["id"], nprobes=3).num_rows == 5
    assert counted["rounds"] <= 1


# What is computed of rows is computed of those that are returned: when these are known.
ROUNDS = {"an expression": 5}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_takes_at_most_four_rounds_of_requests_with_its_rows(
    by_kind: Path, name: str, large: None
) -> None:
    fs, dataset = opened(by_kind)
    with fs.counting() as counted:
        found = dataset.nearest("v", QUERY, 5, nprobes=3, **SEARCHES[name])
    local = lancefs.open(str(by_kind))
    assert_same_table(found, local.nearest("v", QUERY, 5, nprobes=3, **SEARCHES[name]))
    assert counted["rounds"] <= ROUNDS.get(name, 4)


def test_a_search_in_a_small_index_takes_two_rounds_of_requests(table: Path) -> None:
    """All that the index has comes with the ends of the data files; then the rows."""
    for name in ("plain", "refined"):
        fs, dataset = opened(table)
        with fs.counting() as counted:
            assert dataset.nearest("v", QUERY, 5, nprobes=3, **SEARCHES[name]).num_rows == 5
        assert counted["rounds"] <= 2


def test_rows_that_a_search_compares_are_read_with_what_it_returns(table: Path) -> None:
    """Unless these are many values, or an expression, which may fail on rows not returned."""
    local = lancefs.open(str(table))
    by_small = {"n": pc.divide(pc.scalar(100), pc.field("small") - 3)}
    after: dict[str, Any] = {"filter": "small != 3", "prefilter": False}
    for columns in (None, ["id", "v", "id", "_distance"], ["name"], by_small):
        for k, filtered in itertools.product((1, 7, 40), ({}, after)):
            if columns is by_small and not filtered:
                continue
            options: dict[str, Any] = {**filtered, "refine_factor": 3, "nprobes": 4}
            options["with_row_id"] = True
            found = opened(table)[1].nearest("v", QUERY, k, columns=columns, **options)
            assert_same_table(found, local.nearest("v", QUERY, k, columns=columns, **options))
