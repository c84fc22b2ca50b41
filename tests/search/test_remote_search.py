"""Vector searches in a remote table: rounds of requests, and what is asked for."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pytest
from store_doubles import ChainFileSystem
from vector_tables import rows, write

from lancefs.lance_dataset import LanceDataset
from lancefs.storage import Store
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import resolve

QUERY = np.random.default_rng(0).normal(0, 3, 32).astype(np.float32)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose index files are larger than the end of a file that is read at once."""
    path = tmp_path_factory.mktemp("remote") / "t.lance"
    write(path, rows(20_000, 32))
    lance.dataset(path).create_index("v", "IVF_PQ", num_partitions=20, num_sub_vectors=8)
    return path


def opened(table: Path) -> tuple[ChainFileSystem, LanceDataset]:
    fs = ChainFileSystem()
    return fs, LanceDataset(OpenVersion(resolve(Store(fs, str(table)))))


def rounds_of_search(fs: ChainFileSystem, dataset: LanceDataset, nprobes: int) -> int:
    with fs.counting() as counted:
        told = dataset.vector_search("v", QUERY, nprobes=nprobes).explain()
    assert f"{nprobes} of 20 partitions" in told
    return counted["rounds"]


def test_the_first_search_takes_three_rounds_of_requests_and_the_next_one_less(table: Path) -> None:
    fs, dataset = opened(table)
    assert rounds_of_search(fs, dataset, 3) <= 3
    assert rounds_of_search(fs, dataset, 3) == 0
    assert rounds_of_search(fs, dataset, 8) == 1


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
