"""A few rows of plain pages, looked up in the bytes of a local file (data files 2.0).

The general way asks for the byte ranges of each buffer, which takes ten times as long as finding
some rows in a file that is mapped anyway. Plain are pages of flat values and of strings, also those
compressed with FSST, whose buffers are not compressed, and whose validity is stored as bits.

Docs: `encodings_v2_0.proto`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from lancefs.datafile.blocks import FixedWidth, Ints, Mask, VariableWidth, offsets_of
from lancefs.datafile.buffers import check_size, dtype_of
from lancefs.datafile.kernels import decode_fsst, gather
from lancefs.datafile.kernels.fsst import SymbolTable, parse_table
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots, as_integers
from lancefs.datafile.v2_0.extents import without_adjustment
from lancefs.errors import CorruptFile
from lancefs.proto import encodings_v2_0_pb2 as pb
from lancefs.storage import ByteRange, Bytes

MOST_ROWS = 4096  # that are looked up; more are quicker read in ranges
_MOST_BITS = 256  # of a value: those of a decimal
_INDEX_BITS = (8, 16, 32, 64)  # of an index into a dictionary
_MOST_ITEMS = 4096  # of a dictionary that is kept


class _Flat(NamedTuple):
    """Flat values: bits of each, and where they and their validity are."""

    bits: int
    values: pb.Buffer
    validity: pb.Buffer | None


class PlainForm(NamedTuple):
    """What the description of a plain page tells.

    Attributes:
        values: The values, or the ends of strings.
        text: The bytes of strings; None for values of a fixed width.
        adjustment: Number that is added to the end of a string that is null.
        symbols: By which strings are compressed with FSST; None where they are not.
    """

    values: _Flat
    text: pb.Buffer | None = None
    adjustment: int = 0
    symbols: SymbolTable | None = None

    def is_like(self, other: PlainForm) -> bool:
        """Return whether another form differs in nothing but the adjustment and the symbols."""
        apart = self._replace(adjustment=other.adjustment, symbols=other.symbols)
        return apart == other and (self.symbols is None) == (other.symbols is None)


class DictionaryForm(NamedTuple):
    """What the description tells of a page of strings with a dictionary.

    Attributes:
        indices: The indices, from 1 on; 0 stands for null.
        items: The strings.
        num_items: Number of these.
    """

    indices: PlainForm
    items: PlainForm
    num_items: int

    def is_like(self, other: DictionaryForm) -> bool:
        """Return whether another form differs as `PlainForm.is_like` allows, or in the count."""
        return self.indices.is_like(other.indices) and self.items.is_like(other.items)


PageForm: TypeAlias = PlainForm | DictionaryForm


class PlainPage(NamedTuple):
    """A plain page, with the location of its buffers in the file.

    Attributes:
        form: What its description tells.
        values: The values, or the ends of strings.
        validity: A bit for each row; None where no value is null or strings tell it.
        text: The bytes of strings.
    """

    form: PlainForm
    values: ByteRange
    validity: ByteRange | None
    text: ByteRange | None

    @property
    def span(self) -> ByteRange:
        """The bytes of the file from the first buffer to the end of the last one."""
        known = [some for some in (self.values, self.validity, self.text) if some is not None]
        return min(start for start, _ in known), max(end for _, end in known)


def plain_form(encoding: pb.ArrayEncoding) -> PlainForm | None:
    """Return what a description tells, if pages with it are plain; else None.

    Args:
        encoding: The description of the array of a page.

    Raises:
        CorruptFile: The symbol table of strings is damaged.
    """
    kind = encoding.WhichOneof("array_encoding")
    if kind == "fsst":
        inner = plain_form(encoding.fsst.binary)
        if inner is None or inner.text is None or inner.symbols is not None:
            return None
        return inner._replace(symbols=parse_table(encoding.fsst.symbol_table))
    if kind == "binary":
        ends, text = _flat(encoding.binary.indices), _flat(encoding.binary.bytes)
        if ends is None or text is None or ends.validity is not None or ends.bits not in (32, 64):
            return None
        if text.bits != 8 or text.validity is not None:
            return None
        return PlainForm(ends, text.values, int(encoding.binary.null_adjustment))
    values = _flat(encoding)
    return None if values is None else PlainForm(values)


def page_form(encoding: pb.ArrayEncoding) -> PageForm | None:
    """Return what a description tells, also of pages of strings with a dictionary.

    Args:
        encoding: As for `plain_form`.

    Raises:
        CorruptFile: As `plain_form` does.
    """
    if encoding.WhichOneof("array_encoding") != "dictionary":
        return plain_form(encoding)
    indices, items = plain_form(encoding.dictionary.indices), plain_form(encoding.dictionary.items)
    if indices is None or indices.text is not None or indices.values.bits not in _INDEX_BITS:
        return None
    if items is None or items.text is None:
        return None
    return DictionaryForm(indices, items, int(encoding.dictionary.num_dictionary_items))


def _flat(encoding: pb.ArrayEncoding) -> _Flat | None:
    """Return where flat values of whole bytes, or bits, are; None for other encodings."""
    kind = encoding.WhichOneof("array_encoding")
    if kind == "nullable":
        return _nullable(encoding.nullable)
    if kind != "flat" or encoding.flat.compression.scheme not in ("", "none"):
        return None
    bits = int(encoding.flat.bits_per_value)
    is_known = bits == 1 or (0 < bits <= _MOST_BITS and bits % 8 == 0)
    return _Flat(bits, encoding.flat.buffer, None) if is_known else None


def _nullable(encoding: pb.Nullable) -> _Flat | None:
    match encoding.WhichOneof("nullability"):
        case "no_nulls":
            return _flat(encoding.no_nulls.values)
        case "some_nulls":
            values = _flat(encoding.some_nulls.values)
            validity = _flat(encoding.some_nulls.validity)
            if values is None or validity is None or values.validity is not None:
                return None
            is_known = validity.bits == 1 and validity.validity is None
            return values._replace(validity=validity.values) if is_known else None
        case _:
            return None


class DictionaryPage(NamedTuple):
    """A page of strings with a dictionary, with the location of its buffers in the file.

    Attributes:
        indices: The indices.
        items: The strings.
        num_items: Number of these.
    """

    indices: PlainPage
    items: PlainPage
    num_items: int

    @property
    def span(self) -> ByteRange:
        """The bytes of the file from the first buffer to the end of the last one."""
        (one, one_end), (other, other_end) = self.indices.span, self.items.span
        return min(one, other), max(one_end, other_end)

    def decoded(self, data: Bytes, start: int) -> Slots:
        """Return the strings; arguments and errors as of `look_up`."""
        return look_up(self.items, np.arange(self.num_items), data, start)[0]


def locate_any(form: PageForm, page: ArrayPage) -> PlainPage | DictionaryPage | None:
    """Return where the buffers of a page are; None if its dictionary is large, or has no items.

    Raises:
        CorruptFile: As `locate` does.
        UnsupportedFeature: As `locate` does.
    """
    if isinstance(form, PlainForm):
        return locate(form, page)
    is_kept = 0 < form.num_items <= _MOST_ITEMS
    if not is_kept or page.zero_based:
        return None
    return DictionaryPage(locate(form.indices, page), locate(form.items, page), form.num_items)


def locate(form: PlainForm, page: ArrayPage) -> PlainPage:
    """Return where the buffers of a page are.

    Raises:
        CorruptFile: The page does not have them.
        UnsupportedFeature: The kind of a buffer is not known.
    """
    values, validity = form.values.values, form.values.validity
    return PlainPage(
        form,
        page.locate(values),
        None if validity is None else page.locate(validity),
        None if form.text is None else page.locate(form.text),
    )


def look_up(page: PlainPage, rows: Ints, data: Bytes, start: int) -> tuple[Slots, int]:
    """Return rows of a page, and the number of bytes that were looked at.

    Args:
        page: The page.
        rows: Rows of the page, ascending and each once; at least one.
        data: Bytes of the file.
        start: Where they begin in the file.

    Raises:
        CorruptFile: The buffers are too short for the rows, or the ends of strings do not ascend.
        TooLarge: The strings have more bytes than `limited` allows.
    """
    flat = page.form.values
    stored = _part(data, start, page.values)
    if page.text is None:
        valid = None
        if page.validity is not None:
            valid = _bits(_part(data, start, page.validity), rows).view(np.bool_)
        if flat.bits == 1:
            return Slots(FixedWidth(1, _bits(stored, rows)), valid), 2 * len(rows)
        values = _taken(stored, rows, flat.bits)
        return Slots(FixedWidth(flat.bits, values.values), valid), len(rows) * (flat.bits // 8 + 1)
    starts, ends, valid = _bounds(stored, rows, flat.bits, page.form.adjustment)
    lengths = ends - starts
    size = int(lengths.sum())
    check_size(size)
    strings = VariableWidth(
        offsets_of(lengths), gather(_part(data, start, page.text), starts, ends)
    )
    if page.form.symbols is not None:
        strings = VariableWidth(*decode_fsst(page.form.symbols, strings.offsets, strings.data))
    return Slots(strings, valid), size + 2 * len(rows) * flat.bits // 8


def _bounds(
    stored: Bytes, rows: Ints, bits: int, adjustment: int
) -> tuple[Ints, Ints, Mask | None]:
    """Return where strings begin and end among the bytes of a page, and which are valid."""
    what = "the offsets of a page"
    ends = as_integers(Slots(_taken(stored, rows, bits)), what)
    before = as_integers(Slots(_taken(stored, np.maximum(rows - 1, 0), bits)), what)
    starts, _ = without_adjustment(np.where(rows > 0, before, 0), adjustment)
    ends, valid = without_adjustment(ends, adjustment)
    if np.any(ends < starts) or np.any(starts[1:] < ends[:-1]):
        raise CorruptFile("the offsets of a page do not ascend")
    return starts, ends, valid


def _part(data: Bytes, start: int, buffer: ByteRange) -> Bytes:
    return data[buffer[0] - start : buffer[1] - start]


def _taken(stored: Bytes, rows: Ints, bits: int) -> FixedWidth:
    """Return values of whole bytes."""
    width, count = bits // 8, int(rows[-1]) + 1
    _check_end(count * width, len(stored))
    return FixedWidth(bits, stored[: count * width].view(dtype_of(width))[rows])


def _bits(stored: Bytes, rows: Ints) -> Bytes:
    """Return single bits, in a byte each."""
    _check_end(int(rows[-1]) // 8 + 1, len(stored))
    bits: Bytes = (stored[rows // 8] >> (rows % 8).astype(np.uint8)) & np.uint8(1)
    return bits


def _check_end(end: int, size: int) -> None:
    if end > size:
        raise CorruptFile(f"{end} bytes of values are wanted, the buffer has {size}")
