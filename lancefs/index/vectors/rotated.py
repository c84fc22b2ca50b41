"""RaBitQ codes: vectors are rotated, and each number keeps its sign and a few more bits (kind RQ).

Format page: vector indices, section on RaBitQ (`docs/src/format/index/vector/index.md`); how bits
lie was worked out from files of Lance 14.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Ints
from lancefs.errors import CorruptFile
from lancefs.index.files import IndexReader
from lancefs.index.vectors.codes import Codes, Compare, matrix_of_lists
from lancefs.index.vectors.distances import Floats, Metric, Vectors, products, squared_lengths
from lancefs.index.vectors.tensors import storage_metadata, whole_number

# Rows whose signs are stored together, and which of them a byte has: one in each half.
_BLOCK_ROWS = 32
_ROWS = np.array([0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15])
# Numbers whose further bits are stored together.
_BLOCK_NUMBERS = 64
_ROUNDS = 4


class RotatedCodes:
    """A sign and up to 8 further bits for each number of a vector, after a rotation: kind RQ.

    Args:
        file: The file of the codes.
        metric: How vectors are compared.
        dimension: Numbers of a vector.

    Raises:
        CorruptFile: The description of the codes is damaged.
        UnsupportedFeature: The codes are laid out, or made, in another way.
    """

    cost = 0

    def __init__(self, file: IndexReader, metric: Metric, dimension: int) -> None:
        metadata = storage_metadata(file)
        self._bits = whole_number(file, metadata, "num_bits")
        _check_known(file, metadata, self._bits, dimension)
        self._is_dot = metric == "dot"
        self._dimension = dimension
        self._rotation = _Rotation(file, metadata, dimension)
        self._is_packed = metadata.get("packed") is True
        extra = "_ex" if self._bits > 1 else ""
        self._factors = (f"__add_factors{extra}", f"__scale_factors{extra}")
        self._extra = ("__blocked_ex_codes",) if self._bits > 1 else ()
        whole = np.uint8 if self._bits <= 8 else np.uint16
        self._dtype = np.dtype([("code", whole, dimension), ("add", "f4"), ("scale", "f4")])

    @property
    def columns(self) -> Sequence[str]:
        """The columns that are read of a partition."""
        return ("_rabit_codes", *self._extra, *self._factors)

    def codes(self, columns: Sequence[pa.Array]) -> Codes:
        """Return the codes of each vector, with its factors."""
        signs, *extra, added, scales = columns
        found = np.empty(len(signs), self._dtype)
        width = -(-self._dimension // 8)
        by_row = matrix_of_lists(signs, width)
        if self._is_packed:
            by_row = _unpacked(by_row)
        bits = np.unpackbits(by_row, axis=1, count=self._dimension, bitorder="little")
        code = found["code"]
        code[:] = bits
        if extra:
            rest = _further_bits(extra[0], self._bits - 1, self._dimension)
            code <<= self._bits - 1
            code |= rest
        for name, column in (("add", added), ("scale", scales)):
            if column.type != pa.float32() or column.null_count:
                raise CorruptFile(f"factors of type {column.type}; floats were expected")
            found[name] = np.asarray(column)
            if not np.isfinite(found[name]).all():
                raise CorruptFile("a factor is not finite")
        return found

    def comparing(self, query: Vectors) -> Compare:
        """Return what compares a query with codes."""
        rotated = self._rotation.rotate(query)
        middle = np.float32((1 << (self._bits - 1)) - 0.5) * rotated.sum(dtype=np.float32)

        def compare(centroid: Vectors, codes: Codes) -> Floats:
            if self._is_dot:
                base = -np.float32(query @ centroid)
            else:
                base = np.float32(squared_lengths((query - centroid)[None, :])[0])
            product = products(codes["code"], rotated) - middle
            found: Floats = codes["add"] + codes["scale"] * product + base
            return found

        return compare


def _check_known(file: IndexReader, metadata: Mapping[str, Any], bits: int, dimension: int) -> None:
    """Refuse codes that are made in another way than that of Lance 14."""
    known = {"rotation_type": "fast", "query_estimator": "raw_query", "code_dim": dimension}
    for key, value in known.items():
        if metadata.get(key) != value:
            raise file.unsupported(f"RaBitQ codes whose {key} is {str(metadata.get(key))[:20]!r}")
    if metadata.get("layered") or bits > 9:
        raise file.unsupported(f"layered RaBitQ codes, or of {bits} bits")


class _Rotation:
    """The rotation that is applied to queries, as it was to the vectors.

    Args:
        file: The file of the codes.
        metadata: How vectors are stored.
        dimension: Numbers of a vector.
    """

    def __init__(self, file: IndexReader, metadata: Mapping[str, Any], dimension: int) -> None:
        width = -(-dimension // 8)
        try:
            signs = np.frombuffer(bytes(metadata["fast_rotation_signs"]), np.uint8)
            by_round = signs.reshape(_ROUNDS, width)
        except (LookupError, TypeError, ValueError) as error:
            raise file.damage("the signs of the rotation are not as many as its numbers") from error
        bits = np.unpackbits(by_round, axis=1, count=dimension, bitorder="little")
        self._signs = np.where(bits, np.float32(-1), np.float32(1))
        self._power = 1 << (dimension.bit_length() - 1)

    def rotate(self, query: Vectors) -> Vectors:
        """Return a query, rotated."""
        rotated = query.astype(np.float32)
        rest = len(rotated) - self._power
        half = len(rotated) // 2
        for number, signs in enumerate(self._signs):
            rotated *= signs
            first = rest if number % 2 else 0
            part = rotated[first : first + self._power]
            part[:] = _walsh_hadamard(part) / np.float32(np.sqrt(self._power))
            if rest:
                low, high = rotated[:half].copy(), rotated[half : 2 * half].copy()
                rotated[:half], rotated[half : 2 * half] = low + high, low - high
        return rotated * np.float32(0.25) if rest else rotated


def _walsh_hadamard(values: Vectors) -> Vectors:
    """Return the Walsh-Hadamard transform of as many values as a power of two."""
    step = 1
    while step < len(values):
        pairs = values.reshape(-1, 2, step)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], 1).reshape(-1)
        step *= 2
    return values


def _unpacked(stored: Codes) -> Codes:
    """Return the bytes of each row, of rows that are stored byte by byte in blocks."""
    rows, width = stored.shape
    whole = rows - rows % _BLOCK_ROWS
    data = stored.reshape(-1)
    found = np.empty((rows, width), np.uint8)
    halves = data[: whole * width].reshape(-1, width, 2, len(_ROWS))
    low, high = halves[:, :, 0], halves[:, :, 1]
    blocks = found[:whole].reshape(-1, _BLOCK_ROWS, width)
    blocks[:, _ROWS] = ((low & 15) | (high << 4)).transpose(0, 2, 1)
    blocks[:, _ROWS + 16] = ((low >> 4) | (high & 0xF0)).transpose(0, 2, 1)
    found[whole:] = data[whole * width :].reshape(width, -1).T
    return found


class _BitField(NamedTuple):
    """Bits of some numbers of a block, which lie alike in some of its bytes.

    Attributes:
        shift: First bit in the byte.
        width: Number of bits.
        place: First bit in the number.
        bytes_: The bytes.
        numbers: The numbers, for each byte.
    """

    shift: int
    width: int
    place: int
    bytes_: Ints
    numbers: Ints


def _further_bits(column: pa.Array, bits: int, dimension: int) -> Array:
    """Return the bits after the sign of each number, as a number."""
    blocks = -(-dimension // _BLOCK_NUMBERS)
    size = _BLOCK_NUMBERS // 8 * bits
    stored = matrix_of_lists(column, blocks * size).reshape(-1, size)
    found = np.zeros((len(stored), _BLOCK_NUMBERS), np.uint8)
    for field in _fields(bits):
        part = (stored[:, field.bytes_] >> field.shift) & ((1 << field.width) - 1)
        found[:, field.numbers] |= (part << field.place).astype(np.uint8)
    return found.reshape(-1, blocks * _BLOCK_NUMBERS)[:, :dimension]


def _fields(bits: int) -> Iterator[_BitField]:
    """Yield how the bits of a block of 64 numbers lie in its bytes.

    The numbers are four runs of 16; the top bits of 3, 5 and 7 bits are stored after the others.
    """
    run, every = np.arange(16), np.arange(_BLOCK_NUMBERS)
    if bits == 1:
        for bit in range(8):
            yield _BitField(bit, 1, 0, np.arange(8), 8 * np.arange(8) + bit)
    elif bits in (2, 3):
        for number in range(4):
            yield _BitField(2 * number, 2, 0, run, 16 * number + run)
    elif bits == 4:
        first = 16 * (np.arange(32) // 8) + np.arange(32) % 8
        yield _BitField(0, 4, 0, np.arange(32), first)
        yield _BitField(4, 4, 0, np.arange(32), first + 8)
    elif bits == 5:
        for number in range(4):
            place = 16 * (number // 2) + run
            yield _BitField(4 * (number % 2), 4, 0, place, 16 * number + run)
    elif bits in (6, 7):
        for number in range(3):
            yield _BitField(0, 6, 0, 16 * number + run, 16 * number + run)
            yield _BitField(6, 2, 2 * number, 16 * number + run, 48 + run)
    else:
        yield _BitField(0, 8, 0, every, every)
    if bits in (3, 5, 7):
        first_byte = 8 * (bits - 1)
        for number in range(4):
            for half in range(2):
                places = np.arange(8)
                numbers = 16 * number + 8 * half + places
                yield _BitField(2 * number + half, 1, bits - 1, first_byte + places, numbers)
