"""The values of a page with sparse structure: one for every leaf slot (format 2.3).

Every slot, null or not, has a constant or chunked value. Zipped values are stored only for slots
that are valid, also in all layers around them. Indexed values are an index for every slot, and the
zipped items that the indices point at.

Source of the facts: pages written by Lance 14, see protos/encodings_v2_3.proto.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from lancefs.datafile.blocks import (
    Block,
    Constant,
    Dictionary,
    Ints,
    Mask,
    RowRange,
    select,
    spread,
)
from lancefs.datafile.buffers import reserve
from lancefs.datafile.container import Page
from lancefs.datafile.row_ranges import count_rows
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.layouts.fullzip_page import ROW_VARIATION, FullZipPage
from lancefs.datafile.v2_1.layouts.miniblock_chunks import CHUNK_VARIATION, LARGE_CHUNK, MiniBlock
from lancefs.datafile.v2_1.layouts.miniblock_page import MiniBlockPage
from lancefs.datafile.v2_1.layouts.prefetch_ranges import Unplaced
from lancefs.errors import CorruptFile
from lancefs.proto import encodings_v2_1_pb2 as pb21
from lancefs.proto.encodings_v2_3_pb2 import ChunkedValues, IndexedValues, ZippedValues
from lancefs.storage import Reads


class SlotValues(Protocol):
    """Reads the values of leaf slots.

    Attributes:
        buffers: Number of the page's buffers, from the first on, that hold the values.
    """

    buffers: int

    @property
    def unplaced(self) -> Unplaced | None:
        """See `PageReader`."""
        ...

    def place(self, slots: int, valid: Mask | None) -> None:
        """Set the number of slots, and which are valid in all layers; None where all are."""
        ...

    def read(self, ranges: Sequence[RowRange]) -> Reads[Block]:
        """Read the values of ranges of slots."""
        ...


class ConstantSlots:
    """The same value, or none, in all slots."""

    buffers = 0
    unplaced = None

    def __init__(self, value: bytes | None) -> None:
        self.value = value

    def place(self, slots: int, valid: Mask | None) -> None:
        """Do nothing: a constant needs no slots."""

    def read(self, ranges: Sequence[RowRange]) -> Reads[Block]:
        """Read the values of ranges of slots."""
        yield []
        return Constant(self.value, count_rows(ranges))


class ChunkedSlots:
    """A value in every slot, in chunks."""

    def __init__(self, page: Page, chunked: ChunkedValues) -> None:
        self.page = page
        self.chunked = chunked
        self.buffers = 2 + chunked.HasField("dictionary")
        self._inner: MiniBlockPage | None = None

    @property
    def unplaced(self) -> Unplaced | None:
        """See `PageReader`."""
        if self._inner is not None:
            return self._inner.unplaced
        start, end = self.page.buffers[0]
        return Unplaced(self.page.buffers[1], (end - start) // LARGE_CHUNK, CHUNK_VARIATION)

    def place(self, slots: int, valid: Mask | None) -> None:
        """Open the chunks as a page without nulls, one value a slot."""
        layout = chunks(self.chunked, slots)
        layout.layers.append(pb21.REPDEF_ALL_VALID_ITEM)
        inner = Page(slots, self.page.buffers[: self.buffers], self.page.encoding)
        self._inner = MiniBlockPage(inner, MiniBlock(layout))

    def read(self, ranges: Sequence[RowRange]) -> Reads[Block]:
        """Read the values of ranges of slots."""
        assert self._inner is not None
        return (yield from self._inner.read(ranges)).values


class ZippedSlots:
    """A value for every valid slot, in a full-zip page."""

    def __init__(self, page: Page, zipped: ZippedValues) -> None:
        self.page = page
        self.zipped = zipped
        self.buffers = zipped_buffers(zipped)
        self._inner: FullZipPage | None = None
        self._valid: Mask | None = None  # which slots have a value; None where all have one
        self._before: Ints = np.zeros(1, np.int64)  # number of values stored before each slot

    @property
    def unplaced(self) -> Unplaced | None:
        """See `PageReader`."""
        if self.buffers < 2:
            return None
        return Unplaced(self.page.buffers[0], self.page.rows, ROW_VARIATION)

    def place(self, slots: int, valid: Mask | None) -> None:
        """Open the values as a page with one row for each valid slot."""
        self._valid, stored = valid, slots
        if valid is not None:
            reserve(2 * 8 * slots)  # the running total, and its copy
            self._before = np.concatenate((np.zeros(1, np.int64), np.cumsum(valid)))
            stored = int(self._before[-1])
        inner = Page(stored, self.page.buffers[: self.buffers], self.page.encoding)
        self._inner = FullZipPage(inner, all_valid_zipped(self.zipped))

    def read(self, ranges: Sequence[RowRange]) -> Reads[Block]:
        """Read the values of ranges of slots."""
        assert self._inner is not None
        if self._valid is None:
            return (yield from self._inner.read(ranges)).values
        stored = [(int(self._before[start]), int(self._before[end])) for start, end in ranges]
        rows = yield from self._inner.read([span for span in stored if span[0] < span[1]])
        return spread(rows.values, select(self._valid, ranges))


class IndexedSlots:
    """An index for every slot, and the items that the indices point at."""

    def __init__(self, page: Page, indexed: IndexedValues) -> None:
        self.page = page
        self.indexed = indexed
        self.buffers = 1 + zipped_buffers(indexed.items)
        items = int(indexed.items.num_items)
        inner = Page(items, page.buffers[1 : self.buffers], page.encoding)
        self._items = FullZipPage(inner, all_valid_zipped(indexed.items))
        self._slots = 0
        self._indices: Ints | None = None
        self.unplaced = None  # the values of rows that follow each other may be any items

    def place(self, slots: int, valid: Mask | None) -> None:
        """Set the number of slots."""
        self._slots = slots

    def read(self, ranges: Sequence[RowRange]) -> Reads[Block]:
        """Read the values of ranges of slots, each item once."""
        if self._indices is None:
            (data,) = yield [self.page.buffers[0]]
            self._indices = registry.decode_sequence(self.indexed.indices, data, self._slots)
        items, position = np.unique(select(self._indices, ranges), return_inverse=True)
        if len(items) and items[-1] >= self.indexed.items.num_items:
            raise CorruptFile(f"index {items[-1]} of {self.indexed.items.num_items} items")
        rows = yield from self._items.read([(int(item), int(item) + 1) for item in items])
        return Dictionary(position.astype(np.uint32), rows.values)


def chunks(chunked: ChunkedValues, items: int) -> pb21.MiniBlockLayout:
    """Describe chunked values as a mini-block layout, without layers."""
    message = pb21.MiniBlockLayout(
        value_compression=chunked.compression,
        num_dictionary_items=chunked.num_dictionary_items,
        num_buffers=chunked.num_buffers,
        num_items=items,
        has_large_chunk=True,
    )
    if chunked.HasField("dictionary"):
        message.dictionary.CopyFrom(chunked.dictionary)
    return message


def zipped(values: ZippedValues) -> pb21.FullZipLayout:
    """Describe zipped values as a full-zip layout, without layers."""
    message = pb21.FullZipLayout(value_compression=values.compression)
    if values.WhichOneof("addressing") == "bits_per_value":
        message.bits_per_value = values.bits_per_value
    else:
        message.bits_per_offset = values.bits_per_offset
    return message


def all_valid_zipped(values: ZippedValues) -> pb21.FullZipLayout:
    """Describe zipped values without levels."""
    message = zipped(values)
    message.layers.append(pb21.REPDEF_ALL_VALID_ITEM)
    return message


def zipped_buffers(values: ZippedValues) -> int:
    """Return the number of buffers of zipped values: the bytes, and the index of their starts."""
    return 1 if values.WhichOneof("addressing") == "bits_per_value" else 2
