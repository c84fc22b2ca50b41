"""All rows of many small data files, decoded together (data files 2.0).

Small appends leave thousands of files with one page in each column. Plain pages (see `plain_pages`)
of a column in all of these files are decoded as one here: their buffers are joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import to_arrow
from lancefs.datafile.blocks import FixedWidth, Ints, Mask, VariableWidth, offsets_of, typed
from lancefs.datafile.buffers import check_size, join_bytes
from lancefs.datafile.container import parse_description
from lancefs.datafile.fields import Field
from lancefs.datafile.kernels import decode_fsst, gather
from lancefs.datafile.kernels.footers import MAX_BUFFERS, FileColumn
from lancefs.datafile.kernels.fsst import SymbolTable
from lancefs.datafile.page_ranges import join_arrays
from lancefs.datafile.v2_0.array_page import Slots, as_integers, as_unsigned
from lancefs.datafile.v2_0.descriptions import check_column, parse_form
from lancefs.datafile.v2_0.encodings import look_up
from lancefs.datafile.v2_0.plain_pages import DictionaryForm, PageForm, PlainForm
from lancefs.datafile.v2_1.small_files import SmallFiles, SmallRows, SupportedField
from lancefs.errors import CorruptFile, MemoryLimitExceeded, Refusal, UnsupportedFeature
from lancefs.proto import encodings_v2_0_pb2 as pb
from lancefs.storage import Bytes, count_pages

_FOOTER = 40
_TABLES_AT, _COUNT_AT = slice(16, 24), slice(24, 28)  # of global buffers, in the footer
_ENTRY = 16
_MAX_ADJUSTMENT = (1 << 63) - 1  # more is added to no offset
# Between the tables and the footer of files that Lance 0.10 wrote before the format was final.
_TRIED_OUT = 8


class _NotPlain(Exception):
    """Pages are not plain, so that the page-by-page path reads them."""


class _PlainPages(NamedTuple):
    """The plain pages of a column, one in each file.

    Attributes:
        table: The pages; see `FileColumn`: int64, shape (pages, columns).
        forms: What the description of each page tells.
        rows: The number of rows of each page: int64, shape (pages,).
        data: The bytes of all files.
    """

    table: Ints
    forms: Sequence[PlainForm]
    rows: Ints
    data: Bytes

    @property
    def form(self) -> PlainForm:
        """A form that tells all but the adjustment and the symbols, which pages differ in."""
        return self.forms[0]

    def buffer(self, buffer: pb.Buffer) -> tuple[Ints, Ints]:
        """Return where a buffer of each page begins and ends.

        Raises:
            CorruptFile: A page lacks the buffer.
            UnsupportedFeature: It is no buffer of a page.
        """
        if buffer.buffer_type != pb.Buffer.page:
            raise UnsupportedFeature(f"buffers of kind {buffer.buffer_type}")
        index = int(buffer.buffer_index)
        if index >= MAX_BUFFERS or (self.table[:, FileColumn.BUFFERS] <= index).any():
            raise CorruptFile(f"buffer {index} of a page is wanted, which has fewer")
        first = FileColumn.FIRST + 2 * index
        return self.table[:, first], self.table[:, first + 1]

    def join(self, buffer: pb.Buffer, sizes: Ints) -> Bytes:
        """Return the first bytes of a buffer of all pages, one after the other.

        Args:
            buffer: The buffer.
            sizes: Bytes of each page: int64, shape (pages,).

        Raises:
            CorruptFile: A buffer is shorter.
        """
        starts, ends = self.buffer(buffer)
        if (sizes > ends - starts).any():
            raise CorruptFile("a buffer is too short for the values of a page")
        return gather(self.data, starts, starts + sizes)


def is_supported(files: SmallFiles, versions: Ints) -> bool:
    """Return whether all files have the format 2.0, as it was in the end.

    Args:
        files: The files.
        versions: Major and minor version of each file, as its footer tells: int64, shape (files,
            2).
    """
    if not (versions == (0, 3)).all():
        return False
    ends = files.bounds[:, 1]
    footers = files.data[ends[:, None] - _FOOTER + np.arange(_FOOTER)]
    tables = footers[:, _TABLES_AT].copy().view("<u8")[:, 0].astype(np.int64)
    counts = footers[:, _COUNT_AT].copy().view("<u4")[:, 0].astype(np.int64)
    sizes = ends - files.bounds[:, 0]
    return bool((tables + _ENTRY * counts != sizes - _FOOTER - _TRIED_OUT).all())


def decode_small(files: SmallFiles, supported: Sequence[SupportedField], tables: Ints) -> SmallRows:
    """Decode all rows of those fields whose pages are plain.

    Args:
        files: The files, with the same columns.
        supported: The fields; see `supported_fields`.
        tables: The page of each field in each file; see `FileColumn`: int64, shape (fields, files,
            columns).
    """
    arrays: dict[int, pa.Array] = {}
    refusal: Refusal | None = None
    for (field, _, bits), table in zip(supported, tables, strict=True):
        try:
            arrays[field.id] = _rows_of(field, bits, table, files)
        except (CorruptFile, UnsupportedFeature) as error:
            refusal = refusal or error
        except (MemoryLimitExceeded, _NotPlain):
            pass  # page by page, less is decoded at once
    count_pages(len(arrays) * len(files.rows))
    return SmallRows(arrays, refusal, len(files.data))


def _rows_of(field: Field, bits: int, table: Ints, files: SmallFiles) -> pa.Array:
    """Decode all rows of a field.

    Args:
        field: The field.
        bits: Bits of a value; 0 for strings.
        table: The page of the field in each file: int64, shape (files, columns of `FileColumn`).
        files: The files.

    Raises:
        CorruptFile: A page is damaged.
        UnsupportedFeature: A description is of a kind that is not known.
        MemoryLimitExceeded: The rows have too many bytes.
        _NotPlain: A page is not plain.
    """
    slots = [_slots_of(*part, bits) for part in _parts(table, files)]
    parts = [to_arrow(one.values, field.storage_type, one.valid) for one in slots]
    return join_arrays(parts, field.storage_type)


def _parts(table: Ints, files: SmallFiles) -> Iterator[tuple[_PlainPages, Sequence[PageForm]]]:
    """Yield the pages of a column, those that follow each other and are alike as one.

    Raises:
        CorruptFile: A description is damaged, or the pages have not the rows of the files.
        UnsupportedFeature: A description is of a kind that is not known.
        _NotPlain: A page is not plain.
    """
    if (table[:, FileColumn.ROWS] != files.rows).any():
        raise CorruptFile("pages do not have the rows of their files")
    bounds = table[:, [FileColumn.ENCODING, FileColumn.ENCODING_END]].tolist()
    for encoding in {files.data[start:end].tobytes() for start, end in bounds}:
        check_column(parse_description(encoding))
    likes = table[:, FileColumn.LIKE]
    distinct = np.flatnonzero(likes == np.arange(len(table)))
    forms = [_form_of(page, files.data) for page in table[distinct].tolist()]
    kinds = np.array([_first_like(forms, form) for form in forms])
    which = np.searchsorted(distinct, likes)
    edges = np.flatnonzero(kinds[which][1:] != kinds[which][:-1]) + 1
    for start, end in pairwise([0, *edges.tolist(), len(table)]):
        own = [forms[at] for at in which[start:end].tolist()]
        rows = files.rows[start:end]
        yield _PlainPages(table[start:end], (), rows, files.data), own


def _first_like(forms: Sequence[PageForm], form: PageForm) -> int:
    return next(at for at, other in enumerate(forms) if _are_alike(other, form))


def _are_alike(one: PageForm, other: PageForm) -> bool:
    if isinstance(one, PlainForm):
        return isinstance(other, PlainForm) and one.is_like(other)
    return isinstance(other, DictionaryForm) and one.is_like(other)


def _form_of(page: Sequence[int], data: Bytes) -> PageForm:
    """Return what the description of a page tells."""
    start, end = page[FileColumn.DESCRIPTION], page[FileColumn.DESCRIPTION_END]
    form = parse_form(parse_description(data[start:end].tobytes()))
    if form is None:
        raise _NotPlain("a page that is not plain")
    return form


def _slots_of(pages: _PlainPages, forms: Sequence[PageForm], bits: int) -> Slots:
    """Decode pages that are alike.

    Args:
        pages: The pages, without their forms.
        forms: The form of each page.
        bits: Bits of a value; 0 for strings.
    """
    plain = [form for form in forms if isinstance(form, PlainForm)]
    if plain:
        own = pages._replace(forms=plain)
        if (own.form.text is None) != bool(bits):
            raise _NotPlain("values of another kind than the column's")
        return _values(own) if bits else _strings(own)
    coded = [form for form in forms if isinstance(form, DictionaryForm)]
    if bits:
        raise _NotPlain("numbers with a dictionary")
    return _look_up_strings(pages, coded)


def _look_up_strings(pages: _PlainPages, forms: Sequence[DictionaryForm]) -> Slots:
    """Return strings out of the dictionaries of pages."""
    counts = np.array([form.num_items for form in forms], np.int64)
    items = _strings(pages._replace(forms=[form.items for form in forms], rows=counts))
    stored = _values(pages._replace(forms=[form.indices for form in forms]))
    indices = as_unsigned(stored.values, "the indices into a dictionary").astype(np.uint64)
    if (indices > np.repeat(counts, pages.rows).astype(np.uint64)).any():
        raise CorruptFile("an index is beyond the items of its dictionary")
    before = np.repeat(np.cumsum(counts) - counts, pages.rows).astype(np.uint64)
    joined = np.where(indices > 0, indices + before, 0).astype(np.uint32)
    return look_up(Slots(FixedWidth(32, joined), stored.valid), items, zero_based=False)


def _values(pages: _PlainPages) -> Slots:
    """Return values of a fixed width."""
    flat = pages.form.values
    valid = None if flat.validity is None else _bits(pages, flat.validity).view(np.bool_)
    if flat.bits == 1:
        return Slots(FixedWidth(1, _bits(pages, flat.values)), valid)
    data = pages.join(flat.values, pages.rows * (flat.bits // 8))
    return Slots(FixedWidth(flat.bits, typed(data, flat.bits)), valid)


def _bits(pages: _PlainPages, buffer: pb.Buffer) -> Bytes:
    """Return single bits, in a byte each."""
    sizes = (pages.rows + 7) // 8
    bits = np.unpackbits(pages.join(buffer, sizes), bitorder="little")
    skipped = 8 * (np.cumsum(sizes) - sizes) - (np.cumsum(pages.rows) - pages.rows)
    wanted: Bytes = bits[np.arange(int(pages.rows.sum())) + np.repeat(skipped, pages.rows)]
    return wanted


def _strings(pages: _PlainPages) -> Slots:
    """Return strings, of which pages store where they end."""
    form, rows = pages.form, pages.rows
    width = form.values.bits // 8
    stored = typed(pages.join(form.values.values, rows * width), form.values.bits)
    ends = as_integers(Slots(FixedWidth(form.values.bits, stored)), "the offsets of a page")
    if not len(ends):
        raise _NotPlain("pages without strings")
    ends, valid = _remove_adjustments(ends, pages)
    starts = np.zeros(len(ends), np.int64)
    starts[1:] = ends[:-1]
    lasts = np.cumsum(rows)
    starts[(lasts - rows)[rows > 0]] = 0
    if (ends < starts).any():
        raise CorruptFile("the offsets of a page do not ascend")
    check_size(int((ends - starts).sum()))
    assert form.text is not None  # as for all strings
    sizes = np.where(rows > 0, ends[np.maximum(lasts - 1, 0)], 0)
    text = pages.join(form.text, sizes)
    strings = VariableWidth(offsets_of(ends - starts), text)
    if form.symbols is not None:
        strings = _decode_symbols(strings, pages)
    return Slots(strings, valid)


def _remove_adjustments(ends: Ints, pages: _PlainPages) -> tuple[Ints, Mask | None]:
    """Return the ends of strings as they are, and which are valid; None where all are."""
    adjustments = [min(form.adjustment, _MAX_ADJUSTMENT) for form in pages.forms]
    adjustment = np.repeat(np.array(adjustments, np.int64), pages.rows)
    is_null = ends >= adjustment
    if not is_null.any():
        return ends, None
    return np.where(is_null, ends - adjustment, ends), ~is_null


def _decode_symbols(codes: VariableWidth, pages: _PlainPages) -> VariableWidth:
    """Return strings that are compressed with FSST, with the symbols of each page."""
    parts = list(_decode_alike(codes, pages))
    lengths = np.concatenate([np.empty(0, np.int64), *(np.diff(offsets) for offsets, _ in parts)])
    text = join_bytes([data[: int(offsets[-1])] for offsets, data in parts])
    return VariableWidth(offsets_of(lengths), text)


def _decode_alike(codes: VariableWidth, pages: _PlainPages) -> Iterator[tuple[Ints, Bytes]]:
    """Yield the strings of pages, those of pages with the same symbols together."""
    first = last = 0
    found = zip(map(_symbols_of, pages.forms), pages.rows.tolist(), strict=True)
    # By identity: equal tables are mostly one object, and the arrays of others cannot be compared.
    for _, group in groupby(found, lambda page: id(page[0])):
        alike = list(group)
        last += sum(rows for _, rows in alike)
        yield decode_fsst(alike[0][0], codes.offsets[first : last + 1], codes.data)
        first = last


def _symbols_of(form: PlainForm) -> SymbolTable:
    symbols = form.symbols
    assert symbols is not None  # as of all pages here
    return symbols
