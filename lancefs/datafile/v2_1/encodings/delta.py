"""Delta: a first value, and the differences between consecutive values (format 2.3)."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.blocks import Ints
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.registry import LARGEST
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import Delta
from lancefs.storage import Bytes


def has_payload(encoding: Delta) -> bool:
    return registry.has_payload(encoding.deltas)


def decode_sequence(encoding: Delta, data: Bytes, count: int) -> Ints:
    if count == 0:
        return np.empty(0, np.int64)
    deltas = registry.decode_sequence(encoding.deltas, data, count - 1)
    largest = int(deltas.max(initial=0))
    if encoding.base > LARGEST or largest > (LARGEST - encoding.base) // count:
        raise CorruptFile("the differences of a sequence add up to more than 62 bits")
    values = np.empty(count, np.int64)
    values[0] = encoding.base
    np.cumsum(deltas, out=values[1:])
    values[1:] += int(encoding.base)
    return values
