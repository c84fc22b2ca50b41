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
from lancefs.errors import locating
from lancefs.index.address_maps import expanded, read_map
from lancefs.index.contents import Item, Leaf, Wanted, evaluate, leaves
from lancefs.index.files import IndexReader
from lancefs.index.predicates import ColumnTest
from lancefs.index.sort_keys import has_keys, sort_keys
from lancefs.index.stored_bitmaps import StoredBitmaps

if TYPE_CHECKING:
    from pyroaring import BitMap64

FILES = ("bitmap_page_lookup.lance",)

_NULLS = "lance:label_list_nulls"
# Items whose bitmaps are read for one filter, at most.
_MAX_ITEMS = 1024
# Memory of the open file, about.
_READER_BYTES = 8 * 1024


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
        self._keys = file.read_keys("keys", "bitmaps")
        self._has_nulls = _NULLS in file.metadata
        is_plain = not pa.types.is_floating(self._item_type)
        if is_plain and len(pc.unique(self._keys)) != len(self._keys):
            raise file.damage("an item has two bitmaps")
        self._bitmaps = StoredBitmaps(file, len(self._keys), read_map)

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return int(self._keys.nbytes) + self._bitmaps.cost + _READER_BYTES

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
        counts = self._bitmaps.counts(pages)
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
            maps = dict(zip(pages.tolist(), self._bitmaps.read(pages), strict=True))

            def rows_of(leaf: Leaf) -> BitMap64:
                return reduce(or_, (maps[place] for place in places[leaf].tolist()), BitMap64())

            rows = evaluate(test.contents, rows_of, and_, or_, BitMap64())
            assert rows is not None  # each leaf is known
            if test.keeps_null:
                nulls = self._file.buffer(self._file.number(_NULLS, 0))
                rows = rows | read_map(nulls, self._file.url)
            return rows

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
