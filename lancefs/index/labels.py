"""LABEL_LIST indices: for each distinct item of a column of lists, the rows whose lists have it.

Rows without a list are in a global buffer, from version 1 of the index on; empty lists are in none.

Format page: label list index (`docs/src/format/index/scalar/label_list.md`).
"""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import mask_of
from lancefs.datafile.buffers import Ints, UInts
from lancefs.datafile.row_ranges import as_ranges
from lancefs.errors import locating
from lancefs.index.address_maps import expanded, read_map
from lancefs.index.bitmap_counts import BitmapCounts
from lancefs.index.contents import Item, Leaf, Wanted, evaluate, leaves
from lancefs.index.files import IndexReader
from lancefs.index.predicates import ColumnTest
from lancefs.index.sort_keys import has_keys, sort_keys
from lancefs.storage.budget_cache import BudgetCache

if TYPE_CHECKING:
    from pyroaring import BitMap64

FILES = ("bitmap_page_lookup.lance",)

_NULLS = "lance:label_list_nulls"
# Items whose bitmaps are read for one filter, at most.
_MAX_ITEMS = 1024
# Bytes of bitmaps that a process keeps: rows are counted first, and named then.
_RECENT_BYTES = 64 * 1024 * 1024
# Memory of the open file, about.
_READER_BYTES = 8 * 1024

# By the segment and the position of the item.
_RECENT: BudgetCache[tuple[object, int], BitMap64] = BudgetCache(_RECENT_BYTES)


class LabelList:
    """One segment of a LABEL_LIST index, open: its distinct items are in memory.

    Args:
        file: The file of the items and their rows.
        rows: Rows of the table, by which the rows of many items are estimated.

    Raises:
        CorruptFile: The file is damaged.
        UnsupportedFeature: The items are of a type that is not compared here.
    """

    entries = None

    def __init__(self, file: IndexReader, rows: int) -> None:
        self._file = file
        self._rows = rows
        self._item_type = file.column_type("keys")
        if not has_keys(self._item_type):
            raise file.unsupported(f"a LABEL_LIST index over items of type {self._item_type}")
        (self._keys,) = file.read(["keys"])
        self._has_nulls = _NULLS in file.metadata
        is_plain = not pa.types.is_floating(self._item_type)
        if is_plain and len(pc.unique(self._keys)) != len(self._keys):
            raise file.damage("an item has two bitmaps")
        self._counts = BitmapCounts(file, len(self._keys), self._count)
        self._key = object()  # of its bitmaps in _RECENT

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return int(self._keys.nbytes) + self._counts.cost + _READER_BYTES

    def is_exact_for(self, test: ColumnTest) -> bool:
        """Whether all rows that it finds for a test pass; otherwise they may pass."""
        return test.contents_suffice

    def pages_for(self, test: ColumnTest) -> Ints | None:
        """Return the positions of the items to read for a test; None if it has no answer."""
        if test.contents is None or (test.keeps_null and not self._has_nulls):
            return None
        data_type = test.data_type
        is_list = pa.types.is_list(data_type) or pa.types.is_large_list(data_type)
        if not is_list or data_type.value_type != self._item_type:
            return None
        places = self._places_of(test.contents)
        if places is None or len(places) > _MAX_ITEMS:
            return None
        pages: Ints = np.unique(np.concatenate([np.empty(0, np.int64), *places.values()]))
        return pages

    def rows_in(self, pages: Ints) -> int:
        """Return how many rows have the rarest of some items; of many, if all are equally frequent.

        Rows that must have another item, too, may be as many. If they may have any, they are more,
        which `find` counts.

        Raises:
            CorruptFile: The index is damaged.
        """
        if not len(pages):
            return 0
        counts = self._counts.of(pages)
        return self._rows // max(len(self._keys), 1) if counts is None else int(counts.min())

    def find(self, pages: Ints, test: ColumnTest, most: int) -> UInts | None:
        """Return the numbers of the rows that pass a test; None for more than `most`.

        Args:
            pages: The positions of the items of the test.
            test: The test.
            most: Number of rows.

        Raises:
            CorruptFile: The index is damaged.
        """
        with locating(self._file.url):
            rows = self.rows_of(pages, test)
            return expanded(rows) if len(rows) <= most else None

    def rows_of(self, pages: Ints, test: ColumnTest) -> BitMap64:
        """Return the numbers of the rows that pass a test, as a set; arguments as for `find`.

        Raises:
            CorruptFile: The index is damaged.
        """
        from pyroaring import BitMap64

        assert test.contents is not None
        places = self._places_of(test.contents) or {}
        with locating(self._file.url):
            maps = dict(zip(pages.tolist(), self._read_maps(pages), strict=True))

            def rows_of(leaf: Leaf) -> BitMap64:
                return reduce(or_, (maps[place] for place in places[leaf].tolist()), BitMap64())

            rows = evaluate(test.contents, rows_of, and_, or_, BitMap64())
            assert rows is not None  # each leaf is known
            if test.keeps_null:
                rows = rows | read_map(self._file.buffer(self._file.number(_NULLS, 0)))
            return rows

    def _count(self, pages: Ints) -> list[int]:
        with locating(self._file.url):
            return [len(rows) for rows in self._read_maps(pages)]

    def _read_maps(self, pages: Ints) -> list[BitMap64]:
        """Return the rows of some items."""
        numbers = pages.tolist()
        kept = {number: _RECENT.peek((self._key, number)) for number in numbers}
        missing = [number for number, rows in kept.items() if rows is None]
        if missing:
            for number, data in zip(missing, self._read(missing), strict=True):
                kept[number] = rows = read_map(data)
                _RECENT.put((self._key, number), rows, len(data))
        return [rows for rows in kept.values() if rows is not None]

    def _read(self, items: list[int]) -> list[bytes]:
        """Return the serialized bitmaps of some items, by their positions."""
        (array,) = self._file.read(["bitmaps"], as_ranges(np.array(items, np.int64)))
        is_binary = pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)
        if not is_binary or array.null_count:
            raise self._file.damage("a bitmap for each item was expected")
        bitmaps: list[bytes] = array.to_pylist()
        return bitmaps

    def _places_of(self, content: Wanted) -> dict[Leaf, Ints] | None:
        """Return where the keys are that are equal to each item; None for other contents."""
        wanted = list(dict.fromkeys(leaves(content)))
        items = [leaf for leaf in wanted if isinstance(leaf, Item)]
        if len(items) < len(wanted) or any(item.value.type != self._item_type for item in items):
            return None
        values = pa.array([item.value for item in items], self._item_type)
        if pa.types.is_floating(self._item_type):  # -0.0 equals 0.0, and NaN is many
            keys = sort_keys(self._keys.fill_null(0))
            known = mask_of(self._keys.is_valid())
            return {
                item: np.flatnonzero(
                    known & ((keys == value) | ((keys != keys) & (value != value)))
                )
                for item, value in zip(items, sort_keys(values), strict=True)
            }
        found = pc.index_in(values, self._keys, skip_nulls=True)
        return {
            item: np.array([] if place is None else [place], np.int64)
            for item, place in zip(items, found.to_pylist(), strict=True)
        }
