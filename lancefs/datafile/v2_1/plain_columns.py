"""Contiguous rows of columns of a local file (data files 2.1 and later).

What Python does for a column takes longer than to decode a few rows of it, and no other thread can
decode meanwhile. What is needed for that is therefore put together once for a file; a batch costs a
call of one kernel for numbers and of another one for strings, and a slice and an array for each
column. A column is plain if its pages are mini-block pages of numbers or other values of a fixed
width (see `number_columns`), or pages of strings (see `text_columns`); so is a struct of such
columns that is never null.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Ints
from lancefs.datafile.buffers import join_bytes
from lancefs.datafile.fields import Field
from lancefs.datafile.kernels.points import POSITIONS, PageColumn, Stored
from lancefs.datafile.v2_1.cached_pages import PlainSource
from lancefs.datafile.v2_1.leaf_columns import LeafField
from lancefs.datafile.v2_1.number_columns import NumberColumns, are_read_as_numbers
from lancefs.datafile.v2_1.point_plans import LeafPlan, PlanTable
from lancefs.datafile.v2_1.points import KernelResult
from lancefs.datafile.v2_1.text_columns import TextColumns
from lancefs.storage import ByteRange, Bytes

# Bytes of chunk tables that are kept at most; more are looked at in the file.
_MAX_TABLES = 4 * 1024 * 1024


class PlainColumns:
    """The plain ones of some columns of a file, read at the same rows again and again.

    Args:
        fields: The columns.
        planned: The leaves of each, with their plans; none where it is not plain. One is, at least.

    Attributes:
        fields: The columns.
        are_plain: Whether each of them is plain. Several may have one id: of a struct, each with
            some of its members.
        others: The columns that are not plain.
        leaves: The leaves of plain columns, in the order in which they are read.
        span: Byte range of the file that has all pages of plain columns.
    """

    def __init__(
        self, fields: Sequence[Field], planned: Sequence[Sequence[tuple[LeafField, LeafPlan]]]
    ) -> None:
        self.fields = tuple(fields)
        self.are_plain = [bool(own) for own in planned]
        self.others = [field for field, own in zip(fields, planned, strict=True) if not own]
        leaves = [leaf for own in planned for leaf in own]
        numbers = [each for each in leaves if are_read_as_numbers(each[1])]
        texts = [each for each in leaves if not are_read_as_numbers(each[1])]
        self.leaves = [leaf for leaf, _ in (*numbers, *texts)]
        table = PlanTable([plan for _, plan in (*numbers, *texts)])
        self.span: ByteRange = table.span
        self._pages = table.pages  # not shared, so that it may change
        self._pages[:, POSITIONS] -= self.span[0]
        chunks = self._pages[:, PageColumn.CHUNKS : PageColumn.CHUNKS_END + 1]
        stored = int((chunks[:, 1] - chunks[:, 0]).sum())
        self._kept: tuple[Ints, Bytes] | None = None
        cut = int(table.counts[: len(numbers)].sum())
        self._parts: list[tuple[NumberColumns | TextColumns, slice]] = []
        for make, group, own in (
            (NumberColumns, numbers, slice(cut)),
            (TextColumns, texts, slice(cut, None)),
        ):
            if group:
                part = make([plan for _, plan in group], self._pages[own], stored)
                self._parts.append((part, own))

    def read(self, data: Bytes, descriptor: int, rows: tuple[int, int]) -> KernelResult:
        """Read rows of the leaves.

        Args:
            data: The bytes of the file in `span`.
            descriptor: A descriptor of the file, which is read in place of mapped bytes; or -1.
            rows: The first row, and the row after the last one.

        Raises:
            CorruptFile: A page is damaged.
            UnsupportedFeature: A dictionary is of a kind that is not known.
            ReadOtherwise: A dictionary has something that only the page-by-page path takes.
            TooLarge: The rows have too many bytes, and fewer may be read; see `reserve`.
            MemoryLimitExceeded: They have too many bytes.
        """
        (pages, kept), file = self._with_tables(data), (descriptor, self.span[0])
        tables = data if kept is None else kept
        found = [
            part.read(PlainSource(tables, data, file, pages[own]), rows)
            for part, own in self._parts
        ]
        arrays = [array for one in found for array in one.arrays]
        return KernelResult(
            arrays, sum([one.size for one in found]), sum([one.places for one in found])
        )

    @property
    def cost(self) -> int:
        """Bytes of the chunk tables and dictionaries that are kept."""
        tables = 0 if self._kept is None else len(self._kept[1])
        return tables + sum([part.cost for part, _ in self._parts])

    def pages_with(self, rows: tuple[int, int]) -> int:
        """Return the number of pages of the plain columns that hold some of these rows."""
        first, count = self._pages[:, PageColumn.FIRST_ROW], self._pages[:, PageColumn.ROWS]
        return int(np.count_nonzero((first < rows[1]) & (first + count > rows[0])))

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
        if int((bounds[:, 1] - bounds[:, 0]).sum()) > _MAX_TABLES:
            return self._pages, None
        tables = [data[start:end] for start, end in bounds.tolist()]
        ends, pages = np.cumsum([len(table) for table in tables]), self._pages.copy()
        pages[has_table, PageColumn.TABLE_END] = ends
        pages[has_table, PageColumn.TABLE] = ends - [len(table) for table in tables]
        self._kept = pages, join_bytes([np.empty(0, np.uint8), *tables]).copy()
        return self._kept
