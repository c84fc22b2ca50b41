"""Types: what Spark sees of an Arrow type, and values turned into it.

Values come through unchanged, or not at all: a type that Spark cannot hold is refused by name when
the table is opened, and a value that its Spark type cannot hold is an error when it is met. The
table of types is in docs/spark.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from lancefs.datafile.arrays import bitmap
from lancefs.datafile.logical_types import EXTENSION_NAME
from lancefs.errors import CorruptFile, LanceError, UnsupportedFeature
from lancefs.spark.table_options import Nanoseconds, Unsupported
from lancefs.table.row_metadata import ROW_METADATA

_BFLOAT16 = b"lance.bfloat16"
_UUID = b"arrow.uuid"
UUID_STORAGE = pa.binary(16)
# How many of the bytes of a UUID stand between hyphens (RFC 9562, section 4).
_UUID_GROUPS = (4, 2, 2, 2, 6)
_UUID_LETTERS = 36
# The two digits of each byte, as one number.
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)
_MOST_DIGITS = 38

_SIMPLE: dict[pa.DataType, Callable[[], spark.DataType]] = {
    pa.bool_(): spark.BooleanType,
    pa.int8(): spark.ByteType,
    pa.int16(): spark.ShortType,
    pa.int32(): spark.IntegerType,
    pa.int64(): spark.LongType,
    pa.uint8(): spark.ShortType,
    pa.uint16(): spark.IntegerType,
    pa.uint32(): spark.LongType,
    pa.uint64(): lambda: spark.DecimalType(20, 0),
    pa.float16(): spark.FloatType,
    pa.float32(): spark.FloatType,
    pa.float64(): spark.DoubleType,
    pa.string(): spark.StringType,
    pa.large_string(): spark.StringType,
    pa.binary(): spark.BinaryType,
    pa.large_binary(): spark.BinaryType,
    pa.date32(): spark.DateType,
    pa.date64(): spark.DateType,
    pa.null(): spark.NullType,
}


# What Spark wants in batches; PySpark's own function for it is another one in each release.
_ARROW: dict[type[spark.DataType], pa.DataType] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.DayTimeIntervalType: pa.duration("us"),
    spark.TimeType: pa.time64("ns"),
    spark.NullType: pa.null(),
}


class _NoType(Exception):
    """A type that Spark has no counterpart for."""


class _Rules(NamedTuple):
    """What becomes of types that Spark does not have.

    Attributes:
        nanoseconds: What becomes of nanoseconds.
        spells_out: Whether decimals of too many digits are texts.
    """

    nanoseconds: Nanoseconds
    spells_out: bool


def spark_schema(
    schema: pa.Schema, nanoseconds: Nanoseconds = "error", unsupported: Unsupported = "error"
) -> spark.StructType:
    """Return the columns of a table as Spark sees them.

    Args:
        schema: The columns.
        nanoseconds: What becomes of nanoseconds.
        unsupported: What becomes of columns that Spark cannot hold: an error, left out, or texts.

    Raises:
        UnsupportedFeature: Columns are of types that Spark cannot hold; they are named.
    """
    fields, refused = [], []
    rules = _Rules(nanoseconds, spells_out=unsupported == "string")
    for field in schema:
        try:
            if field.name in ROW_METADATA:  # always below 2⁶³
                data_type: spark.DataType = spark.LongType()
            else:
                data_type = _spark_type(field, rules)
        except _NoType as error:
            if unsupported != "skip":
                refused.append(f"{field.name} ({error})")
        else:
            fields.append(spark.StructField(field.name, data_type, field.nullable))
    if refused:
        others = [field.name for field in fields][:5]
        raise UnsupportedFeature(
            f"Spark has no type for {', '.join(refused)}; leave such columns out with the option "
            f"columns{' = ' + ','.join(others) if others else ''}, or with unsupported = skip; "
            "unsupported = string reads decimals as texts"
        )
    return spark.StructType(fields)


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the Arrow schema that Spark wants batches of these columns to have."""
    fields = [pa.field(f.name, _arrow_type(f.dataType), f.nullable) for f in schema]
    return pa.schema(fields)


def convert(batch: pa.RecordBatch, target: pa.Schema, nanoseconds: Nanoseconds) -> pa.RecordBatch:
    """Turn rows of a table into what Spark sees of them.

    Args:
        batch: Rows, with the columns of `target` in that order.
        target: What `arrow_schema` returned.
        nanoseconds: What becomes of nanoseconds.

    Raises:
        UnsupportedFeature: A value does not fit into its Spark type; column and type are named.
    """
    arrays = [
        _convert_column(array, field, wanted, nanoseconds)
        for array, field, wanted in zip(batch.columns, batch.schema, target, strict=True)
    ]
    if not arrays:
        return batch
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _convert_column(
    array: pa.Array, field: pa.Field, wanted: pa.Field, nanoseconds: Nanoseconds
) -> pa.Array:
    try:
        return _convert(array, field, wanted.type, nanoseconds)
    except LanceError:
        raise
    except (pa.ArrowException, OverflowError) as error:
        raise _unfit(field, f"a value does not fit into Spark's {wanted.type}: {error}") from error


# Types


def _spark_type(field: pa.Field, rules: _Rules) -> spark.DataType:
    data_type = _stored(field.type)
    if _is_bfloat16(field):
        return spark.FloatType()
    if is_uuid(field):
        return spark.StringType()
    if data_type in _SIMPLE:
        return _SIMPLE[data_type]()
    if pa.types.is_fixed_size_binary(data_type):
        return spark.BinaryType()
    if pa.types.is_dictionary(data_type):
        return _spark_type(field.with_type(data_type.value_type), rules)
    if pa.types.is_decimal(data_type):
        return _decimal_type(data_type, rules)
    if pa.types.is_temporal(data_type):
        return _temporal_type(data_type, rules)
    return _nested_type(data_type, rules)


def _temporal_type(data_type: pa.DataType, rules: _Rules) -> spark.DataType:
    if data_type.unit == "ns" and rules.nanoseconds == "long":
        return spark.LongType()
    if pa.types.is_time(data_type):
        return spark.TimeType()
    if pa.types.is_duration(data_type):
        return spark.DayTimeIntervalType()
    return spark.TimestampNTZType() if data_type.tz is None else spark.TimestampType()


def _decimal_type(data_type: pa.DataType, rules: _Rules) -> spark.DataType:
    # Digits before a scale below zero are zeros, which Spark keeps as digits.
    precision, scale = data_type.precision - min(0, data_type.scale), max(0, data_type.scale)
    if precision > _MOST_DIGITS or scale > precision:
        if rules.spells_out:
            return spark.StringType()
        raise _NoType(f"{data_type}, Spark's decimals have at most {_MOST_DIGITS} digits")
    return spark.DecimalType(precision, scale)


def _nested_type(data_type: pa.DataType, rules: _Rules) -> spark.DataType:
    if pa.types.is_struct(data_type):
        fields = [data_type.field(i) for i in range(data_type.num_fields)]
        # All may be null: where the struct is null, Spark says that its members are.
        return spark.StructType([spark.StructField(f.name, _spark_type(f, rules)) for f in fields])
    if pa.types.is_map(data_type):
        key, item = data_type.key_field, data_type.item_field
        return spark.MapType(_spark_type(key, rules), _spark_type(item, rules), item.nullable)
    if _is_list(data_type):
        item = data_type.value_field
        return spark.ArrayType(_spark_type(item, rules), item.nullable)
    raise _NoType(str(data_type))


def _arrow_type(data_type: spark.DataType) -> pa.DataType:
    if isinstance(data_type, spark.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, spark.StructType):
        return pa.struct(list(arrow_schema(data_type)))
    if isinstance(data_type, spark.ArrayType):
        item = _arrow_type(data_type.elementType)
        return pa.list_(pa.field("element", item, data_type.containsNull))
    if isinstance(data_type, spark.MapType):
        key, value = _arrow_type(data_type.keyType), _arrow_type(data_type.valueType)
        return pa.map_(key, pa.field("value", value, data_type.valueContainsNull))
    for kind, arrow in _ARROW.items():
        if isinstance(data_type, kind):
            return arrow
    raise UnsupportedFeature(f"columns of the type {data_type.simpleString()}")


def _stored(data_type: pa.DataType) -> pa.DataType:
    while isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    return data_type


def is_uuid(field: pa.Field) -> bool:
    """Return whether values are UUIDs, of which Spark sees the texts."""
    return bool(_stored(field.type) == UUID_STORAGE) and _extension(field) == _UUID


def _is_bfloat16(field: pa.Field) -> bool:
    return _extension(field) == _BFLOAT16


def _extension(field: pa.Field) -> bytes | None:
    """The name of the extension type; a pyarrow that does not know it leaves it in metadata."""
    if isinstance(field.type, pa.BaseExtensionType):
        name: str = field.type.extension_name
        return name.encode()
    return (field.metadata or {}).get(EXTENSION_NAME)


def _is_list(data_type: pa.DataType) -> bool:
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(kind(data_type) for kind in kinds)


# Values


def _convert(
    array: pa.Array, field: pa.Field, target: pa.DataType, nanoseconds: Nanoseconds
) -> pa.Array:
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    if _is_bfloat16(field):
        return _from_bfloat16(array)
    if is_uuid(field):
        return _from_uuid(array, field)
    if array.type == target:
        return array
    if pa.types.is_dictionary(array.type):
        decoded = array.dictionary_decode()
        return _convert(decoded, field.with_type(decoded.type), target, nanoseconds)
    if pa.types.is_struct(target):
        return _struct(array, target, nanoseconds)
    if pa.types.is_map(target):
        return _map(array, target, nanoseconds)
    if pa.types.is_list(target):
        return _list(array, target, nanoseconds)
    if pa.types.is_temporal(array.type):
        return _temporal(array, field, target, nanoseconds)
    if pa.types.is_float16(array.type):
        return _from_half(array)
    return array.cast(target)


def _temporal(
    array: pa.Array, field: pa.Field, target: pa.DataType, nanoseconds: Nanoseconds
) -> pa.Array:
    if pa.types.is_date64(array.type):
        days = array.cast(target, safe=False)
        if not pc.all(pc.equal(days.cast(array.type), array), min_count=0).as_py():
            raise _unfit(field, "a value is not a whole day, which Spark's date is")
        return days
    if array.type.unit == "ns" and target == pa.int64():
        return array.view(target)
    if array.type.unit == "ns":
        array = _microseconds(array, field, nanoseconds)
    return array.cast(target)


def _microseconds(array: pa.Array, field: pa.Field, nanoseconds: Nanoseconds) -> pa.Array:
    """Drop what is below a microsecond, where that is nothing or wanted."""
    counts = array.view(pa.int64())
    rest = np.mod(counts.fill_null(0).to_numpy(zero_copy_only=False), 1000)
    if not rest.any():
        return array
    if nanoseconds == "error":
        raise _unfit(
            field,
            "a value has nanoseconds, which Spark's type lacks; read them as numbers with the "
            "option nanoseconds = long, or without them with nanoseconds = truncate",
        )
    return pc.subtract(counts, pa.array(rest)).view(array.type)


def _from_half(array: pa.Array) -> pa.Array:
    values = np.frombuffer(_values(array), np.float16, len(array), 2 * array.offset)
    return _fixed(pa.float32(), array, values.astype(np.float32))


def _from_bfloat16(array: pa.Array) -> pa.Array:
    values = np.frombuffer(_values(array), "<u2", len(array), 2 * array.offset)
    return _fixed(pa.float32(), array, values.astype(np.uint32) << 16)


def _from_uuid(array: pa.Array, field: pa.Field) -> pa.Array:
    """The texts of UUIDs: 32 lower-case digits, in groups of 8, 4, 4, 4 and 12."""
    rows, width = len(array), UUID_STORAGE.byte_width
    values = np.frombuffer(_values(array), np.uint8, rows * width, array.offset * width)
    digits = _HEX[values.reshape(rows, width)].view(np.uint8)
    texts = np.full((rows, _UUID_LETTERS), ord("-"), np.uint8)
    read = written = 0
    for size in _UUID_GROUPS:
        texts[:, written : written + 2 * size] = digits[:, read : read + 2 * size]
        read, written = read + 2 * size, written + 2 * size + 1
    offsets = _narrow(np.arange(rows + 1, dtype=np.int64) * _UUID_LETTERS, field)
    buffers = [_validity(array), pa.py_buffer(offsets), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def _values(array: pa.Array) -> pa.Buffer:
    return array.buffers()[1] or pa.py_buffer(b"")


def _fixed(data_type: pa.DataType, array: pa.Array, values: np.ndarray) -> pa.Array:
    return pa.Array.from_buffers(data_type, len(array), [_validity(array), pa.py_buffer(values)])


def _struct(array: pa.Array, target: pa.StructType, nanoseconds: Nanoseconds) -> pa.Array:
    children = [
        _convert(array.field(i), array.type.field(i), target.field(i).type, nanoseconds)
        for i in range(target.num_fields)
    ]
    return _rebuilt(array, target, [], children)


def _map(array: pa.Array, target: pa.MapType, nanoseconds: Nanoseconds) -> pa.Array:
    offsets, first, last = _offsets(array)
    keys = array.keys.slice(first, last - first)
    items = array.items.slice(first, last - first)
    entries = pa.StructArray.from_arrays(
        [
            _convert(keys, array.type.key_field, target.key_type, nanoseconds),
            _convert(items, array.type.item_field, target.item_type, nanoseconds),
        ],
        fields=[target.key_field, target.item_field],
    )
    return _rebuilt(array, target, [offsets], [entries])


def _list(array: pa.Array, target: pa.ListType, nanoseconds: Nanoseconds) -> pa.Array:
    item = array.type.value_field
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        first, last = array.offset * size, (array.offset + len(array)) * size
        ends = np.arange(len(array) + 1, dtype=np.int64) * size
        offsets = pa.py_buffer(_narrow(ends, item))
    else:
        offsets, first, last = _offsets(array)
    values = _convert(array.values.slice(first, last - first), item, target.value_type, nanoseconds)
    return _rebuilt(array, target, [offsets], [values])


def _offsets(array: pa.Array) -> tuple[pa.Buffer, int, int]:
    """The offsets of lists as Spark wants them, and the range of the items that they are of."""
    if not len(array):
        return pa.py_buffer(bytes(4)), 0, 0
    offsets = array.offsets.to_numpy().astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    return pa.py_buffer(_narrow(offsets - first, array.type)), first, last


def _narrow(offsets: np.ndarray, what: object) -> np.ndarray:
    if offsets[-1] >= 2**31:
        raise OverflowError(
            f"a batch of {what} has too many items or letters; make batchSize smaller"
        )
    return offsets.astype(np.int32)


def _rebuilt(
    array: pa.Array, target: pa.DataType, buffers: Sequence[pa.Buffer], children: list[pa.Array]
) -> pa.Array:
    """An array with the validity of another, and new offsets and children; its offset is 0."""
    return pa.Array.from_buffers(
        target, len(array), [_validity(array), *buffers], children=children
    )


def _validity(array: pa.Array) -> pa.Buffer | None:
    if array.null_count == 0:
        return None
    if array.offset == 0:
        return array.buffers()[0]
    return bitmap(array.is_valid().to_numpy(zero_copy_only=False))


def _unfit(field: pa.Field, what: str) -> UnsupportedFeature | CorruptFile:
    return UnsupportedFeature(f"column {field.name} ({field.type}): {what}")
