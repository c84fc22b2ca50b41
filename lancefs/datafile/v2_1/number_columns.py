"""Contiguous rows of many columns of numbers of a local file (data files 2.1 and later).

The part of `PlainColumns` that reads numbers and other values of a fixed width: plain ones, packed
ones, and indices into dictionaries of pages. Dictionaries are decoded once rows of their pages are
read. Of columns that are read with dictionaries, those of all pages are joined to one, and the
numbers that the kernel looks up are the places of the items of a page in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import stored_values, to_arrow
from lancefs.datafile.blocks import Array, Block, FixedWidth, Ints
from lancefs.datafile.buffers import in_own_memory, reserve, to_arrow_numbers
from lancefs.datafile.decimals import decimal64_values
from lancefs.datafile.dictionary_chunks import unify_chunks
from lancefs.datafile.kernels import read_plain
from lancefs.datafile.kernels.plain import ItemParts
from lancefs.datafile.kernels.points import LeafColumn, PageColumn, Stored
from lancefs.datafile.v2_1.cached_pages import CachedPages, PlainSource, ReadOtherwise
from lancefs.datafile.v2_1.page_plans import DECIMAL64_BITS, PointForm, value_bits
from lancefs.datafile.v2_1.point_plans import LeafPlan
from lancefs.datafile.v2_1.points import KernelResult, in_groups, leaf_memory
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.storage import Bytes

# Items of all dictionaries of a column that is read with dictionaries, at most: all of them are
# decoded for the first rows.
_MAX_CODED = 64 * 1024
_CODE_BITS = 32


def is_coded(data_type: pa.DataType) -> bool:
    """Whether columns are read with dictionaries, and indices of 32 bits."""
    return bool(pa.types.is_dictionary(data_type) and data_type.index_type == pa.int32())


def are_read_as_numbers(plan: LeafPlan) -> bool:
    """Whether `NumberColumns` can read a leaf."""
    if plan.form is PointForm.VALUES:  # in chunks, which the pages of vectors may not have
        has_chunks = bool((plan.pages[:, PageColumn.VALUES] != Stored.WHOLE).all())
        return has_chunks and value_bits(plan.data_type) is not None
    if is_coded(plan.data_type):
        return int(plan.pages[:, PageColumn.ITEM_COUNT].sum()) <= _MAX_CODED
    bits = value_bits(plan.data_type) or 0
    return plan.form is PointForm.INDICES and bits > 0 and bits % 8 == 0


class _Layout(NamedTuple):
    """Where the rows of columns are written, for one number of rows.

    Attributes:
        leaves: The columns as the kernel takes them; see `PlainColumn`.
        sizes: Bytes of each memory that columns share.
        columns: For each column its type, its memory, where its values begin there, their bytes,
            and where its validity begins.
    """

    leaves: Ints
    sizes: Sequence[int]
    columns: Sequence[tuple[pa.DataType, int, int, int, int]]


class NumberColumns:
    """Columns of numbers of a file, read at the same rows again and again.

    Args:
        plans: The plan of each, which `are_read_as_numbers` passes.
        pages: Their pages, with positions within the bytes that are read.
        stored: Bytes of these pages, and of those that are read with them.
    """

    def __init__(self, plans: Sequence[LeafPlan], pages: Ints, stored: int) -> None:
        self._plans, self._stored = tuple(plans), stored
        self._counts = np.array([len(plan.pages) for plan in plans], np.int64)
        self._bits = np.array([_bits_of(plan) for plan in plans], np.int64)
        self._have_levels = np.array([plan.has_levels for plan in plans], np.bool_)
        self._items = _NumberPages(self._plans, pages)
        self._layout: tuple[int, _Layout] | None = None

    @property
    def cost(self) -> int:
        """Bytes of the dictionaries that are kept."""
        return self._items.cost

    def read(self, source: PlainSource, rows: tuple[int, int]) -> KernelResult:
        """Read rows of the columns.

        Args:
            source: What they are read from.
            rows: The first row, and the row after the last one.

        Raises:
            CorruptFile: A page is damaged.
            UnsupportedFeature: A dictionary is of a kind that is not known.
            ReadOtherwise: A dictionary has something that only the page-by-page path takes.
            MemoryLimitExceeded: The rows have too many bytes; see `reserve`.
        """
        count = rows[1] - rows[0]
        items, layout = self._items.parts_of(source.data, rows), self._find_layout(count)
        reserve(sum(layout.sizes), self._stored)
        memories, numbers = read_plain(*source, items, layout.leaves, rows, layout.sizes)
        *nulls, size, places = numbers.tolist()
        buffers, bitmap_size, arrays = [*map(pa.py_buffer, memories)], -(-count // 8), []
        make = pa.Array.from_buffers
        for leaf, ((data_type, memory, at, length, validity), null) in enumerate(
            zip(layout.columns, nulls, strict=True)
        ):
            buffer = buffers[memory]
            valid = buffer.slice(validity, bitmap_size) if null else None
            is_dictionary = is_coded(data_type)
            kind = data_type.index_type if is_dictionary else data_type
            array = make(kind, count, [valid, buffer.slice(at, length)], null)
            if is_dictionary:
                joined, is_ordered = (
                    self._items.join_dictionaries(leaf, source.data),
                    data_type.ordered,
                )
                array = pa.DictionaryArray.from_arrays(
                    array, joined.items, ordered=is_ordered, safe=False
                )
            arrays.append(array)
        return KernelResult(arrays, size, places)

    def _find_layout(self, count: int) -> _Layout:
        """Return where so many rows of each column are written; the last one is kept."""
        cached = self._layout
        if cached is None or cached[0] != count:
            cached = self._layout = count, self._lay_out(count)
        return cached[1]

    def _lay_out(self, count: int) -> _Layout:
        parts, sizes, columns = list[Ints](), list[int](), []
        plans, wanted = self._plans, np.broadcast_to(np.array([0, count]), (len(self._plans), 2))
        for number, leaves in enumerate(in_groups(self._bits, wanted[:, 1])):
            memory = leaf_memory(self._counts, self._bits, self._have_levels, wanted, leaves)
            own = memory.leaves[:, : LeafColumn.FIRST_WANTED]
            ends, bits = np.append(own[1:, LeafColumn.OUT], memory.size), self._bits[leaves]
            within = np.full(len(own), number)
            parts.append(np.column_stack((own[:, :2], within, own[:, 2:], ends, bits)))
            sizes.append(memory.size)
            for plan, (_, _, at, validity), length in zip(
                plans[leaves.start : leaves.stop],
                own.tolist(),
                memory.lengths.tolist(),
                strict=True,
            ):
                columns.append((plan.data_type, number, at, length, validity))
        return _Layout(np.concatenate(parts), sizes, columns)


def _bits_of(plan: LeafPlan) -> int:
    """Return the bits of each value, or code, of a leaf."""
    if is_coded(plan.data_type):
        return _CODE_BITS
    bits = value_bits(plan.data_type)
    assert bits is not None  # as `are_read_as_numbers` made sure
    return bits


class _Joined(NamedTuple):
    """The dictionaries of the pages of a column, joined.

    Attributes:
        items: The items of all pages, each once.
        places: For each page, where its items are among these (int32).
    """

    items: pa.Array
    places: Sequence[Array]


class _NumberPages(CachedPages[Array]):
    """Dictionaries of pages of numbers, or the places of their items in a joined one.

    Args:
        plans: The plan of each column.
        pages: Their pages, with positions within the bytes that are read.
    """

    def __init__(self, plans: Sequence[LeafPlan], pages: Ints) -> None:
        super().__init__(plans, pages, ItemParts(len(pages)))
        self._joined: dict[int, _Joined] = {}

    @property
    def cost(self) -> int:
        """Bytes that are kept."""
        return super().cost + sum([int(one.items.nbytes) for one in list(self._joined.values())])

    def read_part(self, page: int, data: Bytes) -> Array | None:
        """Return what the indices of a page are looked up in; see `CachedPages`."""
        leaf, number = self._places[page]
        plan = self._plans[leaf]
        if plan.form is PointForm.VALUES:
            return None
        if is_coded(plan.data_type):
            return self.join_dictionaries(leaf, data).places[number]
        block, bits = self._block(page, data), value_bits(plan.data_type)
        is_decimal64 = pa.types.is_decimal(plan.data_type) and bits == DECIMAL64_BITS
        if isinstance(block, FixedWidth):
            values = decimal64_values(block) if is_decimal64 else block
            if values is None:
                raise ReadOtherwise("an item takes more than 64 bits; it may be that of nulls")
            if values.bits == bits:
                return values.values.copy()  # it outlives the memory of the file
        raise CorruptFile(f"a dictionary of other values than {plan.data_type}")

    def bytes_of(self, part: Array) -> int:
        """Return how many bytes a part takes."""
        return int(part.nbytes)

    def join_dictionaries(self, leaf: int, data: Bytes) -> _Joined:
        """Return the dictionaries of the pages of a column, joined.

        Args:
            leaf: The number of the column.
            data: See `read_part`.

        Raises:
            ReadOtherwise: One of them cannot be read.
        """
        cached = self._joined.get(leaf)
        if cached is None:
            kind = self._plans[leaf].data_type.value_type
            own = [page for page, (of, _) in enumerate(self._places) if of == leaf]
            try:
                parts = [to_arrow(self._block(page, data), kind, None) for page in own]
            except (CorruptFile, UnsupportedFeature) as error:  # of a page that may not be wanted
                raise ReadOtherwise from error
            cached = self._joined[leaf] = _join(parts)
        return cached

    def _block(self, page: int, data: Bytes) -> Block:
        """Decode the dictionary of a page."""
        leaf, number = self._places[page]
        start, end = self._pages[page, PageColumn.ITEMS : PageColumn.ITEM_COUNT].tolist()
        return self._plans[leaf].dictionaries[number].block(data[start:end])


# Floats are joined by their bits: Arrow takes 0 and -0 for one item.
_BITS = {pa.float16(): pa.uint16(), pa.float32(): pa.uint32(), pa.float64(): pa.uint64()}


def _join(dictionaries: Sequence[pa.Array]) -> _Joined:
    """Join the dictionaries of pages, which are the same in most cases."""
    first, kind = dictionaries[0], dictionaries[0].type
    every = [np.arange(len(one), dtype=np.int32) for one in dictionaries]
    # Items of a bit each may be more or fewer, and have the same bytes.
    if all(len(one) == len(first) and one.buffers() == first.buffers() for one in dictionaries[1:]):
        return _Joined(in_own_memory(first), every)
    chunks = [
        pa.DictionaryArray.from_arrays(
            to_arrow_numbers(places), one.view(_BITS.get(kind, kind)), safe=False
        )
        for places, one in zip(every, dictionaries, strict=True)
    ]
    column = unify_chunks(pa.chunked_array(chunks))
    places = [stored_values(chunk.indices, "<i4").copy() for chunk in column.chunks]
    return _Joined(in_own_memory(column.chunk(0).dictionary.view(kind)), places)
