"""Rows in a row of many columns of a local file (data files 2.1 and later).

A batch of a wide table has few rows of each column, so that what Python does for a column takes
longer than to decode its rows. What is needed for that is therefore put together once for a file;
a batch costs a call of one kernel for numbers and of another one for strings, and a slice and an
array for each column. A column is plain if its pages are mini-block pages of numbers or other
values of a fixed width, without a dictionary, or pages of strings; see `text_columns`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Ints
from lancefs.datafile.buffers import join_bytes, reserve
from lancefs.datafile.fields import Field
from lancefs.datafile.kernels import read_plain
from lancefs.datafile.kernels.points import POSITIONS, LeafColumn, PageColumn, Stored
from lancefs.datafile.v2_1.point_plans import LeafPlan, PlanTable, PointForm
from lancefs.datafile.v2_1.points import Points, in_groups, leaf_memory
from lancefs.datafile.v2_1.text_columns import TextColumns
from lancefs.storage import ByteRange, Bytes

# Bytes of chunk tables that are kept at most; more are looked at in the file.
_MOST_TABLES = 4 * 1024 * 1024


class _PlainLayout(NamedTuple):
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


class PlainColumns:
    """The plain ones of some columns of a file, read at the same rows again and again.

    Args:
        fields: The columns.
        plans: The plan of each; None where it is not plain. One is, at least.

    Attributes:
        fields: The columns.
        others: Those that are not plain.
        span: Byte range of the file that has all pages of plain columns.
    """

    def __init__(self, fields: Sequence[Field], plans: Sequence[LeafPlan | None]) -> None:
        self.fields = tuple(fields)
        plain = [(place, plan) for place, plan in enumerate(plans) if plan is not None]
        numbers = [each for each in plain if each[1].form is PointForm.VALUES]
        texts = [each for each in plain if each[1].form is not PointForm.VALUES]
        others = [place for place, plan in enumerate(plans) if plan is None]
        self.others = [fields[place] for place in others]
        # Where the columns are that are read as numbers, as texts, and in another way.
        self._places = [*(place for place, _ in (*numbers, *texts)), *others]
        self._table = PlanTable([plan for _, plan in (*numbers, *texts)])
        self.span: ByteRange = self._table.span
        self._pages = self._table.pages  # which nobody else has
        self._pages[:, POSITIONS] -= self.span[0]
        chunks = self._pages[:, PageColumn.CHUNKS : PageColumn.CHUNKS_END + 1]
        self._stored = int((chunks[:, 1] - chunks[:, 0]).sum())  # bytes of all chunks
        self._kept: tuple[Ints, Bytes] | None = None
        self._layout: tuple[int, _PlainLayout] | None = None
        self._numbers = len(numbers)
        first = int(self._table.counts[: self._numbers].sum())
        self._texts = (
            TextColumns([plan for _, plan in texts], self._pages[first:], first) if texts else None
        )

    def read(self, data: Bytes, descriptor: int, rows: tuple[int, int]) -> Points:
        """Read rows of the plain columns: the numbers, then the texts.

        Args:
            data: The bytes of the file in `span`.
            descriptor: A descriptor of the file, which is read in place of mapped bytes; or -1.
            rows: The first row, and the row after the last one.

        Raises:
            CorruptFile: A page is damaged.
            UnsupportedFeature: A dictionary is of a kind that is not known.
            TooLarge: The rows have too many bytes, and fewer may be read; see `reserve`.
            MemoryLimitExceeded: They have too many bytes.
        """
        (pages, kept), file = self._with_tables(data), (descriptor, self.span[0])
        tables = data if kept is None else kept
        found = Points([], 0, 0)
        if self._numbers:
            found = self._read_numbers((tables, data, file, pages), rows)
        if self._texts is None:
            return found
        arrays, looked_at = self._texts.read(data, tables, file, pages, rows, self._stored)
        size, places = looked_at
        return Points([*found.arrays, *arrays], found.size + size, found.places + places)

    def _read_numbers(
        self, source: tuple[Bytes, Bytes, tuple[int, int], Ints], rows: tuple[int, int]
    ) -> Points:
        """Read rows of the columns of numbers; `source` has the first arguments of `read_plain`."""
        count = rows[1] - rows[0]
        layout = self._laid_out(count)
        reserve(sum(layout.sizes), self._stored)
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

    @property
    def cost(self) -> int:
        """Bytes of the chunk tables and dictionaries that are kept."""
        tables = 0 if self._kept is None else len(self._kept[1])
        return tables + (0 if self._texts is None else self._texts.cost)

    def pages_with(self, rows: tuple[int, int]) -> int:
        """Return the number of pages of the plain columns that hold some of these rows."""
        first, count = self._pages[:, PageColumn.FIRST_ROW], self._pages[:, PageColumn.ROWS]
        return int(np.count_nonzero((first < rows[1]) & (first + count > rows[0])))

    def merged(self, plain: Sequence[pa.Array], others: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the arrays of all columns, in their order."""
        arrays = dict(zip(self._places, (*plain, *others), strict=True))
        return [arrays[place] for place in range(len(self.fields))]

    def _with_tables(self, data: Bytes) -> tuple[Ints, Bytes | None]:
        """Return the pages, and the chunk tables that they refer to; None where `data` has them.

        The tables are copied: they lie all over the file, and mapped bytes around each of them
        would be brought into memory.
        """
        if self._kept is not None:
            return self._kept
        # The index of a full-zip page is looked at where it is: only where some rows are.
        has_table = np.flatnonzero(self._pages[:, PageColumn.VALUES] != Stored.ZIPPED)
        bounds = self._pages[has_table, PageColumn.TABLE : PageColumn.TABLE_END + 1]
        if int((bounds[:, 1] - bounds[:, 0]).sum()) > _MOST_TABLES:
            return self._pages, None
        tables = [data[start:end] for start, end in bounds.tolist()]
        ends, pages = np.cumsum([len(table) for table in tables]), self._pages.copy()
        pages[has_table, PageColumn.TABLE_END] = ends
        pages[has_table, PageColumn.TABLE] = ends - [len(table) for table in tables]
        self._kept = pages, join_bytes([np.empty(0, np.uint8), *tables]).copy()
        return self._kept

    def _laid_out(self, count: int) -> _PlainLayout:
        """Return where so many rows of each column are written; the last one is kept."""
        known = self._layout
        if known is None or known[0] != count:
            known = self._layout = count, self._lay_out(count)
        return known[1]

    def _lay_out(self, count: int) -> _PlainLayout:
        table, parts, sizes, columns = self._table, list[Ints](), list[int](), []
        plans = table.plans[: self._numbers]
        wanted = np.broadcast_to(np.array([0, count]), (len(plans), 2))
        for number, leaves in enumerate(in_groups(plans, wanted[:, 1])):
            memory = leaf_memory(table.counts, table.bits, table.has_levels, wanted, leaves)
            own = memory.leaves[:, : LeafColumn.FIRST_WANTED]
            ends = np.append(own[1:, LeafColumn.OUT], memory.size)
            parts.append(np.column_stack((own[:, :2], np.full(len(own), number), own[:, 2:], ends)))
            sizes.append(memory.size)
            for plan, (_, _, at, validity), length in zip(
                plans[leaves.start : leaves.stop],
                own.tolist(),
                memory.lengths.tolist(),
                strict=True,
            ):
                columns.append((plan.data_type, number, at, length, validity))
        return _PlainLayout(np.concatenate(parts), sizes, columns)
