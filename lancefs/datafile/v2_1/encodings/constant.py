"""Constant: all values are equal; the description holds the value, or none where all are null."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Block, Ints
from lancefs.datafile.blocks import Constant as ConstantBlock
from lancefs.datafile.v2_1.encodings.registry import LARGEST, Chunked
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import Constant
from lancefs.storage import Bytes


def decode_chunks(encoding: Constant, buffers: Sequence[Chunked], counts: Ints) -> Block:
    return _constant(encoding, int(counts.sum()))


def decode_fixed(encoding: Constant, data: Bytes, count: int) -> Block:
    return _constant(encoding, count)


def has_payload(encoding: Constant) -> bool:
    return False


def decode_sequence(encoding: Constant, data: Bytes, count: int) -> Ints:
    value = int.from_bytes(encoding.value, "little")
    if count and (not encoding.value or value >= LARGEST):
        raise CorruptFile(f"a sequence of {count} constants of {len(encoding.value)} bytes")
    return np.full(count, value, np.int64)


def _constant(encoding: Constant, count: int) -> ConstantBlock:
    return ConstantBlock(encoding.value if encoding.HasField("value") else None, count)
