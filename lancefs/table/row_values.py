"""Rows as bytes: equal bytes are equal rows, whatever the types of their columns.

That makes rows of nested types comparable, which Arrow's own functions do not do. Floats are equal
where their bits are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import mask_of
from lancefs.datafile.blocks import Mask
from lancefs.datafile.logical_types import is_variable_width
from lancefs.errors import UnsupportedFeature

_BINARY = pa.large_binary()


def encode_rows(arrays: Sequence[pa.Array], rows: int) -> pa.LargeBinaryArray:
    """Return for each row bytes that tell it from every row with other values.

    Args:
        arrays: The columns, of storage types.
        rows: How many.

    Raises:
        UnsupportedFeature: A type cannot be compared; it is named.
    """
    if not arrays:
        return _fixed(np.empty((rows, 0), np.uint8))
    return _joined([_encoded(array) for array in arrays])


def unmatched(old: pa.LargeBinaryArray, new: pa.LargeBinaryArray) -> tuple[Mask, Mask]:
    """Compare two bags of rows.

    Args:
        old: Rows, as `encode_rows` gives them.
        new: Others.

    Returns:
        Which of the old rows have no equal among the new ones, and the other way round. A row that
        occurs twice needs two equals; of several the first ones are matched.
    """
    both = pa.chunked_array([old, new], _BINARY).combine_chunks()
    if isinstance(both, pa.ChunkedArray):
        both = both.chunk(0)
    codes = pc.dictionary_encode(both).indices.to_numpy()
    codes_old, codes_new = codes[: len(old)], codes[len(old) :]
    kinds = int(codes.max()) + 1 if len(codes) else 0
    pairs = np.minimum(
        np.bincount(codes_old, minlength=kinds), np.bincount(codes_new, minlength=kinds)
    )
    return _rank(codes_old) >= pairs[codes_old], _rank(codes_new) >= pairs[codes_new]


def _rank(codes: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """How many equal codes stand before each."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.searchsorted(ordered, ordered)
    rank = np.empty(len(codes), np.int64)
    rank[order] = np.arange(len(codes)) - starts
    return rank


def _encoded(array: pa.Array) -> pa.LargeBinaryArray:
    """Encode the values of one column; each says where it ends, so that they can be joined."""
    data_type = array.type
    if isinstance(array, pa.ExtensionArray):
        return _encoded(array.storage)
    if pa.types.is_null(data_type):
        return _fixed(np.zeros((len(array), 1), np.uint8))
    if pa.types.is_dictionary(data_type):
        return _encoded(array.dictionary_decode())
    if pa.types.is_boolean(data_type):
        return _encoded(array.cast(pa.uint8()))
    validity = _fixed(array.is_valid().cast(pa.uint8()).to_numpy().reshape(-1, 1))
    if pa.types.is_struct(data_type):
        members = [_encoded(member) for member in array.flatten()]  # null where the struct is
        return _joined([validity, *members])
    if pa.types.is_nested(data_type):
        return _joined([validity, *_lists(array)])
    if is_variable_width(data_type):
        return _joined([validity, *_texts(array)])
    return _joined([validity, _fixed(_values(array))])


def _lists(array: pa.Array) -> list[pa.LargeBinaryArray]:
    """Encode lists of any kind as their lengths and their items."""
    if pa.types.is_map(array.type):
        item = pa.struct([array.type.key_field, array.type.item_field])
        array = array.cast(pa.list_(pa.field("entries", item, nullable=False)))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
    items = _encoded(array.flatten())  # leaves out what null lists hold
    bounds = np.frombuffer(items.buffers()[1], np.int64, len(items) + 1, items.offset * 8)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    if ends[-1] != len(items):
        raise AssertionError("lists and their items differ in length")
    joined = pa.LargeBinaryArray.from_buffers(
        _BINARY, len(array), [None, pa.py_buffer(bounds[ends]), items.buffers()[2]]
    )
    return [_fixed(lengths.view(np.uint8).reshape(-1, 8)), joined]


def _texts(array: pa.Array) -> list[pa.LargeBinaryArray]:
    """Encode strings and binary as their lengths and their bytes."""
    data = pc.fill_null(array.cast(_BINARY), b"")
    lengths = pc.binary_length(data).to_numpy().astype(np.int64)
    return [_fixed(lengths.view(np.uint8).reshape(-1, 8)), data]


def _values(array: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the bytes of values of a fixed width, a row each, zero where there is none."""
    try:
        width = array.type.bit_width // 8
    except ValueError as error:
        raise UnsupportedFeature(f"rows with values of the type {array.type}") from error
    data = array.buffers()[1]
    if data is None or width == 0:
        return np.zeros((len(array), width), np.uint8)
    values = np.frombuffer(data, np.uint8, len(array) * width, array.offset * width)
    values = values.reshape(len(array), width)
    if array.null_count:
        valid = mask_of(array.is_valid())
        values = np.where(valid[:, None], values, np.uint8(0))
    return values


def _fixed(values: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
    """Make of a matrix one value a row."""
    rows, width = values.shape
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    data = np.ascontiguousarray(values).reshape(-1)
    return pa.LargeBinaryArray.from_buffers(
        _BINARY, rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _joined(parts: Sequence[pa.LargeBinaryArray]) -> pa.LargeBinaryArray:
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", _BINARY))
