"""The page table: for each field and batch, where its page is.

Docs: `Metadata.page_table_position` in `file.proto`. A matrix of (position, length) pairs of i64: a
row for each field id from the smallest to the largest of the file, a column for each batch. Ids
without pages have pairs of 0.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from lancefs.datafile.blocks import Ints
from lancefs.datafile.legacy.footer import Footer, Tail
from lancefs.datafile.legacy.page_slots import Pages
from lancefs.errors import CorruptFile, locating
from lancefs.storage import ByteRange, Bytes, Steps

_LONGEST = 1 << 48


class PageTable:
    """The page table of a file, of which rows are read when they are asked for.

    Args:
        tail: The end of the file.
        footer: What it says.
    """

    def __init__(self, tail: Tail, footer: Footer) -> None:
        self.tail = tail
        self.footer = footer
        self._first_id: int | None = None
        self._pages: dict[int, Pages] = {}

    def __getitem__(self, field_id: int) -> Pages:
        """Return the pages of a field that was loaded."""
        return self._pages[field_id]

    def load(self, field_ids: Collection[int]) -> Steps[None]:
        """Read where the pages of fields are.

        Raises:
            CorruptFile: A field is not in the file, or the table is damaged.
        """
        with locating(self.tail.file.url, "page table"):
            wanted = sorted(set(field_ids) - self._pages.keys())
            missing = [field_id for field_id in wanted if field_id not in self.footer.fields]
            if missing:
                raise CorruptFile(f"field {missing[0]} is wanted, the file does not hold it")
            if not wanted:
                return
            if self._first_id is None:
                self._first_id = yield from self._find_first_id()
            first = self._first_id
            rows = yield from self._read([self._row(field_id - first) for field_id in wanted])
            for field_id, row in zip(wanted, rows, strict=True):
                self._pages[field_id] = self._parse(field_id, row)

    def _find_first_id(self) -> Steps[int]:
        """Return the field id of the first row.

        Writers before 0.8 started at 0, whatever the smallest id was. They left the rows of ids
        that the file lacks empty; a field with pages has none of length 0 at position 0.
        """
        smallest = min(self.footer.fields)
        if smallest == 0 or self.footer.batch_offsets[-1] == 0:
            return smallest
        probe = min((i for i, field in self.footer.fields.items() if field.has_pages), default=None)
        if probe is None:
            return smallest
        row = yield from self._read([self._row(probe - smallest)])
        return smallest if row[0].any() else 0

    def _read(self, ranges: list[ByteRange]) -> Steps[list[Bytes]]:
        cuts = [self.tail.cut(start, end) for start, end in ranges]
        found = [data for data in cuts if data is not None]
        return found if len(found) == len(ranges) else list((yield ranges))

    def _row(self, row: int) -> ByteRange:
        size = 16 * self.footer.num_batches
        start = self.footer.page_table + row * size
        if start + size > self.tail.size:
            raise CorruptFile(
                f"row {row} ends at byte {start + size}, the file at {self.tail.size}"
            )
        return start, start + size

    def _parse(self, field_id: int, row: Bytes) -> Pages:
        pairs: Ints = np.frombuffer(row.tobytes(), "<i8").astype(np.int64).reshape(-1, 2)
        positions, lengths = pairs[:, 0], pairs[:, 1]
        limit = self.tail.size
        if np.any(positions < 0) or np.any(positions > limit):
            raise CorruptFile(f"field {field_id} has a page that starts outside of the file")
        wrong = (lengths < 0) | (lengths > _LONGEST)
        if np.any(wrong):
            raise CorruptFile(f"field {field_id} has a page of {lengths[wrong][0]} values")
        return Pages(positions, lengths, limit)
