"""RaBitQ codes: vectors are rotated, and each number keeps its sign and a few more bits (kind RQ).

Format page: vector indices, section on RaBitQ (`docs/src/format/index/vector/index.md`); how bits
lie was worked out from files of Lance 14.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.buffers import Array, Ints
from lancefs.errors import CorruptFile
from lancefs.index.files import IndexReader
from lancefs.index.vectors.codes import Codes, Compare, matrix_of_lists, of_queries
from lancefs.index.vectors.distances import Floats, Metric, Vectors, products, squared_lengths
from lancefs.index.vectors.tensors import bytes_in, read_tensor, storage_metadata, whole_number

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

    def __init__(self, file: IndexReader, metric: Metric, dimension: int) -> None:
        metadata = storage_metadata(file)
        self._bits = whole_number(file, metadata, "num_bits")
        self._is_residual = _is_residual(file, metadata, self._bits, dimension)
        self._is_dot = metric == "dot"
        self._dimension = dimension
        self._rotation: _Signs | _Matrix
        if metadata.get("rotation_type", "matrix") == "fast":
            self._rotation = _Signs(file, metadata, dimension)
        else:
            self._rotation = _Matrix(file, metadata, dimension)
        self._is_packed = metadata.get("packed") is True
        extra = "_ex" if self._bits > 1 else ""
        self._factors = (f"__add_factors{extra}", f"__scale_factors{extra}")
        self._extra = ("__blocked_ex_codes",) if self._bits > 1 else ()
        self._dtype = np.dtype(np.uint8 if self._bits <= 8 else np.uint16)

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return self._rotation.cost

    @property
    def columns(self) -> Sequence[str]:
        """The columns that are read of a partition."""
        return ("_rabit_codes", *self._extra, *self._factors)

    def codes(self, columns: Sequence[pa.Array]) -> Codes:
        """Return the codes of each vector, with its factors."""
        signs, *extra, added, scales = columns
        width = -(-self._dimension // 8)
        by_row = matrix_of_lists(signs, width)
        if self._is_packed:
            by_row = _unpacked(by_row)
        bits = np.unpackbits(by_row, axis=1, count=self._dimension, bitorder="little")
        code = bits.astype(self._dtype, copy=False)
        if extra:
            rest = _further_bits(extra[0], self._bits - 1, self._dimension)
            code = (code << self._bits - 1) | rest
        return _CodesAndFactors(code, _factors(added), _factors(scales))

    def comparing(self, queries: Vectors) -> Compare:
        """Return what compares queries with codes."""
        half = np.float32((1 << (self._bits - 1)) - 0.5)
        # Releases before 14 compare what a query is apart from the centroid.
        factor = np.float32(2 / np.sqrt(self._dimension) if self._is_residual else 1)
        whole = None if self._is_residual else self._rotated(queries, half)

        def compare(centroid: Vectors, codes: _CodesAndFactors, some: Sequence[int]) -> Floats:
            own = of_queries(queries, some)
            if whole is None:
                rotated, sums = self._rotated(own - centroid, half)
            else:
                rotated, sums = (of_queries(each, some) for each in whole)
            found: Floats = products(codes.code, rotated)
            found -= sums
            found *= factor * codes.scale
            if not self._is_dot:
                found += squared_lengths(own - centroid)[:, None].astype(np.float32, copy=False)
                found += codes.add
                return found
            near = np.einsum("ij,j->i", own, centroid)[:, None].astype(np.float32, copy=False)
            if self._is_residual:
                found += codes.add - near
            else:  # what a vector has in the direction of the centroid is in `add`, from 1 on
                found += 1 - near + near * (codes.add - 1)
            return found

        return compare

    def _rotated(self, vectors: Vectors, half: np.float32) -> tuple[Vectors, Floats]:
        """Return vectors, rotated, and the part of their products that is the same for all codes.

        Args:
            vectors: The vectors, one a row.
            half: Half of the numbers of a code.
        """
        rotated = self._rotation.rotate(vectors)
        return rotated, half * rotated.sum(axis=1, keepdims=True, dtype=np.float32)


class _CodesAndFactors(NamedTuple):
    """What is stored of the vectors of a partition.

    Attributes:
        code: The codes of each vector, a row.
        add: Its first factor.
        scale: Its second factor.
    """

    code: Array
    add: Floats
    scale: Floats

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self.code.nbytes + self.add.nbytes + self.scale.nbytes


def _factors(column: pa.Array) -> Floats:
    """Return a factor of each vector.

    Raises:
        CorruptFile: They are no numbers.
    """
    if column.type != pa.float32() or column.null_count:
        raise CorruptFile(f"factors of type {column.type}; floats were expected")
    factors: Floats = numbers_of(column)
    if not np.isfinite(factors).all():
        raise CorruptFile("a factor is not finite")
    return factors


def _is_residual(file: IndexReader, metadata: Mapping[str, Any], bits: int, dimension: int) -> bool:
    """Tell whether codes are those of a release before 14; refuse those that are not known."""
    estimator = metadata.get("query_estimator", "residual_query")
    known = bits == 1 if estimator == "residual_query" else bits <= 9
    if metadata.get("layered") or estimator not in ("residual_query", "raw_query") or not known:
        raise file.unsupported(f"RaBitQ codes of {bits} bits for {str(estimator)[:20]!r}")
    if metadata.get("code_dim", dimension) != dimension:
        raise file.unsupported(f"RaBitQ codes of {str(metadata.get('code_dim'))[:20]} numbers")
    if metadata.get("rotation_type", "matrix") not in ("fast", "matrix"):
        raise file.unsupported(f"a rotation {str(metadata.get('rotation_type'))[:20]!r}")
    return bool(estimator == "residual_query")


class _Matrix:
    """A rotation by a matrix, as releases before 4 had it.

    Args:
        file: The file of the codes.
        metadata: How vectors are stored.
        dimension: Numbers of a vector.
    """

    def __init__(self, file: IndexReader, metadata: Mapping[str, Any], dimension: int) -> None:
        matrix = read_tensor(file, whole_number(file, metadata, "rotate_mat_position"))
        if matrix.shape != (dimension, dimension) or not np.isfinite(matrix).all():
            raise file.damage(f"a rotation by a matrix of the shape {matrix.shape}")
        self._matrix = matrix.astype(np.float32)
        self.cost = self._matrix.nbytes

    def rotate(self, queries: Vectors) -> Vectors:
        """Return queries, rotated, each as it is alone."""
        return np.stack([self._matrix @ query for query in queries.astype(np.float32)])


class _Signs:
    """A rotation by changes of signs and Walsh-Hadamard transforms.

    Args:
        file: The file of the codes.
        metadata: How vectors are stored.
        dimension: Numbers of a vector.
    """

    cost = 0

    def __init__(self, file: IndexReader, metadata: Mapping[str, Any], dimension: int) -> None:
        width = -(-dimension // 8)
        signs = np.frombuffer(bytes_in(file, metadata, "fast_rotation_signs"), np.uint8)
        if len(signs) != _ROUNDS * width:
            raise file.damage("the signs of the rotation are not as many as its numbers")
        by_round = signs.reshape(_ROUNDS, width)
        bits = np.unpackbits(by_round, axis=1, count=dimension, bitorder="little")
        self._signs = np.where(bits, np.float32(-1), np.float32(1))
        self._power = 1 << (dimension.bit_length() - 1)

    def rotate(self, queries: Vectors) -> Vectors:
        """Return queries, rotated."""
        rotated = queries.astype(np.float32)
        dimension = rotated.shape[1]
        rest, half = dimension - self._power, dimension // 2
        for number, signs in enumerate(self._signs):
            rotated *= signs
            first = rest if number % 2 else 0
            part = rotated[:, first : first + self._power]
            part[:] = _walsh_hadamard(part) / np.float32(np.sqrt(self._power))
            if rest:
                low, high = rotated[:, :half].copy(), rotated[:, half : 2 * half].copy()
                rotated[:, :half], rotated[:, half : 2 * half] = low + high, low - high
        return rotated * np.float32(0.25) if rest else rotated


def _walsh_hadamard(rows: Vectors) -> Vectors:
    """Return the Walsh-Hadamard transform of rows of as many values as a power of two."""
    step = 1
    while step < rows.shape[1]:
        pairs = rows.reshape(len(rows), -1, 2, step)
        changed = np.empty_like(pairs)
        np.add(pairs[:, :, 0], pairs[:, :, 1], out=changed[:, :, 0])
        np.subtract(pairs[:, :, 0], pairs[:, :, 1], out=changed[:, :, 1])
        rows = changed.reshape(rows.shape)
        step *= 2
    return rows


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
