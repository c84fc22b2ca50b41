"""What files of vector indices hold in global buffers: partitions, and matrices of numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.index.files import IndexReader
from lancefs.index.vectors.distances import Vectors
from lancefs.proto import vectors_pb2
from lancefs.table.messages import parse_message

_TYPES: Mapping[int, np.dtype[Any]] = {
    vectors_pb2.Tensor.FLOAT16: np.dtype("<f2"),
    vectors_pb2.Tensor.FLOAT32: np.dtype("<f4"),
    vectors_pb2.Tensor.FLOAT64: np.dtype("<f8"),
    vectors_pb2.Tensor.UINT8: np.dtype("u1"),
}


def read_partitions(file: IndexReader) -> vectors_pb2.IVF:
    """Read what a file says of its partitions.

    Raises:
        CorruptFile: The file says nothing, or its bytes are damaged.
    """
    number = file.number("lance:ivf", -1)
    with locating(file.url, "partitions"):
        return parse_message(vectors_pb2.IVF(), file.buffer(number))


def read_tensor(file: IndexReader, number: int) -> Vectors:
    """Read a tensor from a global buffer.

    Args:
        file: The file.
        number: Number of the buffer.

    Raises:
        CorruptFile: There is no such buffer, or its bytes are damaged.
        UnsupportedFeature: The numbers are of a type that is not known.
    """
    with locating(file.url, f"buffer {number}"):
        return matrix_of(parse_message(vectors_pb2.Tensor(), file.buffer(number)))


def tensor_in(file: IndexReader, metadata: Mapping[str, Any], key: str) -> Vectors:
    """Return a tensor that is in the description of how vectors are stored, as bytes.

    Raises:
        CorruptFile: There is no tensor.
        UnsupportedFeature: The numbers are of a type that is not known.
    """
    data = bytes_in(file, metadata, key)
    with locating(file.url, key):
        return matrix_of(parse_message(vectors_pb2.Tensor(), data))


def bytes_in(file: IndexReader, metadata: Mapping[str, Any], key: str) -> bytes:
    """Return bytes of the description of how vectors are stored, which lists them as numbers.

    Raises:
        CorruptFile: There is no such list.
    """
    listed = metadata.get(key)
    try:
        if isinstance(listed, list):  # of a number, Python would make so many bytes
            return bytes(listed)
    except (TypeError, ValueError) as error:
        raise file.damage(f"{key} of the stored vectors does not hold bytes") from error
    raise file.damage(f"{key} of the stored vectors is {str(listed)[:40]!r}, bytes were expected")


def matrix_of(tensor: vectors_pb2.Tensor) -> Vectors:
    """Return a tensor as a matrix.

    Args:
        tensor: The tensor.

    Raises:
        CorruptFile: It is no matrix, or has another number of bytes than its shape tells.
        UnsupportedFeature: Its numbers are of a type that is not known.
    """
    dtype = _TYPES.get(tensor.data_type)
    if dtype is None:
        raise UnsupportedFeature(f"a tensor of type {tensor.data_type}")
    rows, columns = tensor.shape if len(tensor.shape) == 2 else (0, 0)
    if not rows or not columns or rows * columns * dtype.itemsize != len(tensor.data):
        raise CorruptFile(
            f"a tensor of shape {list(tensor.shape)[:4]} has {len(tensor.data)} bytes of {dtype}"
        )
    return np.frombuffer(tensor.data, dtype).reshape(rows, columns)


def read_json(file: IndexReader, key: str) -> Any:
    """Return what a key of a file's metadata holds as JSON.

    Raises:
        CorruptFile: The file has no such key, or the value is no JSON.
    """
    text = file.metadata.get(key)
    try:
        return json.loads(text or b"")
    except (ValueError, RecursionError) as error:
        raise file.damage(f"{key} is {(text or b'')[:40]!r}, JSON was expected") from error


def storage_metadata(file: IndexReader) -> Mapping[str, Any]:
    """Return what a file says of how it stores vectors.

    Raises:
        CorruptFile: The file says nothing, or what it says is damaged.
    """
    listed = read_json(file, "storage_metadata")
    try:
        found = json.loads(listed[0])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise file.damage("storage_metadata does not describe how vectors are stored") from error
    if not isinstance(found, dict):
        raise file.damage("storage_metadata does not describe how vectors are stored")
    return found


def whole_number(file: IndexReader, metadata: Mapping[str, Any], key: str) -> int:
    """Return a number of the description of how vectors are stored.

    Raises:
        CorruptFile: It is no whole number from 1 on.
    """
    value = metadata.get(key)
    if type(value) is not int or not 0 < value < 2**31:
        raise file.damage(f"{key} of the stored vectors is {str(value)[:40]!r}")
    return value
