"""Rows in a row of many columns of numbers of a local file (data files 2.1 and later).

The part of `PlainColumns` that reads numbers and other values of a fixed width: plain ones, packed
ones, and indices into dictionaries of pages. Dictionaries are decoded once rows of their pages are
read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Array, FixedWidth, Ints
from lancefs.datafile.buffers import reserve
from lancefs.datafile.decimals import narrowed_values
from lancefs.datafile.kernels import read_plain
from lancefs.datafile.kernels.plain import ItemParts
from lancefs.datafile.kernels.points import LeafColumn, PageColumn
from lancefs.datafile.v2_1.known_pages import KnownPages
from lancefs.datafile.v2_1.point_plans import NARROW_BITS, LeafPlan, PointForm, value_bits
from lancefs.datafile.v2_1.points import Points, in_groups, leaf_memory
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes


def are_read_as_numbers(plan: LeafPlan) -> bool:
    """Whether `NumberColumns` can read a leaf."""
    if plan.form is PointForm.VALUES:
        return True
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
    """

    def __init__(self, plans: Sequence[LeafPlan], pages: Ints) -> None:
        self._plans = tuple(plans)
        self._counts = np.array([len(plan.pages) for plan in plans], np.int64)
        self._bits = np.array([value_bits(plan.data_type) for plan in plans], np.int64)
        self._have_levels = np.array([plan.has_levels for plan in plans], np.bool_)
        self._items = _NumberPages(self._plans, pages)
        self._layout: tuple[int, _Layout] | None = None

    @property
    def cost(self) -> int:
        """Bytes of the dictionaries that are kept."""
        return self._items.cost

    def read(
        self,
        data: Bytes,
        tables: Bytes,
        file: tuple[int, int],
        pages: Ints,
        rows: tuple[int, int],
        stored: int,
    ) -> Points:
        """Read rows of the columns.

        Args:
            data: The bytes that have the pages.
            tables: The bytes that have the chunk tables.
            file: See `read_plain`.
            pages: Their pages, with the positions of their tables in `tables`.
            rows: The first row, and the row after the last one.
            stored: Bytes of all pages.

        Raises:
            CorruptFile: A page is damaged.
            UnsupportedFeature: A dictionary is of a kind that is not known.
            MemoryLimitExceeded: The rows have too many bytes; see `reserve`.
        """
        count = rows[1] - rows[0]
        items, layout = self._items.parts_of(data, rows), self._laid_out(count)
        reserve(sum(layout.sizes), stored)
        source = tables, data, file, pages, items
        memories, numbers = read_plain(*source, layout.leaves, rows, layout.sizes)
        *nulls, size, places = numbers.tolist()
        buffers, bitmap_size, arrays = [*map(pa.py_buffer, memories)], -(-count // 8), []
        make = pa.Array.from_buffers
        for (data_type, memory, at, length, validity), null in zip(
            layout.columns, nulls, strict=True
        ):
            buffer = buffers[memory]
            valid = buffer.slice(validity, bitmap_size) if null else None
            arrays.append(make(data_type, count, [valid, buffer.slice(at, length)], null))
        return Points(arrays, size, places)

    def _laid_out(self, count: int) -> _Layout:
        """Return where so many rows of each column are written; the last one is kept."""
        known = self._layout
        if known is None or known[0] != count:
            known = self._layout = count, self._lay_out(count)
        return known[1]

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


class _NumberPages(KnownPages[Array]):
    """Dictionaries of pages of numbers.

    Args:
        plans: The plan of each column.
        pages: Their pages, with positions within the bytes that are read.
    """

    def __init__(self, plans: Sequence[LeafPlan], pages: Ints) -> None:
        super().__init__(pages, ItemParts(len(pages)))
        # The column of each page, and the number of the page in it.
        self._places = [(plan, number) for plan in plans for number in range(len(plan.pages))]

    def read_part(self, page: int, data: Bytes) -> Array | None:
        """Return the items of a page that has a dictionary; see `KnownPages`."""
        plan, number = self._places[page]
        if plan.form is PointForm.VALUES:
            return None
        start, end = self._pages[page, PageColumn.ITEMS : PageColumn.ITEM_COUNT].tolist()
        block = plan.parts[number].block(data[start:end])
        bits = value_bits(plan.data_type)
        is_narrow = pa.types.is_decimal(plan.data_type) and bits == NARROW_BITS
        if isinstance(block, FixedWidth):
            values = narrowed_values(block) if is_narrow else block
            if values is not None and values.bits == bits:
                return values.values.copy()  # it outlives the memory of the file
        raise CorruptFile(f"a dictionary of other values than {plan.data_type}")

    def bytes_of(self, part: Array) -> int:
        """Return how many bytes a dictionary has."""
        return part.nbytes
