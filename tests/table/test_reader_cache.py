"""What was understood of a data file is known when another dataset opens it, and is never stale."""

from __future__ import annotations

import gc
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support import run_python

import lancefs
from lancefs.datafile.fields import Field
from lancefs.datafile.row_sizes import RowSizes
from lancefs.errors import MissingFile
from lancefs.storage.open_files import MAPPED_FILES
from lancefs.table import reader_cache, row_estimates
from lancefs.table.fragment_reader import FragmentReader

ROWS = 60_000


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    reader_cache.READERS.let_go_all()
    yield
    reader_cache.READERS.let_go_all()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the data files whose footers were read since."""
    names: list[str] = []
    open_data_file = reader_cache.open_data_file

    def noting(file: Any, *arguments: Any) -> Any:
        names.append(Path(file.path).name)
        return open_data_file(file, *arguments)

    monkeypatch.setattr(reader_cache, "open_data_file", noting)
    return names


def rows(seed: int = 0) -> pa.Table:
    source = np.random.default_rng(seed)
    number = pa.array(source.integers(0, 1 << 40, ROWS), mask=source.random(ROWS) < 0.1)
    return pa.table(
        {
            "id": np.arange(ROWS),
            "number": number,
            "text": [f"text {seed} {row * 7919 % ROWS}" for row in range(ROWS)],
            "kind": [f"kind {row % 7}" for row in range(ROWS)],
            "items": [[row, seed][: row % 3] for row in range(ROWS)],
        }
    )


def written(path: Path, table: pa.Table, version: str = "2.2") -> Path:
    """Write a table, whose files are not young any more."""
    lance.write_dataset(table, path, max_rows_per_file=20_000, data_storage_version=version)
    settle(path)
    return path


def settle(path: Path, seconds: int = 60) -> None:
    then = time.time() - seconds
    for file in path.rglob("*.lance"):
        if file.is_file():
            os.utime(file, (then, then))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "2.3"])
def test_a_table_that_is_opened_again_has_the_same_rows(
    tmp_path: Path, opened: list[str], version: str
) -> None:
    table = rows()
    path = written(tmp_path / "t.lance", table, version)
    wanted = [0, 7, 20_001, 59_999]
    for _ in range(3):
        dataset = lancefs.open(path)
        assert dataset.take(wanted).equals(table.take(wanted))
        assert dataset.head(10, columns=["text", "items"]).equals(
            table.select(["text", "items"]).slice(0, 10)
        )
        assert dataset.to_table().equals(table)
        assert dataset.take([59_999]).equals(table.slice(59_999, 1))
    assert len(opened) == 3  # once each


def test_the_sizes_of_rows_are_estimated_once_for_a_table_that_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rows()
    lance.write_dataset(table, tmp_path / "t.lance", data_storage_version="2.2")
    settle(tmp_path / "t.lance")
    estimated: list[list[str]] = []
    estimate = row_estimates._estimate

    def noting(reader: FragmentReader, fields: Sequence[Field]) -> RowSizes:
        estimated.append([field.name for field in fields])
        return estimate(reader, fields)

    monkeypatch.setattr(row_estimates, "_estimate", noting)
    for _ in range(3):
        dataset = lancefs.open(tmp_path / "t.lance")
        found = dataset.to_table(columns=["number"], filter="kind = 'kind 3'")
        assert found["number"].equals(table.filter(pc.field("kind") == "kind 3")["number"])
    assert ["number"] in estimated
    assert len(estimated) == len(set(map(tuple, estimated)))


def test_young_files_are_read_again(tmp_path: Path, opened: list[str]) -> None:
    """A write that follows at once might not change the time of modification."""
    path = written(tmp_path / "t.lance", rows())
    settle(path, seconds=-60)
    for _ in range(2):
        assert lancefs.open(path).head(1)["id"].to_pylist() == [0]
    assert len(opened) == 2


def test_a_table_that_is_written_anew_under_the_same_names_is_seen(tmp_path: Path) -> None:
    """As by a copy of other data over the files of a table, of the same sizes or not."""
    first, other = rows(), rows(seed=1)
    path = written(tmp_path / "t.lance", first)
    assert lancefs.open(path).take([7, 20_007]).equals(first.take([7, 20_007]))
    again = written(tmp_path / "other.lance", other)
    names = [sorted((where / "data").iterdir()) for where in (path, again)]
    shutil.rmtree(path / "_versions")
    shutil.copytree(again / "_versions", path / "_versions")
    for mine, theirs in zip(*names, strict=True):
        mine.unlink()
        shutil.copy(theirs, path / "data" / theirs.name)
    settle(path, seconds=30)
    assert lancefs.open(path).take([7, 20_007]).equals(other.take([7, 20_007]))


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_a_file_that_is_rewritten_in_place_is_read_anew(tmp_path: Path, version: str) -> None:
    """The number of rows and the size stay the same; the values and the dictionaries do not."""
    whole, turned = (
        pa.table(
            {
                "a": np.random.default_rng(seed).random(ROWS),
                "b": [f"{kind}{row % 5}" for row in range(ROWS)],
            }
        )
        for seed, kind in enumerate("kl")
    )
    path = written(tmp_path / "t.lance", whole, version)
    other = written(tmp_path / "other.lance", turned, version)
    assert lancefs.open(path).take([3]).equals(whole.slice(3, 1))
    order = [
        [fragment.files[0].path for fragment in lancefs.open(where).fragments]
        for where in (path, other)
    ]
    for mine, theirs in zip(*order, strict=True):
        data = (other / "data" / theirs).read_bytes()
        assert len(data) == (path / "data" / mine).stat().st_size
        (path / "data" / mine).write_bytes(data)
    settle(path, seconds=30)
    assert lancefs.open(path).take([3, 20_003]).equals(turned.take([3, 20_003]))


def test_versions_of_a_table_that_share_files_have_columns_of_their_own(tmp_path: Path) -> None:
    table = rows()
    path = written(tmp_path / "t.lance", table)
    dataset = lance.dataset(path)
    dataset.add_columns({"twice": "id * 2"})
    dataset.alter_columns({"path": "text", "name": "words"})
    dataset.drop_columns(["number"])
    settle(path)
    latest = table.drop_columns(["number"]).rename_columns(["id", "words", "kind", "items"])
    latest = latest.append_column("twice", pa.array(np.arange(ROWS) * 2))
    for _ in range(2):
        assert lancefs.open(path, version=1).take([5]).equals(table.slice(5, 1))
        assert lancefs.open(path).take([5]).select(latest.column_names).equals(latest.slice(5, 1))


def test_closing_forgets(tmp_path: Path, opened: list[str]) -> None:
    path, other = (written(tmp_path / name, rows()) for name in ("t.lance", "t.lance2.lance"))
    for where in (path, other):
        lancefs.open(where).head(1)
    dataset = lancefs.open(path)
    dataset.close()
    opened.clear()
    lancefs.open(other).head(1)
    assert opened == []
    lancefs.open(path).head(1)
    assert len(opened) == 1


def test_what_is_known_is_within_the_budget_and_holds_no_memory_of_files(
    tmp_path: Path, opened: list[str]
) -> None:
    path = written(tmp_path / "t.lance", rows())
    MAPPED_FILES.let_go_all()
    gc.disable()  # the files must not wait for the garbage collector
    try:
        for _ in range(2):
            dataset = lancefs.open(path)
            assert dataset.take([1, 20_001])["kind"].to_pylist() == ["kind 1", "kind 2"]
            assert len(MAPPED_FILES) == 2
            del dataset
            assert len(MAPPED_FILES) == 0
    finally:
        gc.enable()
    assert len(opened) == 2
    reader_cache.READERS.let_go_all()
    lancefs.open(path).head(1)
    assert len(opened) == 3


def test_a_file_that_is_gone_is_missing_however_much_is_known_of_it(tmp_path: Path) -> None:
    path = written(tmp_path / "t.lance", rows())
    lancefs.open(path).head(1)
    shutil.rmtree(path / "data")
    with pytest.raises(MissingFile):
        lancefs.open(path).head(1)


def test_the_fragments_of_a_small_manifest_are_made_once(tmp_path: Path) -> None:
    path = written(tmp_path / "t.lance", rows())
    first, again = lancefs.open(path).manifest, lancefs.open(path).manifest
    assert again.fragments is first.fragments
    lance.dataset(path).delete("id = 3")
    newer = lancefs.open(path)
    assert newer.count_rows() == ROWS - 1
    assert newer.take([3])["id"].to_pylist() == [4]
    assert lancefs.open(path, version=1).take([3])["id"].to_pylist() == [3]


def test_a_deletion_file_is_decoded_once(tmp_path: Path) -> None:
    path = written(tmp_path / "t.lance", rows())
    lance.dataset(path).delete("id % 100 = 7")
    found = []
    for _ in range(2):
        dataset = lancefs.open(path)
        assert dataset.take([7])["id"].to_pylist() == [8]
        found.append(dataset.opened.readers[0].deleted)
    assert found[0] is found[1]
    assert not found[0].flags.writeable


IN_A_POOL = """
import gc
import pyarrow as pa
import lancefs
from lancefs.table import reader_cache

usual = pa.default_memory_pool()
pool = pa.proxy_memory_pool(usual)
pa.set_memory_pool(pool)
for limit in (10, 2000):
    lancefs.open(sys.argv[1]).scanner(limit=limit).to_table()
lancefs.open(sys.argv[1]).take([5, 700])
assert reader_cache._CACHED
pa.set_memory_pool(usual)
gc.collect()
assert pool.bytes_allocated() == 0, pool.bytes_allocated()
"""


def test_what_is_known_lies_in_no_pool_of_a_user(tmp_path: Path) -> None:
    """A pool that its user drops takes the memory of buffers with it."""
    path = written(tmp_path / "t.lance", rows())
    run_python(IN_A_POOL.replace("sys.argv[1]", repr(str(path))))
