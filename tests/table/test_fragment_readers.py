"""Readers of fragments are made when they are asked for, and shared."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support import local_store

import lancefs
from lancefs.storage.shared_budget import SharedBudget
from lancefs.table import fragment_reader
from lancefs.table.base_paths import TableFiles
from lancefs.table.fragment_readers import FragmentReaders


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
