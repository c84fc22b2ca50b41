"""Converting decoded blocks to Arrow arrays, and the buffers of Arrow arrays to NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.datafile.blocks import (
    Array,
    Block,
    Constant,
    Dictionary,
    FixedSizeList,
    FixedWidth,
    Mask,
    Struct,
    VariableWidth,
    dtype_of,
    no_width,
)
from lancefs.datafile.buffers import PLACE_BYTES, number_dtype, reserve
from lancefs.datafile.kernels import (
    is_utf8,
    number_texts,
    take,
    take_strings,
    text_bounds,
)
from lancefs.datafile.kernels.strings import LARGEST, are_letters, compact_offsets
from lancefs.datafile.logical_types import bit_width, is_list
from lancefs.datafile.value_widths import min_value_bytes
from lancefs.errors import ArrayTooLarge, CorruptFile
from lancefs.storage import Bytes

# Bits of values that are not much wider than an index into a dictionary of them.
_WIDE = 128
# Number of ASCII characters; and of strings among which all flags of a block are looked for first.
_ASCII, _SAMPLE = 128, 4 * 1024
# Most distinct strings of an array that are looked for in memory that a processor has near.
_MAX_DISTINCT = 32 * 1024
_INT64_OFFSETS = (pa.types.is_large_string, pa.types.is_large_binary)
_INT32_OFFSETS = (pa.types.is_string, pa.types.is_binary)
_TEXTS = {pa.string().id, pa.large_string().id}
_BYTES_OF_TEXT = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}


@lru_cache(maxsize=4096)
def has_offsets(data_type: pa.DataType) -> bool:
    """Whether a type is one of byte strings or text."""
    return any(check(data_type) for check in (*_INT32_OFFSETS, *_INT64_OFFSETS))


@lru_cache(maxsize=4096)
def has_wide_offsets(data_type: pa.DataType) -> bool:
    """Whether a type is one of byte strings or text with offsets of 64 bits."""
    return any(check(data_type) for check in _INT64_OFFSETS)


def to_arrow(block: Block, data_type: pa.DataType, valid: Mask | None) -> pa.Array:
    """Build the Arrow array of a block.

    Args:
        block: The values.
        data_type: A storage type, no extension type.
        valid: Which slots are not null; None where all are valid.

    Raises:
        CorruptFile: The block does not hold values of this type.
    """
    if valid is not None and (len(valid) != block.length or valid.all()):
        if len(valid) != block.length:
            raise CorruptFile(f"{block.length} values with a validity of {len(valid)} slots")
        valid = None
    if isinstance(block, Constant) and block.value is None:
        return nulls(block.length, data_type)
    if pa.types.is_dictionary(data_type):
        return _dictionary(block, data_type, valid)
    match block:
        case FixedWidth():
            return _fixed(block, data_type, valid)
        case Dictionary():
            return _looked_up(block, data_type, valid)
        case VariableWidth():
            return strings_array(block, data_type, bitmap(valid), _null_count(valid))
        case FixedSizeList():
            return _fixed_size_list(block, data_type, valid)
        case Struct():
            return _struct(block, data_type, valid)
        case Constant():
            return _fixed(_repeated(block, data_type), data_type, valid)


def nulls(count: int, data_type: pa.DataType) -> pa.Array:
    """Return an array of nulls.

    Args:
        count: Number of slots.
        data_type: The type of the array.

    Raises:
        MemoryLimitExceeded: The array would be too large; its bytes are not in any file.
    """
    if count:
        size = PLACE_BYTES if pa.types.is_null(data_type) else value_bytes(data_type)
        reserve(int(count * size))
    return pa.nulls(count, data_type)


@lru_cache(maxsize=4096)
def value_bytes(data_type: pa.DataType) -> float:
    """Return the least bytes that a value of a type takes, its validity included."""
    return min_value_bytes(data_type) + 1 / 8


def bitmap(valid: Mask | None) -> pa.Buffer | None:
    """Pack a mask into an Arrow validity buffer; None stays None (all valid)."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def mask_of(array: pa.BooleanArray) -> Mask:
    """Return a boolean array without nulls as a mask, in a tenth of the time of `to_numpy`."""
    return _bits(array.buffers()[1], array)


def true_slots(array: pa.BooleanArray) -> Mask:
    """Return which slots of a boolean array are true: not false, and not null."""
    if not array.null_count:
        return mask_of(array)
    size = -(-(array.offset + len(array)) // 8)
    valid, values = [np.frombuffer(buffer, np.uint8, size) for buffer in array.buffers()]
    return _bits(valid & values, array)


def batch_bytes(batch: pa.RecordBatch) -> int:
    """Return the bytes of the rows of a batch; see `array_bytes`."""
    return sum(map(array_bytes, batch.columns))


# The id of a type of numbers -> the bytes of a value.
_PLAIN_BYTES: dict[int, int] = {
    data_type.id: data_type.bit_width // 8
    for data_type in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
        *(pa.date32(), pa.timestamp("us")),
    )
}


def array_bytes(array: pa.Array) -> int:
    """Return the bytes of the values of an array, as its `nbytes` does.

    `nbytes` waits in the C++ library while Python's lock is not held: in a process that is forked
    meanwhile by another thread, it may wait for ever.
    """
    data_type, width = array.type, _PLAIN_BYTES.get(array.type.id)
    count: int = len(array)
    if width is not None and count:  # most columns, which a stream asks for each batch
        return count * width + (0 if array.buffers()[0] is None else _covering_bytes(array))
    if isinstance(array, pa.ExtensionArray):
        return array_bytes(array.storage)
    if pa.types.is_struct(data_type):  # without the validity of its own, as there
        return sum(array_bytes(array.field(index)) for index in range(data_type.num_fields))
    if pa.types.is_dictionary(data_type):
        return array_bytes(array.indices) + array_bytes(array.dictionary)
    if not len(array) or pa.types.is_null(data_type):
        return 0
    validity = 0 if array.buffers()[0] is None else _covering_bytes(array)
    if pa.types.is_fixed_size_list(data_type):
        size = data_type.list_size
        return validity + array_bytes(array.values.slice(array.offset * size, count * size))
    if pa.types.is_map(data_type) or is_list(data_type):
        offsets = array.offsets
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        items = array_bytes(array.values.slice(first, last - first))
        return validity + count * int(offsets.type.bit_width // 8) + items
    if has_offsets(data_type):
        bounds, _ = strings_of(array)
        return validity + count * bounds.itemsize + int(bounds[-1] - bounds[0])
    if pa.types.is_boolean(data_type):
        return validity + _covering_bytes(array)
    return validity + count * int(data_type.bit_width) // 8


def _covering_bytes(array: pa.Array) -> int:
    """Return the bytes in which the bits of the slots of an array lie."""
    first: int = array.offset
    return -(-(first + len(array)) // 8) - first // 8


def valid_slots(array: pa.Array) -> Mask | None:
    """Return which slots of an array are not null; None where all are."""
    return None if array.null_count == 0 else _bits(array.buffers()[0], array)


def _bits(buffer: pa.Buffer | Bytes, array: pa.Array) -> Mask:
    """Return the bits of a buffer that belong to the slots of an array."""
    if not len(array):  # an empty array may have no buffer
        return np.empty(0, np.bool_)
    bits = np.frombuffer(buffer, np.uint8)
    stop = array.offset + len(array)
    mask: Mask = np.unpackbits(bits, count=stop, bitorder="little")[array.offset :].view(np.bool_)
    return mask


def stored_values(array: pa.Array, dtype: npt.DTypeLike) -> Array:
    """Return the values of a fixed-width array as they lie in memory, those of nulls included.

    Args:
        array: The array.
        dtype: The NumPy type of its values.

    Returns:
        A view of the memory, of the same length.
    """
    if not len(array):  # an empty array may have no buffer
        return np.empty(0, dtype)
    first, last = array.offset, array.offset + len(array)
    return np.frombuffer(array.buffers()[1], dtype, last)[first:]


def numbers_of(array: pa.Array, null: int | None = None) -> Array:
    """Return numbers as NumPy has them; `to_numpy` would import pandas, if it is installed.

    Args:
        array: Integers or floats.
        null: What stands for values that are missing; None where none are.
    """
    values = stored_values(array, number_dtype(array.type))
    valid = None if null is None else valid_slots(array)
    return values if valid is None else np.where(valid, values, np.array(null, values.dtype))


def indices_of(array: pa.DictionaryArray) -> Array:
    """Return the indices of an array as unsigned integers; 0 for null slots."""
    indices = array.indices
    values = stored_values(indices, f"u{indices.type.bit_width // 8}")
    valid = valid_slots(indices)
    return values if valid is None else values * valid


def strings_of(array: pa.Array) -> tuple[Array, Bytes]:
    """Return the n + 1 offsets of n strings, and the bytes that the offsets point into."""
    _, offsets, data = array.buffers()
    width = np.int64 if any(check(array.type) for check in _INT64_OFFSETS) else np.int32
    bounds = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    return bounds, np.frombuffer(data or b"", np.uint8)


def text_keys(array: pa.Array) -> Array:
    """Return the key of each of some texts (`kernels.bounds`), of which none is missing."""
    keys, _ = text_bounds(*strings_of(array), None, np.arange(len(array) + 1))
    return keys


def spelled_out(array: pa.DictionaryArray) -> pa.Array:
    """Look up the values of a dictionary array.

    Args:
        array: An array whose items are not null, and are strings or of a fixed width of whole
            bytes.
    """
    items, value_type = array.dictionary, array.type.value_type
    if not len(items):
        return nulls(len(array), value_type)
    if pa.types.is_string(value_type):
        block: Block = VariableWidth(*strings_of(items))
    else:
        width: int = value_type.bit_width
        block = FixedWidth(width, stored_values(items, dtype_of(width // 8)))
    return _looked_up(Dictionary(indices_of(array), block), value_type, valid_slots(array))


def encode_texts(array: pa.Array) -> pa.Array:
    """Return strings, or lists of strings, dictionary-encoded with indices of 32 bits.

    Args:
        array: Strings or lists of strings, which may be encoded already.
    """
    if pa.types.is_dictionary(array.type):
        return array
    if not pa.types.is_list(array.type):
        return _encode_strings(array)
    items = encode_texts(array.values)
    kind = pa.list_(array.type.value_field.with_type(items.type))
    buffers, nulls = array.buffers()[:2], array.null_count
    return pa.Array.from_buffers(kind, len(array), buffers, nulls, array.offset, [items])


def _encode_strings(array: pa.StringArray) -> pa.DictionaryArray:
    """Return strings dictionary-encoded, as `dictionary_encode` does, but quicker if many recur."""
    valid = valid_slots(array)
    found = number_texts(*strings_of(array), valid, _MAX_DISTINCT) if len(array) else None
    if found is None:
        return array.dictionary_encode()
    numbers, firsts = found
    buffers = [bitmap(valid), pa.py_buffer(numbers)]
    indices = pa.Array.from_buffers(pa.int32(), len(array), buffers)
    items = array.take(pa.Array.from_buffers(pa.int64(), len(firsts), [None, pa.py_buffer(firsts)]))
    return pa.DictionaryArray.from_arrays(indices, items, safe=False)


def without_columns(rows: int) -> pa.RecordBatch:
    """Return a batch of rows without columns, which Arrow makes only from a struct."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


def children_of(array: pa.Array) -> list[pa.Array]:
    """Return the children of a struct, a list of any kind or a map that is no slice."""
    if pa.types.is_struct(array.type):
        return [array.field(index) for index in range(array.type.num_fields)]
    if pa.types.is_map(array.type):
        fields = [array.type.key_field, array.type.item_field]
        return [pa.StructArray.from_arrays([array.keys, array.items], fields=fields)]
    return [array.values]


def with_children(
    array: pa.Array, data_type: pa.DataType, children: Sequence[pa.Array]
) -> pa.Array:
    """Return an array with other children.

    Args:
        array: A struct, a list of any kind or a map that is no slice.
        data_type: The type of the array with the new children.
        children: The new children.
    """
    if pa.types.is_map(data_type):
        check_entries(children[0])
    has_offsets = not (pa.types.is_struct(data_type) or pa.types.is_fixed_size_list(data_type))
    buffers = array.buffers()[: 2 if has_offsets else 1]
    return pa.Array.from_buffers(data_type, len(array), buffers, children=list(children))


def check_entries(entries: pa.StructArray) -> None:
    """Check that the entries of a map have no nulls, for which Arrow would abort the process.

    Raises:
        CorruptFile: An entry or a key is null.
    """
    if entries.null_count or entries.field(0).null_count:
        raise CorruptFile("a map has entries or keys that are null")


def _fixed(block: FixedWidth, data_type: pa.DataType, valid: Mask | None) -> pa.Array:
    if pa.types.is_null(data_type) and not block.bits:
        return nulls(block.length, data_type)
    if pa.types.is_boolean(data_type) and block.bits == 8:  # full-zip pages store whole bytes
        block = FixedWidth(1, (block.values != 0).view(np.uint8))
    if bit_width(data_type) != block.bits:
        raise CorruptFile(f"values of {block.bits} bits where {data_type} was expected")
    values = np.packbits(block.values, bitorder="little") if block.bits == 1 else block.values
    buffers = [bitmap(valid), _buffer(values)]
    return pa.Array.from_buffers(data_type, block.length, buffers, _null_count(valid))


def strings_array(
    block: VariableWidth,
    data_type: pa.DataType,
    validity: pa.Buffer | None,
    nulls: int,
    is_checked: bool = False,
) -> pa.Array:
    """Build an array of byte strings or text.

    Args:
        block: The values.
        data_type: A string or binary type.
        validity: A bit for each slot that is 0 for a null; None where there are no nulls.
        nulls: Number of nulls; -1 where it is not known.
        is_checked: Whether the text is known to be UTF-8.

    Raises:
        ArrayTooLarge: The values have more bytes than an array of this type can have.
        CorruptFile: The values are not of this type.
    """
    if not has_offsets(data_type):
        raise CorruptFile(f"variable-width values where {data_type} was expected")
    is_wide = has_wide_offsets(data_type)
    if not is_wide and block.offsets[-1] > LARGEST:
        block = VariableWidth(block.offsets - block.offsets[0], block.data[block.offsets[0] :])
        if block.offsets[-1] > LARGEST:
            raise ArrayTooLarge.of(data_type)
    offsets = block.offsets.astype(np.int64 if is_wide else np.int32, copy=False)
    buffers = [validity, _buffer(offsets), _buffer(block.data)]
    array = pa.Array.from_buffers(data_type, block.length, buffers, nulls)
    if is_text(data_type) and not (is_checked or is_utf8(compact_offsets(offsets), block.data)):
        check_utf8(array)  # which ignores the bytes of nulls
    return array


def dictionary_items(block: Block, data_type: pa.DataType) -> pa.Array:
    """Build the array of the items of a dictionary; byte strings where text is not all UTF-8.

    Only items that rows point at have to be text; see `as_text`.

    Args:
        block: The items.
        data_type: A storage type, no extension type.

    Raises:
        CorruptFile: The block does not hold values of this type.
    """
    stored = _BYTES_OF_TEXT.get(data_type)
    if stored is None:
        return to_arrow(block, data_type, None)
    items = to_arrow(block, stored, None)
    offsets, data = strings_of(items)
    return items.view(data_type) if is_utf8(compact_offsets(offsets), data) else items


def as_text(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return values of a type as they are, or byte strings as text of the type.

    Args:
        array: Values of the type, or byte strings.
        data_type: A type of strings.

    Raises:
        CorruptFile: Byte strings are not UTF-8.
    """
    if array.type == data_type:
        return array
    text = array.view(data_type)
    check_utf8(text)
    return text


def check_utf8(array: pa.Array) -> None:
    """Check that the strings of an array are UTF-8, but for the bytes of nulls.

    Raises:
        CorruptFile: They are not.
    """
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptFile(f"strings that are not UTF-8: {error}") from error


def value_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type of the values of a column, which may have a dictionary of them."""
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def is_text(data_type: pa.DataType) -> bool:
    """Whether the strings of a type have to be UTF-8."""
    return data_type.id in _TEXTS


def _fixed_size_list(block: FixedSizeList, data_type: pa.DataType, valid: Mask | None) -> pa.Array:
    if not pa.types.is_fixed_size_list(data_type) or data_type.list_size != block.dimension:
        raise CorruptFile(f"lists of {block.dimension} items where {data_type} was expected")
    values, kind = block.items, data_type.value_type
    if pa.types.is_fixed_size_list(kind) and isinstance(values, Constant) and values.value is None:
        # Releases from 0.39 to 4 of pylance wrote lists of nulls like this. The validity, not the
        # missing values, tells which lists are null.
        inner = Constant(None, values.length * kind.list_size)
        values = FixedSizeList(kind.list_size, inner, None, values.length)
    items = to_arrow(values, kind, block.validity)
    return pa.Array.from_buffers(
        data_type, block.length, [bitmap(valid)], _null_count(valid), children=[items]
    )


def _struct(block: Struct, data_type: pa.DataType, valid: Mask | None) -> pa.Array:
    if not pa.types.is_struct(data_type) or data_type.num_fields != len(block.children):
        raise CorruptFile(f"packed rows of {len(block.children)} values, expected {data_type}")
    children = [
        to_arrow(child, data_type.field(i).type, None) for i, child in enumerate(block.children)
    ]
    return pa.Array.from_buffers(
        data_type, block.length, [bitmap(valid)], _null_count(valid), children=children
    )


def _looked_up(block: Dictionary, data_type: pa.DataType, valid: Mask | None) -> pa.Array:
    """Build an array of the items that indices point at."""
    match block.items:
        case FixedWidth():
            if block.items.bits > _WIDE:
                reserve(block.length * block.items.bits // 8, block.items.values.nbytes)
            values = take(block.items.values, block.indices)
            return _fixed(FixedWidth(block.items.bits, values), data_type, valid)
        case VariableWidth():
            items = block.items
            strings = take_strings(items.offsets, items.data, block.indices, valid)
            # The fewer bytes are checked: the items, or the strings that are made of them.
            is_checked = len(items.data) < len(strings[1]) and is_utf8(
                compact_offsets(items.offsets), items.data
            )
            own = data_type, bitmap(valid), _null_count(valid), is_checked
            return strings_array(VariableWidth(*strings), *own)
    mask = None if valid is None else ~valid
    return to_arrow(block.items, data_type, None).take(pa.array(block.indices, mask=mask))


def _dictionary(block: Block, data_type: pa.DictionaryType, valid: Mask | None) -> pa.Array:
    """Build a dictionary array, also from values that are not dictionary-encoded."""
    if isinstance(block, Dictionary):
        items, index_type = to_arrow(block.items, data_type.value_type, None), data_type.index_type
        dtype = number_dtype(index_type)
        if block.items.length - 1 > np.iinfo(dtype).max:
            raise CorruptFile(f"a dictionary of {block.items.length} items, whose index is {dtype}")
        has_same_width = block.indices.dtype.itemsize == dtype.itemsize  # and no sign bit is set
        stored = block.indices.view(dtype) if has_same_width else block.indices.astype(dtype)
        buffers = [bitmap(valid), _buffer(stored)]
        indices = pa.Array.from_buffers(index_type, block.length, buffers, _null_count(valid))
        return pa.DictionaryArray.from_arrays(indices, items, ordered=data_type.ordered, safe=False)
    if isinstance(block, VariableWidth) and valid is None:
        flags = _flags(block)
        if flags is not None:
            return _dictionary(flags, data_type, valid)
    values = to_arrow(block, data_type.value_type, valid)
    is_string = pa.types.is_string(values.type)
    encoded = _encode_strings(values) if is_string else values.dictionary_encode()
    return encoded if encoded.type == data_type else encoded.cast(data_type)


def _flags(block: VariableWidth) -> Dictionary | None:
    """Return the strings of a block as a dictionary and indices; None but for flags."""
    first, last = int(block.offsets[0]), int(block.offsets[-1])
    if not block.length or last - first != block.length or not are_letters(block.offsets):
        return None
    return flags_of(block.data[first:last])


def flags_of(letters: Bytes) -> Dictionary | None:
    """Return flags as a dictionary and indices, which needs no table of hashes; None for others.

    Args:
        letters: The bytes of strings of a byte each, one at least. The bytes of flags are ASCII.
    """
    indices: Array = np.empty(0, np.uint32)
    for some in (letters[:_SAMPLE], letters):  # a few strings mostly have all flags
        codes = np.unique(some)
        places = np.full(256, -1, np.int32)
        places[codes] = np.arange(len(codes))
        indices = take(places, letters)
        if int(indices.min()) >= 0:
            break
    if codes[-1] >= _ASCII:
        return None
    items = VariableWidth(np.arange(len(codes) + 1, dtype=np.int32), codes)
    return Dictionary(indices.view(np.uint32), items)


def _repeated(block: Constant, data_type: pa.DataType) -> FixedWidth:
    """Repeat a constant, which always has a fixed width."""
    value = block.value or b""
    reserve(block.length * len(value))
    if pa.types.is_boolean(data_type):
        if len(value) != 1:
            raise CorruptFile(f"a constant boolean of {len(value)} bytes")
        return FixedWidth(1, np.full(block.length, value[0] & 1, np.uint8))
    bits = 8 * len(value)
    if bit_width(data_type) != bits:
        raise CorruptFile(f"a constant of {len(value)} bytes where {data_type} was expected")
    if not value:
        return FixedWidth(0, no_width(block.length))
    return FixedWidth(bits, np.repeat(np.frombuffer(value, dtype_of(len(value))), block.length))


def _buffer(values: Array) -> pa.Buffer:
    """Wrap values in a buffer; copy values that are not aligned, as in pages of Lance 0.16."""
    values = np.ascontiguousarray(values)
    buffer = pa.py_buffer(values)
    step = min(8, values.itemsize & -values.itemsize)
    return pa.py_buffer(values.copy()) if step and buffer.address % step else buffer


def _null_count(valid: Mask | None) -> int:
    return 0 if valid is None else -1
