"""Bytes of a value of an Arrow type."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lancefs.datafile.logical_types import bit_width

_OFFSET = 4  # bytes of the offset of a string or list


def min_value_bytes(data_type: pa.DataType) -> float:
    """Return the least bytes that a value of a type takes; of a string, those of its offset."""
    widths = ((count, _width(part)) for count, part in _parts(data_type))
    return sum(count * (_OFFSET if width is None else width) for count, width in widths)


def has_variable_width(data_type: pa.DataType) -> bool:
    """Return whether the bytes of a value differ from value to value."""
    return any(_width(part) is None for _, part in _parts(data_type))


def _parts(data_type: pa.DataType, count: int = 1) -> Iterator[tuple[int, pa.DataType]]:
    """Yield (number of parts, type of the part) for the parts that a value consists of."""
    if isinstance(data_type, pa.BaseExtensionType):
        yield from _parts(data_type.storage_type, count)
    elif pa.types.is_fixed_size_list(data_type):
        yield from _parts(data_type.value_type, count * data_type.list_size)
    elif pa.types.is_struct(data_type):
        for index in range(data_type.num_fields):
            yield from _parts(data_type.field(index).type, count)
    else:
        yield count, data_type


def _width(data_type: pa.DataType) -> float | None:
    """Return the bytes of a value without parts; None if they differ from value to value."""
    if pa.types.is_null(data_type):
        return 0.0
    bits = bit_width(data_type)
    return None if bits is None else bits / 8
