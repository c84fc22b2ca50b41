"""Look-ups in a remote table: rounds of requests, and what is asked for."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from store_doubles import ChainFileSystem

from lancefs.errors import MissingFile
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


def opened(table: Path) -> tuple[ChainFileSystem, LanceDataset]:
    fs = ChainFileSystem()
    return fs, LanceDataset(OpenVersion(resolve(Store(fs, str(table)))))


def rounds_of_look_up(fs: ChainFileSystem, scanner: LanceScanner) -> int:
    with fs.counting() as counted:
        assert "no index" not in scanner.explain()
    return counted["rounds"]


@pytest.mark.parametrize("filter", ["id = 1234", "name = 'n0001234'"])
def test_the_first_look_up_takes_two_rounds_of_requests_and_its_row_one_more(
    table: Path, filter: str
) -> None:
    fs, dataset = opened(table)
    scanner = dataset.scanner(filter=filter)
    assert rounds_of_look_up(fs, scanner) <= 2
    read = fs.bytes
    with fs.counting() as counted:
        assert scanner.to_table().num_rows == 1
    assert counted["rounds"] <= 1
    assert read < 700_000


def test_the_next_look_up_reads_a_page_in_one_round(table: Path) -> None:
    fs, dataset = opened(table)
    dataset.scanner(filter="id = 1234").explain()
    files = {request for request in fs.requests if "page_lookup" in request}
    assert len(files) == 1
    fs.requests.clear()
    assert rounds_of_look_up(fs, dataset.scanner(filter="id = 140000")) <= 1
    assert not any("page_lookup" in request for request in fs.requests)


def test_items_that_were_looked_up_are_read_once(tmp_path: Path) -> None:
    """Their rows are counted first, and named then; the next look-up needs no request."""
    path = tmp_path / "t.lance"
    tags = np.random.default_rng(0).integers(0, 300, (ROWS, 5)).tolist()
    lance.write_dataset(pa.table({"tags": tags}), path, data_storage_version="2.1")
    lance.dataset(path).create_scalar_index("tags", "LABEL_LIST")
    fs, dataset = opened(path)
    assert rounds_of_look_up(fs, dataset.scanner(filter="array_has(tags, 7)")) <= 3
    assert rounds_of_look_up(fs, dataset.scanner(filter="array_has(tags, 7)")) == 0


def test_a_part_of_a_string_takes_four_rounds_with_its_rows(tmp_path: Path) -> None:
    """Where bitmaps begin is read with the trigrams; then the bitmaps, then the row."""
    path = tmp_path / "t.lance"
    codes = [f"{number * 7919:07x}" for number in range(ROWS)]
    lance.write_dataset(pa.table({"code": codes}), path, data_storage_version="2.1")
    lance.dataset(path).create_scalar_index("code", "NGRAM")
    (index,) = path.glob("_indices/*/*")
    assert index.stat().st_size > 1024 * 1024
    fs, dataset = opened(path)
    with fs.counting() as counted:
        assert dataset.to_table(filter=f"contains(code, '{codes[1234]}')").num_rows == 1
    assert counted["rounds"] <= 4


def written(path: Path, fragments: int) -> Path:
    """Write a table of a thousand rows a fragment whose ids have an index."""
    rows = pa.table({"id": range(fragments * 1000)})
    lance.write_dataset(rows, path, max_rows_per_file=1000, data_storage_version="2.1")
    lance.dataset(path).create_scalar_index("id", "BTREE")
    return path


def data_files(path: Path) -> set[str]:
    return {str(each) for each in (path / "data").iterdir()}


def asked_for(fs: ChainFileSystem) -> set[str]:
    return {request.removeprefix("GET ") for request in fs.requests}


def test_a_look_up_opens_the_files_of_a_small_table(tmp_path: Path) -> None:
    """They are open when it is known which of them has the rows: a round less."""
    path = written(tmp_path / "t.lance", fragments=3)
    fs, dataset = opened(path)
    dataset.scanner(filter="id = 1").explain()
    assert data_files(path) < asked_for(fs)
    fs.requests.clear()
    dataset.scanner(filter="id = 2500").explain()
    assert not data_files(path) & asked_for(fs)


def test_a_look_up_reads_the_deletions_of_a_small_table(tmp_path: Path) -> None:
    path = written(tmp_path / "t.lance", fragments=3)
    lance.dataset(path).delete("id % 100 = 7")
    fs, dataset = opened(path)
    dataset.scanner(filter="id = 1").explain()
    assert {str(each) for each in (path / "_deletions").iterdir()} < asked_for(fs)
    assert dataset.to_table(filter="id in (2507, 2508)")["id"].to_pylist() == [2508]


def test_a_look_up_opens_no_files_of_a_large_table(tmp_path: Path) -> None:
    path = written(tmp_path / "t.lance", fragments=9)
    fs, dataset = opened(path)
    dataset.scanner(filter="id = 1").explain()
    assert not data_files(path) & asked_for(fs)


def test_a_file_that_has_no_row_may_be_missing(tmp_path: Path) -> None:
    path = written(tmp_path / "t.lance", fragments=3)
    fragments = lance.dataset(path).get_fragments()
    (path / "data" / fragments[0].data_files()[0].path).unlink()
    _, dataset = opened(path)
    assert dataset.to_table(filter="id = 2500")["id"].to_pylist() == [2500]
    with pytest.raises(MissingFile):
        dataset.to_table(filter="id = 500")


def test_the_ends_that_were_held_do_not_stay_in_memory(table: Path) -> None:
    from lancefs.storage import holding_tails

    fs = ChainFileSystem()
    file = Store(fs, str(table.parent)).file(f"{table.name}/_versions/{manifest_of(table)}")
    with holding_tails([file]):
        asked = len(fs.requests)
        held = file.read([(file.size - 16, file.size)])[0].tobytes()
        assert len(fs.requests) == asked
    assert file.read([(file.size - 16, file.size)])[0].tobytes() == held
    assert len(fs.requests) > asked


def manifest_of(table: Path) -> str:
    return min(path.name for path in (table / "_versions").iterdir())
