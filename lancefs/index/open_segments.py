"""A process-wide cache of open index segments, within a memory budget."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from lancefs.index import bitmap, bloomfilter, btree, labels, ngram, zonemap
from lancefs.index.files import IndexReader
from lancefs.index.segments import IndexSegment
from lancefs.storage import SMALL, TAIL, File, holding_tails
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.base_paths import TableFiles
from lancefs.table.indices import INDICES

# Bytes of bounds of pages and of distinct values that a process keeps.
_BUDGET = 64 * 1024 * 1024


class HasCost(Protocol):
    """What is kept within a budget."""

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        ...


# A segment that answers tests of its column: `pages_for` says which pages, zones or bitmaps are
# read for a test, `rows_in` how many rows these have, and `find` names the rows that pass.
OpenSegment: TypeAlias = (
    btree.BTree
    | bitmap.Bitmap
    | bloomfilter.BloomFilter
    | labels.LabelList
    | ngram.NGram
    | zonemap.ZoneMap
)
# The open segment with its files, whose filesystem no other one can be mistaken for while it lives.
_OPENED: BudgetCache[tuple[object, ...], tuple[OpenSegment, list[File]]] = BudgetCache(_BUDGET)


def open_segment(kind: str, segment: IndexSegment, files: TableFiles, rows: int) -> OpenSegment:
    """Open a segment, or return it as it was opened before.

    Args:
        kind: Kind of the index.
        segment: The segment.
        files: Finds the files of the version.
        rows: Rows that the index has at most.

    Raises:
        MissingFile: A file is gone.
        CorruptFile: A file is damaged.
        UnsupportedFeature: The index is laid out in a way that this release does not read.
    """
    names, make = _KINDS[kind]
    found = [index_file(segment, name, files) for name in names]
    key = (kind, *(part for file in found for part in identity_of(file)))

    def opened() -> tuple[OpenSegment, list[File]]:
        first = found[0]  # it is read as a whole, where it is small: bounds of pages, or values
        if not first.store.is_local and first.size <= SMALL:
            first.tail = first.size
        with holding_tails(found):
            return make([IndexReader(file, files.max_memory) for file in found], rows), found

    return _OPENED.get(key, opened, cost_of)[0]


def cost_of(entry: tuple[HasCost, Sequence[File]]) -> int:
    """Return the memory that an open segment takes, about, with that of its files.

    Of remote files the ends are kept.
    """
    segment, files = entry
    return segment.cost + sum(max(TAIL, file.tail) for file in files if not file.store.is_local)


def index_file(segment: IndexSegment, name: str, files: TableFiles) -> File:
    """Return a file of a segment.

    Args:
        segment: The segment.
        name: Name of the file.
        files: Finds the files of the version.
    """
    index = segment.index
    return files.file(INDICES, f"{index.uuid}/{name}", index.base_id, segment.file(name).size)


def identity_of(file: File) -> tuple[object, ...]:
    """Return what tells a file from any other one: no path is used again for other bytes.

    Of a local file, the time of its last change is added: files are damaged and restored by hand.
    """
    if file.store.is_local:
        path = file.store.full(file.path)
        try:
            status = os.stat(path)
        except OSError:
            return (path, None)
        return (path, status.st_mtime_ns, status.st_size, status.st_ino)
    return (id(file.store.fs), file.store.full(file.path), file.stamp)


_KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[list[IndexReader], int], OpenSegment]]] = {
    "BTree": (btree.FILES, lambda files, rows: btree.BTree(files[0], files[1])),
    "Bitmap": (bitmap.FILES, lambda files, rows: bitmap.Bitmap(files[0], rows)),
    "BloomFilter": (bloomfilter.FILES, lambda files, rows: bloomfilter.BloomFilter(files[0])),
    "LabelList": (labels.FILES, lambda files, rows: labels.LabelList(files[0], rows)),
    "NGram": (ngram.FILES, lambda files, rows: ngram.NGram(files[0], rows)),
    "ZoneMap": (zonemap.FILES, lambda files, rows: zonemap.ZoneMap(files[0])),
}
