"""Rows in a row of many plain columns of a local file (data files 2.1 and later).

A batch of a wide table has few rows of each column, so that what Python does for a column takes
longer than to decode its rows. What is needed for that is therefore put together once for a file;
a batch costs one call of the kernel of point reads for each group of columns, and a slice and an
array for each column. A column is plain if its pages are mini-block pages of numbers, or of other
values of a fixed width, without a dictionary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Ints
from lancefs.datafile.fields import Field
from lancefs.datafile.kernels import take_points
from lancefs.datafile.kernels.points import POSITIONS, LeafColumn, PageColumn
from lancefs.datafile.v2_1.point_plans import LeafPlan, PlanTable
from lancefs.datafile.v2_1.points import Points, in_groups, leaf_memory
from lancefs.storage import ByteRange, Bytes


class _Column(NamedTuple):
    """Where the values of a column are in the memory of its group.

    Attributes:
        data_type: The type of the values.
        start: Where the values begin.
        size: Bytes of the values.
        validity: Where their validity begins; -1 where no page has levels.
    """

    data_type: pa.DataType
    start: int
    size: int
    validity: int


class _ColumnGroup(NamedTuple):
    """Columns that share memory.

    Attributes:
        leaves: The columns as the kernel takes them; see `LeafColumn`.
        size: Bytes of the memory.
        columns: The same columns.
    """

    leaves: Ints
    size: int
    columns: Sequence[_Column]


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
        self.others = [field for field, plan in zip(fields, plans, strict=True) if plan is None]
        self._table = PlanTable([plan for plan in plans if plan is not None])
        self._are_plain = [plan is not None for plan in plans]
        self.span: ByteRange = self._table.span
        self._pages = self._table.pages.copy()
        self._pages[:, POSITIONS] -= self.span[0]
        self._groups: tuple[int, Sequence[_ColumnGroup]] = 0, ()

    def read(self, data: Bytes, start: int, stop: int) -> Points:
        """Read rows of the plain columns.

        Args:
            data: The bytes of the file in `span`.
            start: The first row.
            stop: The row after the last one.

        Raises:
            CorruptFile: A page is damaged.
        """
        count, rows = stop - start, np.arange(start, stop)
        arrays, size, places = list[pa.Array](), 0, 0
        for group in self._grouped(count):
            out, numbers = take_points([data], self._pages, group.leaves, rows, group.size)
            *nulls, seen, found = numbers.tolist()
            size, places = size + seen, places + found
            memory = pa.py_buffer(out)
            for column, null in zip(group.columns, nulls, strict=True):
                data_type, at, length, validity = column
                valid = memory.slice(validity, -(-count // 8)) if null else None
                buffers = [valid, memory.slice(at, length)]
                arrays.append(pa.Array.from_buffers(data_type, count, buffers, null))
        return Points(arrays, size, places)

    def pages_with(self, start: int, stop: int) -> int:
        """Return the number of pages of the plain columns that hold some of these rows."""
        first, rows = self._pages[:, PageColumn.FIRST_ROW], self._pages[:, PageColumn.ROWS]
        return int(np.count_nonzero((first < stop) & (first + rows > start)))

    def merged(self, plain: Sequence[pa.Array], others: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the arrays of all columns, in their order."""
        if not others:
            return list(plain)
        left, rest = iter(plain), iter(others)
        return [next(left) if is_plain else next(rest) for is_plain in self._are_plain]

    def _grouped(self, count: int) -> Sequence[_ColumnGroup]:
        """Return the columns in groups that share memory, for so many rows of each."""
        known, groups = self._groups
        if known != count:
            groups = list(self._groups_of(count))
            self._groups = count, groups
        return groups

    def _groups_of(self, count: int) -> Iterator[_ColumnGroup]:
        table = self._table
        wanted = np.broadcast_to(np.array([0, count]), (len(table.plans), 2))
        for leaves in in_groups(table.plans, wanted[:, 1]):
            memory = leaf_memory(table.counts, table.bits, table.has_levels, wanted, leaves)
            plans = table.plans[leaves.start : leaves.stop]
            rows = memory.leaves.tolist(), memory.lengths.tolist()
            columns = [
                _Column(plan.data_type, row[LeafColumn.OUT], length, row[LeafColumn.VALIDITY])
                for plan, row, length in zip(plans, *rows, strict=True)
            ]
            yield _ColumnGroup(memory.leaves, memory.size, columns)
