"""Fixed-size lists: the flattened items, with a validity buffer for each layer that has nulls.

In chunks the validity of the outer layer comes first and the items last. In full-zip values, and in
a buffer that stands alone (a dictionary), the validity bits of each row precede its items.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Block, Ints
from lancefs.datafile.blocks import FixedSizeList as FixedSizeListBlock
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.flat import flat_values
from lancefs.datafile.v2_1.encodings.registry import NO_BYTES, Chunked
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding, FixedSizeList
from lancefs.storage import Bytes


def most_bytes(encoding: FixedSizeList, counts: Ints) -> Ints | None:
    item_counts = _item_counts(encoding, counts)
    items = registry.most_bytes(encoding.values, item_counts)
    return None if items is None else items + item_counts // 8 + counts


def decode_chunks(encoding: FixedSizeList, buffers: Sequence[Chunked], counts: Ints) -> Block:
    dimension, item_counts = _dimension(encoding), _item_counts(encoding, counts)
    validity = None
    if encoding.has_validity:
        if not buffers:
            raise CorruptFile("a fixed-size list has no validity buffer")
        bits = flat_values(buffers[0], 1, item_counts)
        validity, buffers = bits.values.astype(np.bool_), buffers[1:]
    items = registry.decode_chunks(encoding.values, buffers, item_counts)
    return FixedSizeListBlock(dimension, items, validity, int(counts.sum()))


def decode_blocks(encoding: FixedSizeList, buffer: Chunked, counts: Ints) -> Block:
    pieces = zip(buffer.starts.tolist(), buffer.ends.tolist(), strict=True)
    data = np.concatenate([NO_BYTES, *(buffer.data[start:end] for start, end in pieces)])
    return decode_fixed(encoding, data, int(counts.sum()))


def decode_fixed(encoding: FixedSizeList, data: Bytes, count: int) -> Block:
    if count and len(data) % count:
        raise CorruptFile(f"{len(data)} bytes are not {count} fixed-size lists of the same size")
    rows = data.reshape(count, -1) if count else data.reshape(0, 0)
    return _unzip(encoding, rows, count, lists=1)


def items_are_valid(encoding: CompressiveEncoding) -> bool:
    """Whether the items of fixed-size lists, which have no levels, are all valid.

    Args:
        encoding: The encoding of the lists, or of values that are no lists and have no items.
    """
    while encoding.WhichOneof("compression") in ("fixed_size_list", "general"):
        if encoding.WhichOneof("compression") == "general":
            encoding = encoding.general.values
            continue
        if encoding.fixed_size_list.has_validity:
            return False
        encoding = encoding.fixed_size_list.values
    # A constant without a value encodes nulls.
    return not encoding.HasField("constant") or encoding.constant.HasField("value")


def _unzip(encoding: FixedSizeList, rows: Bytes, count: int, lists: int) -> Block:
    """Split rows into the validity of one layer of lists and its items.

    Args:
        encoding: The layer.
        rows: The rest of each row, of shape (count, bytes).
        count: Number of rows.
        lists: Number of lists of this layer in a row.
    """
    dimension = _dimension(encoding)
    items = lists * dimension
    registry.check_count(count * items)
    validity = None
    if encoding.has_validity:
        size = -(-items // 8)
        if count and rows.shape[1] < size:
            raise CorruptFile("a full-zip row is too short for the validity of its items")
        bits = np.unpackbits(rows[:, :size], axis=1, bitorder="little", count=items)
        validity, rows = bits.reshape(-1).astype(np.bool_), rows[:, size:]
    child = _child(encoding.values, rows, count, items)
    return FixedSizeListBlock(dimension, child, validity, count * lists)


def _child(encoding: CompressiveEncoding, rows: Bytes, count: int, items: int) -> Block:
    if encoding.WhichOneof("compression") == "fixed_size_list":
        return _unzip(encoding.fixed_size_list, rows, count, items)
    return registry.decode_fixed(encoding, np.ascontiguousarray(rows).reshape(-1), count * items)


def _item_counts(encoding: FixedSizeList, counts: Ints) -> Ints:
    """Return the number of items of each chunk, from its number of lists."""
    dimension = _dimension(encoding)
    registry.check_counts(counts, dimension)
    return counts * dimension


def _dimension(encoding: FixedSizeList) -> int:
    dimension = int(encoding.items_per_value)
    if not 0 < dimension < 1 << 31:
        raise CorruptFile(f"a fixed-size list of {dimension} items")
    return dimension
