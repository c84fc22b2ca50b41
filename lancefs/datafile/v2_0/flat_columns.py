"""Contiguous rows of flat columns of a local file (data files 2.0).

Flat values that are not compressed are stored in Arrow's form, with a bit for each that tells
whether it is valid. Rows of one page are therefore the mapped file, without a copy; where the page
is, is worked out once for all columns of a file, since Python takes longer for each column than to
find its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Ints
from lancefs.datafile.kernels.pages import PageColumn, Stored
from lancefs.datafile.v2_1.point_plans import LeafPlan, PlanTable
from lancefs.storage import ByteRange, Bytes


class FlatRows(NamedTuple):
    """Rows of flat columns.

    Attributes:
        arrays: The rows of each column that has them in one page, by its position.
        size: How many bytes they have.
    """

    arrays: Mapping[int, pa.Array]
    size: int


class FlatColumns:
    """The flat ones of some columns of a file, read at the same rows again and again.

    Args:
        numbers: Positions of the flat columns.
        plans: Their plans; see `LeafPlan.is_flat`.

    Attributes:
        span: Byte range of the file that has all of their pages.
    """

    def __init__(self, numbers: Sequence[int], plans: Sequence[LeafPlan]) -> None:
        table = PlanTable(plans)
        self.span: ByteRange = table.span
        self._types = [plan.data_type for plan in plans]
        self._numbers, self._pages = tuple(numbers), table.pages
        self._leaves = np.repeat(np.arange(len(plans)), table.counts)
        self._steps = np.array([_alignment(plan.bits) for plan in plans], np.int64)[self._leaves]

    def read(self, data: Bytes, rows: tuple[int, int]) -> FlatRows:
        """Read rows of those columns that have them in one page, aligned as Arrow wants them.

        Args:
            data: The bytes of the file in `span`.
            rows: The first row, and the row after the last one.
        """
        count, buffer = rows[1] - rows[0], pa.py_buffer(data)
        chosen = self._holding(rows, buffer.address)
        pages, leaves = self._pages[chosen], self._leaves[chosen].tolist()
        skipped, bits = rows[0] - pages[:, PageColumn.FIRST_ROW], pages[:, PageColumn.BITS]
        starts = pages[:, PageColumn.CHUNKS] - self.span[0] + skipped * bits // 8
        sizes = (count * bits + 7) // 8
        has_nulls = pages[:, PageColumn.LEVELS] != Stored.NONE
        valid = pages[:, PageColumn.TABLE] - self.span[0] + skipped // 8
        make, cut, arrays = pa.Array.from_buffers, buffer.slice, dict[int, pa.Array]()
        where = (starts.tolist(), sizes.tolist(), np.where(has_nulls, valid, -1).tolist())
        for leaf, start, size, validity in zip(leaves, *where, strict=True):
            bitmap = cut(validity, (count + 7) // 8) if validity >= 0 else None
            values = [bitmap, cut(start, size)]
            arrays[self._numbers[leaf]] = make(
                self._types[leaf], count, values, 0 if bitmap is None else -1
            )
        return FlatRows(arrays, int(sizes.sum()) + int(has_nulls.sum()) * ((count + 7) // 8))

    def _holding(self, rows: tuple[int, int], address: int) -> Ints:
        """Return the pages that hold all of some rows as Arrow takes them."""
        pages, steps = self._pages, self._steps
        first, last = pages[:, PageColumn.FIRST_ROW], pages[:, PageColumn.ROWS]
        skipped, needed = rows[0] - first, rows[1] - first
        is_within = (skipped >= 0) & (needed <= last)
        bits, has_nulls = pages[:, PageColumn.BITS], pages[:, PageColumn.LEVELS] != Stored.NONE
        values, valid = pages[:, PageColumn.CHUNKS], pages[:, PageColumn.TABLE]
        is_whole = values + (needed * bits + 7) // 8 <= pages[:, PageColumn.CHUNKS_END]
        is_whole &= ~has_nulls | (valid + (needed + 7) // 8 <= pages[:, PageColumn.TABLE_END])
        is_aligned = (address - self.span[0] + values) % steps == 0
        is_aligned &= (skipped % 8 == 0) | ((bits > 1) & ~has_nulls)
        return np.flatnonzero(is_within & is_whole & is_aligned)


def _alignment(bits: int) -> int:
    """Return what the address of values has to be a multiple of."""
    width = bits // 8
    return min(8, width & -width) if width else 1
