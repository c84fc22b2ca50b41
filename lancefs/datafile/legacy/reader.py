"""Reader of data files 0.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import to_arrow_numbers
from lancefs.datafile.field_reader import read_fields
from lancefs.datafile.fields import Field
from lancefs.datafile.legacy import encodings
from lancefs.datafile.legacy.encodings import DictionaryValues, FileBytes, LegacyColumn, read_spans
from lancefs.datafile.legacy.footer import PageTable, Tail, read_footer
from lancefs.datafile.legacy.page_slots import SlotRanges, split_by_batch
from lancefs.datafile.row_ranges import filled, joined, places_within, rows_of
from lancefs.errors import CorruptFile, Refusal, UnsupportedFeature, locating
from lancefs.forks import cached_property
from lancefs.storage import File, Reads, SparseRanges, count_pages, run, together

# From `_FEW_RANGES` ranges of a file on that is not in memory, those with at most `_GAP` rows
# between them are read as one: a range takes as long as some dozen rows, but unwanted rows take
# memory.
_FEW_RANGES, _GAP = 64, 8

if TYPE_CHECKING:
    from lancefs.datafile.row_sizes import PageSizes
    from lancefs.datafile.v2_1.leaf_columns import LeafField


class LegacyReader:
    """Reads fields of one data file 0.1, which finds its columns by field id.

    Args:
        file: The file.
        rows: Number of rows that the file should have; None if it is not known.

    Raises:
        MissingFile: The file is gone.
        CorruptFile: The file is not a data file, or damaged, or has another number of rows.
        UnsupportedFeature: The file has another format.
    """

    decodes_dictionaries = False
    reads_decimal64 = False

    def __init__(self, file: File, rows: int | None = None) -> None:
        self.file = file
        tail = Tail(file)
        self.footer = read_footer(tail)
        stored = int(self.footer.batch_offsets[-1])
        if rows is not None and rows != stored:
            with locating(file.url):
                raise CorruptFile(f"{stored} rows, the manifest says {rows}")
        self._table = PageTable(tail, self.footer)
        self._dictionaries = {
            field_id: DictionaryValues(field.dictionary)
            for field_id, field in self.footer.fields.items()
            if field.dictionary is not None
        }

    @cached_property
    def num_rows(self) -> int:
        """Number of rows in the file.

        Raises:
            CorruptFile: The batch offsets tell another number than the pages.
        """
        run([(self.file, self._table.check_rows())])
        return int(self.footer.batch_offsets[-1])

    def read(self, field: Field, ranges: Sequence[RowRange]) -> Reads[pa.Array]:
        """Read rows of a field as an array of its storage type.

        Args:
            field: The field, pruned to what the file holds. Its id selects the pages; its type and
                nullability determine their meaning.
            ranges: Rows of the file, ascending and disjoint.

        Raises:
            CorruptFile: The file does not hold the field or the rows, or it is damaged.
            UnsupportedFeature: The field's type or encoding is not known in data files 0.1.
        """
        source = yield from self._source()
        with locating(self.file.url):
            slots = split_by_batch(ranges, self.footer.batch_offsets)
            return (yield from self._read_field(field, slots, source))

    def read_all(
        self, fields: Sequence[Field], ranges: Sequence[RowRange]
    ) -> Reads[list[pa.Array]]:
        """Read the same rows of several fields; see `read`. Errors name the field."""
        wanted, source = filled(ranges), (yield from self._source())
        is_joined = len(wanted) > _FEW_RANGES and source.data is None
        whole = joined(wanted, _GAP) if is_joined else wanted
        with locating(self.file.url):
            slots = split_by_batch(whole, self.footer.batch_offsets)

        def read(field: Field, _: Sequence[RowRange]) -> Reads[pa.Array]:
            return self._read_field(field, slots, source)

        arrays = yield from read_fields(read, self.file.url, fields, whole)
        if not is_joined:
            return arrays
        places = to_arrow_numbers(places_within(rows_of(wanted), whole))
        return [array.take(places) for array in arrays]

    def _source(self) -> Reads[FileBytes]:
        """Return where bytes of the file are taken from: from memory, if it is there."""
        if not self.file.is_in_memory:
            return FileBytes(None, self.file.looked_at)
        (data,) = yield SparseRanges([(0, self.file.size)])
        return FileBytes(data, self.file.looked_at)

    def _read_field(self, field: Field, slots: SlotRanges, source: FileBytes) -> Reads[pa.Array]:
        ids = list(_ids_with_pages(field))
        if not self._table.has(ids):
            yield from self._table.load(ids)
        return (yield from self._read(field, slots, source))

    def fetch(
        self,
        leaves: Sequence[LeafField],
        ranges: Sequence[RowRange],
        refusal: Refusal | None = None,
    ) -> None:
        """Return None: pages of data files 0.1 are decoded one by one."""

    def page_sizes(self, fields: Sequence[Field]) -> list[list[PageSizes]]:
        """Return the sizes of the pages of each field's columns.

        The file does not record the bytes of a page: each field gets an equal share of the file.
        """
        from lancefs.datafile.row_sizes import PageSizes

        columns = sum(field.has_pages for field in self.footer.fields.values())
        share = self.file.size // max(columns, 1)
        pages = PageSizes((0, int(self.footer.batch_offsets[-1])), (share,))
        return [[pages for _ in _ids_with_pages(field)] for field in fields]

    def _read(self, field: Field, slots: SlotRanges, source: FileBytes) -> Reads[pa.Array]:
        with locating(place=f"field {field.id} ({field.name})"):
            if field.is_blob:
                raise UnsupportedFeature("blob columns in data files 0.1")
            data_type = field.storage_type
            if field.logical_type == "struct":
                return (yield from self._read_struct(field, data_type, slots, source))
            if field.children and field.is_validity:
                return _empty_lists(data_type, slots.count)
            if field.children:
                return (yield from self._read_list(field, data_type, slots, source))
            column = LegacyColumn(
                data_type,
                field.nullable,
                self._table[field.id],
                source,
                self._dictionaries.get(field.id),
            )
            count_pages(slots.num_pages)
            return (
                yield from _reader_of(field)(self.footer.fields[field.id].encoding, column, slots)
            )

    def _read_struct(
        self, field: Field, data_type: pa.StructType, slots: SlotRanges, source: FileBytes
    ) -> Reads[pa.StructArray]:
        members = yield from together(
            [self._read(member, slots, source) for member in field.children]
        )
        return pa.Array.from_buffers(data_type, slots.count, [None], children=members)

    def _read_list(
        self, field: Field, data_type: pa.DataType, slots: SlotRanges, source: FileBytes
    ) -> Reads[pa.Array]:
        """Read lists: a page of offsets, which count from the start of the page of items."""
        if not (pa.types.is_list(data_type) or pa.types.is_large_list(data_type)):
            raise UnsupportedFeature(f"{data_type} in data files 0.1")
        offset_type = np.int64 if pa.types.is_large_list(data_type) else np.int32
        count_pages(slots.num_pages)
        width = np.iinfo(offset_type)
        spans = yield from read_spans(source, self._table[field.id], slots, width.bits)
        has_items = spans.starts < spans.ends
        item_slots = SlotRanges(
            slots.batches[has_items], spans.starts[has_items], spans.ends[has_items]
        )
        if spans.offsets[-1] > width.max:
            raise CorruptFile(f"more than {width.max} items in one array")
        items = yield from self._read(field.children[0], item_slots, source)
        offsets = pa.py_buffer(spans.offsets.astype(offset_type, copy=False))
        return pa.Array.from_buffers(data_type, slots.count, [None, offsets], children=[items])


def _reader_of(field: Field) -> encodings.ReadColumn:
    """Return what reads the values of a leaf, its outline, or its validity."""
    if field.is_validity:
        return encodings.read_validity
    return encodings.read_outline if field.is_outline else encodings.read_column


def _empty_lists(data_type: pa.DataType, count: int) -> pa.Array:
    """Return lists without items, of which none is null in a data file 0.1."""
    width = np.int64 if pa.types.is_large_list(data_type) else np.int32
    offsets = pa.py_buffer(np.zeros(count + 1, width))
    items = pa.nulls(0, data_type.value_type)
    return pa.Array.from_buffers(data_type, count, [None, offsets], children=[items])


def _ids_with_pages(field: Field) -> Iterator[int]:
    """Yield the ids of the fields with pages, at and below a field: all except structs."""
    return (part.id for part in field.walk() if part.logical_type != "struct")
