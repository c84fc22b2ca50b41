"""Look-ups in a remote table: rounds of requests, and what is asked for."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from store_doubles import SlowFileSystem

from lancefs.lance_dataset import LanceDataset
from lancefs.scan.scanner import LanceScanner
from lancefs.storage import Store
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import resolve

ROWS = 150_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose index files are larger than the end of a file that is read at once."""
    path = tmp_path_factory.mktemp("remote") / "t.lance"
    ids = np.random.default_rng(0).permutation(ROWS)
    names = [f"n{number:07d}" for number in ids.tolist()]
    rows = pa.table({"id": ids, "name": names})
    lance.write_dataset(rows, path, data_storage_version="2.1")
    for column, kind in (("id", "BTREE"), ("name", "BTREE")):
        lance.dataset(path).create_scalar_index(column, kind)
    return path


def opened(table: Path) -> tuple[SlowFileSystem, LanceDataset]:
    fs = SlowFileSystem(0.005)
    return fs, LanceDataset(OpenVersion(resolve(Store(fs, str(table)))))


def rounds_of_look_up(fs: SlowFileSystem, scanner: LanceScanner) -> int:
    before = fs.rounds
    assert "no index" not in scanner.explain()
    return fs.rounds - before


@pytest.mark.parametrize("filter", ["id = 1234", "name = 'n0001234'"])
def test_the_first_look_up_takes_three_rounds_of_requests(table: Path, filter: str) -> None:
    fs, dataset = opened(table)
    scanner = dataset.scanner(filter=filter)
    assert rounds_of_look_up(fs, scanner) <= 3
    read = fs.bytes
    assert scanner.to_table().num_rows == 1
    assert read < 700_000


def test_the_next_look_up_reads_a_page_in_two_rounds(table: Path) -> None:
    fs, dataset = opened(table)
    dataset.scanner(filter="id = 1234").explain()
    files = {request for request in fs.requests if "page_lookup" in request}
    assert len(files) == 1
    fs.requests.clear()
    assert rounds_of_look_up(fs, dataset.scanner(filter="id = 140000")) <= 2
    assert not any("page_lookup" in request for request in fs.requests)


def test_the_ends_that_were_held_do_not_stay_in_memory(table: Path) -> None:
    from lancefs.storage import holding_tails

    fs = SlowFileSystem(0.0)
    file = Store(fs, str(table.parent)).file(f"{table.name}/_versions/{manifest_of(table)}")
    with holding_tails([file]):
        asked = len(fs.requests)
        held = file.read([(file.size - 16, file.size)])[0].tobytes()
        assert len(fs.requests) == asked
    assert file.read([(file.size - 16, file.size)])[0].tobytes() == held
    assert len(fs.requests) > asked


def manifest_of(table: Path) -> str:
    return min(path.name for path in (table / "_versions").iterdir())
