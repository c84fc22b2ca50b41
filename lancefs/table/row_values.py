"""Rows encoded as bytes: rows are equal if and only if their bytes are.

The encoding makes rows of nested types comparable, which Arrow's functions do not support. Floats
are equal if their bits are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import mask_of, numbers_of
from lancefs.datafile.blocks import Mask
from lancefs.datafile.constants import scalar_of
from lancefs.datafile.logical_types import entries_type, is_variable_width
from lancefs.errors import UnsupportedFeature

_BINARY = pa.large_binary()
_NOTHING = scalar_of(b"", _BINARY)


def encode_rows(arrays: Sequence[pa.Array], rows: int) -> pa.LargeBinaryArray:
    """Encode rows as bytes; rows with different values have different bytes.

    Args:
        arrays: The columns, of storage types.
        rows: Number of rows.

    Raises:
        UnsupportedFeature: A type cannot be compared; the message names the type.
    """
    if not arrays:
        return _from_matrix(np.empty((rows, 0), np.uint8))
    return _join([_encode(array) for array in arrays])


def unmatched(old: pa.LargeBinaryArray, new: pa.LargeBinaryArray) -> tuple[Mask, Mask]:
    """Compare two multisets of rows.

    Args:
        old: Rows, encoded by `encode_rows`.
        new: Other rows, encoded by `encode_rows`.

    Returns:
        Two masks: the old rows without a match among the new rows, and the new rows without a match
        among the old rows. Each row matches one equal row; of equal rows the first ones match.
    """
    both = pa.chunked_array([old, new], _BINARY).combine_chunks()
    if isinstance(both, pa.ChunkedArray):
        both = both.chunk(0)
    codes = numbers_of(pc.dictionary_encode(both).indices)
    codes_old, codes_new = codes[: len(old)], codes[len(old) :]
    kinds = int(codes.max()) + 1 if len(codes) else 0
    pairs = np.minimum(
        np.bincount(codes_old, minlength=kinds), np.bincount(codes_new, minlength=kinds)
    )
    return _rank(codes_old) >= pairs[codes_old], _rank(codes_new) >= pairs[codes_new]


def _rank(codes: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Return for each code the number of equal codes before it."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.searchsorted(ordered, ordered)
    rank = np.empty(len(codes), np.int64)
    rank[order] = np.arange(len(codes)) - starts
    return rank


def _encode(array: pa.Array) -> pa.LargeBinaryArray:
    """Encode the values of a column, self-delimiting, so that columns can be concatenated."""
    data_type = array.type
    if isinstance(array, pa.ExtensionArray):
        return _encode(array.storage)
    if pa.types.is_null(data_type):
        return _from_matrix(np.zeros((len(array), 1), np.uint8))
    if pa.types.is_dictionary(data_type):
        return _encode(array.dictionary_decode())
    if pa.types.is_boolean(data_type):
        return _encode(array.cast(pa.uint8()))
    validity = _from_matrix(mask_of(array.is_valid()).view(np.uint8).reshape(-1, 1))
    if pa.types.is_struct(data_type):
        members = [_encode(member) for member in array.flatten()]  # null where the struct is
        return _join([validity, *members])
    if pa.types.is_nested(data_type):
        return _join([validity, *_encode_lists(array)])
    if is_variable_width(data_type):
        return _join([validity, *_encode_texts(array)])
    return _join([validity, _from_matrix(_fixed_width_bytes(array))])


def _encode_lists(array: pa.Array) -> list[pa.LargeBinaryArray]:
    """Encode lists and maps as the lengths and the items."""
    if pa.types.is_map(array.type):
        array = array.cast(entries_type(array.type))
    lengths = numbers_of(pc.list_value_length(array), null=0).astype(np.int64)
    items = _encode(array.flatten())  # leaves out the items of null lists
    bounds = np.frombuffer(items.buffers()[1], np.int64, len(items) + 1, items.offset * 8)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    if ends[-1] != len(items):
        raise AssertionError("the lengths of lists do not sum up to the number of items")
    joined = pa.LargeBinaryArray.from_buffers(
        _BINARY, len(array), [None, pa.py_buffer(bounds[ends]), items.buffers()[2]]
    )
    return [_from_matrix(lengths.view(np.uint8).reshape(-1, 8)), joined]


def _encode_texts(array: pa.Array) -> list[pa.LargeBinaryArray]:
    """Encode strings and binary as the lengths and the bytes."""
    data = pc.fill_null(array.cast(_BINARY), _NOTHING)
    lengths = numbers_of(pc.binary_length(data)).astype(np.int64)
    return [_from_matrix(lengths.view(np.uint8).reshape(-1, 8)), data]


def _fixed_width_bytes(array: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the bytes of fixed-width values as a matrix with a row for each; zeros for nulls."""
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


def _from_matrix(values: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
    """Return a binary value for each row of a matrix of bytes."""
    rows, width = values.shape
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    data = np.ascontiguousarray(values).reshape(-1)
    return pa.LargeBinaryArray.from_buffers(
        _BINARY, rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _join(parts: Sequence[pa.LargeBinaryArray]) -> pa.LargeBinaryArray:
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, _NOTHING)
