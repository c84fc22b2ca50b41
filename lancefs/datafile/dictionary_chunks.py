"""Unifying the dictionaries of the chunks of a column."""

from __future__ import annotations

import pyarrow as pa

from lancefs.datafile.logical_types import has_type
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


def unify_table(table: pa.Table) -> pa.Table:
    """Give the chunks of each column the same dictionaries; raises as `unify_chunks` does."""
    return pa.table(list(map(unify_chunks, table.columns)), schema=table.schema)


def _with_items(chunk: pa.DictionaryArray, item: pa.DataType) -> pa.DictionaryArray:
    """Take the items of a dictionary for another type, bit by bit."""
    items, ordered = chunk.dictionary.view(item), chunk.type.ordered
    return pa.DictionaryArray.from_arrays(chunk.indices, items, ordered=ordered, safe=False)


def _is_half_float_dictionary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind) and pa.types.is_float16(kind.value_type))
