"""Arrow types that DuckDB does not read, and the types that replace them.

halffloat               FLOAT, exact
decimal of 39+ digits   VARCHAR, all digits
of negative scale       DECIMAL with the zeros that the scale stands for
struct without members  BOOLEAN, whether it is there
dictionary of nulls     NULL
fixed-size list of      LIST: DuckDB allocates the items of 2,048 arrays at once, and declares no
  100,001+ items          longer ones
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.duckdb_ranges import check_range, is_limited
from lancefs.datafile.constants import array_of
from lancefs.datafile.logical_types import EXTENSION_NAME, has_type

# The units of times that DuckDB has without a zone, and how many microseconds each is.
MICROSECONDS = {"s": 10**6, "ms": 10**3, "us": 1}
_MAX_DIGITS = 38
_MAX_ITEMS = 100_000  # of an array, and of all arrays in it


def readable_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that DuckDB reads values of a type as: the type itself, mostly."""
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal(kind) and (kind.bit_width > 128 or kind.scale < 0):
        digits = _digits(kind)
        return pa.decimal128(digits, max(kind.scale, 0)) if digits <= _MAX_DIGITS else pa.string()
    if pa.types.is_dictionary(kind):
        values = readable_type(kind.value_type)
        return kind if values == kind.value_type and not pa.types.is_null(values) else values
    if isinstance(kind, pa.BaseExtensionType):
        storage = readable_type(kind.storage_type)
        return kind if storage == kind.storage_type else storage
    if pa.types.is_struct(kind):
        return (
            pa.struct([field_for_duckdb(field) for field in kind])
            if kind.num_fields
            else pa.bool_()
        )
    if pa.types.is_map(kind):
        item = field_for_duckdb(kind.item_field)
        return pa.map_(field_for_duckdb(kind.key_field), item, keys_sorted=kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        items = field_for_duckdb(kind.value_field)
        is_long = kind.list_size * _items(items.type) > _MAX_ITEMS
        return pa.list_(items) if is_long else pa.list_(items, kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(field_for_duckdb(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(field_for_duckdb(kind.value_field))
    return kind


def _digits(kind: pa.DataType) -> int:
    """Return the digits of decimals, with the zeros that a negative scale stands for."""
    return int(kind.precision - min(kind.scale, 0))


def _items(kind: pa.DataType) -> int:
    """Return the number of items of a fixed-size list; 1 for other types."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if not pa.types.is_fixed_size_list(kind):
        return 1
    return int(kind.list_size) * _items(kind.value_type)


def field_for_duckdb(field: pa.Field) -> pa.Field:
    """Return a field with the type that DuckDB reads it as."""
    kind = readable_type(field.type)
    return field if kind == field.type else field.with_type(kind)


def loses_filters(field: pa.Field) -> bool:
    """Whether DuckDB before 2.0 tells a pyarrow dataset a filter on such a column wrongly.

    It forgets that NaN is above all numbers, and fails over large unsigned numbers and structs.
    Of what has nanoseconds, filters that it makes while it joins tell microseconds. Over extension
    types they fail.
    """
    if isinstance(field.type, pa.BaseExtensionType) or EXTENSION_NAME in (field.metadata or {}):
        return True
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    tests = (pa.types.is_floating, pa.types.is_uint64, pa.types.is_struct, _has_nanoseconds)
    return any(test(kind) for test in tests)


def or_nan(greater: pc.Expression, column: pc.Expression, kind: pa.DataType) -> pc.Expression:
    """Return that a column is greater than a number, as DuckDB does: NaN comes after all numbers.

    Args:
        greater: The comparison, as Arrow does it.
        column: The column.
        kind: Its type.
    """
    return greater | (column != column) if pa.types.is_floating(kind) else greater


def _has_nanoseconds(kind: pa.DataType) -> bool:
    is_time = pa.types.is_timestamp(kind) or pa.types.is_time64(kind)
    return bool(is_time and kind.unit == "ns")


def cast_for_duckdb(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert values to what `readable_type` said."""
    if array.type == kind:
        # DuckDB 1.4 reads the first value of a dictionary, also where all values are missing.
        if pa.types.is_dictionary(kind) and not len(array.dictionary):
            return pa.DictionaryArray.from_arrays(array.indices, _any_value(kind.value_type))
        if pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type):
            items, buffers = cast_for_duckdb(array.values, kind.value_type), array.buffers()[:2]
            place = len(array), buffers, array.null_count, array.offset
            return pa.Array.from_buffers(kind, *place, [items])
        return array
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        return pc.cast(array.dictionary, kind).take(array.indices)
    if _has_structs_without_members(array.type):
        array = _with_flags(array)
    if pa.types.is_decimal(array.type) and array.type.scale < 0 and pa.types.is_string(kind):
        return pc.cast(pc.cast(array, pa.decimal256(_digits(array.type), 0)), kind)
    return pc.cast(array, kind)


def _any_value(kind: pa.DataType) -> pa.Array:
    """Return one value of a type that dictionaries have: an empty string, or zero."""
    if not pa.types.is_primitive(kind):
        return array_of([""], kind)
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(8))])


def _has_structs_without_members(kind: pa.DataType) -> bool:
    return has_type(kind, lambda each: pa.types.is_struct(each) and not each.num_fields)


def _with_flags(array: pa.Array) -> pa.Array:
    """Replace structs without members, at any depth, by whether they are there."""
    kind = array.type
    if not _has_structs_without_members(kind):
        return array
    if isinstance(array, pa.ExtensionArray):
        return _with_flags(array.storage)
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            return pc.is_valid(array)
        members = [_with_flags(array.field(index)) for index in range(kind.num_fields)]
        fields = [field.with_type(member.type) for field, member in zip(kind, members, strict=True)]
        return pa.StructArray.from_arrays(members, fields=fields, mask=pc.is_null(array))
    items = _with_flags(array.values)  # all of them, as the offsets count them
    buffers = array.buffers()[: 1 if pa.types.is_fixed_size_list(kind) else 2]
    return pa.Array.from_buffers(
        _list_type(kind, items.type), len(array), buffers, array.null_count, array.offset, [items]
    )


def _list_type(kind: pa.DataType, items: pa.DataType) -> pa.DataType:
    """Return the type of lists or maps, with items of another type."""
    if pa.types.is_map(kind):
        return pa.map_(items.field(0), items.field(1), keys_sorted=kind.keys_sorted)
    field = kind.value_field.with_type(items)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(field, kind.list_size)
    return pa.large_list(field) if pa.types.is_large_list(kind) else pa.list_(field)


def readable_table(table: pa.Table) -> pa.Table:
    """Convert the columns of a table that DuckDB does not read as they are.

    Raises:
        UnsupportedFeature: A value is out of DuckDB's range.
    """
    for name, column in zip(table.column_names, table.columns, strict=True):
        if is_limited(column.type):
            for chunk in column.chunks:
                check_range(chunk, name)
    schema = pa.schema([field_for_duckdb(field) for field in table.schema])
    columns = [
        pa.chunked_array(
            [cast_for_duckdb(chunk, field.type) for chunk in column.chunks], field.type
        )
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
