"""Readers of fragments are made when they are asked for, and shared."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support import local_store

import lancefs
from lancefs.storage.shared_budget import SharedBudget
from lancefs.table import fragment_reader, fragment_readers
from lancefs.table.base_paths import TableFiles
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_readers import FragmentReaders
from lancefs.table.fragment_run import FragmentRun


@pytest.fixture
def readers(tmp_path: Path) -> FragmentReaders:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(6)}), path, max_rows_per_file=1)
    manifest = lancefs.open(path).manifest
    files = TableFiles(local_store(path), manifest.base_paths)
    return FragmentReaders(files, manifest.fragments, manifest.fields)


def test_a_reader_is_made_once_and_slices_share_it(readers: FragmentReaders) -> None:
    assert len(readers) == 6
    assert readers[2] is readers[2]
    part = readers[2:5]
    assert [reader.fragment.id for reader in part] == [2, 3, 4]
    assert part[0] is readers[2]
    assert part[1:][0] is readers[3]


def test_the_readers_that_were_used_last_are_kept(
    readers: FragmentReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragment_reader, "READERS", SharedBudget(lambda: 4, 1 << 40))
    first, second, *_ = (readers[position] for position in range(4))
    assert readers[0] is first
    assert readers[4] is not None  # in place of those that were not asked for since
    assert readers[0] is first
    assert readers[1] is not second


def test_a_pass_over_few_fragments_keeps_their_readers(readers: FragmentReaders) -> None:
    assert [readers[position] for position in range(6)] == list(readers)
    assert all(reader.is_cached for reader in readers)


def test_a_pass_over_many_fragments_keeps_the_readers_of_open_files(
    readers: FragmentReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragment_readers, "_FEW_FRAGMENTS", 5)
    readers = FragmentReaders(readers[0].files, readers._fragments, readers[0].fields)
    first, second, *_ = readers
    assert not first.is_cached
    assert first.read(first.fields, [(0, 1)])[0].to_pylist() == [0]
    assert first.is_cached
    assert next(iter(readers)) is first is readers[0]
    assert readers[1] is not second
    assert second.read(second.fields, [(0, 1)])[0].to_pylist() == [1]  # with files of its own
    second.let_go()
    assert not second.is_cached
    assert readers[1].is_cached
    readers.close()
    assert not first.is_cached
    assert first.read(first.fields, [(0, 1)])[0].to_pylist() == [0]


def test_files_of_a_run_are_held_by_kept_readers_only(tmp_path: Path) -> None:
    rows = pa.table({"a": range(600)})
    lance.write_dataset(rows, tmp_path, max_rows_per_file=100, data_storage_version="2.1")
    readers = lancefs.open(tmp_path).opened.readers

    def held(run: FragmentRun) -> set[bool]:
        assert run.read(run.readers[0].fields, [(0, 600)])[0].to_pylist() == [*range(600)]
        return {one.file(one.fragment.files[0]).is_in_memory for one in run.readers}

    passing = [FragmentReader(one.files, one.fragment, one.fields) for one in readers]
    assert held(FragmentRun(passing)) == {False}
    assert held(FragmentRun(list(readers))) == {True}
