"""Chunks of a column with different dictionaries: the same values, with one dictionary."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lancefs.errors import UnsupportedFeature


def unify_chunks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Give all chunks of a column the same dictionaries.

    Arrow takes the bits of half floats for whole numbers and makes half floats of these: 0.5
    becomes 14336. So they are unified as the whole numbers that their bits are.

    Args:
        column: The column, with dictionaries at any depth or without.

    Raises:
        UnsupportedFeature: Several chunks have dictionaries of half floats below the column.
    """
    kind = column.type
    if column.num_chunks < 2 or not has_type(kind, _is_half_float_dictionary):
        return column.unify_dictionaries()
    if not _is_half_float_dictionary(kind):
        raise UnsupportedFeature(
            f"the dictionaries of the fragments do not fit together into one ({kind}: Arrow does "
            "not unify half floats), which an Arrow file needs; the stream, named .arrows, can be "
            "read, and single fragments"
        )
    bits = pa.chunked_array([_with_items(chunk, pa.uint16()) for chunk in column.chunks])
    chunks = [_with_items(chunk, kind.value_type) for chunk in bits.unify_dictionaries().chunks]
    return pa.chunked_array(chunks, kind)


def has_type(kind: pa.DataType, is_wanted: Callable[[pa.DataType], bool]) -> bool:
    """Return whether a predicate holds for a type, or for any type below it."""
    pending = [kind]
    while pending:
        data_type = pending.pop()
        if isinstance(data_type, pa.BaseExtensionType):
            data_type = data_type.storage_type
        if is_wanted(data_type):
            return True
        pending.extend(data_type.field(index).type for index in range(data_type.num_fields))
    return False


def _with_items(chunk: pa.DictionaryArray, item: pa.DataType) -> pa.DictionaryArray:
    """Take the items of a dictionary for another type, bit by bit."""
    items, ordered = chunk.dictionary.view(item), chunk.type.ordered
    return pa.DictionaryArray.from_arrays(chunk.indices, items, ordered=ordered, safe=False)


def _is_half_float_dictionary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind) and pa.types.is_float16(kind.value_type))
