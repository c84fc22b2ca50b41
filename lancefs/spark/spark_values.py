"""Values of a table turned into what Spark sees of them.

They come through unchanged, or not at all: a value that its Spark type cannot hold is an error when
it is met.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import bitmap
from lancefs.errors import CorruptFile, LanceError, UnsupportedFeature
from lancefs.spark.spark_types import UUID_STORAGE, is_bfloat16, is_uuid
from lancefs.spark.table_options import Nanoseconds

# How many of the bytes of a UUID stand between hyphens (RFC 9562, section 4).
_UUID_GROUPS = (4, 2, 2, 2, 6)
_UUID_LETTERS = 36
# The two digits of each byte, as one number.
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)


def convert(batch: pa.RecordBatch, target: pa.Schema, nanoseconds: Nanoseconds) -> pa.RecordBatch:
    """Turn rows of a table into what Spark sees of them.

    Args:
        batch: Rows, with the columns of `target` in that order.
        target: What `arrow_schema` returned.
        nanoseconds: What becomes of nanoseconds.

    Raises:
        UnsupportedFeature: A value does not fit into its Spark type, or is null where none may be;
            column and type are named.
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
    if array.null_count and not wanted.nullable:
        raise _unfit(field, "a value is null, and the schema says NOT NULL")
    try:
        return _convert(array, field, wanted.type, nanoseconds)
    except LanceError:
        raise
    except (pa.ArrowException, OverflowError) as error:
        raise _unfit(field, f"a value does not fit into Spark's {wanted.type}: {error}") from error


def _convert(
    array: pa.Array, field: pa.Field, target: pa.DataType, nanoseconds: Nanoseconds
) -> pa.Array:
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    if is_bfloat16(field):
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
    offsets = _int32_offsets(np.arange(rows + 1, dtype=np.int64) * _UUID_LETTERS, field)
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
        offsets = pa.py_buffer(_int32_offsets(ends, item))
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
    return pa.py_buffer(_int32_offsets(offsets - first, array.type)), first, last


def _int32_offsets(offsets: np.ndarray, what: object) -> np.ndarray:
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
