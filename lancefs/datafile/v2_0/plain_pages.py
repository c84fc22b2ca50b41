"""Plain pages of data files 2.0, recognized by their descriptions.

Plain are pages of flat values and of strings, also those compressed with FSST or with a dictionary,
whose buffers are not compressed, and whose validity is stored as bits.

Docs: `encodings_v2_0.proto`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from lancefs.datafile.kernels.fsst import SymbolTable, parse_table
from lancefs.proto import encodings_v2_0_pb2 as pb

_MAX_BITS = 256  # of a value: those of a decimal
_INDEX_BITS = (8, 16, 32, 64)  # of an index into a dictionary


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
        symbols: The symbol table of strings that are compressed with FSST; None for others.
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


def values_of(form: PageForm) -> PlainForm:
    """Return how the values are stored, or the items of a dictionary."""
    return form.items if isinstance(form, DictionaryForm) else form


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
    is_supported = bits == 1 or (0 < bits <= _MAX_BITS and bits % 8 == 0)
    return _Flat(bits, encoding.flat.buffer, None) if is_supported else None


def _nullable(encoding: pb.Nullable) -> _Flat | None:
    match encoding.WhichOneof("nullability"):
        case "no_nulls":
            return _flat(encoding.no_nulls.values)
        case "some_nulls":
            values = _flat(encoding.some_nulls.values)
            validity = _flat(encoding.some_nulls.validity)
            if values is None or validity is None or values.validity is not None:
                return None
            is_supported = validity.bits == 1 and validity.validity is None
            return values._replace(validity=validity.values) if is_supported else None
        case _:
            return None
