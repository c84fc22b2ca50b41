"""Rows of a data file 0.1, as Arrow arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import RowRange, offsets_of
from lancefs.datafile.fields import Field
from lancefs.datafile.fieldwise import read_fields
from lancefs.datafile.legacy.column import Column, DictionaryValues
from lancefs.datafile.legacy.footer import Tail, read_footer
from lancefs.datafile.legacy.offsets import read_spans
from lancefs.datafile.legacy.page_slots import Pieces, cut
from lancefs.datafile.legacy.page_table import PageTable
from lancefs.datafile.legacy.registry import read_column
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.storage import File, Steps, together

if TYPE_CHECKING:
    from lancefs.datafile.row_sizes import PageSizes


class LegacyReader:
    """Reads fields of one data file 0.1. Its columns go by field id.

    Args:
        file: The file.

    Raises:
        MissingFile: The file is gone.
        CorruptFile: It is not a data file, or damaged.
        UnsupportedFeature: It is of another format.
    """

    def __init__(self, file: File) -> None:
        self.file = file
        tail = Tail(file)
        self.footer = read_footer(tail)
        self._table = PageTable(tail, self.footer)
        self._dictionaries = {
            field_id: DictionaryValues(field.dictionary)
            for field_id, field in self.footer.fields.items()
            if field.dictionary is not None
        }

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        return int(self.footer.batch_offsets[-1])

    def read(self, field: Field, ranges: Sequence[RowRange]) -> Steps[pa.Array]:
        """Read rows of a field as an array of its storage type.

        Args:
            field: The field, pruned to what the file holds; its id finds the pages, its type and
                whether it is nullable say what they mean.
            ranges: Rows of the file, ascending and disjoint.

        Raises:
            CorruptFile: The file does not hold the field or the rows, or it is damaged.
            UnsupportedFeature: The field's type or encoding is not known in data files 0.1.
        """
        yield from self._table.load(list(_with_pages(field)))
        with locating(self.file.url):
            return (yield from self._read(field, cut(ranges, self.footer.batch_offsets)))

    def read_all(
        self, fields: Sequence[Field], ranges: Sequence[RowRange]
    ) -> Steps[list[pa.Array]]:
        """Read the same rows of several fields; see `read`. Errors name the field."""
        return read_fields(self.read, self.file.url, fields, ranges)

    def page_sizes(self, fields: Sequence[Field]) -> list[list[PageSizes]]:
        """Return as many bytes of the file for each field with pages, since it tells none."""
        from lancefs.datafile.row_sizes import PageSizes

        with_pages = sum(field.has_pages for field in self.footer.fields.values())
        share = self.file.size // max(with_pages, 1)
        pages = PageSizes((0, self.num_rows), (share,))
        return [[pages for _ in _with_pages(field)] for field in fields]

    def _read(self, field: Field, pieces: Pieces) -> Steps[pa.Array]:
        with locating(place=f"field {field.id} ({field.name})"):
            if field.is_blob:
                raise UnsupportedFeature("blob columns in data files 0.1")
            data_type = field.storage_type
            if field.logical_type == "struct":
                return (yield from self._read_struct(field, data_type, pieces))
            if field.children:
                return (yield from self._read_list(field, data_type, pieces))
            column = Column(
                data_type,
                field.nullable,
                self._table[field.id],
                self._dictionaries.get(field.id),
            )
            encoding = self.footer.fields[field.id].encoding
            if field.is_outline:
                from lancefs.datafile.legacy import outlines

                return (yield from outlines.read(encoding, column, pieces))
            return (yield from read_column(encoding, column, pieces))

    def _read_struct(
        self, field: Field, data_type: pa.StructType, pieces: Pieces
    ) -> Steps[pa.StructArray]:
        steps = [self._read(child, pieces) for child in field.children]
        children = yield from together(steps)
        return pa.Array.from_buffers(data_type, pieces.count, [None], children=children)

    def _read_list(self, field: Field, data_type: pa.DataType, pieces: Pieces) -> Steps[pa.Array]:
        """Read lists: a page of offsets, which count from the page of the items."""
        if not (pa.types.is_list(data_type) or pa.types.is_large_list(data_type)):
            raise UnsupportedFeature(f"{data_type} in data files 0.1")
        width = np.int64 if pa.types.is_large_list(data_type) else np.int32
        spans = yield from read_spans(self._table[field.id], pieces, np.iinfo(width).bits)
        some = spans.starts < spans.ends
        wanted = Pieces(pieces.batches[some], spans.starts[some], spans.ends[some])
        if wanted.count > np.iinfo(width).max:
            raise CorruptFile(f"more than {np.iinfo(width).max} items in one array")
        items = yield from self._read(field.children[0], wanted)
        offsets = pa.py_buffer(offsets_of(spans.lengths).astype(width, copy=False))
        return pa.Array.from_buffers(data_type, pieces.count, [None, offsets], children=[items])


def _with_pages(field: Field) -> Iterator[int]:
    """Yield the ids of what has pages, at and below a field: all but structs."""
    return (part.id for part in field.walk() if part.logical_type != "struct")
