"""Columns of many small files stay in memory for the next scan, while files and budget allow."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from comparison import assert_same_table

import lancefs
from lancefs.datafile import kernels
from lancefs.errors import LanceError, MissingFile
from lancefs.storage import local_folders
from lancefs.table import column_cache, fragment_readers, plain_files

FRAGMENTS, ROWS = 20, 100
NAMES = ["number", "word"]


@pytest.fixture(autouse=True)
def _long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions that pass for long ones, as those of which scans keep columns."""
    monkeypatch.setattr(fragment_readers, "_FEW_FRAGMENTS", 1)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return written(tmp_path / "t.lance", 0)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files each call of the kernel reads."""
    found: list[int] = []
    read = kernels.read_files

    def watched(*arguments: Any) -> Any:
        found.append(len(arguments[-1]))
        return read(*arguments)

    monkeypatch.setattr(plain_files.kernels, "read_files", watched)
    return found


def written(path: Path, first: int) -> Path:
    """Write a table of small fragments, of numbers from one on and a few words."""
    numbers = range(first, first + FRAGMENTS * ROWS)
    rows = pa.table({"number": numbers, "word": [f"word {number % 3}" for number in numbers]})
    lance.write_dataset(rows, path, max_rows_per_file=ROWS)
    return path


def data_files(path: Path) -> list[Path]:
    """Return the data files of a table, in the order of its fragments."""
    return [
        path / "data" / fragment.data_files()[0].path
        for fragment in lance.dataset(path).get_fragments()
    ]


def test_a_second_scan_reads_no_file(table: Path, reads: list[int]) -> None:
    expected, dataset = lance.dataset(table).to_table(), lancefs.open(table)
    assert_same_table(dataset.to_table(), expected)
    assert sum(reads) == FRAGMENTS
    assert_same_table(dataset.to_table(), expected)
    assert_same_table(dataset.to_table(columns=["word"]), expected.select(["word"]))
    assert_same_table(dataset.to_table(offset=150, limit=1000), expected.slice(150, 1000))
    assert sum(reads) == FRAGMENTS


def test_another_column_is_read_and_kept_beside_it(table: Path, reads: list[int]) -> None:
    expected, dataset = lance.dataset(table).to_table(), lancefs.open(table)
    for columns, files in ((["number"], 1), (NAMES, 2), (NAMES, 2), (["word"], 2)):
        assert_same_table(dataset.to_table(columns=columns), expected.select(columns))
        assert sum(reads) == files * FRAGMENTS


def test_words_are_kept_with_and_without_a_dictionary(table: Path, reads: list[int]) -> None:
    expected, dataset = lance.dataset(table).to_table(columns=["word"]), lancefs.open(table)
    for _ in range(2):
        encoded = dataset.scanner(["word"], dictionary_columns=["word"]).to_table()
        assert pa.types.is_dictionary(encoded.schema.field("word").type)
        assert encoded["word"].cast(pa.string()).equals(expected["word"])
        assert_same_table(dataset.to_table(columns=["word"]), expected)
        assert sum(reads) == 2 * FRAGMENTS


def test_filters_and_deleted_rows_are_those_of_the_version(table: Path) -> None:
    lance.dataset(table).delete("number % 7 = 3")
    expected, dataset = lance.dataset(table), lancefs.open(table)
    for filter in ("word = 'word 1'", "number > 777", None, "number > 777"):
        for _ in range(2):
            got = dataset.to_table(columns=NAMES, filter=filter)
            assert_same_table(got, expected.to_table(columns=NAMES, filter=filter))


def test_a_stream_gives_the_rows_that_are_kept(table: Path, reads: list[int]) -> None:
    expected, dataset = lance.dataset(table).to_table(), lancefs.open(table)
    for size in (64, 1000, 64, 100_000):
        batches = dataset.to_batches(columns=NAMES, batch_size=size)
        assert_same_table(pa.Table.from_batches(batches), expected)


@pytest.mark.parametrize("position", [0, 7, FRAGMENTS - 1])
def test_a_file_that_another_one_replaced_is_seen(
    table: Path, tmp_path: Path, position: int
) -> None:
    dataset = lancefs.open(table)
    dataset.to_table()
    other = data_files(written(tmp_path / "other.lance", 1_000_000))[position]
    file = data_files(table)[position]
    assert other.stat().st_size == file.stat().st_size  # its length does not tell
    os.replace(other, file)
    got = dataset.to_table()
    assert got["number"][position * ROWS].as_py() == 1_000_000 + position * ROWS
    assert_same_table(got, lance.dataset(table).to_table())


def test_a_file_that_was_written_over_is_seen(table: Path, tmp_path: Path) -> None:
    dataset = lancefs.open(table)
    dataset.to_table()
    file, other = data_files(table)[3], data_files(written(tmp_path / "other.lance", 1_000_000))[3]
    shutil.copyfile(other, file)
    os.utime(file, ns=(1, 1))  # clocks of filesystems tick slower than tests run
    assert_same_table(dataset.to_table(), lance.dataset(table).to_table())


def test_a_file_that_is_gone_is_missed(table: Path) -> None:
    dataset = lancefs.open(table)
    dataset.to_table()
    file = data_files(table)[3]
    file.unlink()
    with pytest.raises(MissingFile, match=file.name):
        dataset.to_table()


def test_a_link_in_place_of_a_file_is_held_to_the_rules(table: Path, tmp_path: Path) -> None:
    dataset = lancefs.open(table)
    expected = dataset.to_table()
    file = data_files(table)[3]
    beside = table / "moved"
    os.replace(file, beside)
    file.symlink_to(beside)
    assert_same_table(dataset.to_table(), expected)
    outside = Path(shutil.move(beside, tmp_path.parent / f"{tmp_path.name}-moved"))
    file.unlink()
    file.symlink_to(outside)
    try:
        with pytest.raises(LanceError, match="symbolic link"):
            dataset.to_table()
    finally:
        outside.unlink()


def test_columns_of_files_that_are_replaced_meanwhile_are_not_mixed(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are replaced after the check of one column, and before another one is read."""
    dataset = lancefs.open(table)
    dataset.to_table(columns=["number"])
    others = data_files(written(tmp_path / "other.lance", 1_000_001))
    read = kernels.read_files

    def replacing(*arguments: Any) -> Any:
        for file, other in zip(data_files(table), others, strict=True):
            if other.exists():
                os.replace(other, file)
        return read(*arguments)

    monkeypatch.setattr(plain_files.kernels, "read_files", replacing)
    assert_same_table(dataset.to_table(columns=NAMES), lance.dataset(table).to_table())


def test_closing_gives_the_memory_back(table: Path, reads: list[int]) -> None:
    dataset = lancefs.open(table)
    held = len(column_cache.SHARED)
    dataset.to_table()
    assert len(column_cache.SHARED) > held
    dataset.opened.close()
    assert len(column_cache.SHARED) == held
    assert dataset.to_table().num_rows == FRAGMENTS * ROWS
    assert sum(reads) == 2 * FRAGMENTS
    del dataset
    assert len(column_cache.SHARED) == held


@pytest.fixture
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_cache, "BUDGET", 1000)


@pytest.mark.usefixtures("_little")
def test_columns_beyond_the_budget_are_not_kept(table: Path, reads: list[int]) -> None:
    dataset = lancefs.open(table)
    for times in (1, 2):
        assert dataset.to_table().num_rows == FRAGMENTS * ROWS
        assert sum(reads) == times * FRAGMENTS


def test_the_least_recently_used_run_makes_room(
    table: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = column_cache.SharedBudget(lambda: 2, 1 << 30)
    monkeypatch.setattr(column_cache, "SHARED", budget)
    expected, datasets = lance.dataset(table).to_table(), [lancefs.open(table) for _ in range(3)]
    for dataset in (*datasets, datasets[0]):
        assert_same_table(dataset.to_table(), expected)
    assert sum(reads) == 4 * FRAGMENTS
    assert len(budget) <= 2


def test_without_descriptors_of_folders_rows_are_the_same(
    table: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_folders, "HAS_FOLDERS", False)
    expected, dataset = lance.dataset(table).to_table(), lancefs.open(table)
    for _ in range(2):
        assert_same_table(dataset.to_table(), expected)
    assert not reads
